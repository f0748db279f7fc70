"""Gaussians around draws, against scipy's densities and the draws of a normal."""

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from kmc.samplers.local_mixture import draw_from, local_mixture, log_densities
from tests.oracles.mcmc import assert_uniform


def ring(n, dim=2):
    rng = np.random.default_rng(1)
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    bent = np.column_stack([np.cos(angle), np.sin(angle), rng.standard_normal((n, dim - 2))])
    return bent + 0.02 * rng.standard_normal((n, dim))


def draws_of(mixture, n):
    rng, out = np.random.default_rng(2), np.empty((n, mixture.centers.shape[1]))
    for row in out:
        draw_from(mixture, rng, row)
    return out


def test_the_density_is_that_of_gaussians_around_draws():
    mixture = local_mixture(ring(40, 3))
    points = draws_of(mixture, 50)
    each = [
        stats.multivariate_normal(center, root @ root.T).logpdf(points)
        for center, root in zip(mixture.centers, mixture.roots, strict=True)
    ]
    found = log_densities(mixture, points)
    assert len(each) == 40
    np.testing.assert_allclose(
        found - found[0], logsumexp(each, axis=0) - logsumexp(each, axis=0)[0], atol=1e-8
    )


def test_covariances_are_those_of_the_nearest_draws():
    draws = ring(40)
    mixture = local_mixture(draws)
    center = mixture.centers[7]
    nearest = draws[np.argsort(np.sum((draws - center) ** 2, axis=1))[1:7]] - center
    np.testing.assert_allclose(
        mixture.roots[7] @ mixture.roots[7].T, 1.2**2 * nearest.T @ nearest / 6, rtol=1e-4
    )


def test_draws_are_those_of_the_density():
    mixture = local_mixture(ring(12))
    along = np.array([0.6, 0.8])
    means, sds = (
        mixture.centers @ along,
        np.linalg.norm(mixture.roots.transpose(0, 2, 1) @ along, axis=1),
    )
    draws = draws_of(mixture, 4000) @ along
    assert_uniform(stats.norm(means, sds).cdf(draws[:, None]).mean(axis=1))


def test_equal_draws_count_once_and_few_are_not_enough():
    draws = ring(6)
    assert len(local_mixture(np.vstack([draws, draws])).heights) == 0
    assert len(local_mixture(ring(7)).heights) == 7
