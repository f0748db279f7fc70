"""Search for modes that the first surrogate does not explain: they are searched before the freeze, and each is learned.

A value far above the surrogate's prediction is evidence of another mode. Local searches on the true density start from
such values, and from points all over the box of the starts. If one ends at a place that no surrogate explains, another
warm-up begins there, with walkers and fits restricted to the part of space that belongs to this mode.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kmc.mcmc.base import SamplerSetup, Step
from kmc.mcmc.explorer import Explorer, error_tolerance, log_mass, unexplained
from kmc.mcmc.history import ASSUMED, History
from kmc.mcmc.local_searches import LocalSearches, Summit
from kmc.mcmc.mode_shapes import MOST, NEGLIGIBLE, Shape, bulk_below_top, labels, overlapping_shapes, separate_shapes
from kmc.surrogates import Surrogate

# "Tried" is docs/what-was-tried.md, modes; the others were set by hand.
WARMED = 0.65  # largest fraction of the budget until the freeze
_KNOWN_DEPTH = 40.0  # nats below the edge: deeper values are not used for a part
_PART_STARTS = 200  # start points of a part's warm-up
_PART_MORE = 200  # evaluations of its warm-up, in addition to the given ones
_PART_SPREAD = 0.5  # of its start cloud, in sds
_LEAST_WARMUP = 1000  # evaluations of the warm-up of a mode found by a search
_WORTH_LEARNING = 2 * 100, 2 * 10  # evaluations that must be left for it: constant, per dimension
_MODE_SPREAD = 0.7  # of its start cloud, in sds
_CLOUD_PER_CHAIN, _CLOUD_PER_DIM, _CLOUD_MORE = 4, 2, 4  # points of these clouds
_RELABELINGS = 2  # of the known points, when a new mode is found: each lowers the border between the modes
_DEEP = 200  # points of other modes that a warm-up gets as very deep points (tried: plateau)
_ABYSS = 1e5  # their depth, in nats
_CROSSINGS = 10  # crossings of its border after which a warm-up is taken to be in the arm of another mode


class _Learning(NamedTuple):
    """The current warm-up of a single mode."""

    explorer: Explorer
    shape: int  # its index
    summit: Summit | None  # where it started; None for a part of the first warm-up
    crossings: list[int]  # the modes to which points beyond its border led


class ModeSearch:
    """The search for modes, and its results; it requests evaluations as a sampler does.

    Parameters
    ----------
    setup : SamplerSetup
    main : Explorer
        A warm-up that has ended and has a surrogate.
    spent : int
        Evaluations so far.
    budget : int
        Evaluations that the run plans with.
    share : float
        Part of the budget for local searches.
    rng : Generator

    Attributes
    ----------
    explorers : list of Explorer
        One for each mode.
    left : list of Summit
        Maxima that were found but could not be learned, with positions in the user's coordinates.
    done : bool
    """

    def __init__(
        self,
        setup: SamplerSetup,
        main: Explorer,
        *,
        spent: int,
        budget: int,
        share: float,
        rng: np.random.Generator,
    ):
        self.explorers = [main]
        self.left: list[Summit] = []
        self.n_evaluations = 0
        self.done = False
        self._setup, self._main, self._rng = setup, main, rng
        self._limit = int(WARMED * budget)
        self._start = spent
        assert main.mixture.surrogate is not None
        self._frame: Surrogate = main.mixture.surrogate
        self._shapes = [self._shape_of(main)]
        self._searches = LocalSearches(
            setup, self._frame, history=main.trainer.history, budget=int(share * budget), rng=rng
        )
        self._known_top = float(main.trainer.history.log_density.max())
        self._learning: _Learning | None = None
        self._n_parts = 0  # parts of the first warm-up that are not learned yet
        self._overlapping = False  # whether there is no gap between the parts: crossing a border is no sign of an arm
        self._divide(main)
        self._next()

    def propose(self) -> np.ndarray:
        """Points (k, d) to evaluate next."""
        if self._learning:
            return self._learning.explorer.propose()
        return self._searches.propose()

    def advance(self, values: np.ndarray) -> Step | None:
        """Continue with their values; returns a sweep if a warm-up made one."""
        self.n_evaluations += len(values)
        record = None
        if self._learning:
            record = self._learn(self._learning, values)
        else:
            self._searches.advance(values, self.explorers)
        if not self._learning and not self._searches.going:
            self._next()
        elif not self._learning and self._searches.are_few:
            self._sort_out()
            if not self._searches.found:
                self._searches.start(self.explorers)
        return record

    def finish(self) -> None:
        """End now, with the modes that are known well enough."""
        if self._learning:
            explorer, summit = self._learning.explorer, self._learning.summit
            if explorer.mixture.surrogate is not None:
                explorer.finish()
                self.explorers.append(explorer)
            elif summit is not None:
                self.left.append(summit)
        self._learning = None
        self._searches.stop()
        if self._n_parts or not self.explorers:  # the first warm-up knows all parts
            self._n_parts, self.explorers = 0, [self._main]
        self.done = True

    def facts(self) -> dict[str, Any]:
        """For the results' attributes."""
        return {
            "n_modes": len(self.explorers),
            "n_searches": self._searches.n_searches,
            "modes_left": [[*summit.position.tolist(), summit.value] for summit in self.left],
        }

    # A first warm-up with several modes

    def _divide(self, main: Explorer) -> None:
        """Divide the evaluations of the first warm-up between its modes: two Gaussians, or groups with gaps between."""
        history = main.trainer.history
        self._shapes = overlapping_shapes(self._frame, history.x, history.log_density, rng=self._rng)
        self._overlapping = len(self._shapes) > 1
        if not self._overlapping:
            self._shapes = separate_shapes(self._frame, main.mixture, history, rng=self._rng)
        if len(self._shapes) > 1:
            self._n_parts, self.explorers = len(self._shapes), []
        else:
            self._shapes = [self._shape_of(main)]

    def _start_part(self) -> bool:
        """Begin a warm-up of one part, with all that is known of it; False if a part learned before claims all that."""
        index = len(self._shapes) - self._n_parts
        self._n_parts -= 1
        history = self._main.trainer.history
        mine = self._labels(history.x) == index
        x, values, own = history.x[mine], history.log_density[mine], history.evaluated[mine]
        if not np.any(np.isfinite(values[own])):  # searches begin at what was given of it, if there is anything
            self._shapes.pop(index)
            return False
        known = values > values.max() - self._frame.edge - _KNOWN_DEPTH
        near = np.flatnonzero(own & (values > values[own].max() - bulk_below_top(self._setup.dim)))
        allowed = max((self._limit - self._used()) // (1 + self._n_parts), 0)
        chosen = self._rng.permutation(near)[:_PART_STARTS]
        picks = self._frame.coordinates(x[self._rng.choice(near, _CLOUD_PER_CHAIN * self._setup.chains)])
        covariance = np.linalg.inv(self._shapes[index].precision)
        cloud = picks + _PART_SPREAD * self._rng.multivariate_normal(np.zeros(self._setup.dim), covariance, len(picks))
        setup = self._setup._replace(
            initial=x[chosen],
            initial_log_density=values[chosen],
            max_evaluations=2 * allowed,
            seed=np.random.SeedSequence(int(self._rng.integers(2**63))),
            history=(x[known], values[known]),
        )
        explorer = self._main.another(setup, self._frame.back(cloud), int(known.sum()) + _PART_MORE)
        self._deepen(explorer, history.x[~mine], self._shapes[index])
        self._learning = _Learning(explorer, index, None, [])
        return True

    def _deepen(self, explorer: Explorer, x: np.ndarray, shape: Shape) -> None:
        """Give a warm-up points of other modes, outside its own, as very deep ones, so that it is low there."""
        x = x[self._rng.permutation(len(x))[:_DEEP]]
        x = x[shape.value(self._frame.coordinates(x)) < shape.top - self._frame.edge]
        # Too deep to be fitted to, but not -inf, which would be evidence of a wall.
        explorer.trainer.history.extend(x, np.full(len(x), self._known_top - _ABYSS), source=ASSUMED)

    # The next step

    def _next(self) -> None:
        """Learn a mode that was found, search where values are unexplained, or end."""
        while self._n_parts and self._used() < self._limit:
            if self._start_part():
                return
        if self._n_parts:  # the remaining parts cannot be learned any more: the first warm-up knows all
            self._n_parts, self.explorers = 0, []
        if not self.explorers:
            self.explorers, self._shapes = [self._main], [self._shape_of(self._main)]
        self._sort_out()
        if found := self._searches.found:
            summit = found.pop(int(np.argmax([s.log_mass for s in found])))
            if not self._start_learning(summit):
                self.left.append(summit)
                self._next()
            return
        if not self._searches.look(self.explorers) and not self._searches.start(self.explorers):
            self.done = True

    def _sort_out(self) -> None:
        """Keep what was found and is worth a warm-up: explained by no surrogate, and of enough mass."""
        found = self._searches.found
        if len(found) and len(self.explorers) < MOST:
            places = np.array([summit.position for summit in found])
            news = unexplained(self.explorers, places, np.array([summit.value for summit in found]))
            found = [summit for summit, new in zip(found, news, strict=True) if new]
        masses = [log_mass(explorer.mixture, self._rng) for explorer in self.explorers]
        self._searches.found = [summit for summit in found if summit.log_mass > max(masses) + NEGLIGIBLE]

    def _used(self) -> int:
        return self._start + self.n_evaluations

    # A mode with its own warm-up

    def _start_learning(self, summit: Summit) -> bool:
        """Begin a warm-up around a summit, if the budget allows one."""
        dim = self._setup.dim
        if len(self.explorers) == 1 and self._divide_again():
            return True
        allowed = (self._limit - self._used()) // (1 + len(self._searches.found))
        least, each = _WORTH_LEARNING
        if allowed < each * dim + least:
            return False
        center = self._frame.coordinates(summit.position[None])[0]
        self._shapes.append(Shape(summit.top, center, np.diag(summit.spread**-2.0)))
        self._lower_tops()
        count = max(_CLOUD_PER_CHAIN * self._setup.chains, _CLOUD_PER_DIM * dim + _CLOUD_MORE)
        cloud = self._frame.back(center + _MODE_SPREAD * summit.spread * self._rng.standard_normal((count, dim)))
        setup = self._setup._replace(
            initial=summit.position[None],
            initial_log_density=np.array([summit.value]),
            max_evaluations=2 * allowed,
            seed=np.random.SeedSequence(int(self._rng.integers(2**63))),
        )
        explorer = self._main.another(setup, cloud, _LEAST_WARMUP)
        others = np.vstack([other.trainer.states() for other in self.explorers])
        self._deepen(explorer, others[self._labels(others) != len(self._shapes) - 1], self._shapes[-1])
        self._learning = _Learning(explorer, len(self._shapes) - 1, summit, [])
        return True

    def _divide_again(self) -> bool:
        """Begin with the parts of the first warm-up, if what the searches evaluated shows that it has two."""
        history = self._main.trainer.history
        known, their_values = self._searches.known
        x, values = np.concatenate([history.x, known]), np.concatenate([history.log_density, their_values])
        shapes = overlapping_shapes(self._frame, x, values, rng=self._rng)
        if len(shapes) < 2:
            return False
        new = _not_in(history, known)
        history.extend(known[new], their_values[new])
        self._shapes, self._overlapping = shapes, True
        self._n_parts, self.explorers = len(shapes), []
        return self._start_part()

    def _lower_tops(self) -> None:
        """Lower the shapes of known modes to the values that are not the new mode's: a start may have been there."""
        for _ in range(_RELABELINGS):
            for k, explorer in enumerate(self.explorers):
                history = explorer.trainer.history
                own = history.log_density[self._labels(history.x) == k]
                self._shapes[k] = self._shapes[k]._replace(top=float(own.max(initial=-np.inf)))

    def _learn(self, learning: _Learning, values: np.ndarray) -> Step | None:
        """A sweep of the warm-up, which gets only the points that are nearer to its mode than to others."""
        explorer, index, summit, _ = learning
        points = explorer.propose_again()
        mine = self._labels(points) == index
        n_fits = explorer.trainer.n_fits
        top = explorer.trainer.history.log_density.max(initial=-np.inf)
        record = explorer.advance(np.where(mine, values, np.nan))
        self._searches.remember(points[~mine], values[~mine])
        learning.crossings.extend(self._led_out(explorer, top, (points[~mine], values[~mine])))
        if len(learning.crossings) >= _CROSSINGS and not (explorer.frozen or self._overlapping):
            self._dissolve(learning)
            return record
        if explorer.trainer.n_fits > n_fits and not self._overlapping:
            self._shapes[index] = self._shape_of(explorer)
        if self._used() >= self._limit and not explorer.frozen:
            explorer.finish()
        if explorer.frozen:
            self._learning = None
            if explorer.mixture.surrogate is not None:
                self.explorers.append(explorer)
            else:  # shapes and explorers stay in step; parts that are not learned yet are counted from the end
                self._shapes.pop(index)
                self.left += [] if summit is None else [summit]
        return record

    def _led_out(self, explorer: Explorer, top: float, evaluated: tuple[np.ndarray, np.ndarray]) -> list[int]:
        """The modes of points that are higher than all of an explorer's and to which its surrogate leads smoothly."""
        surrogate, (x, values) = explorer.mixture.surrogate, evaluated
        if surrogate is None or not np.any(values > top):
            return []
        x, values = x[values > top], values[values > top]
        smooth = np.abs(values - surrogate.log_density(x)) < error_tolerance(surrogate)
        return self._labels(x[smooth]).tolist()

    def _dissolve(self, learning: _Learning) -> None:
        """Give the evaluations of a warm-up in the arm of a mode to that mode."""
        whose = max(set(learning.crossings), key=learning.crossings.count)
        self._learning = None
        if learning.summit is None:  # the first warm-up was in one mode after all
            self._n_parts, self.explorers, self._shapes = 0, [self._main], [self._shape_of(self._main)]
            return
        self._shapes.pop()
        learned, owner = learning.explorer.trainer.history, self.explorers[whose]
        known, their_values = self._searches.known
        x = np.vstack([known, learned.x[learned.evaluated]])
        values = np.concatenate([their_values, learned.log_density[learned.evaluated]])
        new = _not_in(owner.trainer.history, x) & (self._labels(x) == whose)
        owner.relearn(x[new], values[new])

    def _labels(self, x: np.ndarray) -> np.ndarray:
        return labels(self._shapes, self._frame.coordinates(x))

    def _shape_of(self, explorer: Explorer) -> Shape:
        return Shape.of(explorer.trainer.history.log_density.max(), self._frame.coordinates(explorer.trainer.states()))


def _not_in(history: History, x: np.ndarray) -> np.ndarray:
    """Which of the points (k, d) a history lacks, or has with a value from elsewhere only, (k,)."""
    seen = {row.tobytes() for row in history.x[history.evaluated]}
    return np.array([row.tobytes() not in seen for row in x], dtype=bool)
