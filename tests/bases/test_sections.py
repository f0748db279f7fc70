import numpy as np
import pytest

from kmc.bases import Contraction, KernelSections, general
from kmc.kernels import (
    Exponential,
    ExponentialDotProduct,
    Gaussian,
    InverseMultiquadric,
    Matern52,
    Matern72,
    Metric,
    Polynomial,
)
from tests.oracles import differences, sections

BANDWIDTH, DIM = 1.3, 3
METRICS = {
    "no metric": None,
    "symmetric metric": np.array([[1.5, 0.2, 0.0], [0.2, 0.8, -0.3], [0.0, -0.3, 1.1]]),
    "any metric": np.array([[1.0, 0.7, -0.2], [0.0, 0.5, 0.4], [-0.6, 0.1, 1.2]]),
    "projection": np.array([[1.0, 0.7, -0.2], [0.0, 0.5, 0.4]]),
    "diagonal": np.array([0.5, 1.0, 1.5]),
}
ANY = METRICS["any metric"]
SMOOTH = {
    "inverse multiquadric": InverseMultiquadric(BANDWIDTH),
    "another exponent": InverseMultiquadric(1.183 * BANDWIDTH, 0.7),
    "matern52": Matern52(2.0),
    "matern72 in a metric": Metric(Matern72(2.0), ANY),
    "radial sum and product": Gaussian(BANDWIDTH) * Matern52(2.0)
    + 0.5 * InverseMultiquadric(1.414, 1.0),
    "multiple of a metric": 2.0 * Metric(Gaussian(BANDWIDTH), ANY),
    "metric of a metric": Metric(Metric(Gaussian(BANDWIDTH), METRICS["projection"]), ANY),
    "polynomial": Polynomial(3, bandwidth=2.0),
    "polynomial in a metric": Metric(Polynomial(4, bandwidth=2.0), METRICS["projection"]),
    "exponential dot product": Metric(ExponentialDotProduct(2.0), METRICS["diagonal"]),
    "sum of both kinds": Gaussian(BANDWIDTH) + Polynomial(2, bandwidth=2.0),
    "product of both kinds in a metric": Metric(
        Gaussian(BANDWIDTH) * Polynomial(2, bandwidth=2.0), ANY
    ),
    "sum of metrics": Metric(Gaussian(BANDWIDTH), ANY) + Metric(Gaussian(), METRICS["diagonal"]),
}


def gaussian(metric):
    return Gaussian(BANDWIDTH) if metric is None else Metric(Gaussian(BANDWIDTH), metric)


KERNELS = {name: gaussian(metric) for name, metric in METRICS.items()} | SMOOTH


@pytest.fixture
def centers():
    return np.random.default_rng(3).standard_normal((6, DIM))


@pytest.fixture(params=KERNELS.values(), ids=KERNELS)
def basis(request, centers):
    return KernelSections(request.param, centers)


@pytest.fixture
def sample():
    """Points, weights and gradients of a base density."""
    rng = np.random.default_rng(4)
    return rng.standard_normal((11, DIM)), rng.random(11), rng.standard_normal((11, DIM))


def functions(basis):
    """The functions of a basis, each at one point."""
    return [lambda x, a=a: basis.values(x[None])[0, a] for a in range(basis.size)]


def literal(kernel, x, y):
    """k(x, y) at one pair, by the definitions of metrics, sums and products."""
    if isinstance(kernel, Metric):
        a = np.diag(kernel.matrix) if kernel.matrix.ndim == 1 else kernel.matrix
        return literal(kernel.kernel, a @ x, a @ y)
    if hasattr(kernel, "left"):
        parts = literal(kernel.left, x, y), literal(kernel.right, x, y)
        return sum(parts) if type(kernel).__name__ == "Sum" else parts[0] * parts[1]
    if hasattr(kernel, "factor"):
        return kernel.factor * literal(kernel.kernel, x, y)
    return float(kernel.profile(x @ y if kernel.kind == "inner-product" else (x - y) @ (x - y)))


def test_values_and_gram_are_the_kernel(basis, sample):
    x, *_ = sample
    expected = [[literal(basis.kernel, row, y) for y in basis.centers] for row in x]
    np.testing.assert_allclose(basis.values(x), expected, rtol=1e-12)
    gram = [[literal(basis.kernel, y, z) for z in basis.centers] for y in basis.centers]
    np.testing.assert_allclose(basis.gram(), gram, rtol=1e-12)


def test_derivatives_are_those_of_the_values(basis, sample):
    x = sample[0][:4]
    gradients = [[differences.gradient(f, row) for f in functions(basis)] for row in x]
    laplacians = [[differences.laplacian(f, row) for f in functions(basis)] for row in x]
    scale = np.abs(basis.laplacians(x)).max()  # of which the differences are accurate to 1e-9
    np.testing.assert_allclose(basis.gradients(x), gradients, atol=1e-9 * scale)
    np.testing.assert_allclose(basis.laplacians(x), laplacians, atol=1e-8 * scale)


@pytest.mark.parametrize("with_base", [False, True])
def test_fused_forms_are_those_of_the_general_mode(basis, sample, with_base):
    x, w, g = sample
    g = g if with_base else None
    dirichlet, linear = general.sum_dirichlet(basis, x, w), general.sum_linear(basis, x, w, g)
    np.testing.assert_allclose(
        basis.sum_dirichlet(x, w), dirichlet, atol=1e-13 * np.abs(dirichlet).max()
    )
    np.testing.assert_allclose(basis.sum_linear(x, w, g), linear, atol=1e-13 * np.abs(linear).max())
    np.testing.assert_allclose(
        dirichlet, sections.dirichlet(basis.gradients(x), w), rtol=1e-12, atol=1e-14
    )


def test_contractions_are_those_of_the_general_mode(basis, sample):
    x, *_ = sample
    beta = np.random.default_rng(5).standard_normal(basis.size)
    f = Contraction(basis, beta)
    for got, expected in (
        (f.values(x), basis.values(x) @ beta),
        (f.gradient(x), np.einsum("npd,p->nd", basis.gradients(x), beta)),
        (f.laplacian(x), basis.laplacians(x) @ beta),
    ):
        np.testing.assert_allclose(got, expected, atol=1e-13 * np.abs(expected).max())
    each = basis.contract_gradients_each(x, np.column_stack([beta, 2.0 * beta]))
    np.testing.assert_allclose(each[:, 0], f.gradient(x), atol=1e-13 * np.abs(each).max())
    np.testing.assert_allclose(each[:, 1], 2.0 * f.gradient(x), atol=1e-13 * np.abs(each).max())


def test_at_its_own_center_a_section_has_gradient_zero_and_laplacian_2dq1(centers):
    basis = KernelSections(Matern52(2.0), centers)
    own = np.arange(6), np.arange(6)
    np.testing.assert_allclose(basis.gradients(centers)[own], 0.0, atol=1e-15)
    np.testing.assert_allclose(basis.laplacians(centers)[own], -DIM * 5 / (3 * 2.0**2), rtol=1e-12)


@pytest.mark.parametrize("name", ["no metric", "any metric", "matern52"])
def test_forms_keep_their_digits_far_from_the_origin(name, centers, sample):
    x, w, g = sample
    # so that adding the shift is exact
    x, centers = (np.rint(a * 2**20) / 2**20 for a in (x, centers))
    shift = 2.0**14
    near, far = (KernelSections(KERNELS[name], centers + s) for s in (0, shift))
    np.testing.assert_allclose(far.values(x + shift), near.values(x), atol=1e-13)
    np.testing.assert_allclose(far.gradients(x + shift), near.gradients(x), atol=1e-12)
    np.testing.assert_allclose(far.laplacians(x + shift), near.laplacians(x), atol=1e-12)
    np.testing.assert_allclose(
        far.sum_dirichlet(x + shift, w), near.sum_dirichlet(x, w), atol=1e-12
    )
    np.testing.assert_allclose(
        far.sum_linear(x + shift, w, g), near.sum_linear(x, w, g), atol=1e-12
    )


KINKS = {
    "exponential": Exponential(1.5),
    "in a metric": Metric(Exponential(1.5), ANY),
    "in a sum of both kinds": Exponential(1.5) + Polynomial(1),
}


@pytest.mark.parametrize("kernel", KINKS.values(), ids=KINKS)
def test_a_kink_has_gradients(kernel, centers, sample):
    """By convention it is zero at a kink's own center, also in the fused form, where rounding could
    break it.
    """
    x, w = np.vstack([sample[0], centers]), np.ones(17)
    basis = KernelSections(kernel, centers)
    dirichlet = general.sum_dirichlet(basis, x, w)
    np.testing.assert_allclose(
        basis.sum_dirichlet(x, w), dirichlet, atol=1e-12 * np.abs(dirichlet).max()
    )
    gradients = [
        [differences.gradient(f, row, 1e-3) for f in functions(basis)] for row in sample[0]
    ]
    np.testing.assert_allclose(basis.gradients(sample[0]), gradients, atol=1e-8)
    own = basis.gradients(centers)[np.arange(6), np.arange(6)]
    np.testing.assert_array_equal(
        own, centers if kernel is KINKS["in a sum of both kinds"] else 0.0
    )


@pytest.mark.parametrize("kernel", KINKS.values(), ids=KINKS)
def test_a_kink_has_no_laplacian(kernel, centers, sample):
    x, basis = sample[0], KernelSections(kernel, centers)
    with pytest.raises(ValueError, match="no Laplacian at coincident points"):
        basis.laplacians(x)
    with pytest.raises(ValueError, match="no Laplacian"):
        basis.sum_linear(x, np.ones(11))
    with pytest.raises(ValueError, match="no Laplacian"):
        Contraction(basis, np.ones(6)).laplacian(x)


def test_one_center_and_one_dimension():
    basis = KernelSections(Gaussian(2.0), [[1.0]])
    np.testing.assert_allclose(basis.values(np.array([[1.0], [3.0]])), [[1.0], [np.exp(-0.5)]])
    assert basis.size == 1 and basis.sum_dirichlet(np.array([[3.0]]), np.ones(1)).shape == (1, 1)


@pytest.mark.parametrize(
    ("centers", "message"),
    [
        (np.ones(3), r"shape \(3,\): expected \(m, d\)"),
        (np.ones((0, 3)), r"shape \(0, 3\)"),
        ([[np.nan, 0.0]], "centers contains NaN"),
    ],
)
def test_invalid_centers(centers, message):
    with pytest.raises(ValueError, match=message):
        KernelSections(Gaussian(), centers)


def test_a_kernel_is_expected(centers):
    with pytest.raises(TypeError, match="kernel='gaussian': expected a kernel"):
        KernelSections("gaussian", centers)
