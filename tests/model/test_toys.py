"""The toys' densities are normalized, and their draws come from those densities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import cumulative_trapezoid, trapezoid

from kmc.model.toys import Banana, Bimodal, Gaussian, Ring
from tests.grids import slow_except

PLANAR = {
    "gaussian": Gaussian(2, correlation=0.7, spread=2),
    "banana": Banana(2, b=0.03),
    "strong banana": Banana(2, b=0.1),
    "bimodal": Bimodal(2, weight=0.3),
    "ring": Ring(),
    "wide ring": Ring(radius=1.0, width=0.8),  # where the hole in the middle matters
}


@pytest.fixture
def rng():
    return np.random.default_rng(20)


def values(target, points):
    return np.array([target(x) for x in points])


def grid(target, draws, n=501):
    """Axes that reach well past the draws, and the density on their product."""
    low, high = draws.min(0), draws.max(0)
    margin = 0.3 * (high - low)
    axes = [np.linspace(a, b, n) for a, b in zip(low - margin, high + margin, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    return axes, np.exp(values(target, points)).reshape(n, n)


@pytest.mark.parametrize("target", slow_except(PLANAR, {"banana", "bimodal", "wide ring"}))
def test_planar_density_integrates_to_one_and_has_the_draws_marginals(target, rng):
    draws = target.sample(rng, 100_000)
    axes, density = grid(target, draws)
    for i, axis in enumerate(axes):
        marginal = trapezoid(density, axes[1 - i], axis=1 - i)
        assert trapezoid(marginal, axis) == pytest.approx(1, abs=1e-4)
        cdf = cumulative_trapezoid(marginal, axis, initial=0)
        assert (
            stats.kstest(draws[:, i], lambda x, axis=axis, cdf=cdf: np.interp(x, axis, cdf)).pvalue
            > 1e-3
        )


@pytest.mark.parametrize("target", [Gaussian(10), Bimodal(5, weight=0.3)], ids=repr)
def test_shifted_density_averages_to_one_over_the_draws(target, rng):
    """E[p(x + h) / p(x)] = 1 for every shift h: neither side may be off, in any dimension (light
    tails only).
    """
    draws = target.sample(rng, 20_000)
    base = values(target, draws)
    for _ in range(5):
        shift = 0.3 * np.subtract(*target.sample(rng, 2)) / np.sqrt(target.dim)
        ratio = np.exp(values(target, draws + shift) - base)
        assert abs(ratio.mean() - 1) < 4.5 * ratio.std() / np.sqrt(len(ratio))


@pytest.mark.parametrize("target", [Gaussian(10), Banana(8, b=0.03), Banana(2, b=0.1)], ids=repr)
def test_depth_of_a_bent_gaussian_is_chi_squared(target, rng):
    draws = target.sample(rng, 20_000)
    peak = np.zeros(target.dim)
    if isinstance(target, Banana):
        peak[1] = 100 * target.b
    depth = 2 * (target(peak) - values(target, draws))
    assert stats.kstest(depth, stats.chi2(target.dim).cdf).pvalue > 1e-3


def test_higher_dimensions_match_scipy(rng):
    x = 2 * rng.standard_normal((20, 5))
    gaussian = Gaussian(5)
    assert values(gaussian, x) == pytest.approx(
        stats.multivariate_normal(cov=gaussian.covariance).logpdf(x)
    )
    rest = stats.norm.logpdf(x[:, 2:]).sum(1)
    assert values(Banana(5), x) == pytest.approx(values(Banana(2), x[:, :2]) + rest)
    mode = np.full(5, 3 / np.sqrt(5))
    upper, lower = (stats.multivariate_normal(mean).pdf(x) for mean in (mode, -mode))
    assert values(Bimodal(5, weight=0.3), x) == pytest.approx(np.log(0.3 * upper + 0.7 * lower))
