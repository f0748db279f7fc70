import numpy as np
import pytest

from kmc.bases import KernelGradients, general, gradient_moments
from kmc.bases.gradients import sum_dirichlet_by_columns
from kmc.bases.section_forms import RadialGeometry
from kmc.forms import accumulate
from kmc.kernels import (
    Exponential,
    Gaussian,
    InverseMultiquadric,
    Matern52,
    Metric,
    RadialFunction,
    kernel_derivative,
)
from tests.kernels import cases
from tests.oracles import differences, nystrom

BANDWIDTH, DIM, CENTERS = 1.3, cases.DIM, 6
CHOSEN = (
    "gaussian",
    "imq 2.5",
    "matern52",
    "polynomial",
    "radial product",
    "mixed twice",
    "diagonal",
    "tall",
    "metric of mixed",
)
KERNELS = {name: cases.ALL[name] for name in CHOSEN} | {
    "units": Metric(Matern52(2.0), [0.5, 0.5, 0.5]),
    "rotation": Metric(Gaussian(2.0), 0.7 * np.linalg.qr(cases.TALL[:3])[0]),
}
SUBSETS = {"all": None, "some": np.array([0, 1, 4, 9, 10, 11, 17]), "one center": np.array([13])}
WAYS = (gradient_moments.sum_dirichlet, sum_dirichlet_by_columns)


@pytest.fixture
def centers():
    return np.random.default_rng(30).standard_normal((CENTERS, DIM))


@pytest.fixture
def sample(centers):
    """Points, some of them centers, weights, some of them zero, and gradients of a base density."""
    rng = np.random.default_rng(31)
    # more than one step of 64
    x, w = np.vstack([centers[:3], rng.standard_normal((80, DIM))]), rng.random(83)
    w[5:8] = 0.0
    return x, w, rng.standard_normal(x.shape)


@pytest.fixture(params=KERNELS.values(), ids=KERNELS)
def kernel(request):
    return request.param


def assert_close(actual, expected, digits=12):
    """Equal to this fraction of the largest entry."""
    np.testing.assert_allclose(
        actual, expected, rtol=0, atol=10.0**-digits * np.abs(expected).max()
    )


@pytest.mark.parametrize("components", SUBSETS.values(), ids=SUBSETS)
def test_against_the_equations_of_the_paper(centers, sample, components):
    x, _, g = (a[:12] for a in sample)
    kept = np.arange(CENTERS * DIM) if components is None else components
    basis = KernelGradients(Gaussian(BANDWIDTH), centers, components)
    b = nystrom.b_matrix(x, centers, BANDWIDTH)[:, kept]
    ones = np.ones(len(x))
    assert basis.size == len(kept)
    assert_close(basis.gradients(x).transpose(0, 2, 1).reshape(b.shape), b)
    assert_close(basis.sum_dirichlet(x, ones), b.T @ b)
    assert_close(basis.gram(), nystrom.gram(centers, BANDWIDTH)[np.ix_(kept, kept)])
    assert_close(basis.sum_linear(x, ones, g), len(x) * nystrom.h(x, centers, BANDWIDTH, g)[kept])
    without = len(x) * nystrom.h(x, centers, BANDWIDTH, np.zeros_like(x))[kept]
    assert_close(basis.sum_linear(x, ones), without)


def test_theorem_1(centers, sample):
    """The minimizer, from the forms, and its function."""
    x, _, g = (a[:12] for a in sample)
    basis = KernelGradients(Gaussian(BANDWIDTH), centers)
    forms = accumulate(basis, x, ("dirichlet", "linear"), base_gradient=g)
    beta = -np.linalg.solve(forms.dirichlet / 12 + 0.1 * basis.gram(), forms.linear / 12)
    assert_close(beta, nystrom.coefficients(x, centers, BANDWIDTH, 0.1, g), 10)
    expected = [nystrom.function(beta, centers, BANDWIDTH, row) for row in x]
    assert_close(basis.expansion(beta).values(x), expected)
    assert_close(basis.contract_values(x, beta), expected)


@pytest.mark.parametrize("components", SUBSETS.values(), ids=SUBSETS)
def test_forms_are_those_of_the_general_mode(kernel, centers, sample, components):
    x, w, g = sample
    basis = KernelGradients(kernel, centers, components)
    dirichlet = general.sum_dirichlet(basis, x, w)
    assert_close(basis.sum_dirichlet(x, w), dirichlet)
    np.testing.assert_array_equal(basis.sum_dirichlet(x, w), basis.sum_dirichlet(x, w).T)
    assert_close(basis.sum_linear(x, w, g), general.sum_linear(basis, x, w, g), 11)
    assert_close(basis.sum_linear(x, w), general.sum_linear(basis, x, w), 11)
    gradients = basis.gradients(basis._used).reshape(len(basis._used), basis.size, DIM)
    gram = gradients.transpose(0, 2, 1).reshape(-1, basis.size)[basis._selected]
    assert_close(basis.gram(), gram)


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Matern52(2.0)])
@pytest.mark.parametrize("dim", [1, 2, 9])
def test_sizes_that_do_not_divide_the_blocks(kernel, dim, monkeypatch):
    rng = np.random.default_rng(32)
    x, w = rng.standard_normal((131, dim)), rng.random(131)
    basis = KernelGradients(kernel, x[:7])
    expected = general.sum_dirichlet(basis, x, w)
    geometry = RadialGeometry(None, basis.centers)
    arguments = kernel, geometry, basis._selected, geometry.centered(x), w
    monkeypatch.setattr(general, "NUMBERS", 2000)  # a few dozen points at a time
    for way in WAYS:
        assert_close(way(*arguments), expected)
    assert_close(basis.sum_linear(x, w), general.sum_linear(basis, x, w))


def test_derivatives_are_those_of_the_values(kernel, centers, sample):
    """For each function, by differences that are accurate to 1e-9 of the largest Laplacian."""
    x = sample[0][[0, 10]] + 0.1
    basis = KernelGradients(kernel, centers[:2], [0, 2, 4])
    functions = [lambda x, a=a: basis.values(x[None])[0, a] for a in range(basis.size)]
    gradients = [[differences.gradient(f, row) for f in functions] for row in x]
    laplacians = [[differences.laplacian(f, row) for f in functions] for row in x]
    scale = max(np.abs(basis.laplacians(x)).max(), np.abs(gradients).max())
    np.testing.assert_allclose(basis.gradients(x), gradients, atol=1e-8 * scale)
    np.testing.assert_allclose(basis.laplacians(x), laplacians, atol=1e-7 * scale)


def test_values_are_derivatives_of_sections_in_their_centers(kernel, centers, sample):
    x = sample[0][10:11]
    slope = differences.gradient(
        lambda y: kernel_derivative(kernel, "k", x, y[None])[0, 0], centers[0]
    )
    np.testing.assert_allclose(KernelGradients(kernel, centers[:1]).values(x)[0], slope, atol=1e-8)


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Metric(InverseMultiquadric(2.0), cases.TALL)])
@pytest.mark.parametrize("shift", [2.0**20, -(2.0**14)])
def test_an_offset_costs_no_digits(kernel, centers, sample, shift):
    x, w, g = sample
    # so that adding the shift is exact
    x, centers = (np.rint(a * 2**20) / 2**20 for a in (x, centers))
    near, far = KernelGradients(kernel, centers), KernelGradients(kernel, centers + shift)
    assert_close(far.sum_dirichlet(x + shift, w), near.sum_dirichlet(x, w))
    assert_close(far.sum_linear(x + shift, w, g), near.sum_linear(x, w, g))
    assert_close(far.gram(), near.gram())
    for name in ("values", "gradients", "laplacians"):
        assert_close(getattr(far, name)(x + shift), getattr(near, name)(x))


@pytest.mark.parametrize(
    "kernel", [Gaussian(0.02), InverseMultiquadric(0.05), Matern52(0.1), Gaussian(1e4)]
)
def test_moments_keep_the_digits_of_every_entry(kernel):
    """For narrow and wide kernels, near and far centers: to 1e-12 of the diagonal entries of row
    and column.
    """
    rng = np.random.default_rng(34)
    y = rng.standard_normal((12, 5))
    y[:2], y[-1] = y[2] + 1e-9 * rng.standard_normal((2, 5)), 50.0
    x, w = (
        np.vstack([y, y + 0.01 * rng.standard_normal(y.shape), rng.standard_normal((50, 5))]),
        rng.random(74),
    )
    geometry = RadialGeometry(None, y)
    ways = [way(kernel, geometry, np.arange(60), geometry.centered(x), w) for way in WAYS]
    diagonal = np.sqrt(np.diag(ways[1]))
    assert np.all(np.abs(ways[0] - ways[1]) <= 1e-12 * np.outer(diagonal, diagonal))


def test_contractions_are_those_of_the_general_mode(kernel, centers, sample):
    x, *_ = sample
    basis = KernelGradients(kernel, centers, SUBSETS["some"])
    beta = np.random.default_rng(36).standard_normal(basis.size)
    assert_close(basis.contract_values(x, beta), basis.values(x) @ beta, 11)
    assert_close(
        basis.contract_gradients(x, beta), np.einsum("npd,p->nd", basis.gradients(x), beta), 11
    )
    assert_close(basis.contract_laplacians(x, beta), basis.laplacians(x) @ beta, 11)


def test_no_samples_and_samples_without_weight_add_nothing(centers):
    basis = KernelGradients(Gaussian(), centers)
    zeros = np.zeros((18, 18))
    np.testing.assert_array_equal(basis.sum_dirichlet(centers, np.zeros(CENTERS)), zeros)
    np.testing.assert_array_equal(basis.sum_dirichlet(np.empty((0, DIM)), np.empty(0)), zeros)
    np.testing.assert_array_equal(basis.sum_linear(np.empty((0, DIM)), np.empty(0)), zeros[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Gaussian(), np.zeros(3)), r"centers has shape \(3,\)"),
        ((Gaussian(), [[np.nan]]), "centers contains NaN"),
        ((Gaussian(), np.zeros((2, 2)), [0, 4]), "components=.* from 0 to 3"),
        ((Gaussian(), np.zeros((2, 2)), [1, 1]), "components=.* increasing"),
        ((Gaussian(), np.zeros((2, 2)), []), r"components has shape \(0,\)"),
        ((Gaussian(), np.zeros((2, 2)), [True, False, True, True]), "components has .* dtype bool"),
        ((Exponential(), np.zeros((2, 2))), "no gradients at coincident points .* Matern52"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        KernelGradients(*arguments)


def test_third_derivatives_of_a_kernel_that_has_none(centers, sample):
    rough = RadialFunction(cases.PROFILES, differentiability=2)  # as a Matérn-3/2 kernel
    basis = KernelGradients(rough, centers)
    assert np.all(np.isfinite(basis.sum_dirichlet(sample[0], sample[1])))
    for call in (
        lambda: basis.laplacians(sample[0]),
        lambda: basis.sum_linear(sample[0], sample[1]),
    ):
        with pytest.raises(ValueError, match="no third derivatives at coincident points"):
            call()
