"""Slow, literal versions of the computations of :mod:`kmc.samplers`, and the statistics that its
tests share.

Every statistical test has a fixed seed and a false-alarm probability of ``LEVEL`` for all its
comparisons together (Bonferroni). There are fewer than two hundred, so that the whole suite would
raise a false alarm with one seed in a thousand.
"""

import numpy as np
from scipy import stats

from kmc.surrogate import jit_state as at_a_point
from kmc.surrogate.coordinates.walls import NO_WALL
from kmc.surrogate.jit_state import SurrogateJitState
from kmc.surrogate.known import Splines, no_hierarchy

LEVEL = 5e-6


def bound(size: int) -> float:
    """Limit in standard errors for ``size`` comparisons, all together with probability LEVEL: 4.6
    for one.
    """
    return float(stats.norm.isf(0.5 * LEVEL / size))


def assert_standard(z) -> None:
    """All of z could be standard normal."""
    z = np.atleast_1d(z)
    assert np.all(np.abs(z) < bound(z.size)), (
        f"{np.round(z, 1)} standard errors, allowed: {bound(z.size):.1f}"
    )


def paired(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Mean of after - before over independent pairs (the rows), in standard errors, shape
    (functions,).
    """
    difference = np.asarray(after, float) - before
    spread = difference.std(axis=0, ddof=1)
    return (
        np.where(spread > 0, difference.mean(axis=0) / np.where(spread > 0, spread, 1.0), 0.0)
        * len(difference) ** 0.5
    )


def assert_uniform(u: np.ndarray) -> None:
    """Independent ``u`` could be uniform on [0, 1] (Kolmogorov–Smirnov)."""
    assert stats.kstest(u, "uniform").pvalue > LEVEL


# Surrogates


def jit_state(
    dim: int,
    height: float = 1.0,
    sections: int = 6,
    known: int = 2,
    scales: int = 0,
    nodes: int = 0,
    seed: int = 0,
    **options,
) -> SurrogateJitState:
    """A surrogate with a quadratic, and bumps of either sign; ``sections=0``: the quadratic alone.

    ``known`` is the number of points with a gradient, ``scales`` that of the scales, and
    ``nodes`` that of each spline.
    """
    rng = np.random.default_rng(seed)
    root = np.eye(dim) + 0.3 * rng.standard_normal((dim, dim))
    metric = np.eye(dim) + 0.2 * rng.standard_normal((dim, dim))
    g = known if sections else 0
    signs = rng.choice([-1.0, 1.0], sections)
    centers = metric @ rng.uniform(-1.5, 1.5, (dim, sections))
    coefficients = height * signs * rng.uniform(0.5, 1.5, sections)
    ends = rng.uniform(-1.5, 1.5, (g, dim)) @ metric.T
    slopes = height * rng.uniform(-0.6, 0.6, (g, dim))
    p = dim + scales * (1 + dim)
    fields = {
        "constant": 1.7,
        "slope": np.zeros(dim),
        "location": 0.3 * rng.standard_normal(dim),
        "precision": root @ root.T,
        "metric": metric,
        "rates": 0.4 * rng.standard_normal((scales, dim)),
        "centers": np.ascontiguousarray(centers),
        "bent_centers": rng.uniform(-1.5, 1.5, (p, sections))
        if scales
        else np.ascontiguousarray(centers),
        "coefficients": coefficients,
        "ends": np.ascontiguousarray(ends),
        "slopes": slopes,
        "bent_ends": rng.uniform(-1.5, 1.5, (g, p)) if scales else np.ascontiguousarray(ends),
        "bent_slopes": rng.uniform(-0.6, 0.6, (g, p)) if scales else slopes.copy(),
        "rate": 5.0 / 1.3**2,
        "both": 0.01,
        "spread": 3.0 * float(np.mean(np.sum(metric**2, axis=0))),
        "ceiling": 4.0,
        "reach": 2.0,
        "fall": 0.25,
        "origin": rng.standard_normal(dim),
        "back": rng.standard_normal((dim, dim)),
        "known": Splines(
            np.cumsum(rng.uniform(0.2, 1.0, (dim, nodes)), axis=1),
            *rng.uniform(-1, 1, (2, dim, nodes)),
        ),
        "hierarchy": no_hierarchy(),
        "wall": NO_WALL,
    }
    return SurrogateJitState(**(fields | options))


def log_surrogate(state: SurrogateJitState, z: np.ndarray) -> np.ndarray:
    """log s at the rows of z: what a run must leave invariant, right or wrong (its own oracle is
    elsewhere).
    """
    return at_a_point.values(state, np.ascontiguousarray(z))


def slope_of_power(
    state: SurrogateJitState, power: float, z: np.ndarray, step: float = 1e-5
) -> np.ndarray:
    """∇ log s^power at z by central differences, shape (d,)."""
    offsets = step * np.eye(len(z))
    up, down = (power * log_surrogate(state, z + sign * offsets) for sign in (1, -1))
    return (up - down) / (2 * step)


def draw_line(state: SurrogateJitState, power: float, rng: np.random.Generator, n: int):
    """Draws (n, 1) from s^power in one dimension, and its distribution function, through a fine
    grid.
    """
    # to 1500 on either side, with steps of 1e-4 in the middle
    grid = np.sinh(np.linspace(-8.0, 8.0, 200_001))
    log_density = power * log_surrogate(state, grid[:, None])
    density = np.exp(log_density - log_density.max())
    cumulative = np.concatenate(
        [[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(grid))]
    )
    cumulative /= cumulative[-1]
    draws = np.interp(rng.random(n), cumulative, grid)
    return draws[:, None], lambda z: np.interp(z, grid, cumulative)


def draw_surrogate(
    state: SurrogateJitState, power: float, rng: np.random.Generator, n: int
) -> np.ndarray:
    """Draws (n, d) from s^power by rejection: log s is below its bound, ceiling - fall (|z|² -
    reach²).
    """
    spread = 1.0 / np.sqrt(2.0 * power * state.fall)
    kept = np.empty((0, state.location.size))
    while len(kept) < n:
        z = spread * rng.standard_normal((4 * n, state.location.size))
        bound = state.ceiling - state.fall * (np.sum(z**2, axis=1) - state.reach**2)
        ratio = np.exp(power * (log_surrogate(state, z) - bound))
        assert ratio.max() < 1.0 + 1e-9  # rounding
        kept = np.vstack([kept, z[rng.random(len(z)) < ratio]])
    return kept[:n]
