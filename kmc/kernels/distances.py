"""Squared distances between two sets of points, and the median distance, the unit of bandwidths."""

from __future__ import annotations

import numpy as np

from kmc.njit import njit

_NEAR = 1e-3  # of |x|² + |y|²: below it the fast formula loses three digits


def squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """|x_i - y_j|^2 for rows of x (n, d) and y (m, d), shape (n, m); never negative, and 0 for equal points.

    Both are centered first, which preserves the digits of data far from the origin. A matrix product gives
    |x|² + |y|² - 2 x·y. The few pairs that are close relative to their distance from the center, for which that formula
    cancels, are recomputed by differences: kernels with a square root need the digits there. The remaining relative
    error is 1e-12, or the rounding of the centered coordinates if that is larger.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if not (len(x) and len(y)):
        return np.zeros((len(x), len(y)))
    center = y.mean(axis=0)
    x, y = np.subtract(x, center, order="C"), np.subtract(y, center, order="C")
    s = x @ (-2.0 * y.T)
    _complete(s, x, y, np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y))
    return s


def median_distance(points: np.ndarray, most: int = 1000) -> float:
    """Median distance between distinct points.

    Parameters
    ----------
    points : ndarray, shape (n, d)
        At least two distinct points.
    most : int
        If there are more points, this number of rows, evenly spaced, is used.

    Raises
    ------
    ValueError
        All points are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import median_distance
    >>> median_distance(np.array([[0.0], [1.0], [4.0]]))
    3.0
    """
    if len(points) > most:
        points = points[np.linspace(0, len(points) - 1, most).astype(int)]
    s = squared_distances(points, points)[np.triu_indices(len(points), 1)]
    if not np.any(s > 0):
        raise ValueError(
            f"all {len(points)} points are equal, or too close for floating-point numbers: no distance "
            "between distinct points exists, rescale the data"
        )
    median = np.median(s)
    return float(np.sqrt(median if median > 0 else np.median(s[s > 0])))


@njit()
def _complete(s, x, y, x_norms, y_norms):
    """Add the squared norms to s = -2 x·y, and recompute close pairs by differences."""
    n, m = s.shape
    for i in range(n):
        row = s[i]
        near = 0
        for j in range(m):
            norms = x_norms[i] + y_norms[j]
            row[j] += norms
            near += row[j] < _NEAR * norms
        if near == 0:
            continue
        for j in range(m):
            if row[j] < _NEAR * (x_norms[i] + y_norms[j]):
                row[j] = _by_differences(x[i], y[j])


@njit()
def _by_differences(x, y):
    total = 0.0
    for k in range(x.size):
        total += (x[k] - y[k]) ** 2
    return total
