"""Slow, literal versions of the computations of :mod:`kmc.mcmc`, and the statistics that its tests share.

Every statistical test has a fixed seed and a false-alarm probability of ``LEVEL`` for all its comparisons together
(Bonferroni). There are fewer than two hundred, so that the whole suite would raise a false alarm with one seed in a
thousand.
"""

import numpy as np
from scipy import stats

from kmc.mcmc.tempering import Tempering
from kmc.surrogates import jit_state as at_a_point
from kmc.surrogates.jit_state import SurrogateJitState

LEVEL = 5e-6


def bound(size: int) -> float:
    """Limit in standard errors for ``size`` comparisons, all together with probability LEVEL: 4.6 for one."""
    return float(stats.norm.isf(0.5 * LEVEL / size))


def assert_standard(z) -> None:
    """All of z could be standard normal."""
    z = np.atleast_1d(z)
    assert np.all(np.abs(z) < bound(z.size)), f"{np.round(z, 1)} standard errors, allowed: {bound(z.size):.1f}"


def paired(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Mean of after - before over independent pairs (the rows), in standard errors, shape (functions,)."""
    difference = np.asarray(after, float) - before
    spread = difference.std(axis=0, ddof=1)
    return (
        np.where(spread > 0, difference.mean(axis=0) / np.where(spread > 0, spread, 1.0), 0.0) * len(difference) ** 0.5
    )


def assert_uniform(u: np.ndarray) -> None:
    """Independent ``u`` could be uniform on [0, 1] (Kolmogorov–Smirnov)."""
    assert stats.kstest(u, "uniform").pvalue > LEVEL


# Surrogates


def jit_state(dim: int, height: float = 1.0, sections: int = 6, seed: int = 0, **options) -> SurrogateJitState:
    """A surrogate with a trend, and bumps of either sign; ``sections=0``: the trend alone."""
    rng = np.random.default_rng(seed)
    root = np.eye(dim) + 0.3 * rng.standard_normal((dim, dim))
    metric = np.eye(dim) + 0.2 * rng.standard_normal((dim, dim))
    m = max(sections, 1)
    fields = {
        "constant": 1.7,
        "location": 0.3 * rng.standard_normal(dim),
        "precision": root @ root.T,
        "dof": 0.0,
        "cap": np.inf,
        "tail": 0.5 * dim + 2.0,
        "metric": metric,
        "shift": 0.1 * np.arange(dim),
        "centers": np.ascontiguousarray(metric @ rng.uniform(-1.5, 1.5, (dim, m))),
        "coefficients": height * rng.choice([-1.0, 1.0], m) * rng.uniform(0.5, 1.5, m) * (sections > 0),
        "rate": 0.5 / 0.8**2,
    }
    return SurrogateJitState(**(fields | options))


def log_surrogate(state: SurrogateJitState, z: np.ndarray) -> np.ndarray:
    """log s at the rows of z: what a run must leave invariant, right or wrong (its own oracle is elsewhere)."""
    return at_a_point.values(state, np.ascontiguousarray(z))


def tempered_value(tempering: Tempering, value: np.ndarray) -> np.ndarray:
    """The map of Tempering's docstring."""
    depth = tempering.top - value
    inside = np.minimum(depth, tempering.edge)
    return -tempering.beta * inside - (depth - inside)


def tempered_gradient(state: SurrogateJitState, tempering: Tempering, z: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """∇ t(log s)(z) by central differences, shape (d,)."""
    offsets = step * np.eye(len(z))
    up, down = (tempered_value(tempering, log_surrogate(state, z + sign * offsets)) for sign in (1, -1))
    return (up - down) / (2 * step)


def draw_line(state: SurrogateJitState, tempering: Tempering, rng: np.random.Generator, n: int):
    """Draws (n, 1) from exp(t(log s)) in one dimension, and its distribution function, through a fine grid."""
    grid = np.sinh(np.linspace(-8.0, 8.0, 200_001))  # to 1500 on either side, with steps of 1e-4 in the middle
    log_density = tempered_value(tempering, log_surrogate(state, grid[:, None]))
    density = np.exp(log_density - log_density.max())
    cumulative = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(grid))])
    cumulative /= cumulative[-1]
    draws = np.interp(rng.random(n), cumulative, grid)
    return draws[:, None], lambda z: np.interp(z, grid, cumulative)


def draw_surrogate(state: SurrogateJitState, tempering: Tempering, rng: np.random.Generator, n: int) -> np.ndarray:
    """Draws (n, d) from exp(t(log s)) for a Gaussian trend without a cap, by rejection.

    t(v) <= -β (top - v), and the bumps add at most the sum of the positive coefficients: β times the trend plus a
    constant is an envelope.
    """
    assert state.dof == 0 and np.isinf(state.cap) and np.isinf(state.ceiling)
    most = np.maximum(state.coefficients, 0.0).sum()
    root = np.linalg.cholesky(np.linalg.inv(tempering.beta * state.precision))
    kept = np.empty((0, len(root)))
    while len(kept) < n:
        z = state.location + rng.standard_normal((4 * n, len(root))) @ root.T
        r = z - state.location
        trend = state.constant - 0.5 * np.sum((r @ state.precision) * r, axis=1)
        envelope = -tempering.beta * (tempering.top - trend - most)
        ratio = np.exp(tempered_value(tempering, log_surrogate(state, z)) - envelope)
        kept = np.vstack([kept, z[rng.random(len(z)) < ratio]])
    return kept[:n]
