"""Orthogonal matching pursuit with heredity: terms chosen one after the other, stopped by held-out values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, combinations, combinations_with_replacement
from typing import NamedTuple

import numpy as np

from kmc.surrogates.scale_group import ScaleGroup
from kmc.surrogates.term_regression import Regression
from kmc.surrogates.terms import extended, products
from kmc.surrogates.terms_jit_state import MOST_FACTORS

EXACT = 1e-3  # nats

_MOST_CUBICS = 5000  # all cubics in 29 coordinates; in more, only squares times a coordinate
_MOST_CANDIDATES = 16_000
_AT_A_TIME, _AMONG = 8, 40  # terms chosen between two looks at all candidates, from the best so many
_LEAST_NEW = 1e-4  # part of a candidate's square that the chosen terms do not explain
_WORTH = 0.98  # of the held-out error ...
_PATIENCE = 4  # ... after so many steps
_MOST_TERMS = 0.45  # of the values

Factors = tuple[int, ...]  # of a term: indices into w, see :class:`kmc.surrogates.terms.Terms`
Exponential = tuple[int, float]  # its driver and rate
Step = Callable[[int, dict[int, int]], Iterator[Factors]]  # candidates, from the dimension and the drivers


class Found(NamedTuple):
    """Factors of terms, with the drivers and rates of their exponentials: see :class:`kmc.surrogates.terms.Terms`."""

    factors: np.ndarray  # (s, MOST_FACTORS)
    drivers: np.ndarray  # (e,)
    rates: np.ndarray  # (e,)
    error: float  # of held-out values, in nats
    ties: np.ndarray | None = None  # (s, q), if terms share coefficients
    groups: tuple[ScaleGroup, ...] = ()  # those of the terms that do


def pursued(
    v: np.ndarray,
    exponentials: list[Exponential],
    chosen: list[Factors],
    *,
    regression: Regression,
    steps: list[tuple[Step, ...]],
) -> Found:
    """Terms of coordinates and these exponentials, chosen one after the other, beside those that are chosen already.

    Candidates of one step compete; a further step begins when the last one finds nothing more.
    """
    n, dim = v.shape
    drivers, rates = np.array([j for j, _ in exponentials], dtype=np.int64), np.array([r for _, r in exponentials])
    powers = {1 + dim + e: j + 1 for e, (j, _) in enumerate(exponentials)}
    chosen = list(chosen)
    candidates = Candidates(extended(v, drivers, rates), regression, known=chosen)
    best, best_size = regression.held_out_error, len(chosen)
    for step in steps:
        candidates.extend(chain(*(more(dim, powers) for more in step)))
        stalled = 0
        while stalled < _PATIENCE and best > EXACT and len(chosen) < _MOST_TERMS * n:
            new = candidates.take()
            if not new:
                break
            chosen += new
            candidates.extend(_heirs(new, dim, powers=powers, chosen=chosen))
            stalled += 1
            if regression.held_out_error < _WORTH * best:
                best, best_size, stalled = regression.held_out_error, len(chosen), 0
    factors = np.array(chosen[:best_size], dtype=np.int64)
    used, index = np.unique(factors[factors > dim], return_inverse=True)
    factors[factors > dim] = 1 + dim + index
    return Found(factors, drivers[used - 1 - dim], rates[used - 1 - dim], best)


def quadratic_factors(dim: int) -> list[Factors]:
    """The factors of all v_i and v_i v_j."""
    return [padded(c) for n in (1, 2) for c in combinations_with_replacement(range(1, dim + 1), n)]


def with_exponentials(dim: int, powers: dict[int, int]) -> Iterator[Factors]:
    """Exponentials, alone and times a coordinate or its square."""
    for e, driver in powers.items():
        yield padded((e,))
        for i in range(1, dim + 1):
            if i != driver:
                yield padded((e, i, i))
                yield padded((e, i))


def alone(first: int) -> Step:
    """Exponentials of one coordinate, from this one on."""
    return lambda dim, powers: (padded((e,)) for e in powers if e > dim + first)


def pairs(dim: int, powers: dict[int, int]) -> Iterator[Factors]:
    """Products of two coordinates."""
    del powers
    yield from (padded(pair) for pair in combinations(range(1, dim + 1), 2))


def cubics(dim: int, powers: dict[int, int]) -> Iterator[Factors]:
    """All cubics, or those with a square if there are too many."""
    del powers
    everything = dim * (dim + 1) * (dim + 2) // 6 <= _MOST_CUBICS
    cubics = combinations_with_replacement(range(1, dim + 1), 3)
    squares = ((i, i, j) for i in range(1, dim + 1) for j in range(1, dim + 1))
    yield from map(padded, cubics if everything else squares)


def _heirs(new: list[Factors], dim: int, *, powers: dict[int, int], chosen: list[Factors]) -> Iterator[Factors]:
    """Terms that resemble chosen ones: times one of their coordinates, or with another one under an exponential."""
    exponentials = {f for f in chain.from_iterable(chosen) if f > dim}
    for factors in new:
        used = [f for f in factors if f]
        coordinates = [f for f in used if f <= dim]
        if len(used) < MOST_FACTORS:
            yield from (padded((*used, f)) for f in set(coordinates))
        for e in used:
            if e <= dim:
                continue
            for i in set(coordinates):
                yield from (padded((e, i, j)) for j in range(1, dim + 1) if j != powers[e])
            if len(coordinates) + 2 <= MOST_FACTORS:
                others = sorted(f for f in exponentials if powers[f] != powers[e])
                yield from (padded((e, f, *coordinates)) for f in others)


def columns_of(v: np.ndarray, factors: list[Factors], exponentials: list[Exponential] | None = None) -> np.ndarray:
    """The columns of these factors, in w with these exponentials; 1 comes first if there are none."""
    found = exponentials or []
    w = extended(v, np.array([j for j, _ in found], dtype=np.int64), np.array([rate for _, rate in found]))
    return products(w, np.array([*([] if found else [(0,) * MOST_FACTORS]), *factors]))


def padded(factors: Iterable[int]) -> tuple[int, ...]:
    """In descending order, filled up with zeros."""
    found = sorted(factors, reverse=True)
    return (*found, *(0,) * (MOST_FACTORS - len(found)))


class Candidates:
    """Terms that may be chosen, as columns of the training rows."""

    def __init__(self, w: np.ndarray, regression: Regression, known: list[Factors]):
        self._w, self._regression, self._seen = w, regression, set(known)
        self._factors: list[Factors] = []
        self._columns = np.empty((len(w) - regression.n_held, 0), dtype=np.float32)
        self._left = np.empty(0)  # part of each column's square that the chosen terms do not explain

    def extend(self, factors: Iterable[Factors]) -> None:
        """Further candidates; those that were seen before are left out."""
        room = _MOST_CANDIDATES - len(self._factors)
        new = [f for f in dict.fromkeys(factors) if f not in self._seen][: max(room, 0)]
        if not new:
            return
        self._seen.update(new)
        at = self._regression.n_held
        columns = self._regression.root[at:, None] * products(self._w[at:], np.array(new))
        size = np.sqrt(np.sum(columns**2, axis=0))
        columns = (columns / np.where(size > 0, size, 1.0)).astype(np.float32)
        explained = self._regression.columns[at:].astype(np.float32).T @ columns
        self._left = np.append(self._left, np.sum(columns**2, axis=0) - np.sum(explained**2, axis=0))
        self._columns = np.hstack([self._columns, columns])
        self._factors += new

    def take(self) -> list[Factors]:
        """The terms that reduce the training error most; they are added to the regression."""
        regression, at = self._regression, self._regression.n_held
        along = self._columns.T @ regression.residual[at:].astype(np.float32)
        gain = np.where(self._left > _LEAST_NEW, along**2 / np.maximum(self._left, _LEAST_NEW), 0.0)
        few = np.argsort(-gain)[:_AMONG]
        few = few[gain[few] > 0]
        if not len(few):
            return []
        columns = regression.projected(products(self._w, np.array([self._factors[i] for i in few])))
        last = gain[few[-1]]
        residual, left = regression.residual[at:].copy(), columns[at:].copy()
        taken: list[int] = []
        for _ in range(min(_AT_A_TIME, len(few))):
            square = np.sum(left**2, axis=0)
            known = square > _LEAST_NEW * np.sum(columns[at:] ** 2, axis=0)
            gains = np.where(known, (left.T @ residual) ** 2 / np.maximum(square, 1e-300), 0.0)
            best = int(np.argmax(gains))
            if gains[best] <= (last if taken else 0.0):
                break
            direction = left[:, best] / np.sqrt(square[best])
            residual -= direction * (direction @ residual)
            left -= np.outer(direction, direction @ left)
            taken.append(best)
        before = regression.columns.shape[1]
        regression.add_columns(columns[:, taken])
        new = regression.columns[at:, before:].astype(np.float32)
        self._left -= np.sum((new.T @ self._columns) ** 2, axis=0)
        chosen = few[taken]
        kept = np.delete(np.arange(len(self._factors)), chosen)
        found = [self._factors[i] for i in chosen]
        self._factors = [self._factors[i] for i in kept]
        self._columns, self._left = self._columns[:, kept], self._left[kept]
        return found
