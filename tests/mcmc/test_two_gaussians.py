"""Two Gaussians fitted to log-densities, held to the density that they are, and refused where there are not two."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kmc.mcmc.two_gaussians import fit_two_gaussians, two_gaussians_instead

POOR = SimpleNamespace(error_sd=1.0, edge=15.0, coordinates=lambda x: x)


def nested(dim, rng, n=800):
    """Points in and around a narrow, correlated Gaussian inside a wide one, and their log-densities; the two."""
    root = rng.standard_normal((dim, dim)) / np.sqrt(dim) + np.eye(dim)
    both = [
        multivariate_normal(np.zeros(dim), np.eye(dim)),
        multivariate_normal(0.1 * np.ones(dim), 0.01 * root @ root.T),
    ]
    x = np.vstack([one.rvs(n // 2, random_state=rng) for one in both])
    return x, np.logaddexp(*(np.log(w) + one.logpdf(x) for w, one in zip((0.6, 0.4), both, strict=True))), both


@pytest.mark.parametrize("dim", [2, 5, 10])
def test_a_narrow_gaussian_inside_a_wide_one_is_found(dim):
    x, values, both = nested(dim, np.random.default_rng(dim))
    pair = two_gaussians_instead(POOR, x, values, rng=np.random.default_rng(0))
    assert pair.error_sd < 1e-6
    order = np.argsort(pair.tops)  # the narrow one is higher
    for k, weight, one in zip(order, (0.6, 0.4), both, strict=True):
        np.testing.assert_allclose(pair.centers[k], one.mean, atol=1e-5)
        np.testing.assert_allclose(pair.precisions[k] @ one.cov, np.eye(dim), atol=1e-4)
        assert pair.tops[k] == pytest.approx(np.log(weight) + one.logpdf(one.mean), abs=1e-5)


def test_a_good_surrogate_is_kept():
    x, values, _ = nested(2, np.random.default_rng(1))
    good = SimpleNamespace(error_sd=0.1, edge=15.0, coordinates=lambda x: x)
    assert two_gaussians_instead(good, x, values, rng=np.random.default_rng(0)) is None


def test_too_few_values_say_nothing():
    """With as many coefficients as values any two Gaussians are exact."""
    x, values, _ = nested(5, np.random.default_rng(1), n=100)
    assert two_gaussians_instead(POOR, x, values, rng=np.random.default_rng(0)) is None


ONE_MODE = {
    "banana": lambda x: -0.5 * (x[:, 0] ** 2 + (3.0 * x[:, 1] + 3.0 * x[:, 0] ** 2) ** 2 + x[:, 2] ** 2),
    "funnel": lambda x: -0.5 * (x[:, 0] ** 2 / 4 + (x[:, 1] ** 2 + x[:, 2] ** 2) * np.exp(-x[:, 0]) + 2 * x[:, 0]),
    "ring": lambda x: -0.5 * ((np.linalg.norm(x[:, :2], axis=1) - 2.0) / 0.2) ** 2 - 0.5 * x[:, 2] ** 2,
    "Student-t": lambda x: -2.5 * np.log1p(np.sum(x**2, axis=1) / 2.0),
}


@pytest.mark.parametrize("name", ONE_MODE)
def test_a_single_mode_that_bends_is_not_divided(name):
    x = 2.0 * np.random.default_rng(2).standard_normal((3000, 3))
    assert two_gaussians_instead(POOR, x, ONE_MODE[name](x), rng=np.random.default_rng(0)) is None


def test_a_gaussian_has_two_only_in_name():
    """Two halves of one Gaussian are fitted exactly, but its surrogate is never poor."""
    x = np.random.default_rng(3).standard_normal((500, 2))
    pair = fit_two_gaussians(x, -0.5 * np.sum(x**2, axis=1))
    assert pair is None or pair.error_sd < 1e-6
