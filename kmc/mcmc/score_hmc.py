"""Kernel Hamiltonian Monte Carlo with a score estimator, as the papers have it.

Strathmann, Sejdinovic, Livingstone, Szabó and Gretton (2015), "Gradient-free Hamiltonian Monte Carlo with efficient
kernel exponential families", NIPS, algorithm 1: a score estimator is fitted to a random part of the chains' history,
and proposals follow leapfrog paths through its gradient. Paths preserve volume and are reversible whatever the gradient
is, so that

    min(1, p(x') exp(-|m'|²/2) / (p(x) exp(-|m|²/2)))

with the true density p makes every move exact while the surrogate is fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from kmc.mcmc.base import MOVES, SamplerSetup, SamplerState, Step
from kmc.mcmc.history import History
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.score_field import Field, GradientEstimator
from kmc.mcmc.score_fitter import Fitter
from kmc.mcmc.walkers import Walkers, best_starts, requested
from kmc.surrogates.whitening import Whitening, whiten_states

LEAST_STEPS, MOST_STEPS = 5, 20  # leapfrog steps of a path: uniform between them
STEP_SIZES = 0.5 ** np.arange(5)  # candidates, relative to the largest
TUNING = 100  # sweeps, where the user does not fix the length of warm-up

_PATH, _WALK = MOVES.index("surrogate"), MOVES.index("random-walk")


class ScoreOptions(Protocol):
    """What is asked of options; :class:`kmc.KernelHMC` says what they mean."""

    @property
    def adaptation(self) -> str:
        """What happens after warm-up."""

    @property
    def archive_probability(self) -> float:
        """Of a random walk in place of a path."""

    @property
    def trajectory_length(self) -> float:
        """The longest reach of a path."""

    @property
    def first_refit(self) -> int:
        """Sweeps before the first refit."""

    @property
    def max_archive(self) -> int:
        """States that the estimator is fitted to."""

    @property
    def surrogate(self) -> GradientEstimator | None:
        """The estimator."""

    @property
    def values(self) -> bool | None:
        """Whether it is told log-densities too."""


class ScoreMixture(NamedTuple):
    """How walkers move until the plan is replaced."""

    field: Field | None  # None before the first fit: a random walk only
    whitening: Whitening  # whose covariance the random walk has
    walk_probability: float  # probability of a random-walk move
    step_size: float  # the largest, of leapfrog, in whitened coordinates

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        """A proposal from x (d,); the kind of move, its length and its step size do not depend on x."""
        if self.field is None or rng.random() < self.walk_probability:
            return self._walk(rng, x)
        n_steps = int(rng.integers(LEAST_STEPS, MOST_STEPS + 1))
        step_size = self.step_size * rng.uniform(0.7, 1.0)
        momentum = rng.standard_normal(len(x))
        path = self.field.path(self.field.whitening(x[None])[0], momentum, step_size, n_steps)
        if path.diverging:
            return Proposal(x, 0.0, _PATH, moved=False, n_steps=n_steps, step_size=step_size, diverging=True)
        return Proposal(
            position=self.field.whitening.back(path.z[None])[0],
            log_ratio=0.5 * float(momentum @ momentum - path.momentum @ path.momentum),
            move=_PATH,
            n_steps=n_steps,
            step_size=step_size,
            energy=path.energy,
        )

    def _walk(self, rng, x):
        """With scales over a decade, so that some of the steps suit whatever target there is."""
        scale = 2.38 / np.sqrt(len(x)) * 10.0 ** -rng.random()
        step = self.whitening.inverse @ rng.standard_normal(len(x))
        return Proposal(x + scale * step, 0.0, _WALK, step_size=scale)


class ScoreHMCState:
    """Kernel HMC with a given estimator at work; see :class:`kmc.mcmc.base.SamplerState`.

    Warm-up has three stages. Another process explores until its own warm-up ends; its draws from then on are collected;
    the estimator is fitted to them, and the step size is tuned.

    Parameters
    ----------
    options : ScoreOptions
    setup : SamplerSetup
    explore : callable
        Starts the other process, given its setup.
    """

    def __init__(self, options: ScoreOptions, setup: SamplerSetup, explore: Callable[[SamplerSetup], SamplerState]):
        self.options, self.setup = options, setup
        self.warming_up = True
        seed, *seeds = setup.seed.spawn(setup.chains + 2)
        *rngs, self._rng = (np.random.default_rng(child) for child in seeds)
        best = best_starts(setup.initial, setup.initial_log_density, setup.chains)
        self._walkers = Walkers(rngs, setup.initial[best], setup.initial_log_density[best])
        self._stages = Stages.of(options, setup)
        self._explorer: SamplerState | None = None
        if self._stages.collect:
            self._explorer = explore(setup._replace(warmup=self._stages.explore, seed=seed))
        self._adapts = options.adaptation == "vanishing"
        assert options.surrogate is not None
        self._fitter = Fitter(options.surrogate, bool(options.values), self._adapts, self._rng)
        self._history = History(setup.dim)  # states after each sweep, repeats and all
        self._largest_step = options.trajectory_length / MOST_STEPS
        whitening = _whitening_of_start(setup)
        self._plan = ScoreMixture(
            field=self._fitter.given(whitening, setup.initial[:1]),
            whitening=whitening,
            walk_probability=options.archive_probability,
            step_size=self._largest_step,
        )
        self._jumps = [_Mean() for _ in STEP_SIZES]  # squared, of the paths of warm-up
        self._acceptance = _Mean()  # of the paths after it
        self._next_refit = float(options.first_refit)  # sweep of the main phase, if adaptation is vanishing
        self._proposals: list[Proposal] = []
        self._sweep = 0  # since the stage began
        self._end_of_warmup()

    def propose(self) -> np.ndarray:
        """The proposals that moved."""
        if self._explorer is not None:
            return self._explorer.propose()
        self._proposals = [
            self._plan.propose(rng, x) for rng, x in zip(self._walkers.rngs, self._walkers.x, strict=True)
        ]
        return requested(self._proposals, self.setup.dim)

    def advance(self, values: np.ndarray) -> Step | None:
        """Decide, and adapt if it is time."""
        if self._explorer is not None:
            return self._explore(self._explorer, values)
        steps = np.array([proposal.position for proposal in self._proposals]) - self._walkers.x
        stats = self._walkers.decide(self._proposals, values)
        record = self._walkers.sweep(self.warming_up, stats, self.setup.chains)
        self._sweep += 1
        paths = stats["move"] == _PATH
        if self.warming_up:
            squares = np.sum((steps @ self._plan.whitening.matrix.T) ** 2, axis=1)
            self._tune((stats["acceptance_rate"] * squares)[paths])
        else:
            self._acceptance.extend(stats["acceptance_rate"][paths])
        if self._adapts:
            self._history.extend(self._walkers.x, self._walkers.log_density)
            if not self.warming_up and self._sweep >= self._next_refit:
                self._next_refit *= 1.25
                self._refit()
        self._end_of_warmup()
        return record

    def end_warmup(self) -> None:
        """Collect what a fit needs at least, fit, and try each step size once."""
        if self._explorer is not None:
            self._explorer.end_warmup()
        enough = -(-2 * (3 * self.setup.dim + 10) // self.setup.chains)  # some states are repeats
        self._stages = self._stages._replace(
            collect=min(self._stages.collect, enough), tune=min(self._stages.tune, len(STEP_SIZES))
        )

    def report(self) -> dict[str, Any]:
        """Facts for the results' attributes."""
        facts = {
            "noisy": self.setup.noisy,
            "surrogate": self._fitter.name,
            "n_refits": self._fitter.n_fits,
            "n_failed_refits": self._fitter.n_failed,
            "leapfrog_step_size": self._plan.step_size,
        }
        if self._acceptance.count:
            facts["surrogate_acceptance_rate"] = self._acceptance.value
        if self._fitter.n_failed:
            facts["refit_error"] = self._fitter.error
        return facts

    def _explore(self, explorer, values):
        collecting = not explorer.warming_up
        record = explorer.advance(values)
        if record is None:
            return None
        if collecting:
            self._history.extend(record.position, record.log_density)
            self._sweep += 1
            if self._sweep >= self._stages.collect:
                self._explorer, self._sweep = None, 0
                self._walkers = Walkers(self._walkers.rngs, record.position, record.log_density)
                self._refit()
        return record._replace(warmup=True)

    def _tune(self, jumps):
        """Note the expected squared jumps of a sweep, and turn to the next step size."""
        self._jumps[(self._sweep - 1) % len(STEP_SIZES)].extend(jumps)
        self._plan = self._plan._replace(step_size=self._largest_step * STEP_SIZES[self._sweep % len(STEP_SIZES)])

    def _end_of_warmup(self):
        if self.warming_up and self._explorer is None and self._sweep >= self._stages.tune:
            self.warming_up, self._sweep = False, 0
            best = int(np.argmax([jumps.value for jumps in self._jumps]))
            self._plan = self._plan._replace(step_size=self._largest_step * STEP_SIZES[best])

    def _refit(self):
        """New coordinates and a new surrogate, unless there are too few states.

        They come from the later half of all states, or from all if the half does not hold as many as a fit takes.
        """
        most, n = self.options.max_archive, len(self._history)
        for first in (n // 2, 0):
            x, values = self._history.x[first:], self._history.log_density[first:]
            distinct, rows, visits = np.unique(x, axis=0, return_index=True, return_counts=True)
            if len(distinct) >= most:
                break
        if len(distinct) < 3 * self.setup.dim + 10:
            return
        whitening = whiten_states(x)
        chosen = self._rng.permutation(len(distinct))[:most]
        field = self._fitter.fitted(distinct[chosen], values[rows[chosen]], visits[chosen], whitening)
        self._plan = self._plan._replace(whitening=whitening, field=field or self._plan.field)


class Stages(NamedTuple):
    """Sweeps of the stages of warm-up."""

    explore: int | None  # None: the other process decides
    collect: int
    tune: int

    @classmethod
    def of(cls, options: ScoreOptions, setup: SamplerSetup) -> Stages:
        """Half, a quarter and a quarter of what the user asks for.

        Else as many draws as a fit takes, and 100 sweeps of tuning; at most a sixth of the budget for the two.
        """
        if setup.warmup is not None:
            quarter = setup.warmup // 4
            return cls(setup.warmup - 2 * quarter, quarter, quarter) if quarter else cls(0, 0, setup.warmup)
        collect = -(-options.max_archive // setup.chains)
        if setup.max_evaluations is None:
            return cls(None, collect, TUNING)
        sixth = setup.max_evaluations // (6 * setup.chains)
        return cls(None, min(collect, 2 * sixth // 3), min(TUNING, sixth // 3))


class _Mean:
    """A running mean; 0 before the first number."""

    def __init__(self):
        self._total, self.count = 0.0, 0

    def extend(self, numbers: np.ndarray) -> None:
        self._total, self.count = self._total + float(np.sum(numbers)), self.count + len(numbers)

    @property
    def value(self) -> float:
        return self._total / max(self.count, 1)


def _whitening_of_start(setup):
    spread = setup.initial.std(axis=0)
    spread = np.where(spread > 0, spread, 0.1 * np.maximum(np.abs(setup.initial).max(axis=0), 1.0))
    return Whitening.of(setup.initial.mean(axis=0), np.diag(1.0 / spread))
