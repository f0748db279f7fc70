"""Which terms: products of few coordinates and their exponentials that explain values.

As in sparse polynomial chaos expansions (Blatman and Sudret 2011, "Adaptive sparse polynomial chaos expansion based on
least angle regression", Journal of Computational Physics 230), with exponentials of coordinates beside polynomials: a
log-scale, the log of a variance and the log of a precision enter as exp(-2 t), exp(-t) and exp(t).
"""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import numpy as np
from scipy import linalg

from kmc.surrogates.term_pursuit import (
    EXACT,
    Exponential,
    Factors,
    Found,
    Step,
    columns_of,
    cubics,
    padded,
    pairs,
    pursued,
    quadratic_factors,
    with_exponentials,
)
from kmc.surrogates.term_regression import Regression
from kmc.surrogates.terms_jit_state import LARGEST
from kmc.surrogates.trend import quadratic_features
from kmc.surrogates.wide_trend import is_wide

# Set on histories of differential evolution on hierarchical targets (tried: terms).
POWERS = (-2.0,), (-1.0,), (1.0,), (2.0,), (-1.0, -2.0), (1.0, 2.0)  # of exp(u_j), alone and together
_SPREADS = 0.15, 5.0  # of power times u_j: outside, an exponential is a polynomial, or has a single value that matters
_MOST_DRIVERS = 8  # coordinates with exponentials
_WORTH_BLOCK = 0.85  # largest fraction of the held-out error left by a driver's exponentials
_SIMPLER = 1.1  # times the least error: one power with at most this is preferred to two
_LARGEST_BLOCK = 100  # quadratics, of which whole blocks are tried
_MOST_GROUPS = 6  # in many dimensions
_ROOM_PER_DIM = 5  # values beyond the terms, per dimension, with which a group is tried
_CENTERS, _TRIED_GROUPS = 2, 5  # most likely centers of each driver, and pairs of driver and center that are tried
_MEMBER, _MOST_MEMBERS = 0.5, 0.9  # of this quantile of the coefficients, from which on a coordinate is in the group
_KNOWN = 0.02  # nats of held-out error, below which no further group is tried
_HELD_OUT = 0.2  # of the values


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
    regression = Regression(y[order], weights[order], int(_HELD_OUT * n))
    v = v[order]
    if is_wide(dim):
        return _by_groups(_Points(v, spreads, np.broadcast_to(center, spreads.shape)), regression)
    chosen = quadratic_factors(dim)
    regression.add(columns_of(v, chosen))
    promising = _promising_drivers(v, spreads, regression)
    several = _one_by_one(promising)
    steps = with_exponentials, cubics
    searches = [pursued(v, several, chosen, regression=copy(regression), steps=[steps])]
    if len(chosen) <= _LARGEST_BLOCK and searches[0].error > EXACT:
        blocks = _by_blocks(v, promising, copy(regression))
        searches.append(pursued(v, blocks, chosen, regression=copy(regression), steps=[(step,) for step in steps]))
    return min(searches, key=lambda found: found.error)


class _Points(NamedTuple):
    """Coordinates u = middle + spreads v."""

    v: np.ndarray  # (n, d)
    spreads: np.ndarray  # (d,)
    middle: np.ndarray  # (d,)

    @property
    def u(self) -> np.ndarray:
        return self.middle + self.spreads * self.v


class _Group(NamedTuple):
    """Terms exp(rate v_j) times 1, all v_i, v_i² and v_i v_k: sums of (u_i - u_k)² for members i around a center u_k.

    Where the members have one scale, as in most hierarchies, their sum is a single column, which is extrapolated far
    better than some hundred; others get coefficients of their own, near zero where i is no member.
    """

    driver: int
    rate: float
    center: int
    sums: np.ndarray = np.empty((0, 0))  # (t, 1) the coefficients of its terms in that sum; (0, 0): there is none

    def factors(self, dim: int, e: int) -> list[Factors]:
        """Of its terms, for the exponential with index e."""
        center, others = self.center + 1, [i for i in range(1, dim + 1) if i != self.driver + 1]
        with_center = [(e, i, center) for i in others if i != center]
        return [padded(f) for f in [(e,), *((e, i) for i in others), *((e, i, i) for i in others), *with_center]]

    def columns(self, v: np.ndarray) -> np.ndarray:
        """Its terms, or their sum, at the rows of v."""
        dim = v.shape[1]
        separate = columns_of(v, self.factors(dim, 1 + dim), [(self.driver, self.rate)])
        return separate @ self.sums if self.sums.size else separate

    def summed(self, members: np.ndarray, points: _Points) -> _Group:
        """The same with one coefficient: that of Σ (u_i - u_k)² over members (d,), a mask."""
        spreads, middle = points.spreads, points.middle
        k, others = self.center, np.arange(len(spreads)) != self.driver
        member = np.where(others & (np.arange(len(spreads)) != k), members, 0.0)
        apart, count = member * (middle - middle[k]), member.sum()
        linear, squares = 2.0 * spreads * apart, member * spreads**2
        linear[k], squares[k] = -2.0 * spreads[k] * apart.sum(), count * spreads[k] ** 2
        crossed = np.delete(-2.0 * member * spreads * spreads[k], [self.driver, k])
        constant = [np.sum(member * (middle - middle[k]) ** 2)]
        sums = np.concatenate([constant, linear[others], squares[others], crossed])
        return self._replace(sums=sums[:, None])


def _by_groups(points: _Points, regression: Regression) -> Found:
    """Terms in many dimensions, where not all quadratics can be tried: whole groups, then pairs and their heirs."""
    v, spreads = points.v, points.spreads
    dim = v.shape[1]
    chosen = [padded(f) for i in range(1, dim + 1) for f in ((i,), (i, i))]
    regression.add(columns_of(v, chosen))
    ties = [np.eye(len(chosen))]
    possible = [(j, rate) for j in range(dim) for option in _options(spreads[j]) for rate in option[: len(option) == 1]]
    exponentials: list[Exponential] = []
    steps: list[tuple[Step, ...]] = [(pairs, with_exponentials)]
    best = pursued(v, exponentials, chosen, regression=copy(regression), steps=steps)
    while best.error > _KNOWN and len(exponentials) < _MOST_GROUPS:
        group = _best_group(points, possible, regression)
        if group is None:
            break
        regression.add(group.columns(v))
        exponentials.append((group.driver, group.rate))
        new = group.factors(dim, dim + len(exponentials))
        ties.append(group.sums if group.sums.size else np.eye(len(new)))
        chosen += new
        found = pursued(v, exponentials, chosen, regression=copy(regression), steps=steps)
        if found.error < _WORTH_BLOCK * best.error:
            best = found._replace(ties=linalg.block_diag(*ties, np.eye(len(found.factors) - len(chosen))))
    return best


def _best_group(points: _Points, possible: list[Exponential], regression: Regression) -> _Group | None:
    """The group that reduces the held-out error most, if it does so clearly; with one coefficient, if that will do."""
    v, dim = points.v, len(points.spreads)
    if regression.room < _ROOM_PER_DIM * dim:
        return None
    u = points.u
    likely = sorted((found for one in possible for found in _centers(v, u, one, regression=regression)), reverse=True)
    around = list(dict.fromkeys((j, k) for _, j, _, k in likely))[:_TRIED_GROUPS]
    groups = [_Group(j, rate, k) for j, k in around for driver, rate in possible if driver == j]
    summed = [
        group.summed(members, points)
        for group in groups
        for members in (np.ones(dim), _members(points, group, regression))
    ]
    trials = {id(group): regression.trial(group.columns(v)) for group in [*summed, *groups]}
    least = min(trials.values(), default=np.inf)
    if least > _WORTH_BLOCK * regression.held_out_error:
        return None
    simple = min(summed, key=lambda group: trials[id(group)])
    return simple if trials[id(simple)] < _SIMPLER * least else min(groups, key=lambda group: trials[id(group)])


def _centers(
    v: np.ndarray, u: np.ndarray, exponential: Exponential, *, regression: Regression
) -> list[tuple[float, int, float, int]]:
    """Coordinates k for which exp(rate v_j) Σ_i (u_i - u_k)² explains most of the residual, after how much."""
    j, rate = exponential
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


def _members(points: _Points, group: _Group, regression: Regression) -> np.ndarray:
    """Which coordinates (d,) the group seems to have: those whose (u_i - u_k)² have large coefficients."""
    v, spreads, _ = points
    possible = np.delete(np.arange(len(spreads)), [group.driver, group.center])
    each = [group.summed(np.arange(len(spreads)) == i, points).sums for i in possible]
    coefficients = np.zeros(len(spreads))
    coefficients[possible] = np.abs(regression.solution(group.columns(v) @ np.hstack(each)))
    return coefficients > _MEMBER * np.quantile(coefficients[possible], _MOST_MEMBERS)


def _one_by_one(promising: dict[int, list[tuple[float, ...]]]) -> list[Exponential]:
    return [(j, option[0]) for j, options in promising.items() for option in options if len(option) == 1]


def _by_blocks(
    v: np.ndarray, promising: dict[int, list[tuple[float, ...]]], regression: Regression
) -> list[Exponential]:
    """Drivers and rates of exponentials that clearly reduce the held-out error, times all quadratics."""
    promising, error = dict(promising), regression.held_out_error
    found: list[Exponential] = []
    while promising and error > EXACT:
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
    v: np.ndarray, spreads: np.ndarray, regression: Regression
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
