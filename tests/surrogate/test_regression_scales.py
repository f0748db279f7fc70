"""Scales: the likelihood finds the coordinate that is the logarithm of one, and no other."""

import numpy as np
import pytest

from kmc.surrogate.covariance import whitened_coordinates
from kmc.surrogate.process import Seen, first_fit, fit_again
from kmc.surrogate.regression import STARTS, Observations, best_change

EFFECTS = np.array([1.2, -0.4, 0.9, 0.1])


def hierarchy(x):
    """A mean m, the logarithm t of a scale, and four standardized effects e: data are seen at m +
    exp(t) e.
    """
    m, t, e = x[:, :1], x[:, 1:2], x[:, 2:]
    misfit = EFFECTS - m - np.exp(t) * e
    return -0.5 * (np.sum(misfit**2, axis=1) + np.sum(e**2, axis=1) + m[:, 0] ** 2 + t[:, 0] ** 2)


def noise_scale(x):
    """A regression whose noise has an unknown standard deviation: x[2] is its logarithm."""
    misfit = 8.0 + 40.0 * np.sum((x[:, :2] - 0.3) ** 2, axis=1)
    return -16.0 * x[:, 2] - misfit * np.exp(-2.0 * x[:, 2]) - 0.5 * x[:, 2] ** 2


def normal(x):
    return -0.5 * np.sum(x**2, axis=1) - 0.3 * x[:, 0] * x[:, 1]


@pytest.mark.parametrize(
    ("density", "dim", "expected"),
    [(hierarchy, 6, (1, 1.0)), (noise_scale, 3, (2, -1.0))],
    ids=["hierarchy", "noise"],
)
def test_the_logarithm_of_a_scale_is_found_from_few_values(density, dim, expected):
    x = np.random.default_rng(dim).standard_normal((60, dim))
    found = best_change(Observations(x, density(x)), whitened_coordinates(x))
    assert found.scales == (expected,)


def fitted(density, dim, n):
    rng = np.random.default_rng(dim + 1)
    x = rng.standard_normal((n, dim))
    seen = Seen(x, density(x), x, np.full(x.shape, np.nan))
    return fit_again(seen, first_fit(seen, rng), STARTS[0], rng)


def test_a_hierarchy_is_learned_from_its_terms():
    """Products of two of 1, z, exp(t) and exp(t) z are all that it has: other kernels need many
    more values.
    """
    process = fitted(hierarchy, 6, 150)
    assert process.regression.coordinates.scales == ((1, 1.0),)
    fresh = np.random.default_rng(9).standard_normal((200, 6))
    near = fresh[hierarchy(fresh) > hierarchy(fresh).max() - 6.0]
    errors = process.log_density(near) - hierarchy(near)
    assert len(near) > 50 and np.std(errors) < 0.05


def test_a_density_without_scales_gets_none():
    assert fitted(normal, 4, 60).regression.coordinates.scales == ()
