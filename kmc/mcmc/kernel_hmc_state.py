"""The state of kernel HMC: warm-up, search for modes, and main phase.

Warm-up moves walkers on a ladder of temperatures, first by differential evolution, then by inner chains on a surrogate
that is refitted at geometrically growing counts of evaluations. The main phase is an exact Metropolis–Hastings chain
for the target: the adaptation is frozen (``adaptation="freeze"``), or refits at sweeps that are fixed in advance and
ever rarer (``adaptation="vanishing"``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kmc.mcmc.base import SamplerSetup, Step
from kmc.mcmc.lanes import Lanes, Passed, join_lanes, joined_stats, make_lanes
from kmc.mcmc.learner import Learner, LearnerOptions
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.mode_mixture import JoinedModes, ModeMixture, join
from kmc.mcmc.modes import ModeSearch
from kmc.mcmc.moves import Move, propose_one_of
from kmc.mcmc.proposal_mixture import ProposalMixture, within_trust_region
from kmc.mcmc.schedule import Schedule, walkers_of
from kmc.mcmc.small_budget import burn_in, first_fit, long_warmup, start_search
from kmc.mcmc.surrogate_trainer import SurrogateTrainer
from kmc.mcmc.tempering import COLD, Tempering, ladder
from kmc.mcmc.two_gaussians import two_gaussians_instead
from kmc.mcmc.unvisited import exchanges
from kmc.mcmc.user_gradient import OccasionalGradient
from kmc.mcmc.walkers import Walkers, best_starts, cloud_around, requested
from kmc.surrogates import Density
from kmc.surrogates.depth import bulk_depth

# "Tried" is docs/what-was-tried.md; the others were set by hand.
REFIT_GROWTH = 1.25  # factor between successive sweeps of the main phase at which it refits
_CLOUD_PER_WALKER, _CLOUD_PER_DIM, _CLOUD_MORE = 2, 2, 4  # points of the first cloud
_RECENT = 0.6  # last part of the sweeps of warm-up, in whose states the main phase starts
_LOST = 15.0  # nats, plus one per dimension, below the median of the others: such a walker is moved
_EXCHANGES = 0.01  # part of the evaluations of warm-up: points with exchanged blocks at its end
_LONG_STAY = 40  # sweeps in one state, after which it is moved too, if values are noisy (tried: noisy targets)


class PhaseOptions(NamedTuple):
    """What the phases need of the options of :class:`kmc.KernelHMC`, where they are explained."""

    adaptation: str
    n_temperatures: int
    probe_rate: float
    main_probe_rate: float
    refit_growth: float
    min_warmup_evaluations: int
    post_freeze_burn_in: int
    first_refit: int
    search_share: float
    min_search_budget: int
    moves: Sequence[tuple[Move, float]]


class KernelHMCState:
    """The state of kernel HMC; see :class:`kmc.mcmc.base.SamplerState`."""

    def __init__(
        self,
        options: PhaseOptions,
        learning: LearnerOptions,
        setup: SamplerSetup,
        *,
        gradient: OccasionalGradient | None = None,
        cloud: np.ndarray | None = None,
    ):
        """``cloud`` (k, d): the first points of the warm-up of a further mode, which is a part of a larger run."""
        self.options, self.setup = options, setup._replace(history=None)  # the learner keeps the history
        self.warming_up = True
        budget = setup.max_evaluations if cloud is None else None
        self._start_search = start_search(setup) if cloud is None and gradient is None else None
        searched = self._start_search is not None
        self._first_fit = first_fit(setup.dim, budget, searched=searched)
        self._settle = burn_in(options.post_freeze_burn_in, budget, setup, searched=searched)
        self._schedule = Schedule.of(
            setup,
            first_fit=self._first_fit,
            refit_growth=options.refit_growth,
            earliest=options.min_warmup_evaluations,
            post_freeze_burn_in=self._settle,
            long=None if cloud is not None or gradient is not None else long_warmup(setup, searched=searched),
        )
        earliest = self._schedule.earliest if cloud is None else 0  # warm-ups of single modes are short
        walkers = walkers_of(setup, least=options.n_temperatures, earliest=earliest)
        dim = setup.dim
        *seeds, modes_seed = setup.seed.spawn(walkers + 2)
        *self._rngs, self._rng = (np.random.default_rng(seed) for seed in seeds)
        self._modes_rng = np.random.default_rng(modes_seed)
        self.walkers = self._best_walkers(setup.initial, setup.initial_log_density)
        self._betas = np.resize(ladder(dim, bulk_depth(dim), options.n_temperatures), walkers)
        self._learner = Learner(
            dim,
            learning,
            rng=self._rng,
            noisy=setup.noisy,
            given=setup.history,
            gradient=gradient,
            few_values=searched,
            keeps_modes=cloud is None and not self._affords_search,
        )
        self._learner.record(setup.initial, setup.initial_log_density)
        if gradient is not None and cloud is None:
            self._learner.check_gradient(setup.initial, setup.chains, setup.seed)
        self._modes: ModeSearch | None = None
        self._joined: JoinedModes | None = None  # for several modes
        self._exchanged = np.empty((0, dim))  # points that are evaluated at the end of warm-up
        self._given_cloud = cloud
        self._hurried = False
        self._frozen = False
        self._sweep = 0  # since the phase began
        self._next_refit = float(options.first_refit)  # sweep of the main phase, if adaptation is vanishing
        # state of the current sweep
        self._cloud = np.empty((0, dim))
        self._proposals: list[Proposal] = []
        self._temperings: list[Tempering] = []

    def propose(self) -> np.ndarray:
        """The proposals of this sweep that moved, and then the probes; in the first sweep, a cloud around the start."""
        if self._modes and not self._modes.done:
            return self._modes.propose()
        if len(self._exchanged):
            return self._exchanged
        if self._start_search is not None and not self._start_search.ended:
            return self._start_search.points
        if not len(self._cloud):
            self._cloud = self._surroundings()
            return self._first_points
        cold = bool(np.all(self._betas == 1.0))
        self._temperings = [COLD] * len(self._betas) if cold else list(map(self._learner.tempering, self._betas))
        self._proposals = self._propose_each()
        if not self._frozen:
            self._proposals = within_trust_region(self._proposals, self.walkers.x, self.trainer.history)
        if self._learning:
            rate = self.options.main_probe_rate if self._frozen else self.options.probe_rate
            self._learner.choose_probes(rate, len(self.walkers))
        return self._requested

    def advance(self, values: np.ndarray) -> Step | None:
        """Decide, learn from the values, and adapt if it is due."""
        if self._modes and not self._modes.done:
            return self._search(self._modes, values)
        if len(self._exchanged):
            self._learner.record(self._exchanged, values, with_gradients=False)
            self._exchanged = self._exchanged[:0]
            self._leave_warmup()
            return None
        if self._start_search is not None and not self._start_search.ended:
            self._learner.record(self._start_search.points, values)
            self._start_search.tell(values)
            return None
        if not self._proposals:
            self._begin(*np.split(values, [len(self._cloud)]))
            return None
        proposed = requested(self._proposals, self.setup.dim)
        if self._learning:
            self._learner.learn(proposed, values, with_gradients=not self._frozen)
        stats = self.walkers.decide(
            self._proposals, values[: len(proposed)], self._temperings, transport=self.trainer.transport
        )
        return self._finish_sweep(stats)

    def lanes(self) -> Lanes | None:
        """The chains, each on its own; None as long as anything couples them."""
        if self._learning:
            return None
        burn_in = self._settle - self._sweep if self.warming_up else 0
        return make_lanes(lambda rng, x: self._proposal(rng, x, COLD), self.walkers, burn_in)

    def join(self, passed: Sequence[Passed]) -> Step:
        """Finish a sweep that the chains have made on their own."""
        join_lanes(self.walkers, passed)
        return self._finish_sweep(joined_stats(passed))

    def _finish_sweep(self, stats: dict[str, np.ndarray]) -> Step:
        record = self.walkers.sweep(self.warming_up, stats, self.setup.chains)
        self._sweep += 1
        if self._joined and not self.warming_up:
            self._joined.visit(self.walkers.x)
        if not self._frozen:
            self._learner.tally(self._proposals, self._betas, stats["acceptance_rate"])
            self.walkers.swap_neighbors(self._temperings, self._rng, self.trainer.transport)
        if self._learning:
            self.trainer.visit(self.walkers.x, self.walkers.log_density, self._betas)
        self._adapt()
        return record

    def end_warmup(self) -> None:
        """Fit once more and freeze after the next sweep."""
        self._schedule.end()
        self._hurried = True

    @property
    def density(self) -> Density | None:
        """The density that inner chains of the main phase leave invariant; None as long as it may change."""
        if self._learning or self._moves.surrogate is None:
            return None
        mixtures = (self.mixture,) if self._joined is None else self._joined.mixture.plans
        return Density.of([mixture.surrogate for mixture in mixtures if mixture.surrogate is not None])

    @property
    def evaluated(self) -> tuple[np.ndarray, np.ndarray]:
        """Points (n, d) and values (n,) to which the surrogate was fitted."""
        return self.trainer.history.x, self.trainer.history.log_density

    def report(self) -> dict[str, Any]:
        """Facts for the results' attributes."""
        facts: dict[str, Any] = {"noisy": self.setup.noisy, **self._learner.facts()}
        if self._modes is not None:
            facts |= self._modes.facts()
        if self._joined is not None:
            facts |= self._joined.facts()
        surrogate = self._moves.surrogate
        if surrogate is None:
            return facts
        return facts | {
            **surrogate.facts(),
            "noise_sd": surrogate.noise_sd if self.setup.noisy else None,
            "roughness_sd": 0.0 if self.setup.noisy else surrogate.noise_sd,
            "inner_chain_length": self._moves.longest_chain,
            "leapfrog_step_size": self._moves.inner.step_size,
        }

    @property
    def _moves(self) -> ProposalMixture | ModeMixture:
        return self._joined.mixture if self._joined else self.mixture

    @property
    def _learning(self) -> bool:
        """Whether new evaluations may change later moves."""
        return not self._frozen or self.options.adaptation == "vanishing"

    # Start

    def _surroundings(self) -> np.ndarray:
        """A cloud that gives differential evolution its directions: around the user's points, or the search's end."""
        if self._given_cloud is not None:
            return self._given_cloud
        size = cloud_size(max(self.setup.chains, self.options.n_temperatures), self.setup.dim)
        if self._start_search is not None:
            return self._start_search.cloud(size, self._rng)
        return cloud_around(self.setup.initial, size, self._rng)

    @property
    def _first_points(self) -> np.ndarray:
        """The cloud, and what the check of the gradient needs."""
        return np.vstack([self._cloud, self._learner.check_points])

    def _begin(self, values: np.ndarray, check_values: np.ndarray) -> None:
        known = ~np.isnan(values)
        self._cloud, values = self._cloud[known], values[known]
        self._learner.record(self._cloud, values)
        x = states = np.vstack([self.setup.initial, self._cloud])
        values = np.concatenate([self.setup.initial_log_density, values])
        if self._start_search is not None:  # the start points may be far below
            end, value = self._start_search.end()
            states = np.vstack([end, self._cloud])
            x, values = np.vstack([x, end]), np.append(values, value)
        self.walkers = self._best_walkers(x, values)
        self._learner.begin(states, check_values)
        if self._schedule.exhausted(0, len(x)):
            self._freeze()

    def _best_walkers(self, x: np.ndarray, values: np.ndarray) -> Walkers:
        best = best_starts(x, values, len(self._rngs))
        return Walkers(self._rngs, x[best], values[best])

    # A sweep

    def _propose_each(self) -> list[Proposal]:
        """One proposal for each walker."""
        walkers, mixture = self.walkers, self._moves
        if isinstance(mixture, ProposalMixture) and not self.options.moves:
            return mixture.propose_each(walkers.rngs, walkers.x, self._temperings)
        return [self._proposal(*walker) for walker in zip(walkers.rngs, walkers.x, self._temperings, strict=True)]

    def _proposal(self, rng: np.random.Generator, x: np.ndarray, tempering: Tempering) -> Proposal:
        if self.options.moves:
            proposal = propose_one_of(self.options.moves, rng, x, archive=self._moves.archive)
            if proposal is not None:
                return proposal
        return self._moves.propose(rng, x, tempering)

    @property
    def _requested(self) -> np.ndarray:
        """The points of this sweep: proposals that moved, and those evaluated only to learn."""
        return np.vstack([requested(self._proposals, self.setup.dim), self._learner.further_points])

    # Adaptation

    def _adapt(self) -> None:
        if not self._frozen:
            self._warm_up()
        elif self.warming_up:
            if self._sweep >= self._settle:
                self.warming_up, self._sweep = False, 0
        elif self.options.adaptation == "vanishing" and self._sweep >= self._next_refit:
            self._next_refit *= REFIT_GROWTH
            self._learner.refit()
            self._learner.tune_length()

    def _warm_up(self) -> None:
        trainer, n = self.trainer, self.trainer.n_own
        due = self._schedule.due(n)
        if self.mixture.surrogate is None and not due:
            due = trainer.ready_early(self._first_fit)
        done = False
        if due:
            self._learner.refit()
            self._learner.seek_pairs()
            done = self._schedule.finish(n, self._learner.round, trainer.settled_at)
            done = done or (n >= self._schedule.earliest and self._is_two_modes())
            self._learner.next_round()
            self._rescue()
        elif self._learner.archive_is_old:
            self._learner.renew_archive()
        if done or self._schedule.exhausted(self._sweep, n):
            if not due and len(trainer.history) >= self._first_fit:
                self._learner.refit()
            self._exchanged = self._exchanges()
            if not len(self._exchanged):
                self._leave_warmup()

    def _exchanges(self) -> np.ndarray:
        """Points (k, d) that are as high as the highest, and elsewhere, if labels can be exchanged."""
        history = self.trainer.history
        alone = self._given_cloud is None and self.mixture.surrogate is not None
        if not alone or self._hurried or self.setup.noisy:
            return history.x[:0]
        own = history.evaluated
        highest = history.x[own][np.argmax(history.log_density[own])]
        return exchanges(highest, int(_EXCHANGES * self.trainer.n_own))

    def _leave_warmup(self) -> None:
        """Search for further modes, or freeze."""
        self._seek_modes(self.trainer.n_own)
        if not self._modes or self._modes.done:
            self._freeze()

    def _rescue(self) -> None:
        """Move walkers that are hopelessly deep, or stuck with an estimate far too high, to another walker's state."""
        values = self.trainer.heights(self.walkers.x, self.walkers.log_density)
        lost = values < np.median(values) - (self.setup.dim + _LOST) / self._betas
        if self.setup.noisy:
            lost |= self.trainer.stays(self.walkers.x, _LONG_STAY)
        self.walkers.move(lost, self._rng)

    def _freeze(self) -> None:
        """Fix the mixture of moves, and start one walker per chain at states of the coldest ones."""
        self._frozen, self._sweep = True, 0
        self.warming_up = self._settle > 0
        self._learner.finish()
        chains = self.setup.chains
        x, values = self.trainer.cold_visits(_RECENT)
        if not len(x):
            x, values = self.walkers.x, self.walkers.log_density
        elif self.setup.noisy:  # do not start where an estimate far too high has held a walker for long
            _, first = np.unique(x, axis=0, return_index=True)
            x, values = x[first], values[first]
        x, values = self._plausible(x, values)
        rows = self._rng.choice(len(x), chains, replace=len(x) < chains)
        self.walkers = Walkers(self._rngs[:chains], x[rows], values[rows])
        self._betas = np.ones(chains)
        if self._modes is not None and len(self._modes.explorers) > 1:
            self._joined, x, values = join(self._modes.explorers, chains, self._modes_rng)
            self.walkers = Walkers(self._rngs[:chains], x, values)

    def _plausible(self, x: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The states (n, d) and values (n,) at which draws of the frozen surrogate could be.

        If there are none, evaluations that are as high; if there are none either, all states.
        """
        floor = None if self.setup.noisy else self.trainer.floor(self.mixture)
        if floor is None:
            return x, values
        history = self.trainer.history
        own = history.evaluated
        for points, heights in ((x, values), (history.x[own], history.log_density[own])):
            high = heights >= floor
            if high.any():
                return points[high], heights[high]
        return x, values

    # Several modes

    @property
    def _may_seek_modes(self) -> bool:
        return self._affords_search and not self._hurried and self.mixture.surrogate is not None

    @property
    def _affords_search(self) -> bool:
        options, setup = self.options, self.setup
        allowed = options.adaptation == "freeze" and setup.warmup is None and not setup.noisy
        return allowed and options.search_share > 0 and self._schedule.budget >= options.min_search_budget

    def _is_two_modes(self) -> bool:
        """Whether two Gaussians explain what the surrogate does not: no further fit of one surrogate will."""
        history, surrogate = self.trainer.history, self.mixture.surrogate
        if surrogate is None or not self._may_seek_modes:
            return False
        return two_gaussians_instead(surrogate, history.x, history.log_density, rng=self._modes_rng) is not None

    def _seek_modes(self, n: int) -> None:
        options, setup = self.options, self.setup
        if not self._may_seek_modes:
            return
        self._modes = ModeSearch(
            setup, self, spent=n, budget=self._schedule.budget, share=options.search_share, rng=self._modes_rng
        )

    def _search(self, modes: ModeSearch, values: np.ndarray) -> Step | None:
        record = modes.advance(values)
        if self._hurried and not modes.done:
            modes.finish()
        if modes.done:
            self._freeze()
        return record

    # As an Explorer, see kmc/mcmc/explorer.py

    @property
    def mixture(self) -> ProposalMixture:
        """The mixture of moves; after a freeze with several modes, the one of this mode."""
        return self._learner.mixture

    @property
    def trainer(self) -> SurrogateTrainer:
        """The trainer of the surrogate."""
        return self._learner.trainer

    @property
    def frozen(self) -> bool:
        """Whether all adaptation has ended."""
        return self._frozen

    def another(self, setup: SamplerSetup, cloud: np.ndarray, least: int) -> KernelHMCState:
        """The same kind of warm-up for another mode, of at least ``least`` evaluations, from points (k, d)."""
        options = self.options._replace(search_share=0.0, min_warmup_evaluations=least)
        learner = self._learner
        return KernelHMCState(options, learner.options, setup, gradient=learner.gradient, cloud=cloud)

    def relearn(self, x: np.ndarray, values: np.ndarray) -> None:
        """Add evaluations (n, d), and refit."""
        self.trainer.history.extend(x, values)
        self._learner.refit()

    def finish(self) -> None:
        """Freeze now."""
        self._freeze()

    def propose_again(self) -> np.ndarray:
        """The same points as in the last call of :meth:`propose`."""
        if not self._proposals:
            return self._first_points
        return self._requested

    def state(self) -> tuple[np.ndarray, float]:
        """The state of a chain of the frozen sampler, and its value."""
        i = int(self._modes_rng.integers(len(self.walkers)))
        return self.walkers.x[i].copy(), float(self.walkers.log_density[i])


def cloud_size(walkers: int, dim: int) -> int:
    """Points of the first cloud."""
    return max(_CLOUD_PER_WALKER * walkers, _CLOUD_PER_DIM * dim + _CLOUD_MORE)
