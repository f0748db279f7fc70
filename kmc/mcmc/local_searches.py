"""Local searches on the true density, from places whose values no surrogate explains.

They start from evaluations, and from points all over the box of the starts, and work in the
coordinates of the first surrogate. A search ends where a surrogate explains the value, or at a
summit. Given values start none: where no surrogate explains one, its point is evaluated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import qmc

from kmc.mcmc.base import SamplerSetup
from kmc.mcmc.explorer import Explorer, unexplained
from kmc.mcmc.history import History
from kmc.mcmc.mode_shapes import REACH
from kmc.mcmc.schedule import FEW_CHAINS
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


# Local searches for high values of the true log-density, in step: a batch of points at a time.
#
# A search climbs by BFGS with forward differences. It does not stop at the maximum but where a chain would be: within
# the
# bulk of the mode, judged by the remaining gain that its quadratic model predicts.


# Set by hand.
_STEPS = np.array([2.0, 1.0, 0.5, 0.2, 0.05, 0.01])  # of a line search, in quasi-Newton steps
_LONGEST = 10.0  # largest step, in units of sqrt(d)
_RESOLUTION = 0.1  # step of the differences, in units of the local spread
_SPREADS = 1e-3, 10.0  # range of that spread, in units of the first one
_MOST_STEPS = 20
_IN_BULK = 1.0  # nats of expected gain, plus half the dimension, below which a search ends
_MOST_GAIN = 3.0  # nats, plus one per dimension: largest expected gain at its end that is trusted
_LEAST_GAIN = 0.1  # nats gained by a step; with less there is no increase along this line
_FLATTEST = 1e-2  # smallest curvature of the quadratic model
_SAME_DIRECTION = 1e-10  # cosine of step and change of gradient below which BFGS does not update


class Summit(NamedTuple):
    """The end of a search."""

    position: np.ndarray  # (d,)
    value: float
    spread: np.ndarray  # (d,) along each coordinate, from second differences
    gain: float  # nats to the maximum, by the quadratic model
    log_volume: float = 0.0  # of a unit cube of these coordinates, in the user's coordinates

    @property
    def top(self) -> float:
        """The log-density at the mode, by the quadratic model."""
        return self.value + self.gain

    @property
    def log_mass(self) -> float:
        """Log-mass of the Gaussian with this maximum and these spreads, relative to (2 pi)^(d/2)."""
        return self.top + float(np.log(self.spread).sum()) + self.log_volume


class Climb:
    """One search, in coordinates in which spreads of about one are expected.

    ``ask`` gives the points (k, d) to evaluate next, none once it has ended, and ``tell`` takes their values.
    """

    def __init__(self, start: np.ndarray, value: float):
        d = len(start)
        self.position, self.value = start.copy(), float(value)
        self.summit: Summit | None = None
        self._inverse = np.eye(d)  # inverse of minus the Hessian
        self._gradient = np.zeros(d)
        self._last: tuple[np.ndarray, np.ndarray] | None = None  # position and gradient before the last step
        self._forward = np.zeros(d)
        self._stage, self._n_steps = "gradient", 0
        self._direction = np.zeros(d)
        self._widths = np.full(d, _RESOLUTION)  # of the differences

    def ask(self) -> np.ndarray:
        """Points to evaluate next."""
        if self._stage == "gradient":
            return self.position + np.diag(self._widths)
        if self._stage == "line":
            return self.position + _STEPS[:, None] * self._direction
        if self._stage == "curvature":
            return self.position - np.diag(self._widths)
        return np.empty((0, len(self.position)))

    def tell(self, values: np.ndarray) -> None:
        """Continue with the values of the requested points."""
        {"gradient": self._slope, "line": self._step, "curvature": self._end}[self._stage](values)

    def _slope(self, values: np.ndarray) -> None:
        self._forward = np.where(np.isfinite(values), values, self.value)
        gradient = (self._forward - self.value) / self._widths
        if self._last is not None:
            self._update(self.position - self._last[0], self._last[1] - gradient)
        self._gradient = gradient
        self._direction = self._inverse @ gradient
        length = np.linalg.norm(self._direction)
        longest = _LONGEST * np.sqrt(len(gradient))
        if length > longest:
            self._direction *= longest / length
        close = self._gain() < 0.5 * len(gradient) + _IN_BULK and self._n_steps > 0
        self._stage = "curvature" if close or self._n_steps >= _MOST_STEPS else "line"

    def _gain(self) -> float:
        return 0.5 * float(self._gradient @ self._inverse @ self._gradient)

    def _step(self, values: np.ndarray) -> None:
        values = np.where(np.isnan(values), -np.inf, values)
        best = int(np.argmax(values))
        self._n_steps += 1
        if values[best] <= self.value + _LEAST_GAIN:  # no increase along this line
            self._stage = "curvature"
            return
        self._last = (self.position, self._gradient)
        if self._n_steps == 1:  # the first line search gives the scale
            self._inverse = (
                self._inverse
                * _STEPS[best]
                * np.linalg.norm(self._direction)
                / max(np.linalg.norm(self._inverse @ self._gradient), 1e-300)
            )
        self.position = self.position + _STEPS[best] * self._direction
        self.value = float(values[best])
        self._widths = _RESOLUTION * np.clip(np.sqrt(np.diag(self._inverse)), *_SPREADS)
        self._stage = "gradient"

    def _update(self, step: np.ndarray, change: np.ndarray) -> None:
        """BFGS on the inverse of minus the Hessian."""
        along = float(step @ change)
        if along <= _SAME_DIRECTION * np.linalg.norm(step) * np.linalg.norm(change):
            return
        if self._n_steps == 1:
            self._inverse = np.eye(len(step)) * along / float(change @ change)
        left = np.eye(len(step)) - np.outer(step, change) / along
        self._inverse = left @ self._inverse @ left.T + np.outer(step, step) / along

    def _end(self, values: np.ndarray) -> None:
        backward = np.where(np.isfinite(values), values, self.value)
        curvature = (2.0 * self.value - self._forward - backward) / self._widths**2
        model = np.sqrt(np.maximum(np.diag(self._inverse), 1e-300))
        known = curvature > _FLATTEST / np.maximum(model, 1e-150) ** 2
        spread = np.where(known, 1.0 / np.sqrt(np.maximum(curvature, 1e-300)), model)
        self.summit = Summit(self.position, self.value, spread, min(self._gain(), len(spread) + _MOST_GAIN))
        self._stage = "ended"
