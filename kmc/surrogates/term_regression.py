"""Least squares that grow by columns, for a search for terms: training rows, and predictions of held-out ones."""

from __future__ import annotations

import numpy as np
from scipy import linalg

_TRIMMED = 0.01  # of them, with the largest residuals: an exponential extrapolates badly to a few far points
_RIDGE = 1e-4  # of a block of terms, in units of their squares


class Regression:
    """Least squares by orthogonal columns, on training rows, with predictions of the held-out ones (the first)."""

    def __init__(self, y: np.ndarray, weights: np.ndarray, n_held: int):
        self.n_held = n_held
        self.root = np.sqrt(weights)
        self.residual = self.root * y  # (n,) of held-out and training rows
        self.columns = np.empty((len(y), 0))  # orthonormal on the training rows, carried along on the others
        self._held_weights = weights[:n_held]

    @property
    def held_out_error(self) -> float:
        """Weighted root mean square, without the largest residuals."""
        return self._error(self.residual[: self.n_held])

    @property
    def room(self) -> int:
        """How many more columns the training rows determine."""
        return len(self.residual) - self.n_held - self.columns.shape[1]

    def trial(self, terms: np.ndarray) -> float:
        """The held-out error with these terms (n, k), too: by a ridge regression, as there are many."""
        columns, _, solution = self._ridge(terms)
        return self._error(self.residual[: self.n_held] - columns[: self.n_held] @ solution)

    def solution(self, terms: np.ndarray) -> np.ndarray:
        """The coefficients (k,) of these terms (n, k) in that regression."""
        _, size, solution = self._ridge(terms)
        return solution / size

    def _ridge(self, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Projected columns of size one, their sizes before, and their coefficients."""
        at, columns = self.n_held, self.projected(terms)
        size = np.sqrt(np.sum(columns[at:] ** 2, axis=0)) + 1e-300
        columns /= size
        matrix = columns[at:].T @ columns[at:]
        matrix[np.diag_indices_from(matrix)] += _RIDGE
        along = columns[at:].T @ self.residual[at:]
        return columns, size, linalg.solve(matrix, along, assume_a="pos", check_finite=False)

    def _error(self, residual: np.ndarray) -> float:
        square = residual**2
        kept = np.argsort(square)[: int(np.ceil((1.0 - _TRIMMED) * len(square)))]
        return float(np.sqrt(square[kept].sum() / self._held_weights[kept].sum()))

    def projected(self, terms: np.ndarray) -> np.ndarray:
        """Weighted terms (n, k) minus what the columns explain."""
        columns = self.root[:, None] * terms
        for _ in range(2):
            columns = columns - self.columns @ (self.columns[self.n_held :].T @ columns[self.n_held :])
        return columns

    def add(self, terms: np.ndarray) -> None:
        """Fit these terms (n, k), too."""
        self.add_columns(self.projected(terms))

    def add_columns(self, columns: np.ndarray) -> None:
        """Fit projected columns (n, k), too."""
        q, r = np.linalg.qr(columns[self.n_held :])
        size = np.abs(np.diag(r))
        kept = size > 1e-7 * size.max(initial=0.0)
        if not np.all(kept):
            return self.add_columns(columns[:, kept])
        new = np.vstack([np.linalg.solve(r.T, columns[: self.n_held].T).T, q])
        self.columns = np.hstack([self.columns, new])
        self.residual = self.residual - new @ (q.T @ self.residual[self.n_held :])
