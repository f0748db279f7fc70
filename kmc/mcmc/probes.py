"""Probes: true evaluations just beyond the edge of the data, from which the surrogate learns what is there.

A surrogate that is accurate at the data can be wrong by a hundred nats a step further out, and no statistic of
the chain shows it. Probes never move a chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

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
