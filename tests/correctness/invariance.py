"""Invariance checks: does the distribution stay the same in a few sweeps of a move, from exact
draws?

Targets with exact draws, moves whose other inputs are held fixed, and the comparison. They are used
by ``test_ranks.py``, and by ``test_mutations.py``, where the comparison must fail.

Where the tolerances come from. All functions f of a state are bounded: they are made of its ranks
among 10,000 exact draws. A reversible move leaves the pair of states (x, x') before and after
exchangeable, any number of sweeps apart, so that each antisymmetric function D of it (f(x') - f(x),
or f(x) g(x') - g(x) f(x')) has a symmetric distribution, and

    P(|Σ D_i| > z sqrt(Σ D_i²)) <= 2 exp(-z²/2)

over independent pairs, for any number of them (Hoeffding, given the |D_i|). No normal approximation
is made. The states after are also compared with other exact draws (Kolmogorov and Smirnov). All
comparisons of a test together raise a false alarm with probability ``LEVEL`` (Bonferroni).
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy import stats

from benchmarks import targets
from benchmarks.targets import Cone, LogGamma, StudentT
from kmc.kernel_hmc.proposals import ArchiveMoves, ProposalMixture
from kmc.kernel_hmc.sampler import KernelHMC
from kmc.model.toys import Banana, Bimodal, Gaussian, Ring
from kmc.samplers import moves
from kmc.samplers.adaptive_langevin import AdaptiveLangevin
from kmc.samplers.adaptive_metropolis import AdaptiveMetropolis
from kmc.samplers.base import SamplerSetup
from kmc.samplers.delayed_acceptance import DelayedAcceptance
from kmc.samplers.inner_chains import InnerChainOptions
from kmc.samplers.kameleon import Kameleon
from kmc.samplers.local_mixture import local_mixture
from kmc.samplers.parallel_tempering import TemperatureLadder, TemperedState
from kmc.samplers.random_walk import RandomWalkMetropolis
from kmc.samplers.score_field import Field, ScoreMixture
from kmc.samplers.walkers import Walkers, requested
from kmc.scores import GaussianScore, LiteKEF
from kmc.surrogate.coordinates.funnels import Funnel
from kmc.surrogate.coordinates.transport import IDENTITY
from kmc.surrogate.coordinates.whitening import whiten_states
from kmc.surrogate.density import Component
from kmc.surrogate.process import Seen, fit_to_draws
from tests.oracles import mcmc

LEVEL = mcmc.LEVEL / 10  # as there are more than a hundred tests of this kind
SIZE, SWEEPS = 450, 3  # the errors of test_mutations.py exceed the limits by far with so many
MANY = 900  # in the weekly check, and for walks: their errors change less
INNER = InnerChainOptions(
    step_size=0.5, trajectory_length=2.0, independence_probability=0.2, small_step_probability=0.4
)


@dataclass(frozen=True)
class Wedge:
    """Two exponential variables in order, x_2 > x_1 > 0: densities of zero on two sides."""

    dim: int = 2

    def __call__(self, x) -> float:
        return -float(x[0] + x[1]) if x[1] > x[0] > 0 else -np.inf

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent exact draws, shape (n, 2)."""
        return np.sort(rng.exponential(size=(n, 2)), axis=1)


TARGETS: dict[str, Any] = {
    "gaussian": Gaussian(10),
    "banana": Banana(2, b=0.03),
    "long banana": Banana(4, b=0.05),
    "bimodal": Bimodal(2, separation=4.0, weight=0.3),
    "ring": Ring(),
    "funnel": targets.Funnel(1.0, dim=4),
    "student-t": StudentT(),
    "log-gamma": LogGamma(),
    "cone": Cone(),
    "wedge": Wedge(),
}


# The comparison


class Case:
    """A target, what moves need on it, and functions of a state.

    Everything is made from exact draws of a seed of its own, and then held fixed.
    """

    def __init__(self, target: Any, seed: int = 0):
        self.target, self.dim = target, target.dim
        self._rng = np.random.default_rng([seed, self.dim])
        draws = target.sample(self._rng, 10_000)
        self._center = np.median(draws, axis=0)
        self.scale = np.subtract(*np.quantile(draws, [0.75, 0.25], axis=0))
        self._sorted = np.sort(self.functions(draws), axis=0)
        self.states = draws[:400]
        # Off-center and too wide, as archives are; an exact move is not affected.
        self.archive = self._center + 0.2 * self.scale + 1.1 * (draws[400:440] - self._center)

    def values(self, x: np.ndarray) -> np.ndarray:
        """Log-densities at the rows of x."""
        return np.array([self.target(row) for row in x])

    def functions(self, x: np.ndarray) -> np.ndarray:
        """First and last coordinate, distance from the center, a product, the log-density: shape
        (n, 5).
        """
        z = (x - self._center) / self.scale
        return np.column_stack(
            [z[:, 0], z[:, -1], np.sum(z**2, axis=1), z[:, 0] * z[:, 1], self.values(x)]
        )

    def ranks(self, x: np.ndarray) -> np.ndarray:
        """Their ranks among exact draws, on [-1, 1]."""
        columns = zip(self._sorted.T, self.functions(x).T, strict=True)
        return (
            2.0 * np.column_stack([np.searchsorted(s, f) for s, f in columns]) / len(self._sorted)
            - 1.0
        )

    def check(
        self,
        step: Callable[[np.random.Generator, np.ndarray], np.ndarray],
        seed: int = 1,
        size=SIZE,
    ) -> None:
        """``step(rng, x)`` moves every row of x by itself: AssertionError unless it leaves the
        target invariant.

        See the head of this file for what is compared and for the tolerances.
        """
        rng = np.random.default_rng([seed, self.dim])
        before = self.target.sample(rng, size)
        after = step(rng, before)
        assert after.shape == before.shape
        moved = np.mean(np.any(after != before, axis=1))
        assert moved > 0.1, f"only {moved:.0%} of the walkers moved: the comparison says nothing"
        a, b = self.ranks(before), self.ranks(after)
        differences = np.hstack([_features(b) - _features(a), _crossed(a, b) - _crossed(b, a)])
        z = _self_normalized(differences)
        p = [
            stats.ks_2samp(f, s).pvalue
            for f, s in zip(self.functions(after).T, self._sorted.T, strict=True)
        ]
        level = LEVEL / (len(z) + len(p))
        limit = np.sqrt(2.0 * np.log(2.0 / level))
        assert np.max(np.abs(z)) < limit and min(p) > level, (
            f"the distribution has changed: by up to {np.max(np.abs(z)):.1f} standard errors "
            f"(allowed: {limit:.1f}), p-values of ranks from {min(p):.1e} (allowed: {level:.1e})"
        )

    # What moves need

    def seen_wrongly(self, x: np.ndarray) -> np.ndarray:
        """Log-densities at other points than x: a surrogate fitted to these is wrong everywhere."""
        return self.values(self._center + 0.85 * (x - self._center) + 0.15 * self.scale)

    @cached_property
    def right(self) -> Any:
        """A surrogate of the target, as accurate as some hundred values allow."""
        return self._fitted(self.values)

    @cached_property
    def wrong(self) -> Any:
        """A surrogate of a different density."""
        return self._fitted(self.seen_wrongly)

    @cached_property
    def warped(self) -> Any:
        """A surrogate in coordinates that bend volume, and do not suit the target."""
        slopes = np.linspace(0.0, 0.6, self.dim) / self.scale[0]
        return self._fitted(self.values, Funnel(0, float(self._center[0]), self._center, slopes))

    def _fitted(self, function, transport=IDENTITY):
        near = self.states[:70]
        x = np.vstack([near, self._center + 1.5 * (near - self._center)])
        seen = Seen(x, function(x), self.states, np.full(x.shape, np.nan))
        return fit_to_draws(seen, np.random.default_rng(2), transport)

    def plan(self, surrogate: Any, **options) -> ProposalMixture:
        """A plan of short runs, all kinds of moves among them unless the options say otherwise."""
        fields = {
            "surrogate": Component.of(surrogate),
            "mixture": local_mixture(surrogate.coordinates(self.archive)),
            "archive_probability": 0.3,
            "inner": INNER,
            "shortest_chain": 1,
            "longest_chain": 3,
            "tempered_probability": 0.3,
        }
        chosen = fields | options
        archive_moves = ArchiveMoves(self.archive, chosen.pop("archive_probability"))
        return ProposalMixture(others=[*chosen.pop("others", []), archive_moves], **chosen)

    def score_plan(self, walk_probability: float) -> ScoreMixture:
        """Paths through the score of a Gaussian that fits something else."""
        whitening = whiten_states(self.states)
        estimator = GaussianScore().fit(0.9 * whitening(self.states) + 0.2)
        return ScoreMixture(
            Field.of(estimator, whitening, in_z=True), whitening, walk_probability, 0.15
        )


@cache
def case(name: str) -> Case:
    """The case of a target, made once."""
    return Case(TARGETS[name])


def _features(u):
    """Of ranks u on [-1, 1]: location, spread, and the shares in the tails."""
    return np.hstack([u, u**2, u < -0.9, u > 0.9])


def _crossed(a, b):
    """f(x) g(x') for functions f, g that distinguish detailed balance from mere invariance."""
    first, second = np.triu_indices(a.shape[1], 1)
    return np.hstack([a[:, first] * b[:, second], a**2 * b])


def _self_normalized(differences):
    """Σ D / sqrt(Σ D²) of each column."""
    norm = np.sqrt(np.sum(differences**2, axis=0))
    return np.sum(differences, axis=0) / np.where(norm > 0, norm, 1.0)


# Moves: functions of (rng, x) for rows x that move independently


def proposals_of(case: Case, propose, sweeps: int = SWEEPS):
    """Sweeps of walkers that propose by ``propose(rng, x)``."""

    def step(rng, x):
        group = Walkers([rng] * len(x), x, case.values(x))
        for _ in range(sweeps):
            proposals = [propose(rng, row) for row in group.x]
            group.decide(proposals, case.values(requested(proposals, case.dim)))
        return group.x

    return step


def evolution(case: Case):
    """Differential evolution alone."""
    return proposals_of(
        case, lambda rng, x: moves.differential_evolution(rng, x, case.archive, scale=0.7)
    )


def snookers(case: Case):
    """The snooker alone, looked up at each call so that a test can replace it."""
    return proposals_of(case, lambda rng, x: moves.snooker(rng, x, case.archive))


def runs(case: Case, surrogate: Any, **options):
    """Moves of a plan; the options are its shares."""
    plan = case.plan(surrogate, **options)
    return proposals_of(case, lambda rng, x: plan.propose([rng], [x])[0])


def main_phase_from(
    case: Case, rng: np.random.Generator, x: np.ndarray, draws: int
) -> SamplerSetup:
    """A setup without warm-up, with a chain at each row of x."""
    return SamplerSetup(
        dim=case.dim,
        chains=len(x),
        initial=x,
        initial_log_density=case.values(x),
        draws=draws,
        warmup=0,
        max_evaluations=None,
        seed=np.random.SeedSequence(int(rng.integers(2**31))),
    )


def random_walk(case: Case):
    """The process of random-walk Metropolis, with as many chains as there are rows."""

    def step(rng, x):
        scale = 0.8 * case.scale / np.sqrt(case.dim)
        setup = main_phase_from(case, rng, x, SWEEPS)
        process = RandomWalkMetropolis(scale=scale).start(setup)
        for _ in range(SWEEPS):
            record = process.advance(case.values(process.propose()))
        after = np.empty_like(x)
        # chains begin at the best
        after[np.argsort(-setup.initial_log_density, kind="stable")] = record.position
        return after

    return step


def added_moves(case: Case, sweeps: int = SWEEPS):
    """The built-in moves beside those of a plan, as kernel HMC has them."""
    kinds = (
        moves.Independence(2),
        moves.RandomWalk(0.7),
        moves.DifferentialEvolution(0.7),
        moves.Snooker(),
    )
    pairs, plan = moves.as_moves([(kind, 0.2) for kind in kinds]), case.plan(case.wrong)

    def propose(rng, x):
        return (
            moves.propose_one_of(pairs, rng, x, archive=case.archive) or plan.propose([rng], [x])[0]
        )

    return proposals_of(case, propose, sweeps)


@cache
def learned_proposer(case: Case, sampler: Any, sweeps: int = 100, after_warmup: int = 0):
    """What the proposals of an adaptive sampler depend on, after so many sweeps of four chains."""
    starts = case.archive[np.isfinite(case.values(case.archive))][:4]
    setup = SamplerSetup(
        dim=case.dim,
        chains=4,
        initial=starts,
        initial_log_density=case.values(starts),
        draws=None,
        warmup=sweeps,
        max_evaluations=None,
        seed=np.random.SeedSequence(4),
    )
    process = sampler.start(setup)
    for _ in range(sweeps + after_warmup):
        process.advance(case.values(process.propose()))
    assert not process.warming_up
    return process.proposers[0]


def learned(case: Case, sampler: Any, sweeps: int = SWEEPS, after_warmup: int = 0):
    """The proposals of an adaptive sampler, as it is after a short warm-up."""
    proposer = learned_proposer(case, sampler, after_warmup=after_warmup)

    return proposals_of(case, proposer.propose, sweeps)


def slope_of_another(case: Case):
    """The gradient of a Gaussian that fits something else."""
    return lambda x: -(x - case._center - 0.2 * case.scale) / (0.9 * case.scale) ** 2


STRETCH = 2.0


def tempered(case: Case, sweeps: int = SWEEPS, beta: float = 0.4):
    """Sweeps of parallel tempering from exact draws at two temperatures; between two offers of
    swaps each.

    The proposals are those after a warm-up, the same at both temperatures.

    The prior is chosen such that the hot density is that of the target stretched about its center,
    restricted to where the target is positive: there are exact draws of that, too.
    """

    def log_hot(x):
        return case.values(case._center + (x - case._center) / STRETCH)

    def log_prior(x):
        values = case.values(x)
        inside = np.isfinite(values)
        return np.where(
            inside, (log_hot(x) - beta * np.where(inside, values, 0.0)) / (1.0 - beta), 0.0
        )

    def hot_draws(rng, n):
        x = case._center + STRETCH * (case.target.sample(rng, 8 * n) - case._center)
        return x[np.isfinite(case.values(x))][:n]

    def step(rng, x):
        states = [x, hot_draws(rng, len(x))]
        setup = SamplerSetup(
            dim=case.dim,
            chains=len(x),
            initial=x,
            initial_log_density=case.values(x),
            draws=sweeps,
            warmup=0,
            max_evaluations=None,
            seed=np.random.SeedSequence(int(rng.integers(2**31))),
            initial_log_prior=log_prior(x),
        )
        ladder = TemperatureLadder((1.0, 1.0 / beta), case.dim)
        process = TemperedState(setup, AdaptiveMetropolis(adaptation="freeze"), ladder)
        for k, own in enumerate(states):
            process.levels[k].proposers = [learned_proposer(case, AdaptiveMetropolis())]
            process.levels[k].walkers.x[:] = own
            process.log_density[k], process.log_prior[k] = case.values(own), log_prior(own)
        process._retemper()
        for _ in range(sweeps):
            process.swap()
            points = process.propose()
            record = process.advance(case.values(points), log_prior(points))
        return record.position

    return step


@cache
def frozen_process(case: Case, wrong_gradients: bool = False):
    """The default sampler after learning from at most 200 evaluations; it has one chain."""
    starts = case.archive[:6]
    starts = starts[np.isfinite(case.values(starts))][:4]
    setup = SamplerSetup(
        dim=case.dim,
        chains=1,
        initial=starts,
        initial_log_density=case.values(starts),
        draws=None,
        warmup=None,
        max_evaluations=1000,
        seed=np.random.SeedSequence(3),
    )
    gradients = slope_of_another(case) if wrong_gradients else None
    options = {"learning_share": 0.2, "archive_probability": 0.2, "tempered_probability": 0.3}
    process = KernelHMC(**options, gradients=gradients).start(setup)
    while process.warming_up:
        process.advance(case.values(process.propose()))
    # Short inner chains do not hide what is wrong.
    process.mixture = process.mixture._replace(shortest_chain=1, longest_chain=4)
    return process


def frozen_chains(case: Case, sweeps: int = SWEEPS, wrong_gradients: bool = False):
    """Copies of that process, each with its one chain at one of the rows."""

    def step(rng, x):
        after = np.empty_like(x)
        for i, value in enumerate(case.values(x)):
            one = copy.copy(frozen_process(case, wrong_gradients))
            one.walkers = Walkers([rng], x[i : i + 1], np.array([value]))
            for _ in range(sweeps):
                record = one.advance(case.values(one.propose()))
            after[i] = record.position[0]
        return after

    return step


ONLY_SURROGATE = {"archive_probability": 0.0, "tempered_probability": 0.0}
ONLY_TEMPERED = {"archive_probability": 0.0, "tempered_probability": 1.0}

MOVES: dict[str, Callable[[Case], Any]] = {
    "random walk": random_walk,
    "differential evolution": evolution,
    "snooker": snookers,
    "runs on a right surrogate": lambda c: runs(c, c.right, **ONLY_SURROGATE),
    "runs on a wrong surrogate": lambda c: runs(c, c.wrong, **ONLY_SURROGATE),
    "runs on a warped surrogate": lambda c: runs(c, c.warped, **ONLY_SURROGATE),
    "tempered runs on a warped surrogate": lambda c: runs(c, c.warped, **ONLY_TEMPERED),
    "tempered runs on a wrong surrogate": lambda c: runs(c, c.wrong, **ONLY_TEMPERED),
    "mixture on a wrong surrogate": lambda c: runs(c, c.wrong),
    "paths and walks on a wrong score": lambda c: proposals_of(c, c.score_plan(0.2).propose),
    "adaptive Metropolis": lambda c: learned(c, AdaptiveMetropolis()),
    "adaptive Metropolis with an estimator": lambda c: learned(
        c, AdaptiveMetropolis(estimator=LiteKEF(n_basis=10, random_state=0))
    ),
    "kameleon": lambda c: learned(c, Kameleon(max_states=60, gamma=0.5)),
    "moves from outside": added_moves,
    "langevin": lambda c: learned(c, AdaptiveLangevin(GaussianScore())),
    "langevin updated online": lambda c: learned(
        c, AdaptiveLangevin(GaussianScore(), schedule=0.3), after_warmup=60
    ),
    "langevin with the covariance of the position": lambda c: learned(
        c, AdaptiveLangevin(LiteKEF(n_basis=10, random_state=0), covariance="hessian")
    ),
    "delayed acceptance": lambda c: learned(c, DelayedAcceptance(estimator=GaussianScore())),
    "parallel tempering": tempered,
    "frozen process": frozen_chains,
    "frozen process fitted to wrong gradients": lambda c: frozen_chains(c, wrong_gradients=True),
}
"""Functions of a case that return its ``step``."""
