"""Local searches on the true density, from places whose values no surrogate explains.

They start from evaluations, and from points all over the box of the starts, and work in the
coordinates of the first surrogate. A search ends where a surrogate explains the value, or at a
summit. Given values start none: where no surrogate explains one, its point is evaluated again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import qmc

from kmc.mcmc.base import SamplerSetup
from kmc.mcmc.climb import Climb, Summit
from kmc.mcmc.explorer import Explorer, unexplained
from kmc.mcmc.history import History
from kmc.mcmc.many_chains import FEW_CHAINS
from kmc.mcmc.mode_shapes import REACH
from kmc.surrogates import Surrogate

# "Tried" is docs/what-was-tried.md, modes; the others were set by hand.
_LOOK = 0.1  # fraction of the evaluations for searches: points all over the box of the starts (tried: Halton points)
_LOOK_PER_CHAIN = 2  # at least so many of these points
_BEYOND_BULK = 2.0  # sds beyond the root of the dimension: nearer points of the box are in the bulk
_CLIMB_STEPS = 5  # steps of a search, on average
_CLIMB_COST = 6  # evaluations per step, plus one per dimension


class LocalSearches:
    """Searches in step: as many as chains at a time.

    Parameters
    ----------
    setup : SamplerSetup
    surrogate : Surrogate
        That of the first warm-up, whose coordinates are used.
    history : History
        What it is fitted to.
    budget : int
        Evaluations for all searches.
    rng : Generator

    Attributes
    ----------
    known : (ndarray, ndarray)
        Points (n, d) that may start a search, and their values (n,).
    found : list of Summit
        In the user's coordinates.
    n_searches : int
    """

    def __init__(
        self,
        setup: SamplerSetup,
        surrogate: Surrogate,
        *,
        history: History,
        budget: int,
        rng: np.random.Generator,
    ):
        self._setup, self._frame, self._rng = setup, surrogate, rng
        near = history.log_density > history.log_density.max() - surrogate.edge - REACH
        own, given = near & history.evaluated, near & ~history.evaluated
        starts, their_values = setup.initial, setup.initial_log_density
        finite = np.isfinite(their_values)
        self.known = (  # starts of any depth, and the shallow part of the history
            np.vstack([starts[finite], history.x[own]]),
            np.concatenate([their_values[finite], history.log_density[own]]),
        )
        self._given = history.x[given], history.log_density[given]
        self.found: list[Summit] = []
        self.n_searches = 0
        self._evaluations_left = budget
        self._climbs: list[Climb] = []
        self._look = np.empty((0, setup.dim))  # points of the box that wait for their values
        self._looked = False

    @property
    def going(self) -> bool:
        """Whether points wait for their values."""
        return bool(self._climbs) or len(self._look) > 0

    def propose(self) -> np.ndarray:
        """Points (k, d) to evaluate next."""
        if len(self._look):
            return self._look
        return self._frame.back(np.vstack([climb.ask() for climb in self._climbs]))

    def advance(self, values: np.ndarray, explorers: Sequence[Explorer]) -> None:
        """Continue with their values (k,); the explorers are those of all known modes."""
        self._evaluations_left -= len(values)
        if len(self._look):
            self.remember(self._look, values)
            self._look = self._look[:0]
        else:
            self._climb(values, explorers)

    def look(self, explorers: Sequence[Explorer]) -> bool:
        """Ask, once, for points all over the box of the starts, and for some of the given ones.

        Whether there are any.
        """
        if not self._looked:
            self._looked = True
            self._look = np.vstack([self._doubtful(explorers), self._outlook()])
        return len(self._look) > 0

    def remember(self, x: np.ndarray, values: np.ndarray) -> None:
        """Add evaluations (n, d) from which searches may start."""
        finite = np.isfinite(values)
        self.known = np.vstack([self.known[0], x[finite]]), np.concatenate([self.known[1], values[finite]])

    def start(self, explorers: Sequence[Explorer]) -> bool:
        """Start from the highest of the unexplained points, and from others far from it and from each other.

        Whether any search is going then.
        """
        x, values = self.known
        unknown = unexplained(explorers, x, values)
        x, values = self.known = x[unknown], values[unknown]
        price = _CLIMB_STEPS * (self._setup.dim + _CLIMB_COST)
        count = min(self._setup.chains - len(self._climbs), self._evaluations_left // price, len(x))
        if count >= 1:
            z = self._frame.coordinates(x)
            chosen = _highest_and_far_apart(z, values, count)
            self._climbs += [Climb(z[row], values[row]) for row in chosen]
            self.known = np.delete(x, chosen, axis=0), np.delete(values, chosen)
            self.n_searches += len(chosen)
        return bool(self._climbs)

    @property
    def are_few(self) -> bool:
        """Whether so few searches of many chains are left that others may go on beside them: rounds stay large."""
        chains = self._setup.chains
        return chains > FEW_CHAINS and 0 < len(self._climbs) <= chains // 2

    def stop(self) -> None:
        """End all searches."""
        self._climbs, self._look = [], self._look[:0]

    def _doubtful(self, explorers: Sequence[Explorer]) -> np.ndarray:
        """Given points (k, d), far apart, whose values no surrogate explains."""
        x, values = self._given
        unknown = unexplained(explorers, x, values)
        count = min(_LOOK_PER_CHAIN * self._setup.chains, self._evaluations_left)
        if count < 1 or not unknown.any():
            return np.empty((0, self._setup.dim))
        x, values = x[unknown], values[unknown]
        return x[_highest_and_far_apart(self._frame.coordinates(x), values, count)]

    def _outlook(self) -> np.ndarray:
        """Points all over the box of the starts, where there are no data."""
        low, high = _box(self._setup.initial)
        left = self._evaluations_left
        count = min(max(_LOOK_PER_CHAIN * self._setup.chains, int(_LOOK * left)), left)
        if count < 1:
            return np.empty((0, self._setup.dim))
        x = low + (high - low) * qmc.Halton(self._setup.dim, seed=self._rng).random(count)
        distance = np.linalg.norm(self._frame.coordinates(x), axis=1)
        return x[distance > min(self._frame.jit_state.reach, np.sqrt(self._setup.dim) + _BEYOND_BULK)]

    def _climb(self, values: np.ndarray, explorers: Sequence[Explorer]) -> None:
        """A step of each search; searches that reach an explained place end."""
        ends = np.cumsum([len(climb.ask()) for climb in self._climbs])[:-1]
        going = []
        for climb, mine in zip(self._climbs, np.split(values, ends), strict=True):
            points = self._frame.back(climb.ask())
            self.remember(points, mine)
            climb.tell(mine)
            here = self._frame.back(climb.position[None])
            if not unexplained(explorers, here, np.array([climb.value]))[0]:
                continue
            if climb.summit is None:
                going.append(climb)
            else:
                self.found.append(self._in_users_coordinates(climb.summit))
        self._climbs = going if self._evaluations_left > 0 else []

    def _in_users_coordinates(self, summit: Summit) -> Summit:
        """The summit in the user's coordinates, with its mass in the user's density; spreads are unchanged."""
        position = self._frame.back(summit.position[None])
        volume = np.linalg.slogdet(self._frame.whitening.inverse)[1] - self._frame.transport.log_jacobian(position)[0]
        return summit._replace(position=position[0], log_volume=float(volume))


def _highest_and_far_apart(z: np.ndarray, values: np.ndarray, count: int) -> list[int]:
    """Rows of points (n, d): that of the highest value, then always the row farthest from all before; distinct."""
    chosen = [int(np.argmax(values))]
    nearest = np.linalg.norm(z - z[chosen[0]], axis=1)
    while len(chosen) < count and nearest.max() > 0:
        chosen.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, np.linalg.norm(z - z[chosen[-1]], axis=1))
    return chosen


def _box(starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The box from which starts (n, d) were drawn, if they were uniform there: a little larger than the starts' own."""
    low, high = starts.min(axis=0), starts.max(axis=0)
    more = (high - low) / max(len(starts) - 1, 1)
    return low - more, high + more
