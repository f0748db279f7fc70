"""Modes of a transition operator: a penalized eigenproblem of lagged covariances, then Ritz values.

With φ a basis of r functions, C00 = Cov φ(x_t), C0τ = Cov(φ(x_t), φ(x_{t+τ})) and Cττ = Cov
φ(x_{t+τ}), the modes are the leading singular vectors of

    (C00 + ε I)^-1/2 C0τ (Cττ + ε I)^-1/2

(Wu and Noé 2020, "Variational approach for learning Markov processes from time series data"). For a
reversible chain C00 = Cττ = C0 and C0τ = Cτ is symmetric, and they are eigenvectors. The penalized
values are biased towards zero: the reported values are those of the same problem within the span of
the modes, without ε.

Pairs that are given as such become trajectories (:func:`paired`); trajectories that do not start in
equilibrium are reweighted (:class:`StationaryDensity`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from kmc.bases import Basis
from kmc.errors import warn
from kmc.estimator import as_points, check_weights
from kmc.forms import Lagged
from kmc.forms.stream import length, trajectories
from kmc.forms.sums import lagged_sums, reversible_sums
from kmc.linalg import eigh
from kmc.source import SEGMENTS, Source, take

ROUNDING = 1e-14
"""Fraction of the basis's largest variance below which a direction is constant up to rounding."""

VANISHING = 1e-8
"""Fraction of the largest variance below which a combination of modes counts as constant."""


class Covariances(NamedTuple):
    """Covariances of a basis at both ends of pairs a lagtime apart, each centered by its mean."""

    first: np.ndarray  # C00, (r, r)
    cross: np.ndarray  # C0τ
    second: np.ndarray  # Cττ
    first_mean: np.ndarray  # (r,)
    second_mean: np.ndarray
    reversible: bool

    def vary(self) -> bool:
        """Whether any of the functions varies, at both ends."""
        return bool(np.trace(self.first) > 0 and np.trace(self.second) > 0)

    def within(
        self, left: np.ndarray, right: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the covariances of combinations of the functions.

        They are ``left`` (r, k) of the first and ``right`` of the second functions.
        """
        return (
            left.T @ self.first @ left,
            left.T @ self.cross @ right,
            right.T @ self.second @ right,
        )


class TransitionModes(NamedTuple):
    """Functions of unit variance, in coefficients of the basis."""

    left: np.ndarray  # (r, k), of x_t
    right: np.ndarray  # (r, k), of x_{t+τ}; the same if reversible
    left_mean: np.ndarray  # (k,)
    right_mean: np.ndarray
    singular_values: np.ndarray  # (k,), descending
    # (k,), real and descending if reversible, else complex and descending by size
    eigenvalues: np.ndarray
    # (k + 1, k + 1): E[ψ_j(x_{t+τ}) | x_t] = Σ_i ψ_i(x_t) K_ij, with ψ_0 = 1 and ψ_i on the left
    koopman: np.ndarray


def covariances(lagged: Lagged, reversible: bool) -> Covariances:
    """Return covariances from sums over pairs.

    For a reversible process, pairs count in both directions, and with their common mean.
    """
    first_mean, second_mean = lagged.first_sum / lagged.weight, lagged.second_sum / lagged.weight
    if not reversible:
        return Covariances(*lagged.covariances(), first_mean, second_mean, False)
    mass, cross = lagged.reversible()
    mean = 0.5 * (first_mean + second_mean)
    return Covariances(mass, cross, mass, mean, mean, True)


def subspaces(
    c: Covariances, epsilons: Sequence[float], count: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the ``count`` leading vectors (r, count) on either side for each ε.

    ε is in units of the mean variance tr(C)/r.
    """
    if not c.vary():
        raise ValueError(
            "X: no function of the basis varies along the trajectories, so there is no mode"
        )
    s, v = _decomposed(c.first)
    t, w = (s, v) if c.reversible else _decomposed(c.second)
    rotated = v.T @ c.cross @ w
    unit, unit_t = s.sum() / len(c.first), t.sum() / len(c.second)
    for epsilon in epsilons:
        first, second = (
            1.0 / np.sqrt(values + epsilon * mean) for values, mean in ((s, unit), (t, unit_t))
        )
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
    r"""Return Σ σ² within the span of some functions.

    It is :math:`\|P^{-1/2} Q R^{-1/2}\|_F^2`, or tr((P⁻¹Q)²) if reversible.
    """
    p, q, r = c.within(left, right)
    return float(np.sum((_whitening(p).T @ q @ _whitening(r)) ** 2))


def transition_ritz(c: Covariances, left: np.ndarray, right: np.ndarray) -> TransitionModes:
    """Return modes in the span of some functions, except combinations constant on the samples."""
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
        left,
        right,
        c.first_mean @ left,
        c.second_mean @ right,
        singular_values,
        eigenvalues,
        koopman,
    )


def timescales(eigenvalues: np.ndarray, lagtime: int) -> np.ndarray:
    """-τ / log λ of each eigenvalue, in samples; NaN for one that is complex or outside (0, 1).

    Such an eigenvalue is not an exponential decay: it is noise, an oscillation, or a mode that the
    samples never leave. The logarithm of its absolute value would have no meaning.

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
            f"{len(bad)} of {len(eigenvalues)} eigenvalues are complex or outside (0, 1) and have "
            f"no time scale ({shown}): their entries of timescales_ are NaN; ask for fewer "
            "components or give more samples"
        )


def _decomposed(matrix):
    """Return eigenvalues and vectors of a covariance, except those that are zero up to rounding."""
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


BLOCK = 2048
"""Pairs in a trajectory."""


class PairedTrajectories(NamedTuple):
    """First states of a block of pairs, then the second states, ``lagtime`` rows later."""

    trajectories: list[np.ndarray]
    weights: list[np.ndarray]  # zero for the rows that fill up the last block
    lagtime: int


def paired(first: Any, second: Any, weights: Any = None) -> PairedTrajectories:
    """Return trajectories with these pairs, and no others.

    The first and the second states are arrays (n, d), the weights (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral.transition_modes import paired
    >>> found = paired(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]))
    >>> found.trajectories[0].ravel(), found.lagtime
    (array([1., 2., 3., 4.]), 2)
    """
    first, second = as_points(first), as_points(second, name="y")
    if first.shape != second.shape:
        raise ValueError(
            f"y has shape {second.shape} for X of shape {first.shape}: expected the same, the "
            f"states a lagtime later"
        )
    w, block = check_weights(weights, len(first)), min(BLOCK, len(first))
    trajectories, all_weights = [], []
    for start in range(0, len(first), block):
        rows = np.minimum(np.arange(start, start + block), len(first) - 1)
        trajectories.append(np.concatenate([first[rows], second[rows]]))
        own = np.where(np.arange(start, start + block) < len(first), w[rows], 0.0)
        all_weights.append(np.concatenate([own, np.zeros(block)]))
    return PairedTrajectories(trajectories, all_weights, block)


class SomePairs(NamedTuple):
    """Pairs of states a lagtime apart, in the order of time."""

    first: np.ndarray  # (m, d)
    second: np.ndarray  # (m, d)
    weights: np.ndarray | None  # (m,)
    labels: np.ndarray  # (m,), the part of all data in time that each pair is in, ascending

    def moments(self, basis: Basis, reversible: bool) -> list[Lagged]:
        """Return the moments of the functions in each part."""
        ends = np.searchsorted(self.labels, np.arange(SEGMENTS + 1))
        return [self._sums(basis, slice(start, stop), reversible) for start, stop in pairwise(ends)]

    def _sums(self, basis: Basis, rows: slice, reversible: bool) -> Lagged:
        sums, weights = reversible_sums if reversible else lagged_sums, None
        if self.weights is not None:
            weights = self.weights[rows]
        return sums(basis.values(self.first[rows]), basis.values(self.second[rows]), weights)


def thinned(source: Source, lagtime: int, most: int) -> SomePairs | None:
    """Return ``most`` pairs, evenly spaced over all trajectories; None if there are not more.

    They tell more of slow modes than as many pairs in a row, which are alike.
    """
    lengths = np.array([length(part) for part in trajectories(source.x, 2)])
    pairs = np.cumsum(np.maximum(lengths - lagtime, 0))
    if pairs[-1] <= most:
        return None
    numbers = np.arange(most) * pairs[-1] // most
    of = np.searchsorted(pairs, numbers, side="right")
    rows = (
        numbers
        + (np.cumsum(lengths) - lengths)[of]
        - (pairs - np.maximum(lengths - lagtime, 0))[of]
    )
    weights = None if source.weights is None else take(source.weights, rows, 1, "weights")
    labels = rows * SEGMENTS // lengths.sum()
    return SomePairs(take(source.x, rows), take(source.x, rows + lagtime), weights, labels)


def refuse_two(X: Any) -> None:
    """Raise ValueError for a tuple of two arrays of one shape: other libraries read it as pairs."""
    if (
        isinstance(X, tuple)
        and len(X) == 2
        and np.ndim(X[0]) == 2
        and np.shape(X[0]) == np.shape(X[1])
    ):
        raise ValueError(
            "X is a tuple of two arrays of the same shape, which can mean two things: for pairs "
            "of states a lagtime "
            "apart call with X and y, as in fit(first, second); for two trajectories give a list"
        )


# Trajectories that did not start in equilibrium: a test, and weights by which they count as if they
# had.
#
# The weights are those of Koopman reweighting (Wu, Nüske, Paul, Klus, Koltai and Noé 2017,
# "Variational Koopman models"): the density of the stationary distribution with respect to the
# samples, in the span of the modes of the operator without detailed balance.

LEAST_TRAJECTORIES = 8
"""Trajectories by which a drift is tested; with fewer of them its standard error is not known."""

DRIFT = 5.0
"""Standard errors by which a mode's mean may differ between ends and starts of trajectories."""

MODES_OF_DENSITY = 6
"""Modes in whose span the stationary density is sought, at least. In that of a single one, the
slowest time scale of a double well (400 trajectories from one side) came out at .6 of the truth."""


def drift(basis: Basis, modes: TransitionModes, starts: np.ndarray, ends: np.ndarray) -> float:
    """Return the largest mean change of a mode from starts (m, d) of trajectories to their ends.

    It is in standard errors: of order one in equilibrium, whatever the length of the trajectories.
    It is zero if there are too few.
    """
    if len(starts) < LEAST_TRAJECTORIES:
        return 0.0
    change = (basis.values(ends) - basis.values(starts)) @ modes.left
    error = change.std(axis=0, ddof=1) / np.sqrt(len(change))
    return float(np.max(np.abs(change.mean(axis=0)) / np.maximum(error, 1e-300), initial=0.0))


class StationaryDensity:
    """Stationary density with respect to the first samples of pairs, at least zero.

    Parameters
    ----------
    basis : Basis
    modes : TransitionModes
        Without detailed balance. The density is the left eigenvector of their Koopman matrix with
        eigenvalue one.
    """

    def __init__(self, basis: Basis, modes: TransitionModes):
        self._basis = basis
        inner, change = modes.koopman[1:, 1:], modes.koopman[0, 1:]
        coefficients = np.linalg.lstsq(np.eye(len(inner)) - inner.T, change, rcond=None)[0]
        self._coefficients = modes.left @ coefficients
        self._offset = 1.0 - modes.left_mean @ coefficients

    def __call__(self, x: Any) -> np.ndarray:
        """Return the density at the rows of x (n, d), shape (n,)."""
        return np.maximum(
            self._offset + self._basis.values(np.asarray(x, dtype=float)) @ self._coefficients, 0.0
        )
