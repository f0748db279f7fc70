"""Squared distances between a sample and points, to the nearest neighbors or to all, and graph weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree

from kmc.kernels import squared_distances

BLOCK = 1024
"""Rows per block of distances to all points."""


class Neighbors:
    """The Gaussian weights exp(-|x_i - x_j|² / (2 bandwidth²)) of a graph on a sample.

    Parameters
    ----------
    points : ndarray, shape (n, d)
    count : int or None
        Each point is joined with its ``count`` nearest points, including itself, and with those that have it as a
        neighbor; None: with all.

    Attributes
    ----------
    distances : ndarray, shape (n, count) or None
        Squared distances to the nearest points, ascending.
    """

    def __init__(self, points: np.ndarray, count: int | None):
        self.points, self.count = points, None if count is None else min(count, len(points))
        self.distances: np.ndarray | None = None
        if self.count is not None:
            self._tree = cKDTree(points)
            self.distances, self._indices = self.nearest(points)

    def nearest(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances (m, count) from the rows of x to the nearest points of the sample, and their numbers."""
        if self.count is None:
            s = squared_distances(x, self.points)
            return s, np.broadcast_to(np.arange(len(self.points)), s.shape)
        distances, indices = self._tree.query(x, np.arange(1, self.count + 1))
        return distances**2, indices

    def rows(self, bandwidth: float) -> Iterator[tuple[slice, Any]]:
        """The symmetric weights in blocks of rows (b, n): sparse, or dense if all points are joined."""
        if self.distances is not None:
            yield slice(0, len(self.points)), self.matrix(bandwidth)
            return
        for start in range(0, len(self.points), BLOCK):
            rows = slice(start, start + BLOCK)
            yield rows, gaussian(squared_distances(self.points[rows], self.points), bandwidth)

    def matrix(self, bandwidth: float) -> Any:
        """The symmetric weights (n, n): sparse, or dense if all points are joined."""
        if self.distances is None:
            return gaussian(squared_distances(self.points, self.points), bandwidth)
        n, k = self.distances.shape
        values = gaussian(self.distances, bandwidth)
        directed = sparse.csr_array((values.ravel(), self._indices.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
        return directed.maximum(directed.T).tocsr()


def gaussian(s: np.ndarray, bandwidth: float) -> np.ndarray:
    """exp(-s / (2 bandwidth²)) at squared distances of any shape."""
    return np.exp(s / (-2.0 * bandwidth**2))


def automatic_bandwidth(neighbors: Neighbors, most: int = 2000) -> float:
    r"""The bandwidth at which the weights change most, as a power of it.

    The sum S of all weights grows as bandwidth^dimension where the graph sees the data as a manifold, and more slowly
    where it sees single points or a blob: this maximizes d log S / d log bandwidth (Coifman, Shkolnisky, Sigworth and
    Singer 2008; Berry, Giannakis and Harlim 2015).
    """
    s = neighbors.distances
    if s is None:
        points = neighbors.points[np.linspace(0, len(neighbors.points) - 1, most).astype(int)]
        s = squared_distances(points if len(neighbors.points) > most else neighbors.points, neighbors.points[:most])
    if not np.any(s > 0):
        raise ValueError("all neighbors in X are at distance zero: give a bandwidth, or raise n_neighbors")
    grid = np.exp(np.linspace(0.5 * np.log(s[s > 0].min()), 0.5 * np.log(s.max()), 200))
    slopes = []
    for bandwidth in grid:
        weights = gaussian(s, bandwidth)
        slopes.append(np.sum(weights * s) / (bandwidth**2 * np.sum(weights)))
    return float(grid[int(np.argmax(slopes))])
