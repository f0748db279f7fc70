import numpy as np
import pytest

from kmc.bases import FourierFeatures, KernelSections, Monomials, Whitened, general
from kmc.forms import accumulate
from kmc.forms.sums import centered
from kmc.kernels import Exponential, Gaussian, Matern52, Metric, Polynomial

RNG = np.random.default_rng(0)
X, CENTERS, VECTORS = (
    RNG.standard_normal((1500, 3)),
    RNG.standard_normal((7, 3)),
    RNG.standard_normal((1500, 3)),
)
METRIC = RNG.standard_normal((3, 3))
RADIAL = [Gaussian(1.5), Gaussian(60.0), Exponential(2.0), Matern52(), Metric(Gaussian(), METRIC)]


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("weights", [None, RNG.uniform(size=1500)])
@pytest.mark.parametrize("kernel", RADIAL, ids=repr)
def test_both_forms_together_are_those_apart(kernel, weights, offset):
    basis = KernelSections(kernel, CENTERS + offset)
    w = np.ones(1500) if weights is None else weights
    total, scatter, dirichlet = basis.sum_mass_and_dirichlet(X + offset, weights)
    expected_total, half = centered(weights, basis.values(X + offset))
    np.testing.assert_allclose(total, expected_total, rtol=1e-12)
    np.testing.assert_allclose(
        scatter, half.T @ half, rtol=1e-8, atol=1e-9 * np.abs(half.T @ half).max()
    )
    apart = general.sum_dirichlet(basis, X + offset, w)
    np.testing.assert_allclose(dirichlet, apart, rtol=1e-7, atol=1e-9 * np.abs(apart).max())


def test_the_accumulator_takes_them():
    basis, weights = (
        KernelSections(Gaussian(), CENTERS),
        np.append(np.zeros(200), RNG.uniform(size=1300)),
    )
    both = accumulate(basis, X, ("mass", "dirichlet"), weights=weights, block=100)
    np.testing.assert_allclose(
        both.mass, accumulate(basis, X, ("mass",), weights=weights).mass, rtol=1e-11
    )
    np.testing.assert_allclose(
        both.dirichlet, accumulate(basis, X, ("dirichlet",), weights=weights).dirichlet
    )
    assert KernelSections(Polynomial(), CENTERS).sum_mass_and_dirichlet is None


@pytest.mark.parametrize(
    "basis",
    [
        *(
            KernelSections(kernel, CENTERS)
            for kernel in (*RADIAL, Polynomial(), Metric(Polynomial(), METRIC))
        ),
        KernelSections(Gaussian() * Polynomial(), CENTERS),
        FourierFeatures.draw(Gaussian(), 6, 3, 0),
        Whitened(KernelSections(Gaussian(), CENTERS), RNG.standard_normal((7, 4))),
        Monomials(2, 3),
    ],
)
def test_derivatives_along_vectors(basis):
    expected = np.einsum("npd,nd->np", basis.gradients(X), VECTORS)
    np.testing.assert_allclose(basis.directional(X, VECTORS), expected, rtol=1e-9, atol=1e-11)
