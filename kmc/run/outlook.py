"""Learns from a run which proposals will be accepted, so that better points are evaluated in advance.

The kernel is frozen, but what is known of the target is not: a surrogate's error at a point decides whether a proposal
that ends there is accepted. The logarithm of the acceptance ratio is the error's difference between the proposal and
the state; a polynomial of the point with few parameters explains most of it after some hundred decisions. Nothing that
a chain draws depends on this: only which points idle workers evaluate.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from functools import cache
from itertools import combinations_with_replacement
from math import comb
from typing import NamedTuple

import numpy as np

from kmc.mcmc.lanes import Jump

_FIRST = 200  # decisions before the first fit
_GROWTH = 1.4  # of their number between two fits
_MOST = 4000  # the latest ones are used
_PER_TERM = 2.0  # decisions for each term
_MOST_TERMS = 400
_HELD_OUT = 4  # one decision in so many tells how good a fit is
_USEFUL = 0.9  # largest part of the standard deviation that may be left
_PENALTIES = 1.0, 10.0, 100.0, 1000.0
_LEAST = 0.01  # no branch is taken to be impossible


class _Fit(NamedTuple):
    center: np.ndarray  # (d,)
    scale: np.ndarray  # (d,)
    degree: int
    weights: np.ndarray  # (terms,)
    errors: np.ndarray  # of held-out decisions, sorted

    def change(self, jump: Jump) -> float:
        """The expected logarithm of the acceptance ratio."""
        both = _terms((np.stack([jump.start, jump.end]) - self.center) / self.scale, self.degree)
        return float((both[1] - both[0]) @ self.weights)


class Outlook:
    """What the decisions so far, of all chains, tell about the next ones."""

    def __init__(self) -> None:
        self._seen: dict[int, deque[tuple[Jump, float]]] = {}  # by move
        self._counts: dict[int, int] = {}
        self._fits: dict[int, _Fit | None] = {}
        self._due: dict[int, float] = {}

    def note(self, jump: Jump, change: float) -> None:
        """Learn from a decision; ``change`` is the logarithm of its acceptance ratio."""
        if not np.isfinite(change):
            return
        move = jump.move
        self._seen.setdefault(move, deque(maxlen=_MOST)).append((jump, change))
        self._counts[move] = self._counts.get(move, 0) + 1
        if self._counts[move] >= self._due.get(move, _FIRST):
            self._due[move] = _GROWTH * self._counts[move]
            self._fits[move] = _fitted(list(self._seen[move]))

    def chance(self, jump: Jump, uniform: float) -> float | None:
        """The probability that a proposal is accepted, with this number drawn; None if nothing is known."""
        fit = self._fits.get(jump.move)
        if fit is None:
            return None
        if not uniform > 0.0:
            return 1.0 - _LEAST
        below = bisect_right(fit.errors, np.log(uniform) - fit.change(jump))
        return float(np.clip(1.0 - below / len(fit.errors), _LEAST, 1.0 - _LEAST))


def _fitted(seen: list[tuple[Jump, float]]) -> _Fit | None:
    """The best polynomial, or None if it explains next to nothing."""
    starts, ends = (np.array([getattr(jump, name) for jump, _ in seen]) for name in ("start", "end"))
    changes = np.array([change for _, change in seen])
    low, high = np.quantile(changes, [0.01, 0.99])  # far from the bulk nothing is to be learned for it
    changes = np.clip(changes, low, high)
    center, scale = starts.mean(axis=0), starts.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    held = np.arange(len(seen)) % _HELD_OUT == 0
    best: tuple[float, float, int, np.ndarray, np.ndarray] | None = None
    for degree in (2, 3):
        size = _size(starts.shape[1], degree)
        if size > min(_MOST_TERMS, len(seen) / _PER_TERM):
            break
        rows = _terms((ends - center) / scale, degree) - _terms((starts - center) / scale, degree)
        sums = _Sums.of(rows[~held], changes[~held])
        for penalty in _PENALTIES:
            errors = changes[held] - rows[held] @ sums.weights(penalty)
            if best is None or np.std(errors) < best[0]:
                best = float(np.std(errors)), penalty, degree, rows, errors
    if best is None or best[0] > _USEFUL * np.std(changes[held]):
        return None
    _, penalty, degree, rows, errors = best
    return _Fit(center, scale, degree, _Sums.of(rows, changes).weights(penalty), np.sort(errors))


class _Sums(NamedTuple):
    """Of a least-squares problem."""

    gram: np.ndarray  # (terms, terms)
    moments: np.ndarray  # (terms,)

    @classmethod
    def of(cls, rows: np.ndarray, values: np.ndarray) -> _Sums:
        return cls(rows.T @ rows, rows.T @ values)

    def weights(self, penalty: float) -> np.ndarray:
        """Of a ridge regression."""
        return np.linalg.solve(self.gram + penalty * np.eye(len(self.gram)), self.moments)


def _size(dim: int, degree: int) -> int:
    """Products of one to ``degree`` coordinates."""
    return comb(dim + degree, degree) - 1


def _terms(z: np.ndarray, degree: int) -> np.ndarray:
    """Products (n, terms) of one to ``degree`` coordinates of the rows of z (n, d)."""
    padded = np.column_stack([np.ones(len(z)), z])
    first, *others = _factors(z.shape[1], degree)
    terms = padded[:, first]
    for other in others:
        terms *= padded[:, other]
    return terms


@cache
def _factors(dim: int, degree: int) -> np.ndarray:
    """The columns (degree, terms) of a matrix of ones and coordinates of which the terms are products."""
    return np.array(list(combinations_with_replacement(range(dim + 1), degree))[1:]).T
