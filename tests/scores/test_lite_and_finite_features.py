import numpy as np
import pytest

from kmc.scores.lite_and_finite import FiniteKEF, LiteKEF
from tests.oracles import differences

X = np.random.default_rng(1).standard_normal((80, 2)) @ [[1.0, 0.4], [0.0, 0.7]]
POINTS = np.random.default_rng(2).standard_normal((7, 2))


def fitted(**options):
    settings = {
        "bandwidth": 1.5,
        "regularization": 1e-2,
        "n_basis": 30,
        "jitter": 0.0,
        "random_state": 0,
    }
    return FiniteKEF(**(settings | {"base": "uniform"} | options)).fit(X)


def test_against_the_normal_equations_by_loops():
    estimator = fitted(base="gaussian")
    basis, g = estimator.basis_, estimator.base_density_.gradient(X)
    matrix, linear = 1e-2 * np.eye(30), np.zeros(30)
    for x, base_gradient in zip(X - estimator.center_, g, strict=True):
        gradients = basis.gradients(x[None])[0]
        matrix += gradients @ gradients.T / 80
        linear += (basis.laplacians(x[None])[0] + gradients @ base_gradient) / 80
    np.testing.assert_allclose(estimator.coefficients_, -np.linalg.solve(matrix, linear), rtol=1e-8)


@pytest.mark.parametrize("kernel", ["gaussian", "matern72"])
def test_derivatives_agree_with_differences(kernel):
    estimator = fitted(kernel=kernel, base="student-t")
    gradient = differences.gradients(estimator.log_density, POINTS)
    np.testing.assert_allclose(estimator.gradient(POINTS), gradient, rtol=1e-5, atol=1e-6)
    laplacian = differences.laplacians(estimator.log_density, POINTS)
    np.testing.assert_allclose(estimator.laplacian(POINTS), laplacian, rtol=1e-5, atol=1e-5)


def test_many_features_approach_the_kernel_estimator():
    """Random features approximate the reproducing-kernel space: with 3000 the fit is the lite one
    with all samples.
    """
    many = fitted(n_basis=3000, regularization=0.1)
    lite = LiteKEF(
        bandwidth=1.5, regularization=0.1, n_basis=80, base="uniform", penalty="norm"
    ).fit(X)
    scale = np.abs(lite.gradient(X)).mean()
    assert np.abs(many.gradient(X) - lite.gradient(X)).mean() < 0.15 * scale


@pytest.mark.parametrize("kernel", ["polynomial"])
def test_a_kernel_without_a_spectral_density_is_refused(kernel):
    with pytest.raises((TypeError, ValueError), match="requenc"):
        fitted(kernel=kernel)
