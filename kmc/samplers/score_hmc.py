"""Kernel Hamiltonian Monte Carlo with a score estimator, as it was published.

Strathmann, Sejdinovic, Livingstone, Szabó and Gretton (2015), "Gradient-free Hamiltonian Monte
Carlo with efficient kernel exponential families", NIPS, algorithm 1: a score estimator is fitted to
a random part of the chains' history, and proposals follow leapfrog paths through its gradient.
Paths preserve volume and are reversible for any gradient, so that

    min(1, p(x') exp(-|m'|²/2) / (p(x) exp(-|m|²/2)))

with the true density p makes every move exact while the estimator is fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kmc.checks import check_choice, check_count, check_number, check_unused
from kmc.kernel_hmc.sampler import KernelHMC
from kmc.samplers.adaptive_metropolis import AdaptiveMetropolis
from kmc.samplers.ask_tell import Startable
from kmc.samplers.base import SamplerSetup, SamplerState, Step, Traits
from kmc.samplers.metropolis import Proposal
from kmc.samplers.random_walk import RandomWalkMetropolis
from kmc.samplers.score_field import MOST_STEPS, PATH, Field, GradientEstimator, ScoreMixture
from kmc.samplers.score_fitter import Fitter, History, check_estimator, check_schedule
from kmc.samplers.walkers import (
    Lanes,
    Passed,
    Walkers,
    best_starts,
    join_lanes,
    joined_stats,
    make_lanes,
    requested,
    start_spread,
)
from kmc.surrogate.coordinates.whitening import Whitening, whiten_states

STEP_SIZES = 0.5 ** np.arange(5)  # candidates, relative to the largest; set by hand
REFIT_GROWTH = 1.25  # factor between successive sweeps of the main phase at which it refits
MISFIT_STATES = 1000  # at most, of all that the chains had when the estimator was fitted
TUNING = 100  # sweeps, unless the user fixes the length of warm-up; set by hand

_SAMPLERS = (KernelHMC, AdaptiveMetropolis, RandomWalkMetropolis)


@dataclass(frozen=True)
class ScoreHMC(Startable):
    """Hamiltonian dynamics along an estimated score, corrected by one true evaluation per draw.

    This is Kernel Hamiltonian Monte Carlo as it was published [1]_, [2]_. The estimator is fitted
    to states of the chains. A proposal is the end of a leapfrog path through its gradient, with a
    fresh standard normal momentum, and is accepted by the *true* density and the momenta: a wrong
    estimator makes the sampler slow, never wrong.

    Parameters
    ----------
    estimator : estimator
        An object with ``fit(X)`` and ``gradient(X)``, such as ``kmc.scores.NystromKEF()``. It is
        copied and never modified.
    adaptation : {"freeze", "vanishing"}
        Adaptation after warm-up. "freeze": none. "vanishing": the estimator is refitted after n,
        1.25 n, 1.25² n, ... sweeps of the main phase, where n is ``first_refit``. The times are
        fixed in advance and the gaps grow: this is the setting of "Air Markov chain Monte Carlo"
        (Chimisov, Łatuszyński and Roberts 2018), whose laws of large numbers require a drift
        condition common to all the kernels; it is not checked.
    random_walk_probability : float
        Probability that a proposal is a random-walk step: far from the states the gradient may be
        useless.
    trajectory_length : float
        The longest integration time, in whitened coordinates. Paths have 5 to 20 steps.
    first_refit : int
        Sweeps before the first refit of the main phase, with vanishing adaptation.
    max_states : int
        Largest number of states to which the estimator is fitted.
    schedule : float, optional
        With vanishing adaptation, a number α in (0, 1]: in place of refits, the estimator takes in
        all further states by ``partial_fit``, at sweep t of the main phase with the probability
        t^-α, as in [1]_; 1 is 1/t. For estimators with that method; :class:`kmc.AdaptiveLangevin`,
        which has the same option, says what an update costs.
    values : bool
        Whether the estimator is also given the log-densities of the states, ``fit(X, values=...)``.
    warmup_sampler : KernelHMC, AdaptiveMetropolis or RandomWalkMetropolis
        The sampler that moves the chains until there are states to fit the estimator to.

    Raises
    ------
    TypeError, ValueError
        An invalid option; at the start of a run, an estimator that was fitted in another dimension.

    See Also
    --------
    kmc.KernelHMC : the default sampler, whose surrogate is fitted to log-densities.

    Notes
    -----
    The published algorithm assumes that the chains have burnt in. Here ``warmup_sampler`` does
    that: it warms up as usual, and then ``max_states`` of its draws are collected (a quarter of the
    sweeps, if ``warmup`` is given). The estimator is fitted to them. Then 100 sweeps (a quarter)
    find the step size with the longest accepted jumps. Only then do draws count. A warm-up of under
    four sweeps is too short for all that: chains start with a random walk, and there is an
    estimator only with vanishing adaptation.

    The estimator is fitted in coordinates in which the states are white: a bandwidth, a base
    density or landmarks given as numbers are for data of mean zero and unit covariance. An
    estimator that is already fitted is used unchanged, in the coordinates of the target, unless
    ``adaptation="vanishing"``.

    The papers refit with a probability that tends to zero, as ``schedule`` does; "vanishing"
    without it refits at the fixed times above, to ``max_states`` random states from the later half
    of all. The coordinates are those of the last fit: updates keep them. After a failed fit the
    last good one stays in use; failures are counted in the result's attributes, ``n_failed_refits``
    and ``refit_error``. Parameters ``random_state`` of the estimator that are None are drawn from
    the seed of the run.

    References
    ----------
    .. [1] Strathmann, Sejdinovic, Livingstone, Szabó and Gretton (2015), "Gradient-free Hamiltonian
       Monte Carlo with efficient kernel exponential families", Advances in Neural Information
       Processing Systems 28.
    .. [2] Sutherland, Strathmann, Arbel and Gretton (2018), "Efficient and principled score
       estimation with Nyström kernel exponential families", AISTATS, section 5.2.

    Examples
    --------
    >>> import kmc
    >>> sampler = kmc.ScoreHMC(kmc.scores.NystromKEF(n_basis=50))
    >>> sampler.estimator
    NystromKEF(n_basis=50)

    Quick to run, with a random walk until the estimator is fitted:

    >>> sampler = kmc.ScoreHMC(
    ...     kmc.scores.GaussianScore(), warmup_sampler=kmc.AdaptiveMetropolis(), max_states=200
    ... )
    >>> idata = kmc.sample(
    ...     lambda x: -0.5 * x @ x, dim=2, sampler=sampler, draws=50, seed=1, progress=False
    ... )
    >>> idata.posterior.attrs["surrogate"]
    'GaussianScore'
    """

    estimator: GradientEstimator
    adaptation: str = "freeze"
    random_walk_probability: float = 0.06
    trajectory_length: float = 2.5
    first_refit: int = 100
    max_states: int = 1000
    schedule: float | None = None
    values: bool = False
    warmup_sampler: KernelHMC | AdaptiveMetropolis | RandomWalkMetropolis = field(
        default_factory=KernelHMC
    )

    name: ClassVar[str] = "score-hmc"

    def __post_init__(self):
        check_choice(self, "adaptation", ("freeze", "vanishing"))
        # never 0: a wrong estimator could trap a chain
        check_number(self, "random_walk_probability", 0, 1, "(]")
        check_number(self, "trajectory_length", 0)
        check_count(self, "first_refit", 1)
        if self.adaptation == "freeze":
            check_unused(self, ("first_refit", "schedule"), "with adaptation='freeze'")
        elif self.schedule is not None:
            check_unused(self, ("first_refit",), "with a schedule")
        check_count(self, "max_states", 10)
        check_estimator(self.estimator, self.values)
        check_schedule(self)
        sampler: Any = self.warmup_sampler
        if not isinstance(sampler, _SAMPLERS):
            names = ", ".join(f"kmc.{cls.__name__}()" for cls in _SAMPLERS)
            raise TypeError(f"warmup_sampler={sampler!r}: expected one of {names}")

    @property
    def _traits(self) -> Traits:
        return Traits(history=self.warmup_sampler._traits.history)

    def _start(self, setup: SamplerSetup) -> ScoreHMCState:
        return ScoreHMCState(self, setup)

    def _longest_warmup(self, dim: int, chains: int, draws: int, warmup: int | None) -> int:
        """Return about how many evaluations the longest warm-up takes if nothing limits them."""
        if warmup is None:
            return (
                self.warmup_sampler._longest_warmup(dim, chains, draws, None)
                + self.max_states
                + TUNING * chains
            )
        explore, collect, tune = _quarters(warmup)
        exploration = (
            self.warmup_sampler._longest_warmup(dim, chains, draws, explore) if collect else 0
        )
        return exploration + (collect + tune) * chains


class ScoreHMCState:
    """The state of score HMC; see :class:`kmc.samplers.base.SamplerState`.

    Warm-up has three stages. The sampler of warm-up runs until its own warm-up ends; its draws from
    then on are collected; the estimator is fitted to them, and the step size is tuned.
    """

    def __init__(self, options: ScoreHMC, setup: SamplerSetup):
        self.options, self.setup = options, setup
        self.warming_up = True
        seed, *seeds = setup.seed.spawn(setup.chains + 2)
        *rngs, self._rng = (np.random.default_rng(child) for child in seeds)
        best = best_starts(setup.initial, setup.initial_log_density, setup.chains)
        self.walkers = Walkers(rngs, setup.initial[best], setup.initial_log_density[best])
        self._stages = Stages.of(options, setup)
        self._explorer: SamplerState | None = None
        if self._stages.collect:
            alone = setup._replace(warmup=self._stages.explore, seed=seed)
            self._explorer = options.warmup_sampler._start(alone)
        self._adapts = options.adaptation == "vanishing"
        self._fitter = Fitter(
            options.estimator, values=bool(options.values), refit=self._adapts, rng=self._rng
        )
        self._history = History(setup.dim)  # states after each sweep, including repeats
        self._largest_step = options.trajectory_length / MOST_STEPS
        whitening = Whitening.of(
            setup.initial.mean(axis=0), np.diag(1.0 / start_spread(setup.initial))
        )
        self._plan = ScoreMixture(
            field=self._fitter.given(whitening, setup.initial[:1]),
            whitening=whitening,
            walk_probability=options.random_walk_probability,
            step_size=self._largest_step,
        )
        self._jumps = [_Mean() for _ in STEP_SIZES]  # squared jumps of the paths of warm-up
        self._acceptance = _Mean()  # of the paths after warm-up
        # of the log-density without the estimate, at states of the chains
        self._misfit_sd: float | None = None
        self._n_seen = 0  # states that the estimator was given, or passed over
        # sweep of the main phase, if adaptation is vanishing
        self._next_refit = float(options.first_refit)
        self._proposals: list[Proposal] = []
        self._sweep = 0  # since the stage began
        self._end_of_warmup()

    def propose(self) -> np.ndarray:
        """Propose a point for each chain, and return the positions (k, d) of those that moved."""
        if self._explorer is not None:
            return self._explorer.propose()
        self._proposals = [
            self._plan.propose(rng, x)
            for rng, x in zip(self.walkers.rngs, self.walkers.x, strict=True)
        ]
        return requested(self._proposals, self.setup.dim)

    def advance(self, values: np.ndarray) -> Step | None:
        """Decide, and adapt if it is due."""
        if self._explorer is not None:
            return self._explore(self._explorer, values)
        steps = np.array([proposal.position for proposal in self._proposals]) - self.walkers.x
        return self._finish_sweep(self.walkers.decide(self._proposals, values), steps)

    def lanes(self) -> Lanes | None:
        """Return the chains, each on its own; None as long as anything couples them."""
        if self.warming_up or self._adapts:
            return None
        return make_lanes(lambda rng, x: self._plan.propose(rng, x), self.walkers)

    def join(self, passed: Sequence[Passed]) -> Step:
        """Finish a sweep that the chains have made on their own."""
        join_lanes(self.walkers, passed)
        return self._finish_sweep(joined_stats(passed), np.empty((0, self.setup.dim)))

    def _finish_sweep(self, stats: dict[str, np.ndarray], steps: np.ndarray) -> Step:
        """Finish a sweep, and return its step.

        ``steps`` (chains, d) are the differences between proposals and states; only warm-up uses
        them.
        """
        record = self.walkers.sweep(self.warming_up, stats, self.setup.chains)
        self._sweep += 1
        paths = stats["move"] == PATH
        if self.warming_up:
            squares = np.sum((steps @ self._plan.whitening.matrix.T) ** 2, axis=1)
            self._tune((stats["acceptance_rate"] * squares)[paths])
        else:
            self._acceptance.extend(stats["acceptance_rate"][paths])
        if self._adapts:
            self._history.extend(self.walkers.x, self.walkers.log_density)
            if not self.warming_up:
                self._adapt()
        self._end_of_warmup()
        return record

    def end_warmup(self) -> None:
        """Collect the least number of states for a fit, fit, and try each step size once."""
        if self._explorer is not None:
            self._explorer.end_warmup()
        enough = -(-2 * (3 * self.setup.dim + 10) // self.setup.chains)  # some states are repeats
        self._stages = self._stages._replace(
            collect=min(self._stages.collect, enough), tune=min(self._stages.tune, len(STEP_SIZES))
        )

    def report(self) -> dict[str, Any]:
        """Return facts for the results' attributes."""
        facts = {
            "noisy": self.setup.noisy,
            "surrogate": self._fitter.name,
            "n_refits": self._fitter.n_fits,
            "n_failed_refits": self._fitter.n_failed,
            "leapfrog_step_size": self._plan.step_size,
        }
        if self._acceptance.count:
            facts["surrogate_acceptance_rate"] = self._acceptance.value
        if self._misfit_sd is not None:
            facts["surrogate_misfit_sd"] = self._misfit_sd
        if self._fitter.n_failed:
            facts["refit_error"] = self._fitter.error
        return facts

    def _explore(self, explorer: SamplerState, values: np.ndarray) -> Step | None:
        collecting = not explorer.warming_up
        record = explorer.advance(values)
        if record is None:
            return None
        if collecting:
            self._history.extend(record.position, record.log_density)
            self._sweep += 1
            if self._sweep >= self._stages.collect:
                self._explorer, self._sweep = None, 0
                self.walkers = Walkers(self.walkers.rngs, record.position, record.log_density)
                self._refit()
        return record._replace(warmup=True)

    def _tune(self, jumps: np.ndarray) -> None:
        """Record the expected squared jumps of a sweep, and continue with the next step size."""
        self._jumps[(self._sweep - 1) % len(STEP_SIZES)].extend(jumps)
        self._plan = self._plan._replace(
            step_size=self._largest_step * STEP_SIZES[self._sweep % len(STEP_SIZES)]
        )

    def _end_of_warmup(self) -> None:
        if self.warming_up and self._explorer is None and self._sweep >= self._stages.tune:
            self.warming_up, self._sweep = False, 0
            best = int(np.argmax([jumps.value for jumps in self._jumps]))
            self._plan = self._plan._replace(step_size=self._largest_step * STEP_SIZES[best])

    def _adapt(self) -> None:
        """Refit or update if it is due at this sweep of the main phase.

        Whether it is due does not depend on the states.
        """
        if self.options.schedule is None:
            if self._sweep >= self._next_refit:
                self._next_refit *= REFIT_GROWTH
                self._refit()
        elif self._rng.random() < self._sweep**-self.options.schedule:
            if self._plan.field is None:
                self._refit()
                return
            further, self._n_seen = slice(self._n_seen, None), len(self._history)
            x, values = self._history.x[further], self._history.log_density[further]
            field = self._fitter.extended(self._plan.field, x, values)
            self._use(field, self._plan.whitening)

    def _refit(self) -> None:
        """Find new coordinates and a new surrogate, unless there are too few states.

        They come from the later half of all states, or from all if that half has fewer distinct
        ones than ``max_states``.
        """
        most, n = self.options.max_states, len(self._history)
        for first in (n // 2, 0):
            x, values = self._history.x[first:], self._history.log_density[first:]
            distinct, rows, visits = np.unique(x, axis=0, return_index=True, return_counts=True)
            if len(distinct) >= most:
                break
        if len(distinct) < 3 * self.setup.dim + 10:
            return
        whitening = whiten_states(x)
        chosen = self._rng.permutation(len(distinct))[:most]
        field = self._fitter.fitted(
            distinct[chosen], values[rows[chosen]], visits[chosen], whitening=whitening
        )
        self._n_seen = n
        self._use(field, whitening)

    def _use(self, field: Field | None, whitening: Whitening) -> None:
        """Go on with a new field, if there is one, and measure its misfit.

        The misfit is that to the log-density of the states.
        """
        self._plan = self._plan._replace(whitening=whitening, field=field or self._plan.field)
        if field is not None and not self.setup.noisy:
            every = -(-len(self._history) // MISFIT_STATES)
            estimate = field.log_density(self._history.x[::every])
            if estimate is not None:
                self._misfit_sd = float(np.std(self._history.log_density[::every] - estimate))


class Stages(NamedTuple):
    """Sweeps of the stages of warm-up."""

    explore: int | None  # None: the sampler of warm-up decides
    collect: int
    tune: int

    @classmethod
    def of(cls, options: ScoreHMC, setup: SamplerSetup) -> Stages:
        """Return half, a quarter and a quarter of the user's number of sweeps.

        By default as many draws are collected as a fit takes, and the step size is tuned in 100
        sweeps. The two have at most a sixth of the budget.
        """
        if setup.warmup is not None:
            return _quarters(setup.warmup)
        collect = -(-options.max_states // setup.chains)
        if setup.max_evaluations is None:
            return cls(None, collect, TUNING)
        sixth = setup.max_evaluations // (6 * setup.chains)
        return cls(None, min(collect, 2 * sixth // 3), min(TUNING, sixth // 3))


def _quarters(sweeps: int) -> Stages:
    """Return half, a quarter and a quarter of the sweeps; fewer than four go to the last stage."""
    quarter = sweeps // 4
    return Stages(sweeps - 2 * quarter, quarter, quarter) if quarter else Stages(0, 0, sweeps)


class _Mean:
    """A running mean; 0 before the first number."""

    def __init__(self):
        self._total, self.count = 0.0, 0

    def extend(self, numbers: np.ndarray) -> None:
        self._total, self.count = self._total + float(np.sum(numbers)), self.count + len(numbers)

    @property
    def value(self) -> float:
        return self._total / max(self.count, 1)
