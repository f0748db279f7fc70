"""Quadratics in many dimensions: ridge regression on thousands of terms, without an eigendecomposition.

In a hundred dimensions a quadratic has 5,151 terms. The eigendecomposition that gives every leave-one-out residual
takes a minute there, a Cholesky factor two seconds: a few ridges are compared by held-out values instead.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

MANY_TERMS = 1500  # terms of a quadratic, more than in 53 dimensions, from which this way is taken
_VALUES_PER_TERM = 1.3  # values of a fit (tried: many dimensions) ...
_FEWEST_PER_TERM = 1.1  # ... and the fewest that determine any quadratic
_FIRST_TRY = 100, 10  # values for a structured quadratic: constant, per dimension
_RIDGES = (1e-12, 1e-8, 1e-5, 1e-3, 1e-1)  # candidates, from values that are quadratic to ones that are not
_HELD_OUT = 10  # every tenth value
_FIRST_HELD = 5  # of these


def terms_of(dim: int) -> int:
    """Number of terms of a quadratic: 1 + d + d (d + 1) / 2."""
    return 1 + dim + dim * (dim + 1) // 2


def is_wide(dim: int) -> bool:
    """Whether a quadratic has many terms."""
    return terms_of(dim) > MANY_TERMS


def values_for(dim: int) -> int:
    """Number of values that a fit of so many terms uses."""
    return int(_VALUES_PER_TERM * terms_of(dim))


def values_for_any(dim: int) -> int:
    """Number of values from which on any quadratic is determined."""
    return int(_FEWEST_PER_TERM * terms_of(dim))


def values_for_structure(dim: int) -> int:
    """Number of values from which on a structured quadratic is tried."""
    constant, each = _FIRST_TRY
    return constant + each * dim


def some_of(rows: np.ndarray, dim: int) -> np.ndarray:
    """These indices; in many dimensions evenly spread ones of them, so many that a fit stays affordable."""
    most = values_for(dim)
    if not is_wide(dim) or len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).round().astype(int)]


def wide_ridge(features: np.ndarray, target: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Coefficients (p,) that minimize Σ w (y - φᵀβ)² + λ |β|², with λ chosen by held-out values, and their error there.

    Parameters
    ----------
    features : ndarray, shape (n, p)
        Centered by the weights. They are overwritten.
    target, weights : ndarray, shape (n,)
    """
    root = np.sqrt(weights)
    features *= root[:, None]
    target = root * target
    held = np.arange(len(target)) % _HELD_OUT == _FIRST_HELD
    known, beyond = features[~held], features[held]
    matrix, right = _gram(known), known.T @ target[~held]
    del known

    def error(ridge: float) -> float:
        solution = _solved(matrix, right, ridge)
        return np.inf if solution is None else float(np.linalg.norm(target[held] - beyond @ solution))

    error_of = {ridge: error(ridge) for ridge in _RIDGES}
    ridge = min(_RIDGES, key=error_of.__getitem__)
    matrix += _gram(beyond)
    solution = _solved(matrix, right + beyond.T @ target[held], ridge)
    if solution is None:
        return np.zeros(len(right)), np.inf
    return solution, error_of[ridge] / float(np.linalg.norm(root[held]))


def _gram(features: np.ndarray) -> np.ndarray:
    """ΦᵀΦ, its lower triangle."""
    return linalg.blas.dsyrk(1.0, features.T, lower=1)


def _solved(matrix: np.ndarray, right: np.ndarray, ridge: float) -> np.ndarray | None:
    """(M + λ I)⁻¹ b from the lower triangle of M; None if it is singular to working precision."""
    system = matrix.copy(order="F")
    system[np.diag_indices_from(system)] += ridge
    factor, info = linalg.lapack.dpotrf(system, lower=1, overwrite_a=1, clean=0)
    return linalg.lapack.dpotrs(factor, right, lower=1)[0] if info == 0 else None
