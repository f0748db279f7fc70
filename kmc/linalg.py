"""Small dense problems at the end of every fit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

FEW = 0.2
"""Share of all eigenvectors up to which computing these alone takes less time than computing all."""


def eigh(matrix: np.ndarray, driver: str = "evd") -> tuple[np.ndarray, np.ndarray]:
    """All eigenvalues of a symmetric matrix (p, p), ascending, and its eigenvectors.

    By "evd" other threads go on meanwhile: NumPy releases the interpreter's lock, SciPy does not.
    """
    if driver == "evd":
        values, vectors = np.linalg.eigh(matrix)
        return values, np.asfortranarray(vectors)  # as from SciPy: products are rounded by layout
    return linalg.eigh(matrix, check_finite=False, driver=driver)


def cholesky_whitening(gram: np.ndarray, jitter: float) -> np.ndarray:
    """W, upper triangular, with Wᵀ (G + jitter I) W = I; the jitter grows tenfold until the factorization succeeds."""
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


def eigen_whitening(gram: np.ndarray, tolerance: float = 2e-8, most: int | None = None) -> np.ndarray:
    """W = V s^-1/2 of a Gram matrix (p, p) = V diag(s) Vᵀ, shape (p, r), with Wᵀ G W = I.

    The r eigenvalues above ``tolerance`` times the largest are kept, in descending order: r is the numerical rank, or
    ``most`` if that is smaller. Below the square root of the machine epsilon they are rounding errors, and so are forms
    in those directions, which would give spurious modes in an eigenproblem.

    Raises
    ------
    scipy.linalg.LinAlgError
        No eigenvalue is left: the matrix is not finite, zero or negative.
    """
    if np.all(np.isfinite(gram)):
        p = len(gram)
        if most is None or most > FEW * p:
            s, v = eigh(gram)
        else:
            s, v = linalg.eigh(gram, check_finite=False, subset_by_index=[p - most, p - 1])
        kept = np.flatnonzero(s > tolerance * max(s[-1], 0.0))[::-1][:most]
        if len(kept):
            return v[:, kept] / np.sqrt(s[kept])
    raise linalg.LinAlgError(f"the Gram matrix of {len(gram)} functions is zero or not finite: no basis is left")


def generalized_eigh(a: np.ndarray, b: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ``count`` largest eigenvalues μ of A v = μ B v, and their vectors (p, count).

    The eigenvalues are descending, and VᵀBV = I. A is symmetric, and B is symmetric and positive definite;
    scipy.linalg.LinAlgError if B is not positive definite.
    """
    p = len(a)
    values, vectors = linalg.eigh(a, b, subset_by_index=[max(p - count, 0), p - 1], check_finite=False)
    return values[::-1], vectors[:, ::-1]


class RidgePath(NamedTuple):
    """Solutions of (M + λ I) β = b for every λ at the cost of one eigendecomposition M = V diag(s) Vᵀ."""

    eigenvalues: np.ndarray  # (p,)
    vectors: np.ndarray  # (p, p), columns
    target: np.ndarray  # Vᵀ b, (p,)

    def coefficients(self, regularization: float) -> np.ndarray:
        """β at one λ, shape (p,)."""
        return self.vectors @ (self.target / (self.eigenvalues + regularization))

    def leave_one_out(self, design: np.ndarray, y: np.ndarray, weights: np.ndarray, regularizations: np.ndarray):
        """Residuals of each y from the fit without it, shape (n, len(regularizations)).

        ``design`` (n, p) and ``y`` are centered by their weighted means, ``weights`` enter M as Σ w φφᵀ; further terms
        of M (such as a score-matching term) are kept. Removing one square from a quadratic objective divides its
        residual by 1 - leverage; the unpenalized constant adds w_b / Σ w to the leverage. If 1 - leverage is lost to
        rounding, the fit does not predict the point, and its residual is y itself.
        """
        rotated = design @ self.vectors
        inverse = 1.0 / (self.eigenvalues[:, None] + regularizations)
        fitted = rotated @ (self.target[:, None] * inverse)
        leverage = weights[:, None] * (1.0 / weights.sum() + (rotated**2) @ inverse)
        slack = 1.0 - leverage
        known = slack > 1e-6
        return np.where(known, (y[:, None] - fitted) / np.where(known, slack, 1.0), y[:, None])


def ridge_path(matrix: np.ndarray, target: np.ndarray) -> RidgePath:
    """Decompose a symmetric non-negative matrix (p, p) once for every regularization."""
    eigenvalues, vectors = eigh(matrix)
    return RidgePath(np.maximum(eigenvalues, 0.0), vectors, vectors.T @ target)


def ridge_system(matrix: np.ndarray, penalty: np.ndarray, regularization: float, jitter: float | str) -> np.ndarray:
    """Return A + λP + jitter I; "auto" is 1e-9 of the mean diagonal, small enough not to matter."""
    system = matrix + regularization * penalty
    diagonal = np.einsum("ii->i", system)
    diagonal += 1e-9 * diagonal.mean() if jitter == "auto" else jitter
    return system


def ridge_solution(
    matrix: np.ndarray, target: np.ndarray, penalty: np.ndarray, regularization: float, jitter: float | str = "auto"
) -> np.ndarray:
    """β with (A + λP + jitter I) β = target; the shortest one if that system is singular to working precision.

    Parameters
    ----------
    matrix, penalty : ndarray, shape (p, p)
        Symmetric, non-negative.
    target : ndarray, shape (p,)
    regularization : float
        λ.
    jitter : float or "auto"
    """
    system = ridge_system(matrix, penalty, regularization, jitter)
    norm = np.abs(system).sum(axis=0).max()
    factor, info = linalg.lapack.dpotrf(system, lower=1)
    if info == 0 and linalg.lapack.dpocon(factor, norm, uplo="L")[0] > np.finfo(float).eps:
        return linalg.lapack.dpotrs(factor, target, lower=1)[0]
    return linalg.pinvh(system, check_finite=False) @ target


def symmetric_power(matrix: np.ndarray, power: float, floor: float = 0.0) -> np.ndarray:
    """Return a power of a symmetric matrix, whose eigenvalues are first raised to at least ``floor``."""
    eigenvalues, vectors = linalg.eigh(matrix, check_finite=False)
    return (vectors * np.maximum(eigenvalues, floor) ** power) @ vectors.T
