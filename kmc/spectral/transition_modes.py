"""Modes of a transition operator from time-lagged covariances: a penalized eigenproblem, then Ritz values.

With φ a basis of r functions, C00 = Cov φ(x_t), C0τ = Cov(φ(x_t), φ(x_{t+τ})) and Cττ = Cov φ(x_{t+τ}), the modes are
the leading singular vectors of

    (C00 + ε I)^-1/2 C0τ (Cττ + ε I)^-1/2

(Wu and Noé 2020, "Variational approach for learning Markov processes from time series data"). For a reversible chain
C00 = Cττ = C0 and C0τ = Cτ is symmetric, and they are eigenvectors. The penalized values are biased towards zero: the
reported values are those of the same problem within the span of the modes, without ε.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy import linalg

from kmc.errors import warn
from kmc.forms import Lagged
from kmc.linalg import eigh

ROUNDING = 1e-14
"""Fraction of the largest variance of the basis: a direction below it is constant, and its covariances are rounding."""

VANISHING = 1e-8
"""Fraction of the largest variance below which a combination of modes counts as constant."""


class Covariances(NamedTuple):
    """Covariances of a basis at the two ends of pairs a lagtime apart, each centered by its own mean."""

    first: np.ndarray  # C00, (r, r)
    cross: np.ndarray  # C0τ
    second: np.ndarray  # Cττ
    first_mean: np.ndarray  # (r,)
    second_mean: np.ndarray
    reversible: bool

    def vary(self) -> bool:
        """Whether any of the functions varies, at both ends."""
        return bool(np.trace(self.first) > 0 and np.trace(self.second) > 0)

    def within(self, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the covariances of combinations ``left`` (r, k) of the first and ``right`` of the second functions."""
        return left.T @ self.first @ left, left.T @ self.cross @ right, right.T @ self.second @ right


class TransitionModes(NamedTuple):
    """Functions of unit variance, in coefficients of the basis."""

    left: np.ndarray  # (r, k), of x_t
    right: np.ndarray  # (r, k), of x_{t+τ}; the same if reversible
    left_mean: np.ndarray  # (k,)
    right_mean: np.ndarray
    singular_values: np.ndarray  # (k,), descending
    eigenvalues: np.ndarray  # (k,), real and descending if reversible, else complex and descending by size
    koopman: np.ndarray  # (k + 1, k + 1): E[ψ_j(x_{t+τ}) | x_t] = Σ_i ψ_i(x_t) K_ij, with ψ_0 = 1 and ψ_i on the left


def covariances(lagged: Lagged, reversible: bool) -> Covariances:
    """Covariances from sums over pairs; for a reversible process, in both directions and with their common mean."""
    first_mean, second_mean = lagged.first_sum / lagged.weight, lagged.second_sum / lagged.weight
    if not reversible:
        return Covariances(*lagged.covariances(), first_mean, second_mean, False)
    mass, cross = lagged.reversible()
    mean = 0.5 * (first_mean + second_mean)
    return Covariances(mass, cross, mass, mean, mean, True)


def subspaces(c: Covariances, epsilons: Sequence[float], count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each ε, in units of the mean variance tr(C)/r, the ``count`` leading vectors on either side, (r, count)."""
    if not c.vary():
        raise ValueError("X: no function of the basis varies along the trajectories, so there is no mode")
    s, v = _decomposed(c.first)
    t, w = (s, v) if c.reversible else _decomposed(c.second)
    rotated = v.T @ c.cross @ w
    unit, unit_t = s.sum() / len(c.first), t.sum() / len(c.second)
    for epsilon in epsilons:
        first, second = (1.0 / np.sqrt(values + epsilon * mean) for values, mean in ((s, unit), (t, unit_t)))
        kernel = first[:, None] * rotated * second
        if c.reversible:
            last = len(kernel) - 1
            leading = [max(last - count + 1, 0), last]
            vectors = linalg.eigh(kernel, subset_by_index=leading, check_finite=False)[1][:, ::-1]
            left = v @ (first[:, None] * vectors)
            yield left, left
        else:
            left, _, right = linalg.svd(kernel, check_finite=False)
            yield v @ (first[:, None] * left[:, :count]), w @ (second[:, None] * right[:count].T)


def vamp2(c: Covariances, left: np.ndarray, right: np.ndarray) -> float:
    r"""Σ σ² within the span of some functions: :math:`\|P^{-1/2} Q R^{-1/2}\|_F^2`, or tr((P⁻¹Q)²) if reversible."""
    p, q, r = c.within(left, right)
    return float(np.sum((_whitening(p).T @ q @ _whitening(r)) ** 2))


def transition_ritz(c: Covariances, left: np.ndarray, right: np.ndarray) -> TransitionModes:
    """Return the modes in the span of some functions, without combinations that are constant on the samples."""
    p, q, r = c.within(left, right)
    if c.reversible:
        white = _whitening(p)
        eigenvalues, vectors = linalg.eigh(white.T @ q @ white)
        left = left @ white @ vectors[:, ::-1]
        left = right = left * _signs(left)
        eigenvalues = eigenvalues[::-1]
        singular_values = np.sort(np.abs(eigenvalues))[::-1]
        koopman = np.diag(np.concatenate([[1.0], eigenvalues]))
    else:
        a, b = _whitening(p), _whitening(r)
        u, singular_values, vt = linalg.svd(a.T @ q @ b, full_matrices=False)
        left, right = left @ a @ u, right @ b @ vt.T
        signs = _signs(left)
        left, right = left * signs, right * signs
        koopman = np.eye(left.shape[1] + 1)
        koopman[0, 1:] = (c.second_mean - c.first_mean) @ left
        koopman[1:, 1:] = left.T @ c.cross @ left
        eigenvalues = linalg.eigvals(koopman[1:, 1:])
        eigenvalues = eigenvalues[np.argsort(-np.abs(eigenvalues), kind="stable")]
    return TransitionModes(
        left, right, c.first_mean @ left, c.second_mean @ right, singular_values, eigenvalues, koopman
    )


def timescales(eigenvalues: np.ndarray, lagtime: int) -> np.ndarray:
    """-τ / log λ of each eigenvalue, in samples; NaN for one that is complex or outside (0, 1).

    Such an eigenvalue is not an exponential decay: it is noise, an oscillation, or a mode that the samples never
    leave. The logarithm of its absolute value would have no meaning.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral.transition_modes import timescales
    >>> timescales(np.array([0.9, -0.9, 1.0, 0.5 + 0.5j]), lagtime=2).round(2)
    array([18.98,   nan,   nan,   nan])
    """
    values = np.real(eigenvalues)
    real = np.abs(np.imag(eigenvalues)) <= 1e-12
    decays = real & (values > 0.0) & (values < 1.0)
    return np.where(decays, -lagtime / np.log(np.where(decays, values, 0.5)), np.nan)


def warn_of_nan(scales: np.ndarray, eigenvalues: np.ndarray) -> None:
    """Issue a KmcWarning that names the eigenvalues without a time scale, if there are any."""
    bad = eigenvalues[np.isnan(scales)]
    if len(bad):
        shown = ", ".join(f"{value:.4g}" for value in bad[:5]) + (", ..." if len(bad) > 5 else "")
        warn(
            f"{len(bad)} of {len(eigenvalues)} eigenvalues are complex or outside (0, 1) and have no time scale "
            f"({shown}): their entries of timescales_ are NaN; ask for fewer components or give more samples"
        )


def _decomposed(matrix):
    """Eigenvalues and vectors of a covariance, without directions in which it is zero up to rounding."""
    values, vectors = eigh(matrix)
    kept = values > ROUNDING * max(values[-1], 0.0)
    return values[kept], vectors[:, kept]


def _whitening(p):
    """(k, j) with WᵀPW = I, of the j directions in which P does not vanish."""
    values, vectors = linalg.eigh(p, check_finite=False)
    kept = values > VANISHING * max(values[-1], 0.0) if len(values) else np.zeros(0, bool)
    return vectors[:, kept] / np.sqrt(values[kept])


def _signs(vectors):
    """Signs that make the largest coefficient of each positive: a mode has no sign of its own."""
    largest = vectors[np.argmax(np.abs(vectors), axis=0), np.arange(vectors.shape[1])]
    return np.where(largest < 0, -1.0, 1.0)
