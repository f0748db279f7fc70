"""Learn a posterior by rounds: fit, sample the surrogate, choose a batch and evaluate it.

Each round ends with a comparison of the values with their prediction. The evaluations so far are
regressed by a Gaussian process, which knows how uncertain it is. Chains sample it at several
powers, and their draws are the candidates of the next evaluations: those that are uncertain
although their density is not small. Learning ends when the predictions are good or the budget is
used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from kmc.convergence import worst_rhat
from kmc.kernel_hmc.batch import (
    SURPRISE,
    TYPICAL,
    Beyond,
    BeyondAtSearches,
    Climb,
    ClimbFromStarts,
    Exchanges,
    Known,
    OvertakenClimbs,
    Source,
    candidates,
    choose,
)
from kmc.kernel_hmc.kinds import KindChoice, kinds_of
from kmc.kernel_hmc.modes import Modes, find_modes
from kmc.kernel_hmc.stopping import MOST, Prediction, calibration, is_learned, unseen
from kmc.kernel_hmc.surrogate_chains import MOVES, Chains, doubts, sample, tuned
from kmc.surrogate.emulator.climbs import Climbs
from kmc.surrogate.emulator.structure import Approximation, Structure
from kmc.surrogate.known import KnownPart
from kmc.surrogate.process import Process, Seen


@dataclass(frozen=True)
class Settings:
    """Numbers of the rounds."""

    excess: tuple[float, ...] = (0.0, 1.0, 5.0)
    """Nats by which a normal's draws at the chains' powers are deeper on average than at power 1.

    At the same power in all dimensions, draws were too deep in many for the tails of the posterior
    to be learned.
    """
    chains: tuple[int, ...] = (24, 12, 12)
    """Number of chains at each power."""
    blocks: int = 10
    """Blocks of moves of each chain in a round."""
    restarted: float = 1 / 6
    """Share of the chains that start from the best evaluated points in each round, in case that all
    are stuck.
    """
    growth: float = 0.05
    """Size of a batch as a share of the evaluations so far, at least half of the dimension."""
    lost: float = 0.01
    """Share of the blocks that may end where the density is not known when learning ends."""
    deep: float = 0.05
    """Share of the draws that may be deep below the prediction when learning ends.

    The draws and the prediction are those of the frozen surrogate.
    """
    elsewhere: tuple[float, int] = (0.01, 2)
    """Part of the evaluations so far, and least number: points of each source before the freeze."""
    refit: float = 0.15
    """Growth of the number of evaluations after which hyperparameters are searched for again."""
    slope: float = 1.0
    """Nats that are subtracted from the log-density for each nat of an error above ``TRUSTED``."""


SETTINGS = Settings()

IN_BATCHES: tuple[type[Source], ...] = (Climb, BeyondAtSearches)
"""Sources whose points are at the head of each batch."""

AT_THE_END: tuple[type[Source], ...] = (ClimbFromStarts,)
"""Sources that are asked when learning would end, until they have no more points."""

ELSEWHERE: tuple[type[Source], ...] = (Exchanges, Beyond)
"""Sources of points where no draws are, before the surrogate is frozen."""

LONG = 32
"""Most moves in a block of a chain, for draws of the learned process."""

_LOWEST = 0.01  # share of the draws that are lower than values elsewhere which count
_SAME = 1e-3  # standard deviations between points that are one
# spreads of the points: squares of the coordinates of one that is farther leave no digits of others
_FARTHEST = 1e8
_SHORT = 2  # moves in a block of a chain, for draws of the learned process
_AGREE = 1.1  # largest R-hat of chains that agree


class Learning:
    """Rounds of learning: :meth:`propose` a batch, :meth:`tell` its values.

    Parameters
    ----------
    points : ndarray, shape (n, d)
        First points; n >= 2.
    values : ndarray, shape (n,)
        Their log-densities, which may be -inf, but not all.
    rng : Generator
    gradients : ndarray, shape (n, d), optional
        Gradients of the log-density where they are known, rows of NaN elsewhere.
    given : int
        Number of the first points that were not evaluated for this run: batches are no larger
        because of them.
    least : int
        Smallest size of a batch.
    noisy : bool
        Whether the values have noise, which no number of them takes away. Otherwise what the
        regression calls noise is an error that more values mend.
    outputs : ndarray, shape (n, k), optional
        Outputs of a simulator where they are known, rows of NaN elsewhere.
    structures : sequence of Structure
        What the log-density is of these outputs: then they are regressed, or the log-density
        itself, whatever predicts new values better, the first structure to begin with.
    approximation : Approximation, optional
        A cheap simulator of these outputs: then one more candidate regresses the difference from
        it.
    known : KnownPart, optional
        What is known of the log-density: it need not be learned.
    starts : range
        Which of the first points are the user's start points.
    climbs : Climbs, optional
        Those that found the first points.

    Attributes
    ----------
    process : Process
        The last fit, of all values before the last batch: what the chains sample.
    n_fits : int
        Fits made.
    right : ndarray, shape (k,)
        Which of the last draws that were tested are not deep below what was predicted.
    draws : ndarray, shape (m, d)
        Draws of the process at power 1: of the posterior, if its temperature is 1.
    moves : int
        In a block of a chain that :meth:`sample` has made.
    ratio : float
        Of errors to the process's standard deviations, by the last batches; 1 as long as they are
        too few.

    Raises
    ------
    ValueError
        The first points are fewer than two, or none has a finite log-density.
    """

    def __init__(
        self,
        points: np.ndarray,
        values: np.ndarray,
        *,
        rng: np.random.Generator,
        gradients: np.ndarray | None = None,
        given: int = 0,
        least: int = 2,
        noisy: bool = False,
        outputs: np.ndarray | None = None,
        structures: Sequence[Structure] = (),
        approximation: Approximation | None = None,
        known: KnownPart | None = None,
        starts: range = range(0),
        climbs: Climbs | None = None,
        settings: Settings = SETTINGS,
    ):
        _check_first(points, values)
        near = _near(points, points)
        self.points, self.values = points[near], values[near]
        self.gradients = (
            np.full(self.points.shape, np.nan) if gradients is None else gradients[near]
        )
        self.outputs = None if outputs is None else outputs[near]
        self._starting = np.flatnonzero(np.isin(np.flatnonzero(near), starts))
        self._rng = rng
        self._given = given
        self._least = least
        self._noisy = noisy
        self._settings = settings
        self._known = known
        self._kinds = KindChoice(kinds_of(structures, approximation))
        # what was evaluated, and is not learned from
        self.left_out = self.points[:0], self.values[:0]
        self._chains: Chains | None = None
        self._batch: np.ndarray | None = None
        self._is_last = False  # whether it is asked for when learning would end
        self._forecast = self._sds = np.empty(0)
        self._typical = self._lowest = self._roughness = 0.0
        # where the density was not expected to be so high, since the last search
        self._surprises = self.points[:0]
        self._doubt = MOST
        self.n_fits = self._searches = 0
        self._due = 0.0
        self.process: Process
        self._searched = False
        self._sources = [source() for source in IN_BATCHES]
        self._last_sources = [source() for source in AT_THE_END]
        if climbs is not None:
            self._sources.append(OvertakenClimbs(climbs))
            self._last_sources.append(OvertakenClimbs(climbs, at_the_end=True))
        self._others = [source() for source in ELSEWHERE]
        self.moves, self._settled = _SHORT, False
        # sources, and how many points each has at the head of the batch
        self._heads: list[tuple[Source, int]] = []
        self.modes: Modes | None = None
        self._record: list[Prediction] = []
        self._tests = np.empty(0, bool)  # whether draws that nobody chose have density, in order
        self._n_drawn = 0
        self.right = np.empty(0, bool)
        self.draws = self.points
        if climbs is not None:
            self.draws = climbs.draws(sum(settings.chains), rng)
        self.ratio = 1.0

    @property
    def error(self) -> float:
        """The error of the process at its draws in nats.

        It is the standard deviation there, as calibrated by the last batches; infinite as long as
        there are too few.
        """
        ratio = calibration(self._record, 10 + self.points.shape[1])
        return min(ratio * self._doubt, MOST) if np.isfinite(ratio) else np.inf

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the values' noise in nats; 0 if they have none."""
        return self._roughness if self._noisy else 0.0

    def is_done(self, left: int) -> bool:
        """Return whether learning should end, with so many evaluations left for it and for draws.

        It goes on as long as chains go where the density is not known.
        """
        if (
            self._chains is None
            or self.process.temperature > 1.0
            or self._chains.lost > self._settings.lost
        ):
            return False
        # Chosen points are mostly deep, so it takes long until they say how far errors can be
        # believed: draws will.
        return self._is_learned(left, self.error if np.isfinite(self.error) else self._doubt)

    def propose(self, most: int) -> np.ndarray:
        """Return the next batch (b, d) of at most so many points, the same until it is told."""
        if self._batch is None:
            self.fit()
            self._ask(self._chosen(most), last=False)
        assert self._batch is not None
        return self._batch

    def propose_last(self, most: int) -> np.ndarray:
        """Return points (k, d) of a batch asked for when learning would end; none if it ends."""
        known = self._known_to_sources(False)
        heads = list(_from(self._last_sources, known, most))
        points = np.vstack([self.points[:0], *heads])
        if len(points):
            self._heads = [
                (source, len(own)) for source, own in zip(self._last_sources, heads, strict=True)
            ]
            self._ask(points, last=True)
        return points

    def _ask(self, points, *, last):
        self._batch, self._is_last = points, last
        self._forecast, self._sds = self.process.forecast(points), self._deviations(points)

    def tell(
        self,
        values: np.ndarray,
        gradients: np.ndarray | None = None,
        outputs: np.ndarray | None = None,
    ) -> None:
        """Compare the values (b,) of the batch with their predictions, and keep them.

        Gradients (b, d) and outputs (b, k) are kept, too, where they are known.
        """
        assert self._batch is not None
        # Sources choose points where predictions are too high, or too low: no test of the others.
        new = slice(sum(count for _, count in self._heads), None)
        self._compare(self._forecast[new], values[new], self._sds[new])
        if not self._is_last:
            self._tests = np.append(self._tests, np.isfinite(values[len(values) - self._n_drawn :]))
        highest, start = self.values.max(), 0
        for source, count in self._heads:
            rows = slice(start, start + count)
            source.tell(values[rows], highest, None if outputs is None else outputs[rows])
            start += count
        if self._is_last and self._surprise(self._batch, self._forecast, values):
            self._doubt = MOST
        # a way up is no part of the posterior
        kept = values >= (self._lowest if self._is_last else -np.inf)
        self.left_out = (
            np.vstack([self.left_out[0], self._batch[~kept]]),
            np.append(self.left_out[1], values[~kept]),
        )
        self._keep(
            self._batch[kept],
            values[kept],
            *(None if a is None else a[kept] for a in (gradients, outputs)),
        )
        self._batch = None

    def fit(self, *, search: bool | None = None) -> None:
        """Fit to all values, and sample the fit.

        Hyperparameters are searched for now and then, as this costs most, unless ``search`` says
        whether.
        """
        settings, rng = self._settings, self._rng
        seen = self._seen
        search = self._searched = len(self.values) >= self._due if search is None else search
        if self._chains is None:
            self.process = self._kinds.used.first(seen, rng)
        elif search:
            self.process = self._kinds.again(seen, self.process, self._searches, self._typical, rng)
        else:
            self.process = self._kinds.used.conditioned(seen, self.process, rng)
        self.n_fits += 1
        self.moves, self._settled = _SHORT, False
        self._roughness = self.process.temperature * np.exp(
            self.process.regression.hyperparameters.noise
        )
        chains = self._restarted()
        if search:
            self._searches += 1
            self._due = len(self.values) * (1.0 + settings.refit)
            chains = tuned(self.process, chains, rng)
            best = self.points[np.argsort(-self.values, kind="stable")[: len(self.values) // 4]]
            self.modes = find_modes(self.process, np.vstack([best, chains.positions]))
            self._surprises = self.points[:0]
        ratio = calibration(self._record, 10 + self.points.shape[1])
        self.ratio = ratio if np.isfinite(ratio) else 1.0
        positions, self._chains = sample(
            self.process,
            chains,
            rng,
            blocks=settings.blocks,
            ratio=self.ratio,
            slope=settings.slope,
            modes=self.modes,
        )
        self._positions = positions[settings.blocks // 3 :]
        self.draws = self._positions[:, chains.powers == 1.0].reshape(-1, self.points.shape[1])
        heights = self.process.forecast(self.draws)
        self._typical, self._lowest = (
            float(np.median(heights)),
            float(np.quantile(heights, _LOWEST)),
        )
        known = self.noise_sd  # which is no doubt
        errors = np.sqrt(self._deviations(self.draws[::8]) ** 2 - known**2)
        self._doubt = float(np.sqrt(np.mean(np.minimum(errors, MOST) ** 2)))

    def sample(self, blocks: int, rng: np.random.Generator) -> np.ndarray:
        """Return draws (m, d) of the process at power 1, one after each block of each chain.

        Chains go on in blocks of twice as many moves until they agree, as learning may end before
        they have travelled along a ridge. Where that does not bring them closer, they are in
        regions that no longer blocks connect. Later blocks of the same process are as long.
        """
        assert self._chains is not None
        settled, self._settled, apart = self._settled, True, np.inf
        while True:
            positions, chains = sample(
                self.process,
                self._chains,
                rng,
                blocks=blocks,
                moves=self.moves,
                ratio=self.ratio,
                slope=self._settings.slope,
                modes=self.modes,
            )
            positions = positions[:, chains.powers == 1.0]
            draws = positions.reshape(-1, positions.shape[-1])
            self._chains = replace(chains, archive=draws)
            z = self.process.coordinates(draws).reshape(positions.shape)
            last, apart = apart, worst_rhat(z.swapaxes(0, 1))
            if settled or apart < _AGREE or not apart < last or self.moves == LONG:
                return draws
            self.moves *= 2

    def elsewhere(self, most: int) -> np.ndarray:
        """Return at most so many points (k, d) where no draws are: see :meth:`passes`."""
        share, least = self._settings.elsewhere
        each = max(int(share * len(self.values)), least)
        return np.vstack(
            [self.points[:0], *_from(self._others, self._known_to_sources(False), most, each)]
        )

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return the log-density that draws are of, at the rows of x (k, d), (k,)."""
        return self.process.log_density(x) - doubts(
            self.process, x, self.ratio, self._settings.slope
        )

    def passes(
        self,
        points: np.ndarray,
        values: np.ndarray,
        left: int,
        *,
        drawn: int,
        above: int = 0,
        outputs: np.ndarray | None = None,
    ) -> bool:
        """Keep the values (k,) at points (k, d), and return whether learning should end.

        ``left`` is the number of evaluations that are left. The first ``drawn`` points are draws of
        the process, ``above`` of them from above, which no chain has come to: learning goes on if
        many are deep below the prediction, as their values mend that. The others are elsewhere: it
        goes on if one is not lower than nearly all draws, and was not expected to be.
        """
        forecast = self.process.forecast(points)
        self._compare(forecast[:drawn], values[:drawn], self._deviations(points[:drawn]))
        self._tests = np.append(self._tests, np.isfinite(values[above:drawn]))
        self.right = values[:drawn] > forecast[:drawn] - MOST - 2.0 * self.noise_sd
        deep = np.isfinite(values[:drawn]) & ~self.right
        self._keep(points, values, None, outputs)
        found = self._surprise(points[drawn:], forecast[drawn:], values[drawn:])
        return (
            not found and deep.mean() <= self._settings.deep and self._is_learned(left, self.error)
        )

    def facts(self) -> dict[str, Any]:
        """Return facts of the surrogate for the results' attributes."""
        return self.process.facts(self.draws) | {
            "surrogate_loo_sd": np.hypot(
                min(calibration(self._record, 1) * self._doubt, MOST), self.noise_sd
            ),
            "surrogate_n_values": len(self.values),
        }

    def _surprise(self, points, forecast, values):
        """Return whether the density is unexpectedly not lower than at nearly all draws."""
        found = values > np.maximum(forecast + SURPRISE, self._lowest)
        if found.any():
            self._due = 0.0  # another mode, or more of this one: search at once, with chains there
            self._surprises = np.vstack([self._surprises, points[found]])
        return bool(found.any())

    def _known_to_sources(self, searched):
        return Known(
            self._seen,
            self.process,
            self._lowest,
            self._typical,
            searched,
            self._starting,
            self._rng,
        )

    @property
    def _seen(self):
        return Seen(
            self.points,
            self.values,
            self.draws,
            self.gradients,
            self._noisy,
            self.outputs,
            self._known,
        )

    def _keep(self, points, values, gradients, outputs):
        near = _near(points, self.points)
        points, values = points[near], values[near]
        gradients, outputs = (None if each is None else each[near] for each in (gradients, outputs))
        self.points, self.values = np.vstack([self.points, points]), np.append(self.values, values)
        if self.outputs is not None:
            none = np.full((len(points), self.outputs.shape[1]), np.nan)
            self.outputs = np.vstack([self.outputs, none if outputs is None else outputs])
        more = np.full(points.shape, np.nan) if gradients is None else gradients
        self.gradients = np.vstack([self.gradients, more])

    def _compare(self, forecast, values, sds):
        height = np.fmax(forecast, np.where(np.isfinite(values), values, -np.inf))
        weight = np.exp(0.5 * np.minimum(height - self._typical, 0.0))
        self._record.append(Prediction(forecast, values, sds, weight))

    def _is_learned(self, left, error):
        dim, n = self.points.shape[1], len(self.values)
        last = self._tests[-2 * (10 + dim) :]
        behind = 1.0 - float(last.mean()) if len(last) else 0.0
        return is_learned(
            error, n, left, noise=self.noise_sd, lost=min(behind + unseen(n, dim), 1.0)
        )

    def _deviations(self, points):
        """Return standard deviations (k,) of the process at points (k, d) in nats.

        They are at least that of its noise.
        """
        sd = self.process.standard_deviations(points)
        return np.hypot(self.process.temperature * sd, self._roughness)

    def _chosen(self, most):
        assert self._chains is not None
        dim, n = self.points.shape[1], len(self.values) - self._given
        size = min(max(self._least, dim // 2, int(self._settings.growth * n)), most)
        typical = max(int(TYPICAL * size), 1) if size > 1 else 0
        pool, powers = candidates(self._positions, self._chains.powers, self._rng)
        new = _is_new(self.process, pool, self.points)
        if new.any():
            pool, powers = pool[new], powers[new]
        if new.sum() < size:
            self._due = 0.0  # chains cannot move: the fit is wrong
        heads = [
            points[_is_new(self.process, points, self.points)]
            for points in _from(
                self._sources, self._known_to_sources(self._searched), size - typical
            )
        ]
        self._heads = [
            (source, len(points)) for source, points in zip(self._sources, heads, strict=True)
        ]
        best = choose(
            self.process, pool, powers, size - typical, np.vstack([self.points[:0], *heads])
        )
        draws = self._positions[:, self._chains.powers == 1.0].reshape(-1, dim)
        draws = np.unique(draws, axis=0)
        draws = draws[_is_new(self.process, draws, np.vstack([self.points, best]))]
        typical = self._n_drawn = min(typical, len(draws))
        return np.vstack([best, draws[self._rng.choice(len(draws), typical, replace=False)]])

    def _restarted(self):
        """Return chains of which some start anew, or all if there are none yet.

        They start from the best points, or from surprises.
        """
        settings, rng, last = self._settings, self._rng, self._chains
        best = np.argsort(-self.values, kind="stable")[: max(5, len(self.values) // 4)]
        if last is None:
            powers = 1.0 / (1.0 + 2.0 * np.array(settings.excess) / self.points.shape[1])
            powers = np.repeat(powers, settings.chains)
            first = self.points[rng.choice(best, len(powers))]
            positions = first if self.draws is self.points else self.draws
            return Chains(positions, powers, self.draws, MOVES)
        again = rng.random(len(last.positions)) < settings.restarted
        positions = last.positions.copy()
        starts = self._surprises if len(self._surprises) else self.points[best]
        positions[again] = starts[rng.choice(len(starts), int(again.sum()))]
        return replace(last, positions=positions, archive=self.draws)


def _check_first(points, values):
    """Raise ValueError if the first points (n, d) are too few, or none has a finite value."""
    if points.ndim != 2 or len(points) < 2 or not np.isfinite(values).any():
        raise ValueError(
            f"points has shape {points.shape}: expected (n, d), n >= 2, with a finite "
            f"log-density at least at one"
        )


def _near(points, others):
    """Return which points (k, d) are near enough for the others to have digits beside them."""
    center = np.median(others, axis=0)
    spread = np.median(np.abs(others - center), axis=0)
    return np.all((np.abs(points - center) <= _FARTHEST * spread) | (spread == 0.0), axis=1)


def _from(sources, known, most, each=None):
    """Yield the points (k, d) of each source, at most so many of each, and of all."""
    for source in sources:
        points = source.points(known, most if each is None else min(each, most))
        most -= len(points)
        yield points


def _is_new(process, points, known):
    """Return which points (k, d) are not known ones (n, d): chains that stand still are there."""
    z = process.coordinates
    distances, _ = cKDTree(z(known)).query(z(points))
    return distances > _SAME
