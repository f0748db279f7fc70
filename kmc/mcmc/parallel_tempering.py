"""Parallel tempering: copies of a sampler at several temperatures, which exchange states.

Each chain of the result belongs to a ladder of inverse temperatures 1 = β_0 > β_1 > ...; the state at β has the density

    p_β(x) ∝ π(x) (p(x) / π(x))^β,

with the prior π, if the model has it apart, or π = 1. A sweep moves the state at every temperature by the sampler's
proposals, and then offers neighbors a swap, which is accepted with probability

    min(1, p_β(x') p_β'(x) / (p_β(x) p_β'(x'))) = min(1, exp((β - β') (l(x') - l(x)))),    l = log p - log π.

Moves and swaps leave the product of all p_β invariant, and so the states at β_0 the target (Geyer 1991).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kmc.checks import is_number, is_whole
from kmc.mcmc.adapting import warmup_sweeps
from kmc.mcmc.adaptive_metropolis import AdaptiveMetropolis
from kmc.mcmc.ask_tell import Startable
from kmc.mcmc.base import Proposed, SamplerSetup, Step
from kmc.mcmc.moves import Move
from kmc.mcmc.parts import Composable, Gradient, PartState
from kmc.mcmc.reservoir import Reservoir
from kmc.mcmc.temperature_ladder import TemperatureLadder
from kmc.mcmc.tempered_gradient import KnownGradient, TemperedGradient
from kmc.mcmc.walkers import best_starts

_WARMUP = 3  # one in so many evaluations of the budget, and at most ...
_MOST_OF_BUDGET = 2  # ... one in so many, where a sweep takes more of them than expected
_LONGEST_TUNING = 1000  # sweeps in which the ladder is tuned; half of warm-up, if that is shorter
_LEAST_AFTER_SCOUTS = 20  # sweeps of warm-up of a sampler whose scouts have been told to end it
_KEPT = 200  # states at each temperature, whose spread the samplers start with at the tuned ladder


@dataclass(frozen=True)
class Tempered(Startable):
    r"""Parallel tempering around a sampler: for targets with several modes that it does not leave by itself.

    Parameters
    ----------
    sampler : sampler
        Any of kmc's samplers, such as ``kmc.AdaptiveMetropolis()`` (the default), ``kmc.NUTS(gradient)`` or a
        ``kmc.Mixture``. There is one for each temperature.
    temperatures : int or sequence of float
        Their number: the ladder is tuned in the first half of warm-up, until neighbors swap at a rate of .234, and
        fixed afterwards. Or the temperatures themselves, increasing from 1. The last one may be ``math.inf``, which is
        the prior itself, if the model has it apart.
    prior_gradient : callable, optional
        The gradient of the prior's log-density at the unconstrained vector x (d,), log-Jacobian included: an array
        (d,). Needed for samplers with a gradient, if the model has its prior apart.

    Raises
    ------
    TypeError, ValueError
        An invalid sampler or ladder; no ``prior_gradient`` where one is needed.

    See Also
    --------
    kmc.KernelHMC : by itself tempers its surrogate, which costs no evaluations.

    Notes
    -----
    The states at temperature T have the density :math:`\pi(x)\,(p(x)/\pi(x))^{1/T}` [1]_. π is the prior, if the model
    has it apart: ``kmc.Model(log_likelihood=..., log_prior=...)``, or parameters that are declared with priors; the
    function of the prior is then called once more for each evaluation, in this process. Otherwise π = 1: the whole
    density of the unconstrained vector is tempered. With heavy tails it may not be integrable at high temperatures;
    hot chains then drift away and stop swapping, and a tuned ladder becomes shorter.

    Each chain of the result has a ladder of its own, so that a sweep costs an evaluation per chain *and temperature*;
    ``max_evaluations`` counts them all, and a draw's ``n_evaluations`` is their sum. Draws are the states at T = 1. The
    draw's ``swap_rate`` in ``sample_stats`` is the mean acceptance probability of the swaps that its ladder was offered
    in the sweep, and ``tempered_log_density`` is log p - log π at each temperature, from which :func:`kmc.evidence`
    estimates the evidence, if π is the prior. Attributes of the result are ``temperatures``, ``swap_rates`` (after
    warm-up, for each pair of neighbors) and ``tempered`` ("likelihood" or "density"). A ladder is tuned as in [2]_;
    when its tuning ends, the samplers start anew from the states reached. In a loop of your own, pass ``log_prior`` to
    :meth:`kmc.AskTell.tell`.

    Samplers that learn the density itself, :class:`kmc.KernelHMC` and :class:`kmc.ScoreHMC`, begin only then:
    adaptive Metropolis (or the ``warmup_sampler`` of ScoreHMC) explores in the first half of warm-up, and tunes the
    ladder. KernelHMC then fits a surrogate for each temperature, to all evaluations so far and its own ones, and takes
    part in swaps when these are frozen; it searches for no modes. A sweep of :class:`kmc.NUTS` ends with the longest
    path of all temperatures. Gradients are tempered as the densities are, and evaluated once at each point: swaps cost
    none.

    References
    ----------
    .. [1] Geyer (1991), "Markov chain Monte Carlo maximum likelihood", Computing Science and Statistics 23.
    .. [2] Miasojedow, Moulines and Vihola (2013), "An adaptive parallel tempering algorithm", Journal of Computational
       and Graphical Statistics 22.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> def two_modes(x):
    ...     return float(np.logaddexp(-0.5 * np.sum((x - 6) ** 2), -0.5 * np.sum((x + 6) ** 2)))
    >>> sampler = kmc.Tempered(kmc.AdaptiveMetropolis(), temperatures=4)
    >>> idata = kmc.sample(two_modes, dim=2, sampler=sampler, draws=500, seed=1, progress=False)
    >>> bool(0.2 < (idata.posterior["x"][..., 0] > 0).mean() < 0.8)
    True
    """

    sampler: Composable = field(default_factory=AdaptiveMetropolis)
    temperatures: int | Sequence[float] = 5
    prior_gradient: Gradient | None = None

    name: ClassVar[str] = "tempered"
    takes_log_prior: ClassVar[bool] = True

    def __post_init__(self):
        if not isinstance(self.sampler, Composable):
            raise TypeError(
                f"sampler={self.sampler!r} cannot be tempered: expected one of kmc's samplers, such as "
                "kmc.AdaptiveMetropolis()"
            )
        object.__setattr__(self, "temperatures", _checked(self.temperatures))
        if self.prior_gradient is None:
            return
        if not callable(self.prior_gradient):
            raise TypeError(
                f"prior_gradient={self.prior_gradient!r}: expected a function of x (d,) that returns the gradient of "
                "the prior's log-density, (d,)"
            )
        if not _gradients_of(self.sampler):
            raise ValueError(f"prior_gradient is for samplers with a gradient: {self.sampler!r} has none; leave it out")

    @property
    def n_temperatures(self) -> int:
        """Their number."""
        return self.temperatures if isinstance(self.temperatures, int) else len(self.temperatures)

    @property
    def further_moves(self) -> Sequence[tuple[Move, float]]:
        """Those of the sampler."""
        return self.sampler.further_moves

    def longest_warmup(self, dim: int, chains: int, draws: int, warmup: int | None) -> int:
        """Evaluations of warm-up, if nothing limits them."""
        return self.n_temperatures * self.sampler.longest_warmup(dim, chains, draws, warmup)

    def _start(self, setup: SamplerSetup) -> TemperedState:
        ladder = TemperatureLadder(self.temperatures, setup.dim)  # type: ignore[arg-type]
        if setup.initial_log_prior is None and ladder.betas[-1] == 0.0:
            raise ValueError(
                f"temperatures={self.temperatures!r}: an infinite temperature is the prior, which this model does not "
                "have apart: declare priors, or pass log_likelihood= and log_prior= to kmc.Model"
            )
        apart, gradients = setup.initial_log_prior is not None, _gradients_of(self.sampler)
        if apart and gradients and self.prior_gradient is None:
            raise ValueError(
                f"sampler={self.sampler!r} needs the gradients of the tempered densities, and this model has its prior "
                "apart, which is not tempered: pass kmc.Tempered(..., prior_gradient=function), the gradient of the "
                "prior's log-density at the unconstrained vector, log-Jacobian included; or a model that has the "
                "posterior's log-density only, which is then tempered as a whole"
            )
        if not apart and self.prior_gradient is not None:
            raise ValueError(
                "prior_gradient is given, but this model does not have its prior apart: declare priors, or pass "
                "log_likelihood= and log_prior= to kmc.Model; or leave prior_gradient out"
            )
        return TemperedState(setup, self.sampler, ladder, prior_gradient=self.prior_gradient)


class TemperedState:
    """See :class:`kmc.mcmc.base.SamplerState`.

    A sweep asks for points until each sampler has made a step: one that has, waits for the others.

    Parameters
    ----------
    setup : SamplerSetup
    sampler : Composable
        Options of the sampler at each temperature.
    ladder : TemperatureLadder
    prior_gradient : callable, optional
        Of log π, for a sampler with gradients.

    Attributes
    ----------
    levels : list of PartState
        The states of the sampler, one at each temperature. Their log-densities are tempered.
    """

    def __init__(
        self,
        setup: SamplerSetup,
        sampler: Composable,
        ladder: TemperatureLadder,
        *,
        prior_gradient: Gradient | None = None,
    ):
        self.setup, self.ladder = setup, ladder
        self._sampler = sampler
        self._gradients: list[KnownGradient] = []
        self._prior_gradient = None if prior_gradient is None else KnownGradient(prior_gradient)
        self._rng = np.random.default_rng(setup.seed.spawn(1)[0])
        self._apart = setup.initial_log_prior is not None
        n, budget = len(ladder.betas), setup.max_evaluations
        self._share = setup._replace(max_evaluations=None if budget is None else budget // n)
        initial = setup.initial_log_density
        prior = setup.initial_log_prior if setup.initial_log_prior is not None else np.zeros(len(initial))
        best = [best_starts(setup.initial, self._tempered(k, initial, prior), setup.chains) for k in range(n)]
        self.log_density = np.array([initial[rows] for rows in best])  # (n, chains): of the target, as evaluated
        self.log_prior = np.array([prior[rows] for rows in best])
        self._warmup = warmup_sweeps(self._share, _WARMUP * sampler.sweep_cost)
        scouts = sampler.scout is not sampler
        self._explores_until = min(self._warmup // 2, _LONGEST_TUNING) if ladder.tuned or scouts else 0
        self._scouting = scouts and self._explores_until > 0
        self._seen = [Reservoir(setup.dim + 2, _KEPT, self._rng) for _ in range(n)]
        self._history: list[np.ndarray] = []  # what scouts have evaluated: points, log p and log π in columns
        self._evaluated: list[list[np.ndarray]] = [[] for _ in range(n)]  # and log p_β, since a level's last step
        self._before: list[_Place | None] = [None] * n
        self._sweep = self._n_evaluations = 0
        self.levels: list[PartState] = [
            self._level(k, self._warmup, x=setup.initial, values=initial, prior=prior, check_gradient=True)
            for k in range(n)
        ]
        self.warming_up = self._scouting or any(level.warming_up for level in self.levels)
        self._steps: list[Step | None] = []  # of the current sweep
        self._asked: list[np.ndarray] = []
        self._first_facts: dict[str, Any] = {}  # of the first level, before it began again
        self._rates, self._offers = np.zeros(n - 1), np.zeros(n - 1)  # sums over swaps after warm-up

    def propose(self) -> np.ndarray:
        """What is needed at all temperatures that have not made their step."""
        if not self._steps:
            self._steps = [None] * len(self.levels)
            self._before = [_place(level) for level in self.levels]
        none = np.empty((0, self.setup.dim))
        self._asked = [
            level.propose() if step is None else none for level, step in zip(self.levels, self._steps, strict=True)
        ]
        return np.vstack(self._asked)

    def advance(self, values: np.ndarray, log_prior: np.ndarray | None = None) -> Step | None:
        """Decide at each temperature, swap, and tune the ladder; ``log_prior`` (k,) is that of the points."""
        prior = np.zeros(len(values)) if log_prior is None else log_prior
        self._n_evaluations += len(values)
        ends = np.cumsum([len(rows) for rows in self._asked])[:-1]
        for k, part in enumerate(zip(np.split(values, ends), np.split(prior, ends), strict=True)):
            if self._steps[k] is None:
                self._steps[k] = self._advance(k, *part)
        steps = [step for step in self._steps if step is not None]
        if len(steps) < len(self.levels):
            return None
        self._steps, warmup = [], self.warming_up
        cold = steps[0]
        rates = self.swap()
        self._sweep += 1
        if not warmup:
            self._rates += np.nan_to_num(rates).sum(axis=1)
            self._offers += np.sum(~np.isnan(rates), axis=1)
        elif self._sweep <= self._explores_until:
            self._explore(rates)
        self._forget_gradients()
        self._end_of_warmup()
        offered = rates[~np.isnan(rates[:, 0])]
        stats = {
            **cold.stats,
            "n_evaluations": sum(step.stats["n_evaluations"] for step in steps),
            "swap_rate": offered.mean(axis=0) if len(offered) else np.full(self.setup.chains, np.nan),
            "tempered_log_density": (self.log_density - self.log_prior).T.copy(),
        }
        first, others = self.levels[0].walkers, self._others()
        return Step(
            warmup=warmup,
            position=cold.position if first is None else first.x.copy(),
            log_density=cold.log_density if first is None else self.log_density[0].copy(),
            stats=stats,
            proposed=cold.proposed,
            others=others,
        )

    def swap(self) -> np.ndarray:
        """Offer swaps to every second pair of neighbors; their acceptance probabilities (n - 1, chains), or NaN."""
        betas, n = self.ladder.betas, len(self.levels)
        rates = np.full((n - 1, self.setup.chains), np.nan)
        for k in range(int(self._rng.integers(min(n - 1, 2))), n - 1, 2):
            if any(level.walkers is None for level in self.levels[k : k + 2]):
                continue
            excess = self.log_density[k : k + 2] - self.log_prior[k : k + 2]
            for chain in range(self.setup.chains):
                rates[k, chain] = swap_acceptance(betas[k : k + 2], excess[:, chain])
                if self._rng.random() < rates[k, chain]:
                    self._exchange(k, chain)
        self._retemper()
        return rates

    def end_warmup(self) -> None:
        """End warm-up with the next sweep, and the tuning of the ladder now."""
        if self._scouting:
            self._explores_until = self._sweep + 1
            self._warmup = self._explores_until + _LEAST_AFTER_SCOUTS
            return
        self._explores_until = 0
        for level in self.levels:
            level.end_warmup()

    def report(self) -> dict[str, Any]:
        """Facts for the results' attributes: those of the sampler at T = 1, the ladder, and the rates of swaps."""
        rates = [float(rate / n) if n else None for rate, n in zip(self._rates, self._offers, strict=True)]
        facts = _with_errors(self.levels[0].report(), self._first_facts)
        if self._gradients:
            facts["n_gradients"] = sum(gradient.n_calls for gradient in self._gradients)
        return {
            **facts,
            "temperatures": self.ladder.temperatures,
            "swap_rates": rates,
            "tempered": "likelihood" if self._apart else "density",
        }

    def _advance(self, k: int, values: np.ndarray, prior: np.ndarray) -> Step | None:
        tempered = self._tempered(k, values, prior)
        self._evaluated[k].append(np.column_stack([self._asked[k], values, prior, tempered]))
        if self._scouting and getattr(self._sampler, "takes_history", False):
            self._history.append(self._evaluated[k][-1][:, :-1])
        step = self.levels[k].advance(tempered)
        if step is not None:
            self._locate(k)
        return step

    def _locate(self, k: int) -> None:
        """Find log p and log π of the states among what was evaluated; nothing while a level keeps its chains."""
        now, before = _place(self.levels[k]), self._before[k]
        if now is None:
            return
        rows = np.vstack(self._evaluated[k])
        self._evaluated[k] = []
        for chain, (x, tempered) in enumerate(zip(*now, strict=True)):
            if before is not None and tempered == before.log_density[chain] and np.array_equal(x, before.x[chain]):
                continue
            same = np.flatnonzero((rows[:, -1] == tempered) & np.all(rows[:, :-3] == x, axis=1))
            self.log_density[k, chain], self.log_prior[k, chain] = rows[same[-1], -3:-1]

    def _exchange(self, k: int, chain: int) -> None:
        one, other = (level.walkers for level in self.levels[k : k + 2])
        assert one is not None and other is not None
        one.x[chain], other.x[chain] = other.x[chain].copy(), one.x[chain].copy()
        for column in (self.log_density, self.log_prior):
            column[k : k + 2, chain] = column[k : k + 2, chain][::-1].copy()

    def _retemper(self) -> None:
        """Give the levels the log-densities of their states."""
        for k, level in enumerate(self.levels):
            if level.walkers is not None:
                level.walkers.log_density[:] = self._tempered(k, self.log_density[k], self.log_prior[k])
                level.adopt(level.walkers)

    def _tempered(self, k: int, values: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """log p_β of points, from log p and log π."""
        beta = self.ladder.betas[k]
        if beta == 1.0:  # without rounding
            return values
        if beta == 0.0:  # the prior, also where the likelihood is zero
            return prior
        inside = np.isfinite(values)
        values, prior = np.where(inside, values, 0.0), np.where(inside, prior, 0.0)
        return np.where(inside, prior + beta * (values - prior), -np.inf)

    def _others(self) -> Proposed:
        """The states at other temperatures, except those where the likelihood is zero: these stay at β = 0."""
        hot = [(level.walkers, values) for level, values in zip(self.levels[1:], self.log_density[1:], strict=True)]
        states = [(walkers.x, values) for walkers, values in hot if walkers is not None]
        if not states:
            return Proposed(np.empty((0, self.setup.dim)), np.empty(0))
        x, values = (np.concatenate(column) for column in zip(*states, strict=True))
        possible = np.isfinite(values)
        return Proposed(x[possible], values[possible])

    # Warm-up

    def _explore(self, rates: np.ndarray) -> None:
        if self.ladder.tuned:
            self.ladder.learn(rates, self._sweep)
        for k, seen in enumerate(self._seen):
            walkers = self.levels[k].walkers
            if walkers is not None:
                seen.offer(np.column_stack([walkers.x, self.log_density[k], self.log_prior[k]]))
        if self._sweep == self._explores_until:
            self._begin_again()
        self._retemper()

    def _begin_again(self) -> None:
        """Samplers that have seen no other temperatures, at the states reached."""
        scouts, self._scouting = self._scouting, False
        self._first_facts = self.levels[0].report()
        # Others were compared at the start.
        unchecked = scouts and len(_gradients_of(self._sampler)) > len(_gradients_of(self._sampler.scout))
        for k, (level, seen) in enumerate(zip(self.levels, self._seen, strict=True)):
            rows, walkers, left = seen.x, level.walkers, self._warmup - self._sweep
            self.levels[k] = self._level(
                k, left, x=rows[:, :-2], values=rows[:, -2], prior=rows[:, -1], check_gradient=unchecked
            )
            started = self.levels[k].walkers
            if started is not None and walkers is not None:
                started.x[:] = walkers.x
        self._history = []

    def _end_of_warmup(self) -> None:
        if not self.warming_up:
            return
        budget = self.setup.max_evaluations
        if self.setup.warmup is None and budget is not None and self._n_evaluations >= budget // _MOST_OF_BUDGET:
            self.end_warmup()
        self.warming_up = self._scouting or any(level.warming_up for level in self.levels)

    def _level(
        self, k: int, warmup: int, *, x: np.ndarray, values: np.ndarray, prior: np.ndarray, check_gradient: bool
    ) -> PartState:
        """The sampler, or its scout, with start points (n, d)."""
        setup = self._share
        ends = (0, len(self.ladder.betas) - 1) if self._apart else (0,)
        tempered, history = self._tempered(k, values, prior), None
        if self._history:
            seen = np.vstack(self._history)
            history = seen[:, :-2].copy(), self._tempered(k, seen[:, -2], seen[:, -1])
        self._evaluated[k] = [np.column_stack([x, values, prior, tempered])]
        own = setup._replace(
            initial=x,
            initial_log_density=tempered,
            initial_log_prior=None,
            warmup=warmup,
            seed=setup.seed.spawn(1)[0],
            history=history,
            check_gradient=check_gradient and k in ends,
        )
        sampler = self._sampler.scout if self._scouting else self._sampler
        return sampler.with_gradient(lambda gradient: self._gradient(k, gradient))._start(own)

    # Gradients

    def _gradient(self, k: int, function: Gradient) -> TemperedGradient:
        """The gradient at a temperature; all temperatures share what is known of the user's."""
        known = next((one for one in self._gradients if one.function is function), None)
        if known is None:
            known = KnownGradient(function)
            self._gradients.append(known)
        return TemperedGradient(known, self._prior_gradient, ladder=self.ladder, k=k)

    def _forget_gradients(self) -> None:
        if not self._gradients:
            return
        states = [level.walkers.x for level in self.levels if level.walkers is not None]
        for gradient in (*self._gradients, *([self._prior_gradient] if self._prior_gradient else [])):
            gradient.forget_but(states)


class _Place(NamedTuple):
    """Where the chains of a level are."""

    x: np.ndarray  # (chains, d)
    log_density: np.ndarray  # (chains,), tempered


def _place(level: PartState) -> _Place | None:
    walkers = level.walkers
    return None if walkers is None else _Place(walkers.x.copy(), walkers.log_density.copy())


def _gradients_of(sampler: Composable) -> list[Gradient]:
    """The user's gradients that a sampler takes."""
    found: list[Gradient] = []

    def note(gradient: Gradient) -> Gradient:
        found.append(gradient)
        return gradient

    sampler.with_gradient(note)
    return found


def _with_errors(facts: dict[str, Any], earlier: dict[str, Any]) -> dict[str, Any]:
    """With the errors of gradients that were compared with differences earlier, and not again."""
    out = dict(facts)
    if math.isnan(facts.get("gradient_error", 0.0)):
        out["gradient_error"] = earlier.get("gradient_error", math.nan)
    if "parts" in facts and "parts" in earlier:
        out["parts"] = [_with_errors(*pair) for pair in zip(facts["parts"], earlier["parts"], strict=True)]
    return out


def swap_acceptance(betas: np.ndarray, excess: np.ndarray) -> float:
    """The acceptance probability of a swap between two inverse temperatures (2,), with l (2,) of their states."""
    return math.exp(min(float((betas[0] - betas[1]) * (excess[1] - excess[0])), 0.0))


def _checked(temperatures: Any) -> int | tuple[float, ...]:
    expected = "expected a whole number of at least 2, or increasing numbers of which the first is 1 (inf: the prior)"
    if is_whole(temperatures):
        if temperatures < 2:
            raise ValueError(f"temperatures={temperatures!r}: {expected}")
        return int(temperatures)
    if isinstance(temperatures, str) or not isinstance(temperatures, (Sequence, np.ndarray)):
        raise TypeError(f"temperatures={temperatures!r}: {expected}")
    if not all(is_number(t) for t in temperatures):
        raise TypeError(f"temperatures={temperatures!r}: {expected}")
    found = tuple(float(t) for t in temperatures)
    if len(found) < 2 or found[0] != 1.0 or not all(a < b for a, b in pairwise(found)):
        raise ValueError(f"temperatures={temperatures!r}: {expected}")
    return found
