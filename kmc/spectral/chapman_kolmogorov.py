"""The Chapman–Kolmogorov test: long-time predictions of a transition operator, compared with the data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kmc.bases import Basis
from kmc.forms import Lagged, accumulate_folds

SEGMENTS = 16
"""Parts of the data in time, left out one at a time for the standard errors."""


class CKTest(NamedTuple):
    """Probabilities of transitions from one metastable set (rows) to another (columns) within some time."""

    lagtimes: np.ndarray  # (m,), in samples
    predicted: np.ndarray  # (m, s, s), powers of the operator fitted at the first lagtime
    estimated: np.ndarray  # (m, s, s), from pairs of samples that far apart
    std_error: np.ndarray  # (m, s, s), of the estimates, by jackknife over parts of the data in time

    def largest_error(self) -> float:
        """The largest |predicted - estimated|; a few standard errors if the process is Markov at the lagtime."""
        return float(np.nanmax(np.abs(self.predicted - self.estimated)))


def predictions(koopman: np.ndarray, membership: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """<χ_i, K^m χ_j> / <χ_i> for each power m, (len(powers), s, s).

    Parameters
    ----------
    koopman : ndarray, shape (k + 1, k + 1)
        In orthonormal functions ψ, the first of them is constant.
    membership : ndarray, shape (k + 1, s)
        χ = ψ B.
    powers : ndarray of int
    """
    mean = membership[0][:, None]
    return np.array([membership.T @ np.linalg.matrix_power(koopman, int(m)) @ membership / mean for m in powers])


def estimates(
    basis: Basis,
    mean: np.ndarray,
    x: Any,
    weights: Any,
    lagtime: int,
    labels: np.ndarray,
    membership: np.ndarray,
    reversible: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Estimates at one lagtime from pairs of samples, with jackknife standard errors, each (s, s).

    Parameters
    ----------
    basis : Basis
        The functions ψ without the constant, before their ``mean`` (k,) is subtracted.
    labels : ndarray of int, shape (n,)
        The part of the data that each sample belongs to.
    """
    parts = accumulate_folds(basis, x, ("lagged",), labels, weights=weights, lagtime=lagtime)
    sums = [part.get("lagged") for part in parts]
    whole = sum(sums[1:], sums[0])
    estimate = _probabilities(whole, mean, membership, reversible)
    rest = [whole - part for part in sums if 0 < part.weight < whole.weight]
    if len(rest) < 2:
        return estimate, np.full_like(estimate, np.nan)
    without = np.array([_probabilities(part, mean, membership, reversible) for part in rest])
    n = len(without)
    return estimate, np.sqrt((n - 1) / n * np.sum((without - without.mean(axis=0)) ** 2, axis=0))


def _probabilities(lagged: Lagged, mean, membership, reversible):
    first, second = lagged.first_sum / lagged.weight - mean, lagged.second_sum / lagged.weight - mean
    moments = np.empty((len(mean) + 1, len(mean) + 1))
    moments[0, 0] = 1.0
    moments[0, 1:], moments[1:, 0] = second, first
    moments[1:, 1:] = lagged.cross_scatter / lagged.weight + np.outer(first, second)
    if reversible:
        moments = 0.5 * (moments + moments.T)
    return membership.T @ moments @ membership / (membership.T @ moments[:, 0])[:, None]
