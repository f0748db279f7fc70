"""The state of kernel HMC in a run: its phases.

First points are evaluated, then rounds of learning follow, until the last predictions are good or
their share of the evaluations is used. Then everything is frozen: the chains start at draws of the
surrogate, and the main phase is an exact Metropolis-Hastings chain for the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kmc.kernel_hmc.learning import Learning
from kmc.mcmc.base import MOVES, SamplerSetup, Step
from kmc.mcmc.lanes import Lanes, Passed, join_lanes, joined_stats, make_lanes
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.moves import Move, propose_one_of
from kmc.mcmc.proposal_mixture import ProposalMixture, distinct
from kmc.mcmc.surrogate_transition import InnerChainOptions
from kmc.mcmc.tempering import COLD
from kmc.mcmc.tuning import Trials, choose_inner_chain_length, choose_step_size
from kmc.mcmc.walkers import Walkers, cloud_around, requested
from kmc.surrogates import Density

_JUMP = MOVES.index("mode-jump")
_UNLIMITED, _LEAST_PLANNED = 2, 1500  # evaluations per draw, and at least, that are planned if nothing limits them
_ARCHIVED, _REACHING = 40, 15  # blocks of the chains at power 1, short and long: for trials, and for the archive
_TESTS = 10  # draws of the frozen surrogate, and one for each dimension, that are evaluated before the main phase
_TRIALS, _LENGTH_TRIALS = 64, 512  # chains used to choose the step size, and the length of inner chains


class PhaseOptions(NamedTuple):
    """What the phases need of the sampler's options."""

    learning_share: float
    burn_in: int
    max_archive: int
    inner: InnerChainOptions
    archive_probability: float
    single_move_probability: float
    tempered_probability: float
    jump_probability: float
    moves: Sequence[tuple[Move, float]]


class KernelHMCState:
    """See :class:`kmc.mcmc.base.SamplerState`."""

    def __init__(self, options: PhaseOptions, setup: SamplerSetup):
        self.options, self.setup = options, setup._replace(history=None)
        self.warming_up = True
        *seeds, own = setup.seed.spawn(setup.chains + 1)
        self._rngs = [np.random.default_rng(seed) for seed in seeds]
        self._rng = np.random.default_rng(own)
        self._n_own = len(setup.initial)
        points, values = setup.initial, setup.initial_log_density
        if setup.history is not None:
            points = np.vstack([setup.history[0], points])
            values = np.append(setup.history[1], values)
        self._first = points, values
        # Differences of fewer points than these say nothing about some directions.
        missing = max(3 * setup.chains, 2 * setup.dim) - len(points)
        self._asked = cloud_around(setup.initial, max(missing, 0), self._rng)
        self._learning: Learning | None = None
        self._budget, self._last = self._planned()
        self._starts = np.empty((0, setup.dim))
        self.mixture: ProposalMixture | None = None
        self.walkers: Walkers | None = None
        self._frozen: dict[str, Any] = {}  # facts of the frozen surrogate
        self._proposals: list[Proposal] = []
        self._sweep = 0

    # A sweep

    def propose(self) -> np.ndarray:
        """Return the points whose log-density is needed: to learn, to start, or the chains' proposals."""
        if self.walkers is None:
            return self._asked
        self._proposals = [self._proposal(rng, x) for rng, x in zip(self.walkers.rngs, self.walkers.x, strict=True)]
        return requested(self._proposals, self.setup.dim)

    def advance(self, values: np.ndarray) -> Step | None:
        """Learn from the values, or decide."""
        if self.walkers is None:
            self._learn(values)
            return None
        stats = self.walkers.decide(self._proposals, values, [COLD] * len(self.walkers))
        return self._finish_sweep(stats)

    def lanes(self) -> Lanes | None:
        """Return the chains, each on its own; None as long as anything couples them."""
        if self.walkers is None:
            return None
        burn_in = self.options.burn_in - self._sweep if self.warming_up else 0
        return make_lanes(self._proposal, self.walkers, burn_in)

    def join(self, passed: Sequence[Passed]) -> Step:
        """Finish a sweep that the chains have made on their own."""
        assert self.walkers is not None
        join_lanes(self.walkers, passed)
        return self._finish_sweep(joined_stats(passed))

    def end_warmup(self) -> None:
        """Freeze as soon as the values of the present batch are there."""
        self._last = 0

    @property
    def density(self) -> Density | None:
        """The density that inner chains of the main phase leave invariant; None before the freeze."""
        if self.mixture is None or self.mixture.surrogate is None:
            return None
        return Density.of([self.mixture.surrogate])

    @property
    def evaluated(self) -> tuple[np.ndarray, np.ndarray]:
        """Points (n, d) and values (n,) to which the surrogate was fitted."""
        return (self._learning.points, self._learning.values) if self._learning else self._first

    def report(self) -> dict[str, Any]:
        """Return facts for the results' attributes."""
        facts: dict[str, Any] = {"noisy": self.setup.noisy, "noise_sd": None, "roughness_sd": 0.0}
        if self._learning is not None:
            facts["n_refits"] = self._learning.n_fits
            facts["noise_sd"] = self._learning.noise_sd if self.setup.noisy else None
        return facts | self._frozen

    def _planned(self) -> tuple[int, int]:
        """Return the number of evaluations that are planned, and that at which learning ends at the latest."""
        setup = self.setup
        budget = setup.max_evaluations
        if budget is None:
            budget = max(_UNLIMITED * (setup.draws or 0) * setup.chains, _LEAST_PLANNED)
        last = self.options.learning_share * budget if setup.warmup is None else setup.warmup * setup.chains
        return budget, int(last)

    # Learning

    def _learn(self, values):
        self._n_own += len(values)
        if len(self._starts):
            self._begin(values)
            return
        if self._learning is None:
            points = np.vstack([self._first[0], self._asked])
            values = np.append(self._first[1], values)
            self._learning = Learning(points, values, rng=self._rng, least=self.setup.chains, noisy=self.setup.noisy)
        else:
            self._learning.tell(values)
        left = self._last - self._n_own
        if left > 0 and not self._learning.is_done(self._budget - self._n_own):
            self._asked = self._learning.propose(left)
        else:
            self._freeze()

    def _freeze(self):
        """Fix the moves, and ask for the values at draws of the surrogate: a test, and where the chains start."""
        options, learning, rng = self.options, self._learning, self._rng
        assert learning is not None
        learning.fit(last=True)
        surrogate = learning.process
        archive = distinct(learning.sample(_ARCHIVED, rng), options.max_archive, rng)
        z = surrogate.coordinates(archive)
        trials = Trials(surrogate.jit_state, z[:_TRIALS], z)
        inner = options.inner._replace(step_size=choose_step_size(trials, options.inner, rng))
        # Trials see correlations above 0.1, which would cost every fifth effective draw.
        longest = 2 * choose_inner_chain_length(trials._replace(starts=z[:_LENGTH_TRIALS]), inner, rng)
        # The chains of learning move little at a time: further draws reach the ends of ridges.
        further = learning.sample(_REACHING, rng, moves=longest // 2)
        archive = distinct(further, options.max_archive, rng)
        z = surrogate.coordinates(archive)
        self.mixture = ProposalMixture(
            surrogate=surrogate,  # type: ignore[arg-type]  # until the old learner is gone
            archive=archive,
            archive_z=z,
            archive_probability=options.archive_probability,
            archive_scale=1.0,
            inner=inner,
            shortest_chain=longest // 2,
            longest_chain=longest,
            single_move_probability=options.single_move_probability,
            tempered_probability=options.tempered_probability,
        )
        count = min(max(self.setup.chains, _TESTS + self.setup.dim), len(archive))
        self._starts = self._asked = archive[rng.choice(len(archive), count, replace=False)]

    def _begin(self, values):
        """Start the chains at some of the draws that were just evaluated, if the surrogate has predicted these well.

        Otherwise go on learning, as long as there are evaluations for it.
        """
        learning, starts, chains = self._learning, self._starts, self.setup.chains
        assert learning is not None
        left = self._last - self._n_own
        if not learning.passes(starts, values, self._budget - self._n_own) and left > 0:
            self._starts, self.mixture = starts[:0], None
            self._asked = learning.propose(left)
            return
        usable = np.flatnonzero(np.isfinite(values))
        if not len(usable):  # the highest of the run's own evaluations
            own = slice(len(self._first[0]) - len(self.setup.initial), None)
            starts, values = learning.points[own], learning.values[own]
            usable = np.array([np.argmax(np.where(np.isfinite(values), values, -np.inf))])
        rows = np.resize(usable, chains)
        self.walkers = Walkers(self._rngs, starts[rows], values[rows])
        assert self.mixture is not None
        self._frozen = {
            **learning.facts(),
            "inner_chain_length": self.mixture.longest_chain,
            "leapfrog_step_size": self.mixture.inner.step_size,
        }
        self.warming_up = self.options.burn_in > 0

    # The main phase

    def _proposal(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        assert self.mixture is not None
        if self.options.moves:
            proposal = propose_one_of(self.options.moves, rng, x, archive=self.mixture.archive)
            if proposal is not None:
                return proposal
        modes = self._learning.modes if self._learning is not None else None
        if modes is not None and rng.random() < self.options.jump_probability:
            position, log_ratio = modes.jump(rng, x[None, :])
            if not np.isfinite(log_ratio[0]):
                return Proposal(x, 0.0, _JUMP, moved=False)
            return Proposal(position[0], float(log_ratio[0]), _JUMP)
        return self.mixture.propose(rng, x, COLD)

    def _finish_sweep(self, stats):
        assert self.walkers is not None
        record = self.walkers.sweep(self.warming_up, stats, self.setup.chains)
        self._sweep += 1
        if self.warming_up and self._sweep >= self.options.burn_in:
            self.warming_up, self._sweep = False, 0
        return record
