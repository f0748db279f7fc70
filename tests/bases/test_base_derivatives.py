from itertools import product

import numpy as np
import pytest

from kmc.bases import FourierFeatures, KernelSections, Monomials, Whitened
from kmc.kernels import Exponential, Gaussian, Matern52

X = np.random.default_rng(0).standard_normal((5, 2))
CENTERS = np.random.default_rng(1).standard_normal((3, 2))
BASES = {
    "sections": KernelSections(Gaussian(1.2), CENTERS),
    "fourier": FourierFeatures.draw(Gaussian(1.2), 4, 2, 0),
    "monomials": Monomials(4, 2, center=[0.3, -0.1], scale=[0.7, 1.4]),
    "whitened": Whitened(
        KernelSections(Gaussian(1.2), CENTERS), np.array([[1.0, 2.0], [0.0, 1.0], [-1.0, 3.0]])
    ),
}
UP_TO_4 = [index for index in product(range(5), repeat=2) if 1 <= sum(index) <= 4]


@pytest.mark.parametrize("basis", BASES.values(), ids=BASES)
def test_each_is_the_derivative_of_the_one_before(basis):
    step = 1e-5
    for index in UP_TO_4:
        last = np.flatnonzero(index)[-1]
        before, shift = np.array(index) - np.eye(2, dtype=int)[last], step * np.eye(2)[last]
        numeric = basis.derivative(X + shift, before) - basis.derivative(X - shift, before)
        found = basis.derivative(X, index)
        np.testing.assert_allclose(
            found, numeric / (2 * step), rtol=1e-6, atol=1e-6, err_msg=str(index)
        )


@pytest.mark.parametrize("basis", BASES.values(), ids=BASES)
def test_values_gradients_and_laplacians_are_among_them(basis):
    np.testing.assert_allclose(basis.derivative(X, (0, 0)), basis.values(X))
    np.testing.assert_allclose(basis.derivative(X, (0, 1)), basis.gradients(X)[:, :, 1], atol=1e-14)
    laplacians = basis.derivative(X, (2, 0)) + basis.derivative(X, (0, 2))
    np.testing.assert_allclose(laplacians, basis.laplacians(X), atol=1e-13)


def test_kernels_that_are_not_smooth_enough():
    KernelSections(Exponential(), CENTERS).derivative(X, (1, 0))
    with pytest.raises(ValueError, match="no Laplacian at coincident points"):
        KernelSections(Exponential(), CENTERS).derivative(X, (1, 1))
    with pytest.raises(ValueError, match="no derivatives of order 5"):
        KernelSections(Matern52(), CENTERS).derivative(X, (3, 2))
