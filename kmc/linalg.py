"""The small dense problems that every fit ends in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg


def cholesky_whitening(gram: np.ndarray, jitter: float) -> np.ndarray:
    """W, upper triangular, with Wᵀ (G + jitter I) W = I; the jitter grows tenfold until the factorisation succeeds."""
    eye = np.eye(len(gram))
    while True:
        try:
            lower = linalg.cholesky(gram + jitter * eye, lower=True, check_finite=False)
        except linalg.LinAlgError:
            jitter *= 10.0
            if not jitter < np.trace(gram):
                raise
            continue
        return linalg.solve_triangular(lower, eye, lower=True, check_finite=False).T


class RidgePath(NamedTuple):
    """Solutions of (M + λ I) β = b for every λ at the price of one eigendecomposition M = V diag(s) Vᵀ."""

    eigenvalues: np.ndarray  # (p,)
    vectors: np.ndarray  # (p, p), columns
    target: np.ndarray  # Vᵀ b, (p,)

    def coefficients(self, regularization: float) -> np.ndarray:
        """β at one λ, shape (p,)."""
        return self.vectors @ (self.target / (self.eigenvalues + regularization))

    def leave_one_out(self, design: np.ndarray, y: np.ndarray, weights: np.ndarray, regularizations: np.ndarray):
        """Residuals of each y from the fit without it, shape (n, len(regularizations)).

        ``design`` (n, p) and ``y`` are centred by their weighted means, ``weights`` enter M as Σ w φφᵀ; whatever else M
        holds (a score-matching term, say) stays. Removing one square from a quadratic objective divides its residual by
        1 - leverage; the unpenalised constant adds w_b / Σ w to the leverage. Where rounding has eaten 1 - leverage the
        fit says nothing about the point, and its residual is y itself.
        """
        rotated = design @ self.vectors
        inverse = 1.0 / (self.eigenvalues[:, None] + regularizations)
        fitted = rotated @ (self.target[:, None] * inverse)
        leverage = weights[:, None] * (1.0 / weights.sum() + (rotated**2) @ inverse)
        slack = 1.0 - leverage
        known = slack > 1e-6
        return np.where(known, (y[:, None] - fitted) / np.where(known, slack, 1.0), y[:, None])


def ridge_path(matrix: np.ndarray, target: np.ndarray) -> RidgePath:
    """Decompose a symmetric non-negative matrix (p, p) once for every regularisation."""
    eigenvalues, vectors = linalg.eigh(matrix, check_finite=False, driver="evd")
    return RidgePath(np.maximum(eigenvalues, 0.0), vectors, vectors.T @ target)


def symmetric_power(matrix: np.ndarray, power: float, floor: float = 0.0) -> np.ndarray:
    """A symmetric matrix to a power, its eigenvalues raised to at least ``floor`` first."""
    eigenvalues, vectors = linalg.eigh(matrix, check_finite=False)
    return (vectors * np.maximum(eigenvalues, floor) ** power) @ vectors.T
