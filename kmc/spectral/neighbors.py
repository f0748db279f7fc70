"""Squared distances from points to the nearest neighbors or all of a sample, and graph weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from kmc.kernels import squared_distances

BLOCK = 1024
"""Rows per block of distances to all points."""


REACH = 3.0
"""Distance of a typical point's last neighbor, in bandwidths: weights beyond it are below .011."""


class Neighbors:
    """The Gaussian weights exp(-|x_i - x_j|² / (2 h_i h_j)) of a graph on a sample.

    Parameters
    ----------
    points : ndarray, shape (n, d)
        For the metric "precomputed" their distances, (n, n).
    count : int or None
        Each point is joined with its ``count`` nearest points, including itself, and with those
        that have it as a neighbor; None: with all.
    metric : str or callable
        "euclidean", "precomputed", or what :func:`scipy.spatial.distance.cdist` takes.

    Attributes
    ----------
    distances : ndarray, shape (n, count) or None
        Squared distances to the nearest points, ascending.
    """

    def __init__(self, points: np.ndarray, count: int | None, metric: Any = "euclidean"):
        self.points, self.count = points, None if count is None else min(count, len(points))
        self.metric = metric
        self.distances: np.ndarray | None = None
        self._tree = cKDTree(points) if _is_euclidean(metric) else None
        if self.count is not None:
            self.distances, self._indices = self.nearest(points)

    def nearest(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the squared distances (m, count) from the rows of x to the nearest sample points.

        Also return the numbers of these points.
        """
        if self.count is None:
            s = self._squares(x)
            return s, np.broadcast_to(np.arange(len(self.points)), s.shape)
        distances, indices = self._query(x, self.count)
        return distances**2, indices

    def local(self) -> np.ndarray:
        """Distances (n, k) to nearest points, ascending from zero."""
        if self.distances is not None:
            return np.sqrt(self.distances)
        return self._query(self.points, automatic_count(len(self.points)))[0]

    def _query(self, x: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances (m, count), ascending, and numbers."""
        if self._tree is not None:
            return self._tree.query(x, np.arange(1, count + 1))
        parts = []
        for start in range(0, len(x), BLOCK):
            s = self._squares(x[start : start + BLOCK])
            indices = np.broadcast_to(np.arange(s.shape[1]), s.shape)
            if count < s.shape[1]:
                indices = np.argpartition(s, count - 1, axis=1)[:, :count]
            near = np.take_along_axis(s, indices, axis=1)
            order = np.argsort(near, axis=1, kind="stable")
            parts.append(
                (np.sqrt(np.take_along_axis(near, order, 1)), np.take_along_axis(indices, order, 1))
            )
        return np.concatenate([r for r, _ in parts]), np.concatenate([i for _, i in parts])

    def _squares(self, x: np.ndarray) -> np.ndarray:
        """Squared distances (m, n) from the rows of x to all points."""
        if _is_euclidean(self.metric):
            return squared_distances(x, self.points)
        if _is_precomputed(self.metric):
            return np.asarray(x) ** 2
        try:
            return cdist(x, self.points, self.metric) ** 2
        except ValueError as error:
            raise ValueError(
                f"metric={self.metric!r}: {error}; expected 'euclidean', 'precomputed', or a name "
                "or function that scipy.spatial.distance.cdist takes"
            ) from error

    def rows(self, h: np.ndarray) -> Iterator[tuple[slice, Any]]:
        """Yield blocks (b, n) of the symmetric weights for bandwidths (n,), each with its rows.

        They are sparse, or dense if all points are joined.
        """
        if self.distances is not None:
            yield slice(0, len(self.points)), self.matrix(h)
            return
        for start in range(0, len(self.points), BLOCK):
            rows = slice(start, start + BLOCK)
            yield rows, gaussian(self._squares(self.points[rows]), h[rows, None] * h)

    def matrix(self, h: np.ndarray, loop: float = 1.0) -> Any:
        """Return the symmetric weights (n, n) for bandwidths (n,).

        They are sparse, or dense if all points are joined. ``loop`` is the weight of a point with
        itself.
        """
        if self.distances is None:
            weights = gaussian(self._squares(self.points), h[:, None] * h)
            np.fill_diagonal(weights, loop)
            return weights
        n, k = self.distances.shape
        values = gaussian(self.distances, h[:, None] * h[self._indices])
        directed = sparse.csr_array(
            (values.ravel(), self._indices.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n)
        )
        weights = directed.maximum(directed.T).tocsr()
        weights.setdiag(loop)
        return weights


def check_distances(x: np.ndarray) -> None:
    """Raise ValueError unless x (n, n) are distances between n points."""
    square = x.shape[0] == x.shape[1]
    if (
        not square
        or np.any(x < 0)
        or np.any(np.diag(x) != 0)
        or not np.allclose(x, x.T, rtol=1e-9, atol=0.0)
    ):
        raise ValueError(
            f"X has shape {x.shape}: for metric='precomputed' expected distances (n, n), "
            "symmetric, not negative, and zero on the diagonal"
        )


def _is_euclidean(metric: Any) -> bool:
    return isinstance(metric, str) and metric == "euclidean"


def _is_precomputed(metric: Any) -> bool:
    return isinstance(metric, str) and metric == "precomputed"


def automatic_count(n: int) -> int:
    """Return the number of neighbors for n points.

    More points allow narrower bandwidths, but not fewer neighbors.
    """
    return min(n, max(n // 12, 64), 256)


def gaussian(s: np.ndarray, square: Any) -> np.ndarray:
    """exp(-s / (2 h²)) at squared distances s, for squared bandwidths."""
    return np.exp(s / (-2.0 * square))


def dimension(r: np.ndarray) -> int:
    """Estimate the dimension of data by maximum likelihood, rounded.

    The distances (n, k) to neighbors are ascending.

    Levina and Bickel (2005), "Maximum likelihood estimation of intrinsic dimension".
    """
    r = r[r[:, -1] > 0]
    logs = np.log(r[:, -1:] / np.maximum(r[:, 1:-1], 1e-3 * r[:, -1:]))
    return max(round(logs.size / logs.sum()), 1) if logs.sum() > 0 else 1


def local_bandwidths(neighbors: Neighbors) -> np.ndarray:
    """Return bandwidths (n,) proportional to q^(-1/d) for a density q in d dimensions.

    All see about as many neighbors. The density is a kernel estimate whose own bandwidths are
    distances of neighbors.

    Raises
    ------
    ValueError
        Half of the neighbors of some point are at distance zero from it.
    """
    r = neighbors.local()
    middle = r[:, r.shape[1] // 2]
    if not np.all(middle > 0):
        raise ValueError(
            f"bandwidth='auto': {r.shape[1] // 2} neighbors of some point in X are at distance "
            "zero from it; drop repeated points, raise n_neighbors or give a bandwidth"
        )
    d = dimension(r)
    density = gaussian(r[:, 1:] ** 2, (0.5 * middle[:, None]) ** 2).sum(axis=1) / middle**d
    width = density ** exponent(d)
    return width * (np.quantile(r[:, -1] / width, 0.1) / REACH)


def exponent(d: int) -> float:
    """Return β of bandwidths proportional to q^β in d dimensions.

    They have as many neighbors everywhere, but are not as wide in tails.
    """
    return -1.0 / max(d, 2)
