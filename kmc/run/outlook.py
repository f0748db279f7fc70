"""Learns from a run which proposals will be accepted, so that better points are evaluated in advance.

The kernel is frozen, but what is known of the target is not. The logarithm of the acceptance ratio of a surrogate's
proposal is the difference of the surrogate's errors at its end and at its start, and a polynomial of the point with few
parameters explains most of it after some hundred decisions. That of other proposals is mainly the difference of the
target's values, which another polynomial explains. For each kind of move the better one is used, if it is better than
none. Nothing that a chain draws depends on this: only which points idle workers evaluate.
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
_LEAST_HELD_OUT = 10  # of a kind of move
_FAR = 0.03  # part of the proposals that are left out of fits to the target: those of the lowest density
_USEFUL = 0.9  # largest part of the spread that may be left
_PENALTIES = 1.0, 10.0, 100.0, 1000.0
_LEAST = 0.01  # no branch is taken to be impossible


class _Polynomial(NamedTuple):
    center: np.ndarray  # (d,)
    scale: np.ndarray  # (d,)
    degree: int
    weights: np.ndarray  # (terms,)


class _Fit(NamedTuple):
    polynomial: _Polynomial
    of_target: bool  # of its values; or else of the logarithm of the acceptance ratio
    errors: np.ndarray  # of held-out decisions, sorted

    def change(self, jump: Jump) -> float:
        """The expected logarithm of the acceptance ratio."""
        center, scale, degree, weights = self.polynomial
        start, end = _terms((np.stack([jump.start, jump.end]) - center) / scale, degree)
        return float((end - start) @ weights) + (jump.log_ratio if self.of_target else 0.0)


class Outlook:
    """What the decisions so far, of all chains, tell about the next ones."""

    def __init__(self) -> None:
        self._seen: deque[tuple[Jump, float]] = deque(maxlen=_MOST)
        self._count, self._due = 0, float(_FIRST)
        self._fits: dict[int, _Fit] = {}  # by move

    def note(self, jump: Jump, change: float) -> None:
        """Learn from a decision; ``change`` is the logarithm of its acceptance ratio."""
        if not np.isfinite(change):
            return
        self._seen.append((jump, change))
        self._count += 1
        if self._count >= self._due:
            self._due = _GROWTH * self._count
            self._fits = _Decisions(list(self._seen)).fits()

    def chance(self, jump: Jump, uniform: float) -> float | None:
        """The probability that a proposal is accepted, with this number drawn; None if nothing is known."""
        fit = self._fits.get(jump.move)
        if fit is None:
            return None
        if not uniform > 0.0:
            return 1.0 - _LEAST
        below = bisect_right(fit.errors, np.log(uniform) - fit.change(jump))
        return float(np.clip(1.0 - below / len(fit.errors), _LEAST, 1.0 - _LEAST))


class _Decisions:
    """Those to learn from."""

    def __init__(self, seen: list[tuple[Jump, float]]):
        starts, ends = (np.array([getattr(jump, name) for jump, _ in seen]) for name in ("start", "end"))
        self._moves, ratios = (np.array([getattr(jump, name) for jump, _ in seen]) for name in ("move", "log_ratio"))
        self._changes = np.array([change for _, change in seen])
        self._target = self._changes - ratios
        scale = starts.std(axis=0)
        self._center, self._scale = starts.mean(axis=0), np.where(scale > 0, scale, 1.0)
        self._held = np.arange(len(seen)) % _HELD_OUT == 0
        z = (starts - self._center) / self._scale, (ends - self._center) / self._scale
        self._rows = {
            degree: _terms(z[1], degree) - _terms(z[0], degree)
            for degree in (2, 3)
            if _size(starts.shape[1], degree) <= min(_MOST_TERMS, len(seen) / _PER_TERM)
        }

    def fits(self) -> dict[int, _Fit]:
        """The best of each kind of move, if it explains enough."""
        near = self._target >= np.quantile(self._target, _FAR)
        of_target = self._polynomial(near, self._target)
        found = {}
        for move in np.unique(self._moves).tolist():
            mine = self._moves == move
            held = mine & self._held
            if held.sum() < _LEAST_HELD_OUT:
                continue
            best = _USEFUL * _spread(self._changes[held])
            low, high = np.quantile(self._changes[mine], [0.01, 0.99])
            own = self._polynomial(mine, np.clip(self._changes, low, high))
            for fitted, values in ((own, self._changes), (of_target, self._target)):
                if fitted is None:
                    continue
                polynomial, trained = fitted
                errors = values[held] - self._rows[polynomial.degree][held] @ trained
                if _spread(errors) < best:
                    best = _spread(errors)
                    found[move] = _Fit(polynomial, values is self._target, np.sort(errors))
        return found

    def _polynomial(self, which: np.ndarray, values: np.ndarray) -> tuple[_Polynomial, np.ndarray] | None:
        """The one that explains these decisions best, and its weights without those held out."""
        best: tuple[float, float, int, np.ndarray] | None = None
        train, held = which & ~self._held, which & self._held
        for degree, rows in self._rows.items():
            if rows.shape[1] > which.sum() / _PER_TERM:
                break
            sums = _Sums.of(rows[train], values[train])
            for penalty in _PENALTIES:
                weights = sums.weights(penalty)
                left = float(np.std(values[held] - rows[held] @ weights))
                if best is None or left < best[0]:
                    best = left, penalty, degree, weights
        if best is None:
            return None
        _, penalty, degree, trained = best
        weights = _Sums.of(self._rows[degree][which], values[which]).weights(penalty)
        return _Polynomial(self._center, self._scale, degree, weights), trained


def _spread(values: np.ndarray) -> float:
    """Between the 10 % and the 90 % quantile."""
    low, high = np.quantile(values, [0.1, 0.9])
    return float(high - low)


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
