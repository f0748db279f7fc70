"""Choice of the bandwidth and the regularization of a transition operator by the held-out VAMP-2 score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kmc.bases import Basis
from kmc.forms import Lagged
from kmc.spectral.transition_modes import TransitionModes, covariances, subspaces, transition_ritz, vamp2


class TransitionCandidate(NamedTuple):
    """A bandwidth, its basis, and the moments of the pairs in each fold."""

    bandwidth: float
    basis: Basis
    folds: list[Lagged]

    def total(self) -> Lagged:
        """The moments of all pairs."""
        return sum(self.folds[1:], self.folds[0])


class Selected(NamedTuple):
    """The chosen setting, and its fit."""

    candidate: TransitionCandidate
    regularization: float
    modes: TransitionModes
    table: dict[str, np.ndarray]  # empty if there was nothing to choose


def select(
    candidates: Sequence[TransitionCandidate], epsilons: Sequence[float], count: int, reversible: bool
) -> Selected:
    """Fit ``count`` modes with the setting whose modes, from the other folds, have the largest mean score on a fold.

    If there are too few pairs to hold some out (``score`` is NaN), the setting in the middle is used.
    """
    scores = np.full((len(candidates), len(epsilons)), np.nan)
    if scores.size > 1:
        for row, candidate in enumerate(candidates):
            scores[row] = _held_out(candidate, epsilons, count, reversible)
    if np.any(np.isfinite(scores)):
        i, j = divmod(int(np.nanargmax(scores)), len(epsilons))
    else:
        i, j = len(candidates) // 2, len(epsilons) // 2
    c = covariances(candidates[i].total(), reversible)
    ((left, right),) = subspaces(c, [epsilons[j]], count)
    table = {
        "bandwidth": np.repeat([candidate.bandwidth for candidate in candidates], len(epsilons)),
        "regularization": np.tile(epsilons, len(candidates)),
        "score": scores.ravel() + 1.0,
    }
    return Selected(
        candidates[i], float(epsilons[j]), transition_ritz(c, left, right), table if scores.size > 1 else {}
    )


def _held_out(candidate: TransitionCandidate, epsilons, count, reversible) -> np.ndarray:
    """Mean score over the folds, for each ε."""
    whole = candidate.total()
    found = []
    for fold in candidate.folds:
        if 0 < fold.weight < whole.weight:
            rest, held_out = covariances(whole - fold, reversible), covariances(fold, reversible)
            if rest.vary():
                found.append([vamp2(held_out, *sides) for sides in subspaces(rest, epsilons, count)])
    return np.mean(found, axis=0) if len(found) > 1 else np.full(len(epsilons), np.nan)
