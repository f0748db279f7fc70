"""Pairs of states a lagtime apart as trajectories, for code that reads trajectories."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kmc.bases import Basis
from kmc.estimator import as_points, check_weights
from kmc.forms import Lagged
from kmc.forms.stream import length, trajectories
from kmc.forms.sums import lagged_sums, reversible_sums
from kmc.source import SEGMENTS, Source, take
from kmc.spectral.transition_modes import TransitionModes

BLOCK = 2048
"""Pairs in a trajectory."""


class PairedTrajectories(NamedTuple):
    """First states of a block of pairs, followed by the second ones: the pairs are ``lagtime`` rows apart."""

    trajectories: list[np.ndarray]
    weights: list[np.ndarray]  # zero for the rows that fill up the last block
    lagtime: int


def paired(first: Any, second: Any, weights: Any = None) -> PairedTrajectories:
    """Return trajectories with these pairs, and no others.

    The first and the second states are arrays (n, d), the weights (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral.pairs import paired
    >>> found = paired(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]))
    >>> found.trajectories[0].ravel(), found.lagtime
    (array([1., 2., 3., 4.]), 2)
    """
    first, second = as_points(first), as_points(second, name="y")
    if first.shape != second.shape:
        raise ValueError(
            f"y has shape {second.shape} for X of shape {first.shape}: expected the same, the states a lagtime later"
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
    """Return ``most`` pairs, evenly spaced over all trajectories; None if there are no more than that.

    They tell more of slow modes than as many pairs in a row, which are alike.
    """
    lengths = np.array([length(part) for part in trajectories(source.x, 2)])
    pairs = np.cumsum(np.maximum(lengths - lagtime, 0))
    if pairs[-1] <= most:
        return None
    numbers = np.arange(most) * pairs[-1] // most
    of = np.searchsorted(pairs, numbers, side="right")
    rows = numbers + (np.cumsum(lengths) - lengths)[of] - (pairs - np.maximum(lengths - lagtime, 0))[of]
    weights = None if source.weights is None else take(source.weights, rows, 1, "weights")
    labels = rows * SEGMENTS // lengths.sum()
    return SomePairs(take(source.x, rows), take(source.x, rows + lagtime), weights, labels)


def refuse_two(X: Any) -> None:
    """Raise ValueError for a tuple of two arrays of the same shape: other libraries read it as pairs."""
    if isinstance(X, tuple) and len(X) == 2 and np.ndim(X[0]) == 2 and np.shape(X[0]) == np.shape(X[1]):
        raise ValueError(
            "X is a tuple of two arrays of the same shape, which can mean two things: for pairs of states a lagtime "
            "apart call with X and y, as in fit(first, second); for two trajectories give a list"
        )


# Trajectories that did not start in equilibrium: a test, and weights by which they count as if they had.
#
# The weights are those of Koopman reweighting (Wu, Nüske, Paul, Klus, Koltai and Noé 2017, "Variational Koopman
# models"):
# the density of the stationary distribution with respect to the samples, in the span of the modes of the operator
# without
# detailed balance.

LEAST_TRAJECTORIES = 8
"""Trajectories by which a drift is tested; with fewer of them its standard error is not known."""

DRIFT = 5.0
"""Standard errors by which the mean of a mode may differ between the ends and the starts of trajectories."""

MODES_OF_DENSITY = 6
"""Modes in whose span the stationary density is sought, at least. In that of a single one, the slowest time scale of a
double well (400 trajectories from one side) came out at .6 of the truth."""


def drift(basis: Basis, modes: TransitionModes, starts: np.ndarray, ends: np.ndarray) -> float:
    """Return the largest mean change of a mode from the starts (m, d) of trajectories to their ends.

    It is in standard errors: of order one in equilibrium, whatever the length of the trajectories. It is zero if there
    are too few.
    """
    if len(starts) < LEAST_TRAJECTORIES:
        return 0.0
    change = (basis.values(ends) - basis.values(starts)) @ modes.left
    error = change.std(axis=0, ddof=1) / np.sqrt(len(change))
    return float(np.max(np.abs(change.mean(axis=0)) / np.maximum(error, 1e-300), initial=0.0))


class StationaryDensity:
    """Density of the stationary distribution with respect to the first samples of pairs, at least zero.

    Parameters
    ----------
    basis : Basis
    modes : TransitionModes
        Without detailed balance. The density is the left eigenvector of their Koopman matrix with eigenvalue one.
    """

    def __init__(self, basis: Basis, modes: TransitionModes):
        self._basis = basis
        inner, change = modes.koopman[1:, 1:], modes.koopman[0, 1:]
        coefficients = np.linalg.lstsq(np.eye(len(inner)) - inner.T, change, rcond=None)[0]
        self._coefficients = modes.left @ coefficients
        self._offset = 1.0 - modes.left_mean @ coefficients

    def __call__(self, x: Any) -> np.ndarray:
        """Return the density at the rows of x (n, d), shape (n,)."""
        return np.maximum(self._offset + self._basis.values(np.asarray(x, dtype=float)) @ self._coefficients, 0.0)
