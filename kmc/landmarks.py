"""Choice of landmark points out of a sample."""

from __future__ import annotations

import numba
import numpy as np


def spread(points: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Indices of ``count`` points: half of them uniform, half farthest-point, so that the rim is covered too.

    Parameters
    ----------
    points : ndarray, shape (n, d)
    count : int
        All points are returned when n <= count.
    rng : Generator

    Returns
    -------
    ndarray of int, shape (min(n, count),)
    """
    if len(points) <= count:
        return np.arange(len(points))
    uniform = rng.permutation(len(points))[: (count + 1) // 2]
    return _farthest(np.ascontiguousarray(points), uniform, count)


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
