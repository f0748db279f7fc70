"""Points and centers in a metric: the parts of derivatives of radial kernels."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kmc.kernels import squared_distances
from kmc.kernels.metric import mapped


class RadialGeometry:
    """Differences between points x and centers y in a metric A, with M = AᵀA.

    Points are relative to the mean of the centers: an offset costs no digits.

    Parameters
    ----------
    metric : ndarray, shape (k, d), or None for the identity
    centers : ndarray, shape (m, d)

    Attributes
    ----------
    origin : ndarray, shape (d,)
    centers : ndarray, shape (m, d)
        Relative to the origin.
    trace : float
        tr M.
    """

    def __init__(self, metric: np.ndarray | None, centers: np.ndarray):
        self.origin = centers.mean(axis=0)
        self.centers = centers - self.origin
        self.trace = float(centers.shape[1] if metric is None else np.sum(metric**2))
        self._metric = metric

    @cached_property
    def principal(self) -> tuple[np.ndarray | None, np.ndarray]:
        """A' (k', d) with orthogonal rows and A'ᵀA' = M, None for the identity, and their squared lengths (k',)."""
        if self._metric is None:
            return None, np.ones(self.centers.shape[1])
        _, lengths, rows = np.linalg.svd(self._metric, full_matrices=False)
        kept = lengths > lengths[0] * np.finfo(float).eps
        return lengths[kept, None] * rows[kept], lengths[kept] ** 2

    @cached_property
    def isotropic(self) -> bool:
        """Whether the metric has the same unit of length in every direction of its range."""
        spread = self.principal[1]
        return bool(np.ptp(spread) <= 1e-14 * spread[0])

    @cached_property
    def matrix(self) -> np.ndarray:
        """M, (d, d)."""
        return np.eye(len(self.origin)) if self._metric is None else self._metric.T @ self._metric

    def centered(self, x: np.ndarray) -> np.ndarray:
        """Return x relative to the origin; all methods below take such points."""
        return x - self.origin

    def distances(self, x: np.ndarray) -> np.ndarray:
        """|A(x - y)|², (n, m)."""
        return self._distances(x, self._metric)

    def pulled_distances(self, x: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """|M(x - y)|², (n, m), given ``distances(x)``."""
        return distances if self._metric is None else self._distances(x, self.matrix)

    def twice_pulled_distances(self, x: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """|AM(x - y)|², (n, m), given ``distances(x)``."""
        return distances if self._metric is None else self._distances(x, self._metric @ self.matrix)

    def pull(self, r: np.ndarray) -> np.ndarray:
        """M r for the rows of r."""
        return r if self._metric is None else r @ self.matrix

    def inner(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """<x_b - y_a, g_b>, (n, m), for vectors g (n, d) at the points."""
        return np.einsum("nd,nd->n", x, g)[:, None] - g @ self.centers.T

    def inner_at_centers(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """<x_b - y_a, g_a>, (n, m), for vectors g (m, d) at the centers."""
        return x @ g.T - np.einsum("md,md->m", self.centers, g)

    def sum_over_points(self, coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Σ_b coefficients_ba (x_b - y_a), (m, d)."""
        return coefficients.T @ x - coefficients.sum(axis=0)[:, None] * self.centers

    def sum_over_centers(self, coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Σ_a coefficients_ba (x_b - y_a), (n, d)."""
        return coefficients.sum(axis=1)[:, None] * x - coefficients @ self.centers

    def _distances(self, x, matrix):
        if matrix is None:
            return squared_distances(x, self.centers)
        return squared_distances(mapped(x, matrix), mapped(self.centers, matrix))
