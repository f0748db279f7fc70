"""Which terms: orthogonal matching pursuit with heredity, stopped by held-out values.

As in sparse polynomial chaos expansions (Blatman and Sudret 2011, "Adaptive sparse polynomial chaos expansion based on
least angle regression", Journal of Computational Physics 230), with exponentials of coordinates beside polynomials: a
log-scale, the log of a variance and the log of a precision enter as exp(-2 t), exp(-t) and exp(t).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from itertools import chain, combinations, combinations_with_replacement
from typing import NamedTuple

import numpy as np
from scipy import linalg

from kmc.surrogates.terms import extended, products
from kmc.surrogates.terms_jit_state import LARGEST, MOST_FACTORS
from kmc.surrogates.trend import quadratic_features
from kmc.surrogates.wide_trend import is_wide

Factors = tuple[int, ...]  # of a term: indices into w, see :class:`kmc.surrogates.terms.Terms`
Exponential = tuple[int, float]  # its driver and rate
Step = Callable[[int, dict[int, int]], Iterator[Factors]]  # candidates, from the dimension and the drivers

# Set on histories of differential evolution on hierarchical targets (tried: terms).
POWERS = (-2.0,), (-1.0,), (1.0,), (2.0,), (-1.0, -2.0), (1.0, 2.0)  # of exp(u_j), alone and together
_SPREADS = 0.15, 5.0  # of power times u_j: outside, an exponential is a polynomial, or has a single value that matters
_MOST_DRIVERS = 8  # coordinates with exponentials
_WORTH_BLOCK = 0.85  # largest fraction of the held-out error left by a driver's exponentials
_SIMPLER = 1.1  # times the least error: one power with at most this is preferred to two
_LARGEST_BLOCK = 100  # quadratics, of which whole blocks are tried
_MOST_GROUPS = 6  # in many dimensions
_ROOM_PER_DIM = 5  # values beyond the terms, per dimension, with which a group is tried
_TRIED_GROUPS, _CENTERS = (
    12,
    2,
)  # groups that are tried, by their correlation with the residual, and centers of a driver
_MOST_CUBICS = 5000  # all cubics in 29 coordinates; in more, only squares times a coordinate
_MOST_CANDIDATES = 16_000
_HELD_OUT = 0.2  # of the values
_TRIMMED = 0.01  # of them, with the largest residuals: an exponential extrapolates badly to a few far points
_RIDGE = 1e-4  # of a block of terms, in units of their squares
_AT_A_TIME, _AMONG = 8, 40  # terms chosen between two looks at all candidates, from the best so many
_LEAST_NEW = 1e-4  # part of a candidate's square that the chosen terms do not explain
_WORTH = 0.98  # of the held-out error ...
_PATIENCE = 4  # ... after so many steps
_MOST_TERMS = 0.45  # of the values
_EXACT = 1e-3  # nats


def quadratic_factors(dim: int) -> list[Factors]:
    """The factors of all v_i and v_i v_j."""
    return [_padded(c) for n in (1, 2) for c in combinations_with_replacement(range(1, dim + 1), n)]


def find_factors(
    v: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    *,
    spreads: np.ndarray,
    center: np.ndarray | float = 0.0,
    rng: np.random.Generator,
) -> Found:
    """Terms that explain values, and their held-out error.

    Parameters
    ----------
    v : ndarray, shape (n, d)
        Coordinates of spread about one.
    y, weights : ndarray, shape (n,)
        Values to be explained, and their weights.
    spreads : ndarray, shape (d,)
        Of the user's (or transported) coordinates u = center + spreads * v.
    center : ndarray, shape (d,), optional
        Needed in many dimensions only.
    rng : Generator
        Chooses the held-out values.
    """
    n, dim = v.shape
    order = rng.permutation(n)
    regression = _Regression(y[order], weights[order], int(_HELD_OUT * n))
    v = v[order]
    if is_wide(dim):
        return _by_groups(v, v * spreads + center, spreads, regression)
    chosen = quadratic_factors(dim)
    regression.add(_products(v, chosen))
    promising = _promising_drivers(v, spreads, regression)
    several = _one_by_one(promising)
    steps = _with_exponentials, _cubics
    searches = [_pursued(v, several, chosen, copy(regression), steps=[steps])]
    if len(chosen) <= _LARGEST_BLOCK and searches[0].error > _EXACT:
        blocks = _by_blocks(v, promising, copy(regression))
        searches.append(_pursued(v, blocks, chosen, copy(regression), steps=[(step,) for step in steps]))
    return min(searches, key=lambda found: found.error)


class Found(NamedTuple):
    """Factors of terms, with the drivers and rates of their exponentials: see :class:`kmc.surrogates.terms.Terms`."""

    factors: np.ndarray  # (s, MOST_FACTORS)
    drivers: np.ndarray  # (e,)
    rates: np.ndarray  # (e,)
    error: float  # of held-out values, in nats


def _pursued(
    v: np.ndarray,
    exponentials: list[Exponential],
    chosen: list[Factors],
    regression: _Regression,
    *,
    steps: list[tuple[Step, ...]],
) -> Found:
    """Terms of coordinates and these exponentials, chosen one after the other, beside those that are chosen already.

    Candidates of one step compete; a further step begins when the last one finds nothing more.
    """
    n, dim = v.shape
    drivers, rates = np.array([j for j, _ in exponentials], dtype=np.int64), np.array([r for _, r in exponentials])
    powers = {1 + dim + e: j + 1 for e, (j, _) in enumerate(exponentials)}
    chosen = list(chosen)
    candidates = _Candidates(extended(v, drivers, rates), regression, known=chosen)
    best, best_size = regression.held_out_error, len(chosen)
    for step in steps:
        candidates.extend(chain(*(more(dim, powers) for more in step)))
        stalled = 0
        while stalled < _PATIENCE and best > _EXACT and len(chosen) < _MOST_TERMS * n:
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


def _by_groups(v: np.ndarray, u: np.ndarray, spreads: np.ndarray, regression: _Regression) -> Found:
    """Terms in many dimensions, where not all quadratics can be tried: whole groups around a center, then pairs.

    A group is exp(rate v_j) times 1, all v_i, v_i² and v_i v_k: that is (v_i - v_k)² for members around a center v_k,
    and the others get coefficients near zero. The last terms are pairs and those that resemble chosen ones.
    """
    dim = v.shape[1]
    chosen = [_padded(f) for i in range(1, dim + 1) for f in ((i,), (i, i))]
    regression.add(_products(v, chosen))
    possible = [(j, rate) for j in range(dim) for option in _options(spreads[j]) for rate in option[: len(option) == 1]]
    exponentials: list[Exponential] = []
    while regression.held_out_error > _EXACT and len(exponentials) < _MOST_GROUPS:
        group = _best_group(v, u, possible, regression)
        if group is None:
            break
        j, rate, center = group
        regression.add(_group(v, j, rate, center))
        exponentials.append((j, rate))
        chosen += _group_factors(dim, dim + len(exponentials), j + 1, center)
    return _pursued(v, exponentials, chosen, regression, steps=[(_pairs, _with_exponentials)])


def _best_group(
    v: np.ndarray, u: np.ndarray, possible: list[Exponential], regression: _Regression
) -> tuple[int, float, int] | None:
    """Driver, rate and center of the group that reduces the held-out error most, if it does so clearly."""
    if regression.room < _ROOM_PER_DIM * v.shape[1]:
        return None
    likely = sorted((found for j, rate in possible for found in _centers(v, u, j, rate, regression)), reverse=True)
    trials = [(regression.trial(_group(v, j, rate, k)), j, rate, k) for _, j, rate, k in likely[:_TRIED_GROUPS]]
    if not trials or min(trials)[0] > _WORTH_BLOCK * regression.held_out_error:
        return None
    return min(trials)[1:]


def _centers(
    v: np.ndarray, u: np.ndarray, j: int, rate: float, regression: _Regression
) -> list[tuple[float, int, float, int]]:
    """Coordinates k for which exp(rate v_j) Σ_i (u_i - u_k)² explains most of the residual, after how much."""
    at, dim = regression.n_held, len(v[0])
    members = np.arange(dim) != j
    total, squares = u[:, members].sum(axis=1), np.sum(u[:, members] ** 2, axis=1)
    columns = squares[:, None] - 2.0 * u * total[:, None] + (dim - 1) * u**2
    columns *= np.exp(np.clip(rate * v[:, j : j + 1], -LARGEST, LARGEST))
    columns = regression.projected(columns)[at:]
    along = columns.T @ regression.residual[at:]
    gain = along**2 / np.maximum(np.sum(columns**2, axis=0), 1e-300)
    gain[j] = 0.0
    return [(float(gain[k]), j, rate, int(k)) for k in np.argsort(-gain)[:_CENTERS]]


def _group(v: np.ndarray, j: int, rate: float, center: int) -> np.ndarray:
    return _products(v, _group_factors(v.shape[1], 1 + v.shape[1], j + 1, center), [(j, rate)])


def _group_factors(dim: int, e: int, driver: int, center: int) -> list[Factors]:
    others = [i for i in range(1, dim + 1) if i != driver]
    with_center = [(e, i, center + 1) for i in others if i != center + 1]
    return [_padded(f) for f in [(e,), *((e, i) for i in others), *((e, i, i) for i in others), *with_center]]


def _one_by_one(promising: dict[int, list[tuple[float, ...]]]) -> list[Exponential]:
    return [(j, option[0]) for j, options in promising.items() for option in options if len(option) == 1]


def _products(v: np.ndarray, factors: list[Factors], exponentials: list[Exponential] | None = None) -> np.ndarray:
    """The columns of these factors, in w with these exponentials; 1 comes first if there are none."""
    found = exponentials or []
    w = extended(v, np.array([j for j, _ in found], dtype=np.int64), np.array([rate for _, rate in found]))
    return products(w, np.array([*([] if found else [(0,) * MOST_FACTORS]), *factors]))


class _Regression:
    """Least squares by orthogonal columns, on training rows, with predictions of the held-out ones (the first)."""

    def __init__(self, y: np.ndarray, weights: np.ndarray, n_held: int):
        self.n_held = n_held
        self.root = np.sqrt(weights)
        self.residual = self.root * y  # (n,) of held-out and training rows
        self.columns = np.empty((len(y), 0))  # orthonormal on the training rows, carried along on the others
        self._held_weights = weights[:n_held]

    @property
    def held_out_error(self) -> float:
        """Weighted root mean square, without the largest residuals."""
        return self._error(self.residual[: self.n_held])

    @property
    def room(self) -> int:
        """How many more columns the training rows determine."""
        return len(self.residual) - self.n_held - self.columns.shape[1]

    def trial(self, terms: np.ndarray) -> float:
        """The held-out error with these terms (n, k), too: by a ridge regression, as there are many."""
        at, columns = self.n_held, self.projected(terms)
        columns /= np.sqrt(np.sum(columns[at:] ** 2, axis=0)) + 1e-300
        matrix = columns[at:].T @ columns[at:]
        matrix[np.diag_indices_from(matrix)] += _RIDGE
        solution = linalg.solve(matrix, columns[at:].T @ self.residual[at:], assume_a="pos", check_finite=False)
        return self._error(self.residual[:at] - columns[:at] @ solution)

    def _error(self, residual: np.ndarray) -> float:
        square = residual**2
        kept = np.argsort(square)[: int(np.ceil((1.0 - _TRIMMED) * len(square)))]
        return float(np.sqrt(square[kept].sum() / self._held_weights[kept].sum()))

    def projected(self, terms: np.ndarray) -> np.ndarray:
        """Weighted terms (n, k) minus what the columns explain."""
        columns = self.root[:, None] * terms
        for _ in range(2):
            columns = columns - self.columns @ (self.columns[self.n_held :].T @ columns[self.n_held :])
        return columns

    def add(self, terms: np.ndarray) -> None:
        """Fit these terms (n, k), too."""
        self.add_columns(self.projected(terms))

    def add_columns(self, columns: np.ndarray) -> None:
        """Fit projected columns (n, k), too."""
        q, r = np.linalg.qr(columns[self.n_held :])
        size = np.abs(np.diag(r))
        kept = size > 1e-7 * size.max(initial=0.0)
        if not np.all(kept):
            return self.add_columns(columns[:, kept])
        new = np.vstack([np.linalg.solve(r.T, columns[: self.n_held].T).T, q])
        self.columns = np.hstack([self.columns, new])
        self.residual = self.residual - new @ (q.T @ self.residual[self.n_held :])


class _Candidates:
    """Terms that may be chosen, as columns of the training rows."""

    def __init__(self, w: np.ndarray, regression: _Regression, known: list[Factors]):
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


def _by_blocks(
    v: np.ndarray, promising: dict[int, list[tuple[float, ...]]], regression: _Regression
) -> list[Exponential]:
    """Drivers and rates of exponentials that clearly reduce the held-out error, times all quadratics."""
    promising, error = dict(promising), regression.held_out_error
    found: list[Exponential] = []
    while promising and error > _EXACT:
        trials = [
            (regression.trial(block), j, option)
            for j in promising
            for option in promising[j]
            if (block := _block(v, j, option)).shape[1] <= regression.room
        ]
        least = min(trials)[0] if trials else np.inf
        if least > _WORTH_BLOCK * error:
            break
        error, j, option = min((t for t in trials if t[0] <= _SIMPLER * least), key=lambda t: (len(t[2]), t[0]))
        regression.add(_block(v, j, option))
        found += [(j, rate) for rate in option]
        del promising[j]
    return found


def _promising_drivers(
    v: np.ndarray, spreads: np.ndarray, regression: _Regression
) -> dict[int, list[tuple[float, ...]]]:
    """Coordinates whose exponentials are correlated with the residual, and rates for each, alone and in pairs."""
    dim, at = v.shape[1], regression.n_held
    squares = v[at:] ** 2
    residual = regression.root[at:] * regression.residual[at:]
    found = []
    for j in range(dim):
        options = _options(spreads[j])
        if not options:
            continue
        others = np.delete(squares, j, axis=1)
        factors = np.exp(np.clip(v[at:, j : j + 1] * [option[0] for option in options], -LARGEST, LARGEST))
        along = others.T @ (residual[:, None] * factors)
        size = (others**2).T @ (regression.root[at:, None] * factors) ** 2
        found.append((float(np.max(np.sum(along**2 / size, axis=0))), j, options))
    found.sort(key=lambda entry: -entry[0])
    return {j: options for _, j, options in found[:_MOST_DRIVERS]}


def _options(spread: float) -> list[tuple[float, ...]]:
    """Rates of the exponentials of a coordinate, alone and in pairs."""
    low, high = _SPREADS
    options = [tuple(p * spread for p in option) for option in POWERS]
    return [option for option in options if all(low < abs(rate) < high for rate in option)]


def _block(v: np.ndarray, j: int, rates: tuple[float, ...]) -> np.ndarray:
    """The exponentials of coordinate j times all quadratics of the other coordinates."""
    others = quadratic_features(np.delete(v, j, axis=1))
    return np.hstack([np.exp(np.clip(rate * v[:, j : j + 1], -LARGEST, LARGEST)) * others for rate in rates])


def _with_exponentials(dim: int, powers: dict[int, int]) -> Iterator[Factors]:
    """Exponentials, alone and times a coordinate or its square."""
    for e, driver in powers.items():
        yield _padded((e,))
        for i in range(1, dim + 1):
            if i != driver:
                yield _padded((e, i, i))
                yield _padded((e, i))


def _pairs(dim: int, powers: dict[int, int]) -> Iterator[Factors]:
    """Products of two coordinates."""
    del powers
    yield from (_padded(pair) for pair in combinations(range(1, dim + 1), 2))


def _cubics(dim: int, powers: dict[int, int]) -> Iterator[Factors]:
    """All cubics, or those with a square if there are too many."""
    del powers
    everything = dim * (dim + 1) * (dim + 2) // 6 <= _MOST_CUBICS
    cubics = combinations_with_replacement(range(1, dim + 1), 3)
    squares = ((i, i, j) for i in range(1, dim + 1) for j in range(1, dim + 1))
    yield from map(_padded, cubics if everything else squares)


def _heirs(new: list[Factors], dim: int, *, powers: dict[int, int], chosen: list[Factors]) -> Iterator[Factors]:
    """Terms that resemble chosen ones: times one of their coordinates, or with another one under an exponential."""
    exponentials = {f for f in chain.from_iterable(chosen) if f > dim}
    for factors in new:
        used = [f for f in factors if f]
        coordinates = [f for f in used if f <= dim]
        if len(used) < MOST_FACTORS:
            yield from (_padded((*used, f)) for f in set(coordinates))
        for e in used:
            if e <= dim:
                continue
            for i in set(coordinates):
                yield from (_padded((e, i, j)) for j in range(1, dim + 1) if j != powers[e])
            if len(coordinates) + 2 <= MOST_FACTORS:
                others = sorted(f for f in exponentials if powers[f] != powers[e])
                yield from (_padded((e, f, *coordinates)) for f in others)


def _padded(factors: Iterable[int]) -> tuple[int, ...]:
    """In descending order, filled up with zeros."""
    found = sorted(factors, reverse=True)
    return (*found, *(0,) * (MOST_FACTORS - len(found)))
