import numpy as np
import pytest

from kmc.bases import Contraction, FourierFeatures, general
from kmc.kernels import (
    Gaussian,
    InverseMultiquadric,
    Matern52,
    Metric,
    Polynomial,
    kernel_derivative,
)
from tests.oracles import differences, fourier, sections

DIM, COUNT = 3, 7


@pytest.fixture(params=["scalar", "one each"])
def basis(request):
    rng = np.random.default_rng(20)
    amplitudes = 1.5 if request.param == "scalar" else rng.uniform(0.5, 2.0, COUNT)
    return FourierFeatures(rng.standard_normal((COUNT, DIM)), rng.uniform(0, 6, COUNT), amplitudes)


@pytest.fixture
def sample():
    """Points, weights and gradients of a base density."""
    rng = np.random.default_rng(21)
    return rng.standard_normal((11, DIM)), rng.random(11), rng.standard_normal((11, DIM))


def test_against_the_oracle(basis, sample):
    x, w, g = sample
    features = list(zip(basis.frequencies, basis.phases, np.broadcast_to(basis.amplitudes, COUNT)))
    values = [[fourier.feature(row, *each, COUNT) for each in features] for row in x]
    gradients = [[fourier.feature_gradient(row, *each, COUNT) for each in features] for row in x]
    laplacians = [[fourier.feature_laplacian(row, *each, COUNT) for each in features] for row in x]
    np.testing.assert_allclose(basis.values(x), values, atol=1e-14)
    np.testing.assert_allclose(basis.gradients(x), gradients, atol=1e-14)
    np.testing.assert_allclose(basis.laplacians(x), laplacians, atol=1e-13)
    np.testing.assert_allclose(
        basis.sum_dirichlet(x, w), sections.dirichlet(gradients, w), atol=1e-13
    )
    np.testing.assert_allclose(
        basis.sum_linear(x, w, g), sections.linear(gradients, laplacians, w, g), atol=1e-13
    )
    np.testing.assert_allclose(basis.sum_linear(x, w), general.sum_linear(basis, x, w), atol=1e-13)


def test_oracle_derivatives_are_those_of_the_feature(sample):
    x = sample[0][0]
    arguments = np.array([0.5, -1.0, 0.7]), 0.4, 1.3, COUNT
    gradient = differences.gradient(lambda x: fourier.feature(x, *arguments), x)
    laplacian = differences.laplacian(lambda x: fourier.feature(x, *arguments), x)
    assert fourier.feature_gradient(x, *arguments) == pytest.approx(gradient, abs=1e-10)
    assert fourier.feature_laplacian(x, *arguments) == pytest.approx(laplacian, abs=1e-9)


def test_contractions_are_those_of_the_general_mode(basis, sample):
    x, *_ = sample
    beta = np.random.default_rng(22).standard_normal(COUNT)
    f = Contraction(basis, beta)
    np.testing.assert_allclose(f.values(x), basis.values(x) @ beta, atol=1e-14)
    np.testing.assert_allclose(
        f.gradient(x), np.einsum("npd,p->nd", basis.gradients(x), beta), atol=1e-14
    )
    np.testing.assert_allclose(f.laplacian(x), basis.laplacians(x) @ beta, atol=1e-13)


def test_features_are_orthonormal_in_their_own_space(basis):
    np.testing.assert_array_equal(basis.gram(), np.eye(COUNT))
    assert basis.size == COUNT


KERNELS = {
    "gaussian": Gaussian(1.5),
    "multiple": 4.0 * Gaussian(1.5),
    "metric": Metric(Matern52(2.0), [0.5, 1.0, 2.0]),
    "sum": Gaussian(1.5) + 2.0 * InverseMultiquadric(2.828, 1.0),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_inner_products_of_drawn_features_are_the_kernel(kernel):
    """Products of two features of amplitude a are at most 2a²: five standard errors of 40,000 of
    them are 0.05 a².
    """
    x = np.random.default_rng(23).standard_normal((8, DIM))
    phi = FourierFeatures.draw(kernel, 40_000, DIM, np.random.default_rng(24)).values(x)
    exact = kernel_derivative(kernel, "k", x, x)
    np.testing.assert_allclose(phi @ phi.T, exact, atol=0.05 * exact[0, 0])


def test_the_same_seed_scales_with_the_bandwidth():
    one, two = (FourierFeatures.draw(Gaussian(b), 10, DIM, 5) for b in (1.0, 2.0))
    np.testing.assert_allclose(one.frequencies, 2.0 * two.frequencies)
    np.testing.assert_array_equal(one.phases, two.phases)


def test_a_kernel_without_frequencies():
    with pytest.raises(TypeError, match="frequencies are not known"):
        FourierFeatures.draw(Polynomial(), 10, DIM, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones(3), np.ones(3)), r"frequencies has shape \(3,\)"),
        ((np.ones((0, 3)), np.ones(0)), r"frequencies has shape \(0, 3\)"),
        ((np.ones((4, 3)), np.ones(3)), r"phases has shape \(3,\): expected \(4,\)"),
        ((np.ones((4, 3)), 1.0), r"phases has shape \(\)"),
        ((np.ones((4, 3)), np.ones(4), np.ones(3)), r"amplitudes has shape \(3,\)"),
        ((np.ones((4, 3)), np.full(4, np.inf)), "phases contains NaN or infinity"),
    ],
)
def test_invalid_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        FourierFeatures(*arguments)
