"""Search for modes that the first surrogate does not explain: they are searched before the freeze, and each is learned.

A value far above the surrogate's prediction is evidence of another mode. Local searches on the true density start from
such values, and from points all over the box of the starts. If one ends at a place that no surrogate explains, another
warm-up begins there, with walkers and fits restricted to the part of space that belongs to this mode.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import logsumexp
from scipy.stats import qmc

from kmc.landmarks import spread
from kmc.mcmc.base import SamplerSetup, Step
from kmc.mcmc.climb import Climb, Summit
from kmc.mcmc.gaps import MOST, divided
from kmc.mcmc.history import History
from kmc.mcmc.many_chains import FEW_CHAINS
from kmc.mcmc.proposal_mixture import ProposalMixture
from kmc.mcmc.surrogate_trainer import SurrogateTrainer
from kmc.mcmc.surrogate_transition import inner_chain
from kmc.mcmc.tempering import COLD
from kmc.mcmc.two_gaussians import two_gaussians_instead
from kmc.surrogates import Surrogate
from kmc.surrogates.wall_jit_state import WalledState

# "Tried" is docs/what-was-tried.md, modes; the others were set by hand.
WARMED = 0.65  # largest fraction of the budget until the freeze
_ERROR_TOLERANCE = 3.0  # times (1 nat + the surrogate's error): a value may exceed the surrogate by this ...
_DEPTH_TOLERANCE = 0.3  # ... plus this fraction of its depth below the bulk
_DEPTH_TOLERANCE_KNOWN = 0.05  # the same, if the values are quadratic: their extrapolation is right
_QUADRATIC = 0.1  # nats by which a quadratic may miss them
_REACH = 15.0  # nats below the bulk: deeper values of the history start no search
_NEGLIGIBLE = -7.0  # log of mass relative to the largest: modes below it are ignored
_LOOK = 0.1  # fraction of the evaluations for searches: points all over the box of the starts (tried: Halton points)
_LOOK_PER_CHAIN = 2  # at least so many of these points
_BEYOND_BULK = 2.0  # sds beyond the root of the dimension: nearer points of the box are in the bulk
_CLIMB_STEPS = 5  # steps of a search, on average
_CLIMB_COST = 6  # evaluations per step, plus one per dimension
_BULK_MORE = 2.0  # nats added to the depth of most draws of a Gaussian: shallower points are the bulk
_WANDERING = 40  # trajectories after which a chain on the surrogate has reached a mode (tried: (3))
_WANDERERS, _WANDERERS_PER_DIM = 128, 16  # number of these chains, at least and per dimension
_POOR = 1.0  # error of a surrogate, in nats, from which on chains may leave the modes
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
_REAL = 0.5  # fraction of that depth: less deep values were evaluated
_CROSSINGS = 10  # crossings of its border after which a warm-up is taken to be in the arm of another mode
_UNVISITED_MORE = 2.0  # nats, plus half the dimension: shallower points far from all states count as unvisited
_USUAL = 0.95  # quantile of distances between neighboring states: the usual distance
_FAR = 6.0  # times that distance is far from all states
_MASS_DRAWS = 1000  # draws from which masses are estimated
_MASS_SPREAD = 1.3  # their covariance, relative to that of the states


class Explorer(Protocol):
    """A warm-up of one mode: a state of the sampler before its freeze."""

    @property
    def mixture(self) -> ProposalMixture:
        """Its current mixture of moves."""

    @property
    def trainer(self) -> SurrogateTrainer:
        """The trainer of its surrogate."""

    @property
    def frozen(self) -> bool:
        """Whether all adaptation has ended."""

    def propose(self) -> np.ndarray:
        """Points whose values the next sweep needs."""

    def propose_again(self) -> np.ndarray:
        """The same points."""

    def relearn(self, x: np.ndarray, values: np.ndarray) -> None:
        """Add evaluations (n, d) and refit."""

    def advance(self, values: np.ndarray) -> Step | None:
        """Take the values; NaN for a point that belongs to another mode."""

    def another(self, setup: SamplerSetup, cloud: np.ndarray, least: int) -> Explorer:
        """A warm-up of another mode."""

    def finish(self) -> None:
        """Freeze now."""

    def state(self) -> tuple[np.ndarray, float]:
        """A state (d,) and its value, after the freeze."""


class _Shape(NamedTuple):
    """A mode as a Gaussian, in the coordinates of the first surrogate."""

    top: float
    center: np.ndarray
    precision: np.ndarray

    def value(self, z: np.ndarray) -> np.ndarray:
        r = z - self.center
        return self.top - 0.5 * np.einsum("ij,ij->i", r @ self.precision, r)

    @property
    def log_mass(self) -> float:
        """Log-mass relative to (2 pi)^(d/2), in these coordinates."""
        return self.top - 0.5 * float(np.linalg.slogdet(self.precision)[1])


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
        self.n_searches = self.n_evaluations = 0
        self.done = False
        self._setup, self._main, self._rng = setup, main, rng
        self._searches_left = int(share * budget)
        self._limit = int(WARMED * budget)
        self._start = spent
        assert main.mixture.surrogate is not None
        self._frame: Surrogate = main.mixture.surrogate
        self._shapes = [self._shape_of(main)]
        self._known = self._evidence(main)
        self._known_top = float(main.trainer.history.log_density.max())
        self._found: list[Summit] = []
        self._climbs: list[Climb] = []
        self._learning: _Learning | None = None
        self._n_parts = 0  # parts of the first warm-up that are not learned yet
        self._overlapping = False  # whether there is no gap between the parts: crossing a border is no sign of an arm
        self._bulk = 0.5 * setup.dim + np.sqrt(2.0 * setup.dim) + _BULK_MORE  # depth: mean, two sds and a margin
        self._look = np.empty((0, setup.dim))
        self._looked = False
        self._divide(main)
        self._next()

    def propose(self) -> np.ndarray:
        """Points (k, d) to evaluate next."""
        if self._learning:
            return self._learning.explorer.propose()
        if len(self._look):
            return self._look
        return self._frame.back(np.vstack([climb.ask() for climb in self._climbs]))

    def advance(self, values: np.ndarray) -> Step | None:
        """Continue with their values; returns a sweep if a warm-up made one."""
        self.n_evaluations += len(values)
        if self._learning:
            record = self._learn(self._learning, values)
        else:
            record = None
            self._searches_left -= len(values)
            if len(self._look):
                self._remember(self._look, values)
                self._look = self._look[:0]
            else:
                self._climb(values)
        if not self._learning and not self._climbs:
            self._next()
        elif self._may_add_climbs():
            self._start_climbs()
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
        self._learning, self._climbs, self._look = None, [], self._look[:0]
        if self._n_parts or not self.explorers:  # the first warm-up knows all parts
            self._n_parts, self.explorers = 0, [self._main]
        self.done = True

    # Points to evaluate

    def _outlook(self) -> np.ndarray:
        """Points all over the box of the starts, where there are no data."""
        low, high = _box(self._setup.initial)
        count = min(max(_LOOK_PER_CHAIN * self._setup.chains, int(_LOOK * self._searches_left)), self._searches_left)
        if count < 1:
            return np.empty((0, self._setup.dim))
        x = low + (high - low) * qmc.Halton(self._setup.dim, seed=self._rng).random(count)
        distance = np.linalg.norm(self._frame.coordinates(x), axis=1)
        return x[distance > min(self._frame.jit_state.reach, np.sqrt(self._setup.dim) + _BEYOND_BULK)]

    def _evidence(self, main: Explorer) -> tuple[np.ndarray, np.ndarray]:
        """Known points: starts of any depth, and the shallow part of the history."""
        x, values = main.trainer.history.x, main.trainer.history.log_density
        near = values > values.max() - self._frame.edge - _REACH
        starts, their_values = self._setup.initial, self._setup.initial_log_density
        finite = np.isfinite(their_values)
        return np.vstack([starts[finite], x[near]]), np.concatenate([their_values[finite], values[near]])

    def _remember(self, x: np.ndarray, values: np.ndarray) -> None:
        finite = np.isfinite(values)
        self._known = np.vstack([self._known[0], x[finite]]), np.concatenate([self._known[1], values[finite]])

    def _unexplained(self, x: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Whether no surrogate comes near the values (n,) of points (n, d)."""
        if not len(x):
            return np.zeros(0, bool)
        unknown = np.ones(len(x), bool)
        for explorer in self.explorers:
            surrogate, top = explorer.mixture.surrogate, explorer.trainer.history.log_density.max()
            assert surrogate is not None
            beyond = np.maximum(top - values - surrogate.edge, 0.0)
            known_shape = surrogate.trend_sd < _QUADRATIC
            part = _DEPTH_TOLERANCE_KNOWN if known_shape else _DEPTH_TOLERANCE
            tolerance = _ERROR_TOLERANCE * (1.0 + surrogate.error_sd) + part * beyond
            unknown &= values > surrogate.log_density(x) - _past_cap(surrogate, x) + tolerance
        return unknown

    # A first warm-up with several modes

    def _divide(self, main: Explorer) -> None:
        """Divide the evaluations of the first warm-up between its modes: two Gaussians, or groups with gaps between."""
        history = main.trainer.history
        self._shapes = self._overlapping_shapes(history.x, history.log_density)
        self._overlapping = len(self._shapes) > 1
        if not self._overlapping:
            self._shapes = self._separate_shapes(main)
        if len(self._shapes) > 1:
            self._n_parts, self.explorers = len(self._shapes), []
        else:
            self._shapes = [self._shape_of(main)]

    def _separate_shapes(self, main: Explorer) -> list[_Shape]:
        """Modes with gaps between them."""
        history = main.trainer.history
        if self._frame.error_sd < _POOR:
            x = self._wandered(main.mixture, history)
            values = self._frame.log_density(x)
        else:
            shallow = history.log_density > history.log_density.max() - self._bulk
            x, rows = np.unique(history.x[shallow], axis=0, return_index=True)
            values = history.log_density[shallow][rows]
        z = self._frame.coordinates(x)
        self._shapes = [_shape(values[group].max(), z[group]) for group in divided(z, self._rng)]
        return self._evaluated_shapes(history) if len(self._shapes) > 1 else self._shapes

    def _overlapping_shapes(self, x: np.ndarray, values: np.ndarray) -> list[_Shape]:
        """Two modes without a gap, such as a narrow one inside a wide one: Gaussians, far better than the surrogate."""
        pair = two_gaussians_instead(self._frame, x, values, rng=self._rng)
        if pair is None:
            return []
        shapes = [
            _Shape(float(top), *rest) for top, *rest in zip(pair.tops, pair.centers, pair.precisions, strict=True)
        ]
        heaviest = max(shape.log_mass for shape in shapes)
        return [shape for shape in shapes if shape.log_mass > heaviest + _NEGLIGIBLE]

    def _evaluated_shapes(self, history: History) -> list[_Shape]:
        """The shapes that have evaluations, with their highest values: the surrogate may be far too high in places."""
        finite = np.isfinite(history.log_density)
        x, values = history.x[finite], history.log_density[finite]
        labels = self._labels(x)
        tops = [float(values[labels == k].max(initial=-np.inf)) for k in range(len(self._shapes))]
        shapes = [shape._replace(top=top) for shape, top in zip(self._shapes, tops, strict=True)]
        heaviest = max(shape.log_mass for shape in shapes)
        self._shapes = [shape for shape in shapes if shape.log_mass > heaviest + _NEGLIGIBLE]
        counts = np.bincount(
            self._labels(x), minlength=len(self._shapes)
        )  # with lower maxima other shapes may claim the points
        return [shape for shape, count in zip(self._shapes, counts, strict=True) if count]

    def _wandered(self, mixture: ProposalMixture, history: History) -> np.ndarray:
        """Draws (n, d) from the surrogate by chains that start all over the evaluations.

        They move by trajectories alone, so that they stay in the mode that they reach, also where no walker has stayed
        for long, or where the density is so low that hardly any evaluation is shallow.
        """
        surrogate, dim = mixture.surrogate, self._setup.dim
        assert surrogate is not None
        high = np.flatnonzero(history.log_density > history.log_density.max() - surrogate.edge - _REACH)
        starts = surrogate.coordinates(history.x[high])
        starts = starts[spread(starts, max(_WANDERERS, _WANDERERS_PER_DIM * dim), self._rng)]
        options = mixture.inner._replace(jump_probability=0.0)
        ends = [
            inner_chain(surrogate.jit_state, COLD, self._rng, z, _WANDERING, options, mixture.archive_z) for z in starts
        ]
        return surrogate.back(np.array([end.position for end in ends]))

    def _start_part(self) -> bool:
        """Begin a warm-up of one part, with all that is known of it; False if a part learned before claims all that."""
        index = len(self._shapes) - self._n_parts
        self._n_parts -= 1
        history = self._main.trainer.history
        labels = self._labels(history.x)
        if not np.any(np.isfinite(history.log_density[labels == index])):
            self._shapes.pop(index)
            return False
        x, values = history.x[labels == index], history.log_density[labels == index]
        known = values > values.max() - self._frame.edge - _KNOWN_DEPTH
        near = np.flatnonzero(values > values.max() - self._bulk)
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
        self._deepen(explorer, history.x[labels != index], self._shapes[index])
        self._learning = _Learning(explorer, index, None, [])
        return True

    def _deepen(self, explorer: Explorer, x: np.ndarray, shape: _Shape) -> None:
        """Give a warm-up points of other modes, outside its own, as very deep ones, so that it is low there."""
        x = x[self._rng.permutation(len(x))[:_DEEP]]
        x = x[shape.value(self._frame.coordinates(x)) < shape.top - self._frame.edge]
        # Too deep to be fitted to, but not -inf, which would be evidence of a wall.
        explorer.trainer.history.extend(x, np.full(len(x), self._known_top - _ABYSS))

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
        if self._found:
            summit = self._found.pop(int(np.argmax([s.log_mass for s in self._found])))
            if not self._start_learning(summit):
                self.left.append(summit)
                self._next()
            return
        if not self._looked:
            self._looked, self._look = True, self._outlook()
            if len(self._look):
                return
        self._start_climbs()
        if not self._climbs:
            self._note_unvisited()
            self.done = True

    def _sort_out(self) -> None:
        """Keep what was found and is worth a warm-up: explained by no surrogate, and of enough mass."""
        if len(self._found) and len(self.explorers) < MOST:
            places = np.array([summit.position for summit in self._found])
            news = self._unexplained(places, np.array([summit.value for summit in self._found]))
            self._found = [summit for summit, new in zip(self._found, news, strict=True) if new]
        masses = [log_mass(explorer.mixture, self._rng) for explorer in self.explorers]
        self._found = [summit for summit in self._found if summit.log_mass > max(masses) + _NEGLIGIBLE]

    def _may_add_climbs(self) -> bool:
        """Whether to start further searches beside the last ones, so that rounds of many chains are not small."""
        chains = self._setup.chains
        if self._learning or chains <= FEW_CHAINS or not 0 < len(self._climbs) <= chains // 2:
            return False
        self._sort_out()
        return not self._found

    def _note_unvisited(self) -> None:
        """Record points in the bulk that are far from all states: surrogates know them, but no walker reached them."""
        x, values = self._main.trainer.history.x, self._main.trainer.history.log_density
        bulk = values > values.max() - 0.5 * self._setup.dim - _UNVISITED_MORE
        states = np.unique(np.vstack([explorer.trainer.states() for explorer in self.explorers]), axis=0)
        tree = cKDTree(self._frame.coordinates(states))
        usual = np.quantile(tree.query(tree.data, k=2)[0][:, 1], _USUAL)
        distances = tree.query(self._frame.coordinates(x[bulk]))[0]
        if np.max(distances) > _FAR * usual:
            i = int(np.argmax(distances))
            nothing = np.zeros(self._setup.dim)
            self.left.append(Summit(x[bulk][i].copy(), float(values[bulk][i]), nothing, 0.0))

    def _used(self) -> int:
        return self._start + self.n_evaluations

    def _start_climbs(self) -> None:
        """Start from the highest of the unexplained points, and from others far from it and from each other."""
        x, values = self._known
        unknown = self._unexplained(x, values)
        x, values = self._known = x[unknown], values[unknown]
        price = _CLIMB_STEPS * (self._setup.dim + _CLIMB_COST)
        going = len(self._climbs)
        count = min(self._setup.chains - going, self._searches_left // price, len(x))
        if count < 1:
            return
        z = self._frame.coordinates(x)
        chosen = [int(np.argmax(values))]
        nearest = np.linalg.norm(z - z[chosen[0]], axis=1)
        while len(chosen) < count and nearest.max() > 0:
            chosen.append(int(np.argmax(nearest)))
            nearest = np.minimum(nearest, np.linalg.norm(z - z[chosen[-1]], axis=1))
        self._climbs += [Climb(z[row], values[row]) for row in chosen]
        self._known = np.delete(x, chosen, axis=0), np.delete(values, chosen)
        self.n_searches += len(chosen)

    def _climb(self, values: np.ndarray) -> None:
        """A step of each search; searches that reach an explained place end."""
        ends = np.cumsum([len(climb.ask()) for climb in self._climbs])[:-1]
        going = []
        for climb, mine in zip(self._climbs, np.split(values, ends), strict=True):
            points = self._frame.back(climb.ask())
            self._remember(points, mine)
            climb.tell(mine)
            here = self._frame.back(climb.position[None])
            if not self._unexplained(here, np.array([climb.value]))[0]:
                continue
            if climb.summit is None:
                going.append(climb)
            else:
                self._found.append(self._in_users_coordinates(climb.summit))
        self._climbs = going if self._searches_left > 0 else []

    def _in_users_coordinates(self, summit: Summit) -> Summit:
        """The summit in the user's coordinates, with its mass in the user's density; spreads are unchanged."""
        position = self._frame.back(summit.position[None])
        volume = np.linalg.slogdet(self._frame.whitening.inverse)[1] - self._frame.transport.log_jacobian(position)[0]
        return summit._replace(position=position[0], log_volume=float(volume))

    # A mode with its own warm-up

    def _start_learning(self, summit: Summit) -> bool:
        """Begin a warm-up around a summit, if the budget allows one."""
        dim = self._setup.dim
        if len(self.explorers) == 1 and self._divide_again():
            return True
        allowed = (self._limit - self._used()) // (1 + len(self._found))
        least, each = _WORTH_LEARNING
        if allowed < each * dim + least:
            return False
        center = self._frame.coordinates(summit.position[None])[0]
        self._shapes.append(_Shape(summit.top, center, np.diag(summit.spread**-2.0)))
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
        new = _not_in(history, self._known[0])
        x, values = (np.concatenate(both) for both in zip((history.x, history.log_density), self._known, strict=True))
        shapes = self._overlapping_shapes(x, values)
        if len(shapes) < 2:
            return False
        history.extend(self._known[0][new], self._known[1][new])
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
        self._remember(points[~mine], values[~mine])
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
        smooth = np.abs(values - surrogate.log_density(x)) < _ERROR_TOLERANCE * (1.0 + surrogate.error_sd)
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
        real = learned.log_density > self._known_top - _REAL * _ABYSS
        x = np.vstack([self._known[0], learned.x[real]])
        values = np.concatenate([self._known[1], learned.log_density[real]])
        new = _not_in(owner.trainer.history, x) & (self._labels(x) == whose)
        owner.relearn(x[new], values[new])

    def _labels(self, x: np.ndarray) -> np.ndarray:
        z = self._frame.coordinates(x)
        return np.argmax([shape.value(z) for shape in self._shapes], axis=0)

    def _shape_of(self, explorer: Explorer) -> _Shape:
        return _shape(explorer.trainer.history.log_density.max(), self._frame.coordinates(explorer.trainer.states()))


def _not_in(history: History, x: np.ndarray) -> np.ndarray:
    """Which of the points (k, d) a history lacks, (k,)."""
    seen = {row.tobytes() for row in history.x}
    return np.array([row.tobytes() not in seen for row in x], dtype=bool)


def _shape(top: float, z: np.ndarray) -> _Shape:
    covariance = np.atleast_2d(np.cov(z.T)) + 1e-12 * np.eye(z.shape[1])
    return _Shape(float(top), z.mean(axis=0), np.linalg.inv(covariance))


def _box(starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The box from which starts (n, d) were drawn, if they were uniform there: a little larger than the starts' own."""
    low, high = starts.min(axis=0), starts.max(axis=0)
    more = (high - low) / max(len(starts) - 1, 1)
    return low - more, high + more


def _past_cap(surrogate: Surrogate, x: np.ndarray) -> np.ndarray:
    """How much deeper a Gaussian trend without its cap would be at points (n, d), in nats.

    The cap keeps paths of a wrong trend finite. Far away it also hides narrow modes: deep as they are there, they are
    far above the tail of the mode that is known.
    """
    trend, state = surrogate.trend, surrogate.jit_state
    if isinstance(state, WalledState) or trend.dof > 0:
        return np.zeros(len(x))
    r = surrogate.coordinates(x) - trend.location
    excess = np.maximum(0.5 * np.einsum("ij,ij->i", r @ trend.precision, r) - state.cap, 0.0)
    return excess - state.tail * np.log1p(excess / state.tail)


def log_mass(mixture: ProposalMixture, rng: np.random.Generator) -> float:
    """log of the integral of a mixture's surrogate over (2 pi)^(d/2), by importance sampling from a wide Gaussian."""
    surrogate = mixture.surrogate
    assert surrogate is not None
    z = mixture.archive_z
    dim = z.shape[1]
    covariance = _MASS_SPREAD * (np.atleast_2d(np.cov(z.T)) + 1e-9 * np.eye(dim))
    root = np.linalg.cholesky(covariance)
    unit = rng.standard_normal((_MASS_DRAWS, dim))
    smooth, wall = surrogate.parts(np.ascontiguousarray(z.mean(axis=0) + unit @ root.T))
    log_ratio = smooth + wall + 0.5 * np.sum(unit**2, axis=1) + np.log(np.diag(root)).sum()
    volume = np.linalg.slogdet(surrogate.whitening.inverse)[1]
    return float(logsumexp(log_ratio) - np.log(_MASS_DRAWS) + volume)
