"""Choice of landmark points out of a sample."""

from __future__ import annotations

import numba
import numpy as np


def spread(
    points: np.ndarray, count: int, rng: np.random.Generator, weights: np.ndarray | None = None, rim: float = 0.25
) -> np.ndarray:
    """Indices of ``count`` points: a random sample, and a share of farthest points so that the rim is covered too.

    Parameters
    ----------
    points : ndarray, shape (n, d)
    count : int
        All points are returned when n <= count.
    rng : Generator
    weights : ndarray, shape (n,), optional
        The random part is drawn in proportion to them; positive and uniform by default.
    rim : float
        Share of the farthest-point part, in [0, 1].

    Returns
    -------
    ndarray of int, shape (min(n, count),)
    """
    if len(points) <= count:
        return np.arange(len(points))
    n_random = max(round((1 - rim) * count), 1)
    p = None if weights is None else weights / weights.sum()
    sample = rng.choice(len(points), n_random, replace=False, p=p)
    return _farthest(np.ascontiguousarray(points), sample, count)


@numba.njit(cache=True)
def _farthest(points, chosen, count):
    n, d = points.shape
    nearest = np.full(n, np.inf)
    out = np.empty(count, np.int64)
    k = len(chosen)
    out[:k] = chosen
    for step in range(count):
        if step >= k:
            out[step] = np.argmax(nearest)
        centre = points[out[step]]
        for i in range(n):
            s = 0.0
            for j in range(d):
                s += (points[i, j] - centre[j]) ** 2
            nearest[i] = min(nearest[i], s)
    return out
