"""Probes: true evaluations just beyond the edge of the data, from which the surrogate learns what is there.

A surrogate that is accurate at the data can be wrong by a hundred nats a step further out, and no statistic of
the chain shows it. Probes never move a chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from kmc.surrogates import Surrogate
from kmc.surrogates.scale_group import ScaleGroup

# Set by hand.
_CANDIDATES = 20  # shallow points, the most novel of which is used
_NEIGHBORS = 12  # nearest points, including itself; one of them gives the direction
_STEPS = 0.3, 1.2  # times the difference from that neighbor
_CANDIDATES_NEAR = 50  # shallow points; the one furthest above the surrogate is used
_STEPS_NEAR = -0.5, 0.5  # times the difference from a neighbor
_NECK_FROM, _NECK_TO = 0.95, 5.0  # quantile of the smallness of scales, and sds or e-folds beyond it (tried: necks)


class Evaluated(NamedTuple):
    """Evaluated points from which probes start."""

    z: np.ndarray  # (n, d): evaluated points in whitened coordinates
    metric: np.ndarray  # (d, d) of the surrogate's kernel, in which neighbors are determined
    shallow: np.ndarray  # (s,): indices of points in the bulk


def probe_points(known: Evaluated, count: int, *, rng: np.random.Generator) -> np.ndarray:
    """Extrapolate from novel shallow points, away from one of their neighbors.

    Of 20 random shallow points the most novel, by the distance to the 11th neighbor, is used. The step is damped along
    the directions that are short in the metric: coordinates in which the target does not bend need no extrapolation,
    and small errors in several of them, which grow with each step, would soon make probes very deep.

    Returns
    -------
    ndarray, shape (count, d)
    """
    z, metric, shallow = known
    neighbors = min(_NEIGHBORS, len(z))
    u = z @ metric.T
    damping = metric.T @ metric
    damping /= np.linalg.norm(damping, 2)
    tree = cKDTree(u)
    out = np.empty((count, z.shape[1]))
    for row in range(count):
        candidates = rng.choice(shallow, min(_CANDIDATES, len(shallow)), replace=False)
        distances, indices = tree.query(u[candidates], k=neighbors)
        novel = int(np.argmax(distances[:, -1]))
        anchor = z[candidates[novel]]
        neighbor = z[indices[novel, rng.integers(1, neighbors)]]
        out[row] = anchor + rng.uniform(*_STEPS) * damping @ (anchor - neighbor)
    return out


def probes_near(known: Evaluated, excess: np.ndarray, count: int, *, rng: np.random.Generator) -> np.ndarray:
    """Points beside shallow points at which a noisy value was far above the surrogate, to check whether it was noise.

    Parameters
    ----------
    known : Evaluated
    excess : ndarray, shape (s,)
        Value minus the surrogate at the shallow points; of 50 random ones the point with the largest is used.
    count : int
    rng : Generator

    Returns
    -------
    ndarray, shape (count, d)
    """
    z, metric, shallow = known
    u = z @ metric.T
    tree = cKDTree(u)
    out = np.empty((count, z.shape[1]))
    for row in range(count):
        candidates = rng.choice(len(shallow), min(_CANDIDATES_NEAR, len(shallow)), replace=False)
        anchor = shallow[candidates[np.argmax(excess[candidates])]]
        neighbors = tree.query(u[anchor], k=min(_NEIGHBORS, len(z)))[1]
        neighbor = neighbors[rng.integers(1, len(neighbors))]
        out[row] = z[anchor] + rng.uniform(*_STEPS_NEAR) * (z[anchor] - z[neighbor])
    return out


def probes_in_necks(x: np.ndarray, groups: Sequence[ScaleGroup], count: int, *, rng: np.random.Generator) -> np.ndarray:
    """States x (n, d) whose scale is replaced by a smaller one, together with its group.

    The new scale is beyond its 5 % quantile, where few chains go before the surrogate is right: by up to five sds of
    the driver, and by a factor of up to exp(5) at least.

    Returns
    -------
    ndarray, shape (count, d)
    """
    out = np.empty((count, x.shape[1]))
    for row in range(count):
        group = groups[int(rng.integers(len(groups)))]
        start = x[int(rng.integers(len(x)))]
        toward = -np.sign(group.slope)
        driver = toward * x[:, group.driver]
        unit = max(driver.std(), 1.0 / abs(group.slope))
        aim = toward * (np.quantile(driver, _NECK_FROM) + _NECK_TO * unit * rng.random())
        out[row] = group.scaled(start, float(aim - start[group.driver]))[0]
    return out


# Roughness of a log-density: differences between close points that no smooth surrogate can follow.
#
# An ODE solver with a loose tolerance or a table with few digits gives values with bumps. Their sd bounds the
# acceptance,
# and a surrogate need not come closer to the values than that. It is estimated where the surrogate is not good, from
# pairs of close points, as the nugget of a variogram is (Cressie 1993, "Statistics for spatial data", section 2.4).


# Set on the rough targets of benchmarks/shapes.py, and on smooth ones (tried: roughness).
FIRST, NEXT = 300, 1.5  # evaluations before the first pairs, and times as many before others: some percent is spent
_PAIRS, _LEAST_PAIRS = 16, 8  # made, and finite
_MISFIT = 0.2, 2.0  # nats of leave-one-out error: a smaller one needs no explanation, a larger one is misfit
_DISTANCES = (0.2, 0.1, 0.05, 0.02)  # distances in whitened coordinates: the first at which ...
_ALONG = 0.5  # ... the surrogate changes by less, in nats, so that both points are on the same ridge
_ROUGH = 0.6  # smallest fraction of the error: a smooth misfit changes by less over such distances
_NORMAL_MEDIAN = 0.6745  # of the absolute value of a standard normal variable


class Pairs(NamedTuple):
    """Evaluated points, and a close one for each."""

    close: np.ndarray  # (k, d) not evaluated yet
    error: np.ndarray  # (k,) value minus surrogate at the evaluated points
    predicted: np.ndarray  # (k,) surrogate at the close ones


def close_pairs(surrogate: Surrogate, x: np.ndarray, values: np.ndarray, *, rng: np.random.Generator) -> Pairs:
    """Pairs from evaluated points x (n, d) of the bulk, with their values (n,)."""
    rows = rng.choice(len(x), min(_PAIRS, len(x)), replace=False)
    x, values = x[rows], values[rows]
    known, z = surrogate.log_density(x), surrogate.coordinates(x)
    direction = rng.standard_normal(z.shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    close = surrogate.back(z + _DISTANCES[-1] * direction)
    for step in _DISTANCES[-2::-1]:
        trial = surrogate.back(z + step * direction)
        near = np.abs(surrogate.log_density(trial) - known) < _ALONG
        close[near] = trial[near]
    return Pairs(close, values - known, surrogate.log_density(close))


def is_unexplained(surrogate: Surrogate) -> bool:
    """Whether the surrogate's error is of a size that roughness may explain."""
    least, most = _MISFIT
    return least < surrogate.loo_sd < most


def roughness_sd(pairs: Pairs, values: np.ndarray, loo_sd: float) -> float:
    """The sd of the roughness from values (k,) at the close points; 0 if the misfit may be smooth.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.mcmc.probes import Pairs, roughness_sd
    >>> error = np.tile([0.5, -0.5], 8)
    >>> pairs = Pairs(np.zeros((16, 1)), error, np.zeros(16))
    >>> roughness_sd(pairs, error, 0.5), round(roughness_sd(pairs, -error, 1.5), 2)
    (0.0, 1.05)
    """
    differences = values - pairs.predicted - pairs.error
    differences = differences[np.isfinite(differences)]
    if len(differences) < _LEAST_PAIRS:
        return 0.0
    sd = float(np.median(np.abs(differences)) / (_NORMAL_MEDIAN * np.sqrt(2.0)))
    return min(sd, loo_sd) if sd > _ROUGH * loo_sd else 0.0
