"""Probes: true evaluations just past the edge of the data, which teach the surrogate what lies there.

A surrogate that is right where there are points can be wrong by a hundred nats a step further out, and no statistic of
the chain shows it. Probes never move a chain.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree


def probe_points(z: np.ndarray, shallow: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Extrapolate from novel shallow points, away from one of their neighbours.

    Parameters
    ----------
    z : ndarray, shape (n, d)
        Evaluated points in the coordinates of the surrogate's kernel.
    shallow : ndarray of int
        Indices of points in the bulk; of 20 random ones the most novel (distance to the 11th neighbour) is taken.
    count : int

    Returns
    -------
    ndarray, shape (count, d)
    """
    neighbours = min(12, len(z))
    tree = cKDTree(z)
    out = np.empty((count, z.shape[1]))
    for row in range(count):
        candidates = rng.choice(shallow, min(20, len(shallow)), replace=False)
        distances, indices = tree.query(z[candidates], k=neighbours)
        novel = int(np.argmax(distances[:, -1]))
        anchor = z[candidates[novel]]
        neighbour = z[indices[novel, rng.integers(1, neighbours)]]
        out[row] = anchor + rng.uniform(0.3, 1.2) * (anchor - neighbour)
    return out


def probes_near(
    z: np.ndarray, shallow: np.ndarray, excess: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Points beside shallow points at which a noisy value was far above the surrogate: was it luck, or is there more?

    Parameters
    ----------
    z : ndarray, shape (n, d)
        Evaluated points in the coordinates of the surrogate's kernel.
    shallow : ndarray of int, shape (s,)
        Indices of points in the bulk.
    excess : ndarray, shape (s,)
        Value above the surrogate there; of 50 random ones the point with the largest is taken.
    count : int

    Returns
    -------
    ndarray, shape (count, d)
    """
    tree = cKDTree(z)
    out = np.empty((count, z.shape[1]))
    for row in range(count):
        candidates = rng.choice(len(shallow), min(50, len(shallow)), replace=False)
        anchor = z[shallow[candidates[np.argmax(excess[candidates])]]]
        neighbours = tree.query(anchor, k=min(12, len(z)))[1]
        neighbour = z[neighbours[rng.integers(1, len(neighbours))]]
        out[row] = anchor + rng.uniform(-0.5, 0.5) * (anchor - neighbour)
    return out
