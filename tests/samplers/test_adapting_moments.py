import numpy as np
import pytest

from kmc.samplers.adapting import Moments, add_outer_product, forward_substitution


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_updates_of_a_cholesky_factor(dim):
    rng = np.random.default_rng(dim)
    root = np.linalg.cholesky(np.cov(rng.standard_normal((dim, 4 * dim))).reshape(dim, dim))
    for v in (
        rng.standard_normal(dim),
        1e3 * rng.standard_normal(dim),
        np.eye(dim)[-1],
        np.zeros(dim),
    ):
        expected = root @ root.T + np.outer(v, v)
        add_outer_product(root, v.copy())
        np.testing.assert_allclose(root @ root.T, expected, rtol=1e-12)
        assert np.all(np.triu(root, 1) == 0) and np.all(np.diag(root) > 0)
    np.testing.assert_allclose(
        root @ forward_substitution(root, v := rng.standard_normal(dim)), v, rtol=1e-9
    )


@pytest.mark.parametrize("chains", [1, 4])
def test_the_recursion_is_that_of_the_covariance(chains):
    """Against dense matrices, with the floor of one coordinate in turn."""
    rng, dim = np.random.default_rng(1), 3
    mean, covariance = np.arange(3.0), np.diag([1.0, 4.0, 9.0])
    moments = Moments(mean, np.array([1.0, 2.0, 3.0]))
    for sweep in range(1, 60):
        x = rng.standard_normal((chains, dim)) @ np.diag([1.0, 5.0, 0.1])
        rate = min(2.0 / (sweep + 10), 0.5)
        deviations, mean_outer = x - mean, (x - mean).T @ (x - mean) / chains
        floor = np.zeros((dim, dim))
        new = (1 - rate) * covariance + rate * mean_outer
        floor[sweep % dim, sweep % dim] = dim * 1e-8 * new[sweep % dim, sweep % dim]
        mean, covariance = mean + rate * deviations.mean(axis=0), new + rate * floor
        moments.learn(x, sweep)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(moments.root @ moments.root.T, covariance, rtol=1e-9)
    np.testing.assert_allclose(moments.sd, np.sqrt(np.diag(covariance)), rtol=1e-9)


def test_states_too_large_to_square_are_ignored():
    moments = Moments(np.zeros(2), np.ones(2))
    with np.errstate(over="ignore", invalid="ignore"):
        moments.learn(np.array([[1e308, -1e308]]), 1)
        moments.learn(np.array([[-1e308, 1e308]]), 2)
    assert np.all(np.isfinite(moments.root)) and np.all(np.isfinite(moments.mean))
