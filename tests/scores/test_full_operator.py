import numpy as np
import pytest

from kmc.kernels import Gaussian
from kmc.scores import full_operator
from kmc.scores.full_operator import GradientGram
from tests.kernels.cases import COMPOSITES, DIM, DOT_PRODUCT, ROUGH_RADIAL, SMOOTH_RADIAL
from tests.oracles import full, kernels

RNG = np.random.default_rng(3)
SMOOTH_ENOUGH = {
    name: kernel
    for name, kernel in (SMOOTH_RADIAL | ROUGH_RADIAL | DOT_PRODUCT | COMPOSITES).items()
    if kernel.differentiability >= 4
}


@pytest.mark.parametrize("sections", [False, True])
@pytest.mark.parametrize("name", SMOOTH_ENOUGH)
def test_products_are_those_of_the_dense_matrix(name, sections, monkeypatch):
    monkeypatch.setattr(full_operator, "_PARTIALS", 5000)  # several strips
    x = RNG.standard_normal((140, DIM))  # two tiles
    operator = GradientGram(SMOOTH_ENOUGH[name], x, sections)
    vector = RNG.standard_normal(operator.shape)
    matrix = operator.dense()
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12, atol=1e-14 * np.abs(matrix).max())
    expected = (matrix @ vector.reshape(-1)).reshape(operator.shape)
    np.testing.assert_allclose(
        operator(vector), expected, rtol=1e-9, atol=1e-11 * np.abs(expected).max()
    )


@pytest.mark.parametrize("name", ["gaussian", "matern52", "polynomial", "mixed product", "tall"])
def test_the_matrix_is_that_of_equation_4(name):
    """Against differences of k(x, y); the tolerance is theirs."""
    x = RNG.standard_normal((4, DIM))
    kernel = SMOOTH_ENOUGH[name]
    expected = full.gram(lambda name, a, b: kernels.partial(kernel, name, a, b), x)
    np.testing.assert_allclose(GradientGram(kernel, x).dense(), expected, rtol=1e-6, atol=3e-7)


def test_an_outlier_costs_no_digits():
    """A point at 1e9 drags the mean to 1e7, about which other distances would lose all digits."""
    x = RNG.standard_normal((100, 2))
    near = GradientGram(Gaussian(), x)
    vector = RNG.standard_normal(near.shape)
    with_outlier = GradientGram(Gaussian(), np.vstack([x, [[1e9, -1e9]]]))
    out = with_outlier(np.vstack([vector, [[1.0, 2.0]]]))
    np.testing.assert_allclose(out[:-1], near(vector), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(out[-1], [1.0, 2.0], rtol=1e-12)
