import numpy as np
import pytest

from kmc.bases import KernelExpansion, KernelGradients, KernelSections
from kmc.forms import accumulate
from kmc.kernels import (
    Exponential,
    Gaussian,
    InverseMultiquadric,
    Matern52,
    Matern72,
    Metric,
    Polynomial,
    kernel_derivative,
)
from tests.kernels import cases
from tests.oracles import differences, nystrom

DIM, CENTERS = cases.DIM, 6
KERNELS = {
    name: cases.ALL[name]
    for name in ("gaussian", "matern72", "polynomial", "mixed twice", "tall", "metric of mixed")
}
PARTS = {
    "sections": ("sections",),
    "gradients": ("gradients",),
    "laplacians": ("laplacians",),
    "all": ("sections", "gradients", "laplacians"),
}


@pytest.fixture
def centers():
    return np.random.default_rng(40).standard_normal((CENTERS, DIM))


@pytest.fixture
def x(centers):
    """Points, some of them centers."""
    return np.vstack([centers[:2], np.random.default_rng(41).standard_normal((9, DIM))])


@pytest.fixture(params=KERNELS.values(), ids=KERNELS)
def kernel(request):
    return request.param


@pytest.fixture(params=PARTS.values(), ids=PARTS)
def parts(request):
    """Coefficients by name."""
    rng = np.random.default_rng(42)
    shapes = {"sections": CENTERS, "gradients": (CENTERS, DIM), "laplacians": CENTERS}
    return {name: rng.standard_normal(shapes[name]) for name in request.param}


def assert_close(actual, expected, digits=11):
    """Equal to this fraction of the largest entry."""
    np.testing.assert_allclose(
        actual, expected, rtol=0, atol=10.0**-digits * np.abs(expected).max()
    )


def literal(f, x):
    """Values, gradients and Laplacians by the definition, from partial derivatives."""
    total = [np.zeros(len(x)), np.zeros(x.shape), np.zeros(len(x))]
    for coefficients, names in [
        (f.sections, ("k", "x", "xx")),
        (f.gradients, ("y", "xy", "xxy")),
        (f.laplacians, ("yy", "xyy", "xxyy")),
    ]:
        if coefficients is None:
            continue
        for out, name in zip(total, names):
            term = kernel_derivative(f.kernel, name, x, f.centers)
            for a in range(len(f.centers)):
                out += (
                    term[:, a] @ coefficients[a]
                    if coefficients.ndim == 2
                    else term[:, a] * coefficients[a]
                )
    return total


def test_against_the_definition(kernel, parts, centers, x):
    f = KernelExpansion(kernel, centers, **parts)
    values, gradient, laplacian = literal(f, x)
    assert_close(f.values(x), values)
    assert_close(f.gradient(x), gradient)
    assert_close(f.laplacian(x), laplacian)


@pytest.mark.parametrize(
    "metric", [None, np.array([[1.2, 0.3, 0.0], [0.0, 0.7, -0.2], [0.1, 0.0, 1.5]])]
)
def test_the_hessian_is_that_of_differences(centers, metric):
    rng, kernel = np.random.default_rng(44), Gaussian(1.3) + 0.5 * InverseMultiquadric(3.464, 1.5)
    kernel = kernel if metric is None else Metric(kernel, metric)
    x = rng.standard_normal((4, DIM))
    f = KernelExpansion(
        kernel,
        centers,
        sections=rng.standard_normal(CENTERS),
        gradients=rng.standard_normal((CENTERS, DIM)),
        laplacians=rng.standard_normal(CENTERS),
    )
    found = f.hessian(x)
    for k in range(DIM):
        columns = differences.gradients(lambda z, k=k: f.gradient(z)[:, k], x)
        np.testing.assert_allclose(found[:, k], columns, atol=1e-6 * np.abs(found).max())
    np.testing.assert_allclose(np.trace(found, axis1=1, axis2=2), f.laplacian(x))


def test_no_hessian_of_other_kernels(centers, x):
    f = KernelExpansion(Polynomial(3, 1.0, 2.0), centers, sections=np.ones(CENTERS))
    with pytest.raises(TypeError, match="no Hessian of this expansion is known"):
        f.hessian(x)


def test_the_function_of_equation_5(centers, x):
    beta = np.random.default_rng(43).standard_normal((CENTERS, DIM))
    f = KernelExpansion(Gaussian(1.3), centers, gradients=beta)
    assert_close(f.values(x), [nystrom.function(beta.ravel(), centers, 1.3, row) for row in x], 13)


def test_bases_are_expansions(kernel, centers, x):
    rng = np.random.default_rng(44)
    alpha, beta = rng.standard_normal(CENTERS), rng.standard_normal((CENTERS, DIM))
    sections, gradients = KernelSections(kernel, centers), KernelGradients(kernel, centers)
    f = KernelExpansion(kernel, centers, sections=alpha, gradients=beta)
    beta = beta.ravel()
    assert_close(f.values(x), sections.values(x) @ alpha + gradients.values(x) @ beta)
    assert_close(
        f.gradient(x),
        np.einsum("npd,p->nd", sections.gradients(x), alpha)
        + np.einsum("npd,p->nd", gradients.gradients(x), beta),
    )
    assert_close(f.laplacian(x), sections.laplacians(x) @ alpha + gradients.laplacians(x) @ beta)


def test_the_objective_out_of_forms_is_the_objective_out_of_points(centers, x):
    """Σ Δf + |∇f|²/2 is quadratic in the coefficients: the forms and the function give the same
    number.
    """
    basis = KernelGradients(Metric(Matern72(2.0), cases.TALL), centers)
    beta = np.random.default_rng(45).standard_normal(basis.size)
    forms, f = accumulate(basis, x, ("dirichlet", "linear")), basis.expansion(beta)
    pointwise = np.sum(f.laplacian(x)) + 0.5 * np.sum(f.gradient(x) ** 2)
    assert 0.5 * beta @ forms.dirichlet @ beta + forms.linear @ beta == pytest.approx(
        pointwise, rel=1e-12
    )


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Metric(Matern72(2.5), cases.WIDE)])
@pytest.mark.parametrize("shift", [2.0**20, -(2.0**14)])
def test_an_offset_costs_no_digits(kernel, parts, centers, x, shift):
    # so that adding the shift is exact
    x, centers = (np.rint(a * 2**20) / 2**20 for a in (x, centers))
    near, far = (
        KernelExpansion(kernel, centers, **parts),
        KernelExpansion(kernel, centers + shift, **parts),
    )
    for name in ("values", "gradient", "laplacian"):
        assert_close(getattr(far, name)(x + shift), getattr(near, name)(x), 12)


def test_nothing_at_all(centers, x):
    f = KernelExpansion(Gaussian(), centers)
    for values in (f.values(x), f.gradient(x), f.laplacian(x)):
        np.testing.assert_array_equal(values, 0.0)
    mixed = KernelExpansion(Gaussian() + Polynomial(), centers)
    np.testing.assert_array_equal(mixed.gradient(x), np.zeros(x.shape))
    assert mixed.gradient(x[:0]).shape == (0, DIM)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"centers": np.zeros(2)}, r"centers has shape \(2,\)"),
        ({"centers": [[np.inf]]}, "centers contains NaN or infinity"),
        (
            {"centers": np.zeros((2, 3)), "sections": np.zeros(3)},
            r"sections has shape \(3,\): expected \(2,\)",
        ),
        (
            {"centers": np.zeros((2, 3)), "gradients": np.zeros(6)},
            r"gradients has shape \(6,\): expected \(2, 3\)",
        ),
        (
            {"centers": np.zeros((2, 3)), "laplacians": [0.0, np.nan]},
            "laplacians contains NaN or infinity",
        ),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        KernelExpansion(Gaussian(), **arguments)


def test_derivatives_that_a_kernel_does_not_have(centers, x):
    kinked = KernelExpansion(Exponential(), centers, sections=np.ones(CENTERS))
    assert np.all(np.isfinite(kinked.gradient(x)))
    with pytest.raises(
        ValueError, match="the Laplacian of this expansion needs derivatives of order 2"
    ):
        kinked.laplacian(x)
    with pytest.raises(
        ValueError, match="the gradient of this expansion needs derivatives of order 2"
    ):
        KernelExpansion(Exponential(), centers, gradients=np.ones((CENTERS, DIM))).gradient(x)
    smooth = KernelExpansion(Matern52(), centers, laplacians=np.ones(CENTERS))
    assert np.all(np.isfinite(smooth.laplacian(x)))
