"""The median distance, used as the unit of bandwidths."""

from __future__ import annotations

import numpy as np

from kmc.kernels.distances import squared_distances


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
