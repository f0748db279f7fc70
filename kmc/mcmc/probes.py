"""Probes: true evaluations just past the edge of the data, which teach the surrogate what lies there.

A surrogate that is right where there are points can be wrong by a hundred nats a step further out, and no statistic of
the chain shows it. Probes never move a chain.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree


def probe_points(
    z: np.ndarray, metric: np.ndarray, shallow: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Extrapolate from novel shallow points, away from one of their neighbors.

    Neighbors and novelty are judged in the surrogate's metric. The step is damped along the directions that are short
    in it: what does not bend the target need not be extrapolated, and a few coordinates that are off by a little more
    with each step would soon bury a probe.

    Parameters
    ----------
    z : ndarray, shape (n, d)
        Evaluated points in whitened coordinates.
    metric : ndarray, shape (d, d)
        Of the surrogate's kernel.
    shallow : ndarray of int
        Indices of points in the bulk; of 20 random ones the most novel (distance to the 11th neighbor) is taken.
    count : int

    Returns
    -------
    ndarray, shape (count, d)
    """
    neighbors = min(12, len(z))
    u = z @ metric.T
    damping = metric.T @ metric
    damping /= np.linalg.norm(damping, 2)
    tree = cKDTree(u)
    out = np.empty((count, z.shape[1]))
    for row in range(count):
        candidates = rng.choice(shallow, min(20, len(shallow)), replace=False)
        distances, indices = tree.query(u[candidates], k=neighbors)
        novel = int(np.argmax(distances[:, -1]))
        anchor = z[candidates[novel]]
        neighbor = z[indices[novel, rng.integers(1, neighbors)]]
        out[row] = anchor + rng.uniform(0.3, 1.2) * damping @ (anchor - neighbor)
    return out


def probes_near(
    z: np.ndarray, metric: np.ndarray, shallow: np.ndarray, excess: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Points beside shallow points at which a noisy value was far above the surrogate: was it noise, or is there more?

    Parameters
    ----------
    z : ndarray, shape (n, d)
        Evaluated points in whitened coordinates.
    metric : ndarray, shape (d, d)
        Of the surrogate's kernel: neighbors are near in it.
    shallow : ndarray of int, shape (s,)
        Indices of points in the bulk.
    excess : ndarray, shape (s,)
        Value above the surrogate there; of 50 random ones the point with the largest is taken.
    count : int

    Returns
    -------
    ndarray, shape (count, d)
    """
    u = z @ metric.T
    tree = cKDTree(u)
    out = np.empty((count, z.shape[1]))
    for row in range(count):
        candidates = rng.choice(len(shallow), min(50, len(shallow)), replace=False)
        anchor = shallow[candidates[np.argmax(excess[candidates])]]
        neighbors = tree.query(u[anchor], k=min(12, len(z)))[1]
        neighbor = neighbors[rng.integers(1, len(neighbors))]
        out[row] = z[anchor] + rng.uniform(-0.5, 0.5) * (z[anchor] - z[neighbor])
    return out
