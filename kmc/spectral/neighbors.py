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


REACH = 3.0
"""Distance of the last neighbor of a typical point, in bandwidths: beyond it the weights are below .011."""


class Neighbors:
    """The Gaussian weights exp(-|x_i - x_j|² / (2 h_i h_j)) of a graph on a sample.

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

    def local(self) -> np.ndarray:
        """Distances (n, k) to nearest points, ascending from zero."""
        if self.distances is not None:
            return np.sqrt(self.distances)
        return cKDTree(self.points).query(self.points, np.arange(1, automatic_count(len(self.points)) + 1))[0]

    def rows(self, h: np.ndarray) -> Iterator[tuple[slice, Any]]:
        """The symmetric weights for bandwidths (n,), in blocks of rows (b, n): sparse, or dense if all are joined."""
        if self.distances is not None:
            yield slice(0, len(self.points)), self.matrix(h)
            return
        for start in range(0, len(self.points), BLOCK):
            rows = slice(start, start + BLOCK)
            yield rows, gaussian(squared_distances(self.points[rows], self.points), h[rows, None] * h)

    def matrix(self, h: np.ndarray) -> Any:
        """The symmetric weights (n, n) for bandwidths (n,): sparse, or dense if all points are joined."""
        if self.distances is None:
            return gaussian(squared_distances(self.points, self.points), h[:, None] * h)
        n, k = self.distances.shape
        values = gaussian(self.distances, h[:, None] * h[self._indices])
        directed = sparse.csr_array((values.ravel(), self._indices.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
        return directed.maximum(directed.T).tocsr()


def automatic_count(n: int) -> int:
    """Number of neighbors for n points: more points allow narrower bandwidths, but not at fewer neighbors."""
    return min(n, max(n // 12, 64), 256)


def gaussian(s: np.ndarray, square: Any) -> np.ndarray:
    """exp(-s / (2 h²)) at squared distances s, for squared bandwidths."""
    return np.exp(s / (-2.0 * square))


def dimension(r: np.ndarray) -> int:
    """Dimension of data with distances (n, k) to neighbors, ascending: by maximum likelihood, rounded.

    Levina and Bickel (2005), "Maximum likelihood estimation of intrinsic dimension".
    """
    r = r[r[:, -1] > 0]
    logs = np.log(r[:, -1:] / np.maximum(r[:, 1:-1], 1e-3 * r[:, -1:]))
    return max(round(logs.size / logs.sum()), 1) if logs.sum() > 0 else 1


def local_bandwidths(neighbors: Neighbors) -> np.ndarray:
    """Bandwidths (n,) proportional to q^(-1/d) for a density q in d dimensions: all see about as many neighbors.

    The density is a kernel estimate whose own bandwidths are distances of neighbors.

    Raises
    ------
    ValueError
        Half of the neighbors of some point are at distance zero from it.
    """
    r = neighbors.local()
    middle = r[:, r.shape[1] // 2]
    if not np.all(middle > 0):
        raise ValueError(
            f"bandwidth='auto': {r.shape[1] // 2} neighbors of some point in X are at distance zero from it; drop "
            "repeated points, raise n_neighbors or give a bandwidth"
        )
    d = dimension(r)
    density = gaussian(r**2, (0.5 * middle[:, None]) ** 2).sum(axis=1) / middle**d
    width = density ** exponent(d)
    return width * (np.quantile(r[:, -1] / width, 0.1) / REACH)


def exponent(d: int) -> float:
    """β of bandwidths proportional to q^β in d dimensions: as many neighbors everywhere, but not as wide in tails."""
    return -1.0 / max(d, 2)
