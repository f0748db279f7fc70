from itertools import product

import numpy as np
import pytest

from kmc.kernels import Exponential, Gaussian, Matern72, Metric, Polynomial, axes_of, derivative, kernel_derivative
from tests.kernels.cases import DIAGONAL, DIM, WIDE

X = np.random.default_rng(0).standard_normal((4, DIM))
Y = np.random.default_rng(1).standard_normal((3, DIM))
KERNELS = {
    "gaussian": Gaussian(1.3),
    "metric": Metric(Gaussian(1.3), WIDE),
    "matern72": Matern72(2.0),
    "polynomial": Metric(Polynomial(4, bandwidth=2.0), WIDE),
    "mixed": Metric(0.5 * (Gaussian(1.5) * Polynomial(2, bandwidth=2.0)) + Gaussian(), DIAGONAL),
}
UP_TO_4 = [index for index in product(range(4), repeat=DIM) if 1 <= sum(index) <= 4]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_each_is_the_derivative_of_the_one_before(kernel):
    """By central differences along the last coordinate that is derived."""
    step = 1e-5
    for index in UP_TO_4:
        last = np.flatnonzero(index)[-1]
        before = np.array(index) - (np.arange(DIM) == last)
        shift = step * (np.arange(DIM) == last)
        numeric = (derivative(kernel, before, X + shift, Y) - derivative(kernel, before, X - shift, Y)) / (2 * step)
        np.testing.assert_allclose(derivative(kernel, index, X, Y), numeric, rtol=1e-6, atol=1e-7, err_msg=str(index))


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_those_that_have_a_name(kernel):
    eye = np.eye(DIM, dtype=int)
    np.testing.assert_allclose(derivative(kernel, 0 * eye[0], X, Y), kernel_derivative(kernel, "k", X, Y))
    gradient = np.stack([derivative(kernel, one, X, Y) for one in eye], axis=2)
    np.testing.assert_allclose(gradient, kernel_derivative(kernel, "x", X, Y), atol=1e-14)
    laplacian = sum(derivative(kernel, 2 * one, X, Y) for one in eye)
    np.testing.assert_allclose(laplacian, kernel_derivative(kernel, "xx", X, Y), atol=1e-13)


def test_hermite_polynomials_are_derivatives_of_the_gaussian():
    z = np.linspace(-2.0, 2.0, 9)[:, None]
    for order in range(5):
        he = np.polynomial.hermite_e.hermeval(z, np.eye(5)[order])
        expected = (-1) ** order * he * np.exp(-0.5 * z**2)
        np.testing.assert_allclose(derivative(Gaussian(), (order,), z, np.zeros((1, 1))), expected, atol=1e-14)


def test_the_kink_has_slope_zero():
    assert derivative(Exponential(), (1,), np.zeros((1, 1)), np.zeros((1, 1))) == 0.0


@pytest.mark.parametrize("index", [(1, 0), (1, -1, 0), (1.0, 0.0, 0.0), 3])
def test_indices_are_checked(index):
    with pytest.raises(ValueError, match="expected 3 whole numbers"):
        derivative(Gaussian(), index, X, Y)


def test_axes():
    assert axes_of((2, 0, 1), 3) == (0, 0, 2)
    with pytest.raises(ValueError, match="from 0 to 4"):
        derivative(Gaussian(), (3, 2, 0), X, Y)
