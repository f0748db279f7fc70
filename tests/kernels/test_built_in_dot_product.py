import numpy as np
import pytest
from sklearn.gaussian_process.kernels import DotProduct
from sklearn.metrics.pairwise import polynomial_kernel

from kmc.kernels import ExponentialDotProduct, Polynomial
from tests.kernels import cases
from tests.oracles import differences
from tests.oracles import kernels as oracle

dot_products = pytest.mark.parametrize("kernel", cases.DOT_PRODUCT.values(), ids=cases.DOT_PRODUCT)


@dot_products
def test_profile_is_the_kernel(kernel):
    t = np.linspace(-5, 5, 21)
    expected = [oracle.value(kernel, np.array([v]), np.ones(1)) for v in t]
    np.testing.assert_allclose(kernel.profile(t), expected, rtol=1e-13)


@dot_products
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_each_derivative_is_the_slope_of_the_one_before(kernel, order):
    t = np.linspace(-5, 5, 21)
    row = kernel.derivatives(t, order)[-1]
    slopes = [
        differences.gradient(lambda u: kernel.derivatives(u, order - 1)[-1], np.array([v]), 0.05)[
            0, 0
        ]
        for v in t
    ]
    np.testing.assert_allclose(row, slopes, rtol=1e-9, atol=1e-10)


@dot_products
def test_shapes_and_scaling(kernel):
    t = np.linspace(-2, 2, 12).reshape(3, 4)
    assert [row.shape for row in kernel.derivatives(t)] == [(3, 4)] * 3
    assert np.ndim(kernel.profile(1)) == 0
    np.testing.assert_allclose(kernel.scaled(3.0).profile(9.0 * t), kernel.profile(t), rtol=1e-13)
    assert kernel.kind == "inner-product" and kernel.differentiability == np.inf


def test_derivatives_beyond_the_degree_are_zero():
    rows = Polynomial(degree=2).derivatives(np.array([0.0, 3.0]), 4)
    np.testing.assert_array_equal(rows, [[1, 16], [2, 8], [2, 2], [0, 0], [0, 0]])


def test_against_scikit_learn():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 3)), rng.standard_normal((30, 3))
    expected = polynomial_kernel(x, y, degree=7, gamma=1 / 1.3**2, coef0=0.4)
    np.testing.assert_allclose(
        Polynomial(7, 0.4, 1.3).profile(x @ y.T), expected, rtol=1e-11, atol=1e-12
    )
    np.testing.assert_allclose(
        Polynomial(1, 0.49).profile(x @ y.T), DotProduct(0.7)(x, y), rtol=1e-13
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degree": 0}, "degree=0"),
        ({"offset": -0.1}, "offset=-0.1"),
        ({"offset": np.nan}, "offset=nan"),
        ({"bandwidth": 0}, "bandwidth=0"),
    ],
    ids=lambda option: str(option),
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=f"{message}: expected"):
        Polynomial(**options)


@pytest.mark.parametrize("degree", [2.0, "2", True, None])
def test_degree_is_a_whole_number(degree):
    with pytest.raises(TypeError, match=r"degree=.*: expected a whole number of at least 1"):
        Polynomial(degree)


def test_bandwidth_of_the_exponential():
    with pytest.raises(ValueError, match=r"bandwidth=inf"):
        ExponentialDotProduct(np.inf)
