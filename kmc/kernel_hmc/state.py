"""The state of kernel HMC in a run: its phases.

First points are evaluated, then rounds of learning follow, until the last predictions are good or
their share of the evaluations is used. Then everything is frozen: the chains start at draws of the
surrogate, and the main phase is an exact Metropolis-Hastings chain for the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kmc.convergence import ENOUGH_DRAWS
from kmc.kernel_hmc.learning import Learning
from kmc.kernel_hmc.proposals import (
    ArchiveMoves,
    ModeJumps,
    OtherMove,
    ProposalMixture,
    UserMoves,
    distinct,
)
from kmc.kernel_hmc.surrogate_chains import compile_in_thread, from_above
from kmc.kernel_hmc.user_gradient import GradientCheck, OccasionalGradient
from kmc.samplers.base import Proposed, SamplerSetup, Step
from kmc.samplers.metropolis import Proposal
from kmc.samplers.moves import Move
from kmc.samplers.walkers import (
    Lanes,
    Passed,
    Walkers,
    cloud_around,
    join_lanes,
    joined_stats,
    make_lanes,
    requested,
    start_spread,
)
from kmc.surrogate.coordinates.transport import IDENTITY
from kmc.surrogate.density import Component, Density
from kmc.surrogate.emulator.climbs import Climbs
from kmc.surrogate.emulator.jit_state import log_densities
from kmc.surrogate.emulator.structure import candidates
from kmc.surrogate.mass import deepest

# evaluations per draw, and at least, that are planned if nothing limits them
_UNLIMITED, _LEAST_PLANNED = 2, 1500
# evaluations of a run on a cheap simulator, of which a part is for learning
_OF_APPROXIMATION = 1000
# blocks of the chains at power 1, for trials, and the most of their draws that are kept as archive
_ARCHIVED, _MOST_ARCHIVED = 40, 1000
# draws of the frozen surrogate, and one for each dimension, that are evaluated before the main
# phase
_TESTS = 10
_FROM_ABOVE = 3  # every third of them starts in any mode that the surrogate may have
# share of the evaluations for learning that the first derivatives of climbs may take
_CLIMBING = 0.25


class PhaseOptions(NamedTuple):
    """What the phases need of the options of :class:`kmc.KernelHMC`, where they are explained."""

    learning_share: float
    burn_in: int
    archive_probability: float
    tempered_probability: float
    mode_jump_probability: float
    moves: Sequence[tuple[Move, float]]


def longest_learning(share: float, draws: int | None, *, chains: int, warmup: int | None) -> int:
    """Return the evaluations at which learning ends at the latest, if nothing else limits them."""
    return warmup * chains if warmup is not None else int(share * _planned(draws, chains))


def _planned(draws, chains):
    return max(_UNLIMITED * (draws or 0) * chains, _LEAST_PLANNED)


class KernelHMCState:
    """See :class:`kmc.samplers.base.SamplerState`."""

    def __init__(
        self, options: PhaseOptions, setup: SamplerSetup, gradient: OccasionalGradient | None = None
    ):
        compile_in_thread(setup.structure)
        self.options, self.setup = options, setup._replace(history=None)
        self.warming_up = True
        *seeds, own = setup.seed.spawn(setup.chains + 1)
        self._rngs = [np.random.default_rng(seed) for seed in seeds]
        self._rng = np.random.default_rng(own)
        self._n_own = len(setup.initial)
        points, values, outputs = setup.initial, setup.initial_log_density, setup.initial_outputs
        given = None
        if setup.history is not None:
            before, levels, given = setup.history
            points, values = np.vstack([before, points]), np.append(levels, values)
        self._known = points, values  # given, or evaluated before the first fit
        self._n_given = len(points) - len(setup.initial)
        self._has_given_outputs = given is not None
        if outputs is not None:  # rows of NaN where those of given points are not known
            unknown = np.full((self._n_given, outputs.shape[1]), np.nan)
            outputs = np.vstack([unknown if given is None else given, outputs])
        self._outputs = outputs
        self._gradient, self._gradient_error = gradient, 0.0
        self._check: GradientCheck | None = None
        budget = setup.max_evaluations
        self._budget = _planned(setup.draws, setup.chains) if budget is None else budget
        share = int(options.learning_share * self._budget)
        # too few draws to answer from, so they are worth less than a surrogate
        if self._budget - share < ENOUGH_DRAWS:
            share = self._budget
        self._last = share if setup.warmup is None else setup.warmup * setup.chains
        self._climbs: Climbs | None = None
        self._asked = self._first_points()
        self._learning: Learning | None = None
        # draws of the frozen surrogate, while they are evaluated
        self._starts: np.ndarray | None = None
        self.mixture: ProposalMixture | None = None
        self.walkers: Walkers | None = None
        self._frozen: dict[str, Any] = {}  # facts of the frozen surrogate
        self._proposals: list[Proposal] = []
        self._burnt: list[Proposed] = []  # of the burn-in
        self._sweep = 0

    # A sweep

    def propose(self) -> np.ndarray:
        """Return points whose log-density is needed to learn, to start, or for the proposals."""
        if self.walkers is None:
            return self._asked
        assert self.mixture is not None
        self._proposals = self.mixture.propose(self.walkers.rngs, list(self.walkers.x))
        return requested(self._proposals, self.setup.dim)

    def advance(self, values: np.ndarray, outputs: np.ndarray | None = None) -> Step | None:
        """Learn from the values, and from outputs (k, n) of a simulator if given; or decide."""
        if self.walkers is None:
            self._learn(values, outputs)
            return None
        stats = self.walkers.decide(self._proposals, values)
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
        """The invariant density of the main phase's inner chains; None before the freeze."""
        if self.walkers is None or self.mixture is None:
            return None
        return Density((self.mixture.surrogate,))

    @property
    def evaluated(self) -> tuple[np.ndarray, np.ndarray]:
        """Points (n, d) and values (n,) to which the surrogate was fitted."""
        return (self._learning.points, self._learning.values) if self._learning else self._known

    @property
    def left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Points (n, d) and values (n,) that were not learned from.

        These are low ones, on the way of a climb, and those of the burn-in.
        """
        learned = self._known[0] if self._learning is None else self._learning.points
        parts = [
            (learned[:0], np.empty(0)) if self._learning is None else self._learning.left_out,
            *self._burnt,
        ]
        points, values = map(np.concatenate, zip(*parts, strict=True))
        x = np.vstack([learned, points])
        new = np.sort(np.unique(x, axis=0, return_index=True)[1])
        new = new[new >= len(learned)]
        return x[new], values[new - len(learned)]

    @property
    def learned_outputs(self) -> np.ndarray | None:
        """Outputs (n, k) of a simulator at these points, NaN in unknown rows; None without one."""
        return self._learning.outputs if self._learning else self._outputs

    def report(self) -> dict[str, Any]:
        """Return facts for the results' attributes."""
        facts: dict[str, Any] = {"noisy": self.setup.noisy, "noise_sd": None}
        if self._learning is not None:
            facts["n_refits"] = self._learning.n_fits
            facts["noise_sd"] = self._learning.noise_sd if self.setup.noisy else None
        if self._n_given:
            facts["n_history"] = self._n_given
        if self._gradient is not None:
            facts["n_gradients"], facts["n_gradients_missing"] = (
                self._gradient.n_known,
                self._gradient.n_unknown,
            )
            facts["gradient_error"] = self._gradient_error
        return facts | self._frozen

    # Learning

    def _first_points(self):
        """Return points around the starts, and those that check the user's gradient at these."""
        setup = self.setup
        if len(points := self._points_of_approximation()):
            return points
        if (
            setup.structure is not None
            and setup.initial_outputs is not None
            and not self._has_given_outputs
        ):
            starts = setup.initial, setup.initial_log_density, setup.initial_outputs
            self._climbs = Climbs(
                setup.structure, *starts, rng=self._rng, most=int(_CLIMBING * self._last)
            )
            if len(points := self._climbs.propose()):
                return points
            self._climbs = None
        # Differences of fewer points than these say nothing about some directions.
        missing = max(3 * setup.chains, 2 * setup.dim) - len(self._known[0])
        known = IDENTITY if setup.known is None else setup.known.transport
        cloud = known.back(cloud_around(known(setup.initial), max(missing, 0), self._rng))
        if self._gradient is None:
            return cloud
        inside = setup.initial[np.isfinite(setup.initial_log_density)]
        gradients = self._gradient(inside)
        known = np.isfinite(gradients).all(axis=1)
        spread = start_spread(setup.initial)
        self._check = GradientCheck(gradients[known], inside[known], spread=spread, rng=self._rng)
        return np.vstack([cloud, self._check.points])

    def _points_of_approximation(self):
        """Return draws of the cheap simulator's posterior, which is learned as any other."""
        setup, cheap = self.setup, self.setup.approximation
        none = setup.initial[:0]
        if cheap is None or setup.structure is None or self._has_given_outputs:
            return none
        outputs = cheap.at(setup.initial)
        values = log_densities(setup.structure, setup.initial, outputs)
        if not np.isfinite(values).any():
            return none
        alone = setup._replace(
            initial_log_density=np.where(np.isfinite(values), values, -np.inf),
            initial_outputs=outputs,
            approximation=None,
            draws=None,
            warmup=None,
            max_evaluations=_OF_APPROXIMATION,
            history=None,
        )
        state = KernelHMCState(self.options, alone)
        while state.walkers is None:
            points = state.propose()
            outputs = cheap.at(points)
            values = log_densities(setup.structure, points, outputs)
            state.advance(np.where(np.isfinite(values), values, -np.inf), outputs)
        assert state._learning is not None
        draws = np.unique(state._learning.draws, axis=0)
        return self._rng.permutation(draws)[: setup.structure.most_inputs + 2]

    def _gradients(self, points, values):
        """Return the user's gradients (n, d), NaN where they are unknown or values are deep."""
        found = np.full(points.shape, np.nan)
        if self._gradient is not None:
            known = values if self._learning is None else np.append(self._learning.values, values)
            rows = values > np.max(known) - deepest(self.setup.dim)
            found[rows] = self._gradient(points[rows])
        return found

    def _learn(self, values, outputs):
        self._n_own += len(values)
        if self._starts is not None:
            self._begin(values, outputs)
            return
        if self._learning is None:
            if self._check is not None:
                self._gradient_error = self._check.warn(
                    values[len(values) - len(self._check.points) :]
                )
            self._known = (
                np.vstack([self._known[0], self._asked]),
                np.append(self._known[1], values),
            )
            if self._outputs is not None:
                self._outputs = np.vstack([self._outputs, outputs])
            if self._climbs is not None:
                self._climbs.tell(values, outputs)
                self._asked = self._climbs.propose()
                if 0 < len(self._asked) <= self._last - self._n_own:
                    return
            points, values = self._known
            structure, outputs = self.setup.structure, self._outputs
            self._learning = Learning(
                points,
                values,
                gradients=self._gradients(points, values),
                rng=self._rng,
                given=self._n_given,
                least=self.setup.chains,
                noisy=self.setup.noisy,
                outputs=outputs,
                structures=()
                if structure is None or outputs is None
                else candidates(structure, points, outputs),
                approximation=self.setup.approximation,
                known=self.setup.known,
                starts=range(self._n_given, self._n_given + len(self.setup.initial)),
                climbs=self._climbs,
            )
        else:
            self._learning.tell(values, self._gradients(self._asked, values), outputs)
        left = self._last - self._n_own
        if left > 0 and not self._learning.is_done(self._budget - self._n_own):
            self._asked = self._learning.propose(left)
        elif left > 0 and len(points := self._learning.propose_last(left)):
            self._asked = points
        else:
            self._freeze()

    def _freeze(self):
        """Fix the moves; ask for values at the surrogate's draws, a test and the chains' starts."""
        options, learning, rng = self.options, self._learning, self._rng
        assert learning is not None
        learning.fit(search=False)
        surrogate = learning.process
        archive = distinct(learning.sample(_ARCHIVED, rng), _MOST_ARCHIVED, rng)
        z = surrogate.coordinates(archive)
        self.mixture = ProposalMixture.tuned(
            Component.of(surrogate),
            self._other_moves(archive),
            z,
            rng=rng,
            tempered_probability=options.tempered_probability,
        )
        most = self._budget - self._n_own - self.setup.chains
        count = min(max(self.setup.chains, _TESTS + self.setup.dim), len(archive), max(most, 0))
        if not count:
            self._starts = archive[:0]
            self._begin(np.empty(0), None)
            return
        # Proposals are draws of the surrogate itself, not held back where it is in doubt, as those
        # of learning are.
        starts = z[rng.choice(len(archive), count, replace=False)]
        starts[: count // _FROM_ABOVE] = from_above(surrogate, z, count // _FROM_ABOVE, rng)
        self._starts = surrogate.back(self.mixture.ends(starts, rng))
        self._asked = np.vstack([self._starts, learning.elsewhere(most - count)])

    def _other_moves(self, archive):
        """Return the moves that ignore the surrogate."""
        assert self._learning is not None
        options, modes = self.options, self._learning.modes
        moves: list[OtherMove] = [UserMoves(options.moves, archive)] if options.moves else []
        if modes is not None:
            moves.append(ModeJumps(modes, options.mode_jump_probability))
        return (*moves, ArchiveMoves(archive, options.archive_probability))

    def _begin(self, values, outputs):
        """Start chains at some of the draws just evaluated, if the surrogate predicted them well.

        Otherwise go on learning, as long as there are evaluations for it.
        """
        learning, starts, mixture, chains = (
            self._learning,
            self._starts,
            self.mixture,
            self.setup.chains,
        )
        assert learning is not None and starts is not None and mixture is not None
        left = self._last - self._n_own
        drawn = len(starts)
        passed = not drawn or learning.passes(
            self._asked,
            values,
            self._budget - self._n_own,
            drawn=drawn,
            above=drawn // _FROM_ABOVE,
            outputs=outputs,
        )
        if not passed and left > 0:
            self._starts, self.mixture = None, None
            self._asked = learning.propose(left)
            return
        values = values[: len(starts)]
        usable = np.flatnonzero(np.isfinite(values) & learning.right[: len(starts)])
        if not len(usable):  # the highest of the run's own evaluations
            own = slice(self._n_given, None)
            starts, values = learning.points[own], learning.values[own]
            highest = np.argsort(-values, kind="stable")[:chains]
            usable = highest[np.isfinite(values[highest])]
        rows = np.resize(usable, chains)
        self.walkers = Walkers(self._rngs, starts[rows], values[rows])
        self._frozen = {
            **learning.facts(),
            "inner_chain_length": mixture.longest_chain,
            "leapfrog_step_size": mixture.inner.step_size,
        }
        self.warming_up = self.options.burn_in > 0

    # The main phase

    def _proposal(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        assert self.mixture is not None
        return self.mixture.propose([rng], [x])[0]

    def _finish_sweep(self, stats):
        assert self.walkers is not None
        record = self.walkers.sweep(self.warming_up, stats, self.setup.chains)
        if self.warming_up and record.proposed is not None:
            self._burnt.append(record.proposed)
        self._sweep += 1
        if self.warming_up and self._sweep >= self.options.burn_in:
            self.warming_up, self._sweep = False, 0
        return record
