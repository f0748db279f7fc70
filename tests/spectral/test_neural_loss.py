"""The loss for networks against its formulas, and its minimum for linear functions of Gaussians."""

import numpy as np
import pytest
from scipy.optimize import minimize

from kmc.spectral import spectral_loss
from tests.oracles import losses


def white(n, dim, seed=0):
    """Return samples (n, dim) with mean zero and second moments I, to the last digit."""
    x = np.random.default_rng(seed).standard_normal((n, dim))
    x = x - x.mean(axis=0)
    return x @ np.linalg.inv(np.linalg.cholesky(x.T @ x / n)).T


def test_equations_17_and_18():
    rng = np.random.default_rng(0)
    f, other = rng.standard_normal((7, 3)) + 0.3, rng.standard_normal((5, 3))
    energies, cutoffs = rng.uniform(1, 2, 3), np.array([2.0, 3.0, 5.0])
    one = losses.equation_18(energies, cutoffs, losses.covariance_form(f))
    two = losses.equation_18(energies, cutoffs, losses.contrastive_form(f, other))
    assert spectral_loss(energies, cutoffs, f) == pytest.approx(one)
    assert spectral_loss(energies, cutoffs, f, other) == pytest.approx(two)
    equal = losses.equation_18(energies, [2.0] * 3, losses.covariance_form(f))
    assert spectral_loss(energies, 2.0, f) == pytest.approx(equal)


def test_two_batches_have_no_bias():
    """The mean over all pairs of batches of one is the value of all samples; over single batches it
    is not.
    """
    f = np.random.default_rng(0).standard_normal((6, 2))
    zero = np.zeros(2)
    whole = spectral_loss(zero, 1.0, f)
    assert np.mean(
        [spectral_loss(zero, 1.0, a[None], b[None]) for a in f for b in f]
    ) == pytest.approx(whole)
    assert np.mean([spectral_loss(zero, 1.0, a[None]) for a in f]) > whole + 1


def least(loss, size, starts=4):
    """Return the lowest minimum of a function of matrices (size, size), from several starts."""
    rng = np.random.default_rng(1)
    found = [
        minimize(lambda a: loss(a.reshape(size, size)), rng.standard_normal(size**2))
        for _ in range(starts)
    ]
    best = min(found, key=lambda one: one.fun)
    return best.x.reshape(size, size), best.fun


def test_the_minimum_with_a_cutoff_for_each_function():
    """Of N(0, diag(1, 1/2)): Hermite polynomials of degree one, with eigenvalues 1 and 2, each in
    its own output.
    """
    deviations, cutoffs = np.sqrt([1.0, 0.5]), np.array([4.0, 5.0])
    x = white(50, 2) * deviations
    a, loss = least(lambda a: spectral_loss((a**2).sum(axis=1), cutoffs, x @ a.T), 2)
    shrinkage = 1 - np.array([1.0, 2.0]) / cutoffs
    np.testing.assert_allclose(np.abs(a), np.diag(np.sqrt(shrinkage) / deviations), atol=1e-4)
    assert loss == pytest.approx(2 - np.sum(shrinkage**2))


def test_the_minimum_with_one_cutoff_is_a_rotation():
    x = white(50, 2)
    a, _ = least(lambda a: spectral_loss((a**2).sum(axis=1), 4.0, x @ a.T), 2)
    np.testing.assert_allclose(a.T @ a, 0.75 * np.eye(2), atol=1e-4)


def test_two_networks():
    """Linear functions of Gaussian pairs with canonical correlations 0.9 and 0.6, which are the
    singular values.
    """
    correlations, cutoffs = np.array([0.9, 0.6]), np.array([0.8, 1.0])
    both = white(50, 4)
    x = both[:, :2]
    y = correlations * x + np.sqrt(1 - correlations**2) * both[:, 2:]

    def loss(maps):
        f, g = x @ maps[:2, :2].T, y @ maps[2:, 2:].T
        energies = ((f - g) ** 2).mean(0)
        return spectral_loss(energies / 2, cutoffs, f) + spectral_loss(energies / 2, cutoffs, g)

    maps, _ = least(loss, 4)
    shrunk = np.sqrt(1 - (1 - correlations) / cutoffs)
    np.testing.assert_allclose(np.abs(maps[:2, :2]), np.diag(shrunk), atol=1e-4)
    np.testing.assert_allclose(maps[2:, 2:], maps[:2, :2], atol=1e-4)
