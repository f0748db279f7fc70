"""Groups of terms that belong together: in hierarchical models, sums exp(-2 t) Σ_i (u_i - u_k)²."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import numpy as np
from scipy import linalg

from kmc.surrogates.scale_group import ScaleGroup
from kmc.surrogates.term_pursuit import Exponential, Factors, Found, Step, alone, columns_of, padded, pursued
from kmc.surrogates.term_regression import Regression
from kmc.surrogates.terms_jit_state import LARGEST

# Set on histories of differential evolution on hierarchical targets (tried: terms).
WORTH_BLOCK = 0.85  # largest fraction of the held-out error left by a group, or by a driver's exponentials
KNOWN = 0.02  # nats of held-out error, below which no further group is tried
_SEPARATE = 1.1  # times the least error: one coefficient for a group with at most this is preferred to many
_FEWEST, _MOST_GROUPS = 3, 6  # coordinates: a driver, a center and a member; and groups
_ROOM_PER_DIM = 5  # values beyond the terms, per dimension, with which a group is tried
_CENTERS, _TRIED_GROUPS = 2, 5  # most likely centers of each driver, and pairs of driver and center that are tried
_MEMBER, _MOST_MEMBERS = 0.5, 0.9  # of this quantile of the coefficients, from which on a coordinate is in the group


class Points(NamedTuple):
    """Coordinates u = middle + spreads v."""

    v: np.ndarray  # (n, d)
    spreads: np.ndarray  # (d,)
    middle: np.ndarray  # (d,)

    @property
    def u(self) -> np.ndarray:
        """(n, d)."""
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
    members: np.ndarray = np.empty(0, dtype=np.int64)  # (m,) of the sum

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

    def summed(self, members: np.ndarray, points: Points) -> _Group:
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
        return self._replace(sums=sums[:, None], members=np.flatnonzero(member))

    def scales(self, points: Points) -> ScaleGroup:
        """The group in coordinates u: exp(r u_j) (u_i - u_k)² has distances u_i - u_k that scale as exp(-r u_j / 2)."""
        return ScaleGroup(self.driver, -0.5 * self.rate / float(points.spreads[self.driver]), self.center, self.members)


def by_groups(
    points: Points,
    possible: list[Exponential],
    regression: Regression,
    *,
    others: list[Exponential],
    steps: list[tuple[Step, ...]],
) -> Found:
    """Squares and whole groups, then single terms in these steps, of other exponentials, too."""
    v = points.v
    dim = v.shape[1]
    chosen = [padded(f) for i in range(1, dim + 1) for f in ((i,), (i, i))]
    regression.add(columns_of(v, chosen))
    ties = [np.eye(len(chosen))]
    exponentials: list[Exponential] = []
    groups: list[ScaleGroup] = []
    best = pursued(v, others, chosen, regression=copy(regression), steps=[(*steps[0], alone(0)), *steps[1:]])
    while best.error > KNOWN and len(exponentials) < _MOST_GROUPS:
        group = _best_group(points, possible, regression)
        if group is None:
            break
        regression.add(group.columns(v))
        exponentials.append((group.driver, group.rate))
        possible = [one for one in possible if one[0] != group.driver or one[1] == group.rate]  # it has one power
        new = group.factors(dim, dim + len(exponentials))
        ties.append(group.sums if group.sums.size else np.eye(len(new)))
        chosen += new
        if len(group.members):
            groups.append(group.scales(points))
        bounded = [one for one in others if _shrinks_in_a_neck(one, exponentials)]
        more = [(*steps[0], alone(len(exponentials))), *steps[1:]]
        found = pursued(v, [*exponentials, *bounded], chosen, regression=copy(regression), steps=more)
        if found.error < WORTH_BLOCK * best.error:
            every = linalg.block_diag(*ties, np.eye(len(found.factors) - len(chosen)))
            best = found._replace(ties=every, groups=tuple(groups))
    return best


def _shrinks_in_a_neck(exponential: Exponential, groups: list[Exponential]) -> bool:
    """Whether it is one of a group's scale, for the prior of that, and vanishes where the group's own one is large.

    With one that grows there, a small error at the values would be a large one in the neck.
    """
    driver, rate = exponential
    return any(driver == j and rate * other < 0 for j, other in groups)


def _best_group(points: Points, possible: list[Exponential], regression: Regression) -> _Group | None:
    """The group that reduces the held-out error most, if it does so clearly; with one coefficient, if that will do."""
    v, dim = points.v, len(points.spreads)
    if dim < _FEWEST or regression.room < _ROOM_PER_DIM * dim:
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
    if least > WORTH_BLOCK * regression.held_out_error:
        return None
    simple = min(summed, key=lambda group: trials[id(group)])
    return simple if trials[id(simple)] < _SEPARATE * least else min(groups, key=lambda group: trials[id(group)])


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


def _members(points: Points, group: _Group, regression: Regression) -> np.ndarray:
    """Which coordinates (d,) the group seems to have: those whose (u_i - u_k)² have large coefficients."""
    v, spreads, _ = points
    possible = np.delete(np.arange(len(spreads)), [group.driver, group.center])
    each = [group.summed(np.arange(len(spreads)) == i, points).sums for i in possible]
    coefficients = np.zeros(len(spreads))
    coefficients[possible] = np.abs(regression.solution(group.columns(v) @ np.hstack(each)))
    return coefficients > _MEMBER * np.quantile(coefficients[possible], _MOST_MEMBERS)
