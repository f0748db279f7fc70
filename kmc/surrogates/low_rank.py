"""Quadratics of a diagonal plus a matrix of low rank, from fewer values than a quadratic has terms.

In a hundred dimensions a quadratic has 5,151 terms, but often most of its matrix is known to be near a diagonal: data
inform a few directions, and the prior the rest (Spantini et al. 2015, "Optimal low-rank approximations of Bayesian
linear inverse problems", SIAM Journal on Scientific Computing 37). Such a matrix has some hundred parameters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

_RANKS = (0, 1, 2, 3, 5, 8, 12)
_MOST_PARAMETERS = 0.7  # of the values that are not held out
_HELD_OUT, _FIRST_HELD = 5, 2  # one in five values
_PASSES, _CONVERGED = 60, 0.998  # of alternating least squares, and the part of the error left by the last
_RIDGE = 1e-7  # relative to the mean square of a feature
_EXACT = 1e-6  # part of the values' sd
_WORTH = 0.8  # largest part of the error left by a larger rank


class Structured(NamedTuple):
    """c + linear·z + zᵀ quadratic z."""

    linear: np.ndarray  # (d,)
    quadratic: np.ndarray  # (d, d), symmetric
    error: float  # of held-out values, in nats

    @property
    def coefficients(self) -> np.ndarray:
        """Those of z_i and z_i z_j, i <= j, (d + d (d + 1) / 2,)."""
        i, j = np.triu_indices(len(self.linear))
        return np.concatenate([self.linear, np.where(i == j, 1.0, 2.0) * self.quadratic[i, j]])


def fit_structured(z: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Structured:
    """The best fit of rank 0, 1, 2, 3, 5, 8 or 12 beyond the diagonal, by held-out values.

    Alternating least squares from a spectral start: with one factor of U Vᵀ fixed, the values are linear in the other
    (Jain, Netrapalli and Sanghavi 2013, "Low-rank matrix completion using alternating minimization", STOC).

    Parameters
    ----------
    z : ndarray, shape (n, d)
    y, weights : ndarray, shape (n,)
        The weights sum to one.
    """
    held = np.arange(len(z)) % _HELD_OUT == _FIRST_HELD
    known = ~held
    inside, outside = weights[known] / weights[known].sum(), weights[held] / weights[held].sum()
    spread = np.sqrt(weights @ (y - weights @ y) ** 2) + 1e-300
    best, best_rank = np.inf, 0
    for rank in _RANKS:
        if (rank + 2) * z.shape[1] > _MOST_PARAMETERS * known.sum():
            break
        fit = _alternated(z[known], y[known], inside, rank=rank)
        residual = y[held] - _values(fit, z[held])
        error = float(np.sqrt(outside @ (residual - outside @ residual) ** 2)) / spread
        if error < _WORTH * best:
            best, best_rank = error, rank
        if best < _EXACT:
            break
    return Structured(*_alternated(z, y, weights, rank=best_rank), best * spread)


def fit_diagonal(z: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (d,) of z and a diagonal matrix of those of squares."""
    return _alternated(z, y, weights, rank=0)


def _values(fit: tuple[np.ndarray, np.ndarray], z: np.ndarray) -> np.ndarray:
    linear, quadratic = fit
    return z @ linear + np.einsum("ni,ni->n", z @ quadratic, z)


def _alternated(z: np.ndarray, y: np.ndarray, weights: np.ndarray, *, rank: int) -> tuple[np.ndarray, np.ndarray]:
    d = z.shape[1]
    plain = np.hstack([z, z**2])
    solution, residual = _least_squares(plain, y, weights)
    linear, quadratic = solution[:d], np.diag(solution[d:])
    if not rank:
        return linear, quadratic
    first = (z * (weights * residual)[:, None]).T @ z
    np.fill_diagonal(first, 0.0)
    factor = _leading(first, rank)
    missed = np.inf
    for _ in range(_PASSES):
        products = (z @ factor)[:, :, None] * z[:, None, :]
        solution, residual = _least_squares(np.hstack([plain, products.reshape(len(z), -1)]), y, weights)
        other = factor @ solution[2 * d :].reshape(rank, d)
        linear, quadratic = solution[:d], np.diag(solution[d : 2 * d]) + 0.5 * (other + other.T)
        factor = _leading(other + other.T, rank)
        before, missed = missed, np.sqrt(weights @ residual**2)
        if missed > _CONVERGED * before:
            break
    return linear, quadratic


def _leading(matrix: np.ndarray, rank: int) -> np.ndarray:
    """The eigenvectors (d, rank) of the largest eigenvalues, by absolute value."""
    eigenvalues, vectors = linalg.eigh(matrix, check_finite=False)
    return vectors[:, np.argsort(-np.abs(eigenvalues))[:rank]]


def _least_squares(features: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients, and residuals (n,), of a fit with a constant."""
    features, y = features - weights @ features, y - weights @ y
    root = np.sqrt(weights)[:, None]
    scaled = root * features
    gram = scaled.T @ scaled
    gram[np.diag_indices_from(gram)] += _RIDGE * np.trace(gram) / len(gram)
    solution = linalg.solve(gram, scaled.T @ (root[:, 0] * y), assume_a="pos", check_finite=False)
    return solution, y - features @ solution
