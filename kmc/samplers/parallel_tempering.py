"""Parallel tempering: copies of a sampler at several temperatures, which exchange states.

Each chain of the result belongs to a ladder of inverse temperatures 1 = β_0 > β_1 > ...; the state
at β has the density

    p_β(x) ∝ π(x) (p(x) / π(x))^β,

with the prior π, if the model has it apart, or π = 1. A sweep moves the state at every temperature
by the sampler's proposals, and then offers neighbors a swap, which is accepted with probability

    min(1, p_β(x') p_β'(x) / (p_β(x) p_β'(x'))) = min(1, exp((β - β') (l(x') - l(x)))),

where l = log p - log π.

Moves and swaps leave the product of all p_β invariant, and so the states at β_0 the target (Geyer
1991).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from kmc.checks import is_number, is_whole
from kmc.samplers.adapting import AdaptingState, Reservoir, RobbinsMonro, warmup_sweeps
from kmc.samplers.adaptive_metropolis import AdaptiveMetropolis
from kmc.samplers.ask_tell import Startable
from kmc.samplers.base import Proposed, SamplerSetup, Step, Traits
from kmc.samplers.walkers import best_starts

_WARMUP = 3  # one in so many evaluations of the budget
_LONGEST_TUNING = 1000  # sweeps in which the ladder is tuned; half of warm-up, if that is shorter
_KEPT = 200  # states at each temperature, whose spread the samplers start with at the tuned ladder


@dataclass(frozen=True)
class Tempered(Startable):
    r"""Adaptive Metropolis at temperatures that exchange states: for targets with several modes.

    Parameters
    ----------
    sampler : AdaptiveMetropolis
        Moves the states; there is one for each temperature.
    temperatures : int or sequence of float
        Their number: the ladder is tuned in the first half of warm-up, until neighbors swap at a
        rate of 0.234, and fixed afterwards. Or the temperatures themselves, increasing from 1. The
        last one may be ``math.inf``, which is the prior itself, if the model has it apart.

    Raises
    ------
    TypeError, ValueError
        An invalid sampler or ladder.

    See Also
    --------
    kmc.KernelHMC : by itself tempers its surrogate, which costs no evaluations.

    Notes
    -----
    The states at temperature T have the density :math:`\pi(x)\,(p(x)/\pi(x))^{1/T}` [1]_. π is the
    prior, if the model has it apart: ``kmc.Model(log_likelihood=..., log_prior=...)``, or
    parameters that are declared with priors; the function of the prior is then called once more for
    each evaluation, in this process. Otherwise π = 1: the whole density of the unconstrained vector
    is tempered. With heavy tails it may not be integrable at high temperatures; hot chains then
    drift away and stop swapping, and a tuned ladder becomes shorter.

    Each chain of the result has a ladder of its own, so that a sweep costs an evaluation per chain
    *and temperature*; ``max_evaluations`` counts them all, and a draw's ``n_evaluations`` is their
    sum. Draws are the states at T = 1. The draw's ``swap_rate`` in ``sample_stats`` is the mean
    acceptance probability of the swaps that its ladder was offered in the sweep, and
    ``tempered_log_density`` is log p - log π at each temperature, from which :func:`kmc.evidence`
    estimates the evidence, if π is the prior. Attributes of the result are ``temperatures``,
    ``swap_rates`` (after warm-up, for each pair of neighbors) and ``tempered`` ("likelihood" or
    "density"). A ladder is tuned as in [2]_; when its tuning ends, the samplers start anew from the
    states reached. In a loop of your own, pass ``log_prior`` to :meth:`kmc.AskTell.tell`.

    References
    ----------
    .. [1] Geyer (1991), "Markov chain Monte Carlo maximum likelihood", Computing Science and
       Statistics 23.
    .. [2] Miasojedow, Moulines and Vihola (2013), "An adaptive parallel tempering algorithm",
       Journal of Computational and Graphical Statistics 22.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> def two_modes(x):
    ...     return float(np.logaddexp(-0.5 * np.sum((x - 6) ** 2), -0.5 * np.sum((x + 6) ** 2)))
    >>> sampler = kmc.Tempered(temperatures=4)
    >>> idata = kmc.sample(two_modes, dim=2, sampler=sampler, draws=500, seed=1, progress=False)
    >>> bool(0.2 < (idata.posterior["x"][..., 0] > 0).mean() < 0.8)
    True
    """

    sampler: AdaptiveMetropolis = field(default_factory=AdaptiveMetropolis)
    temperatures: int | Sequence[float] = 5

    name: ClassVar[str] = "tempered"

    def __post_init__(self):
        if not isinstance(self.sampler, AdaptiveMetropolis):
            raise TypeError(f"sampler={self.sampler!r}: expected kmc.AdaptiveMetropolis(...)")
        object.__setattr__(self, "temperatures", _checked(self.temperatures))

    @property
    def _traits(self) -> Traits:
        return Traits(log_prior=True)

    def _longest_warmup(self, dim: int, chains: int, draws: int, warmup: int | None) -> int:
        """Return the evaluations of warm-up, if nothing limits them."""
        n_temperatures = (
            self.temperatures if isinstance(self.temperatures, int) else len(self.temperatures)
        )
        return n_temperatures * self.sampler._longest_warmup(dim, chains, draws, warmup)

    def _start(self, setup: SamplerSetup) -> TemperedState:
        ladder = TemperatureLadder(self.temperatures, setup.dim)  # type: ignore[arg-type]
        if setup.initial_log_prior is None and ladder.betas[-1] == 0.0:
            raise ValueError(
                f"temperatures={self.temperatures!r}: an infinite temperature is the prior, which "
                f"this model does not "
                "have apart: declare priors, or pass log_likelihood= and log_prior= to kmc.Model"
            )
        return TemperedState(setup, self.sampler, ladder)


class TemperedState:
    """See :class:`kmc.samplers.base.SamplerState`.

    Parameters
    ----------
    setup : SamplerSetup
    sampler : AdaptiveMetropolis
        Options of the sampler at each temperature.
    ladder : TemperatureLadder

    Attributes
    ----------
    levels : list of AdaptingState
        The states of the sampler, one at each temperature. Their log-densities are tempered.
    log_density, log_prior : ndarray, shape (n, chains)
        log p and log π of these states, as evaluated.
    """

    def __init__(self, setup: SamplerSetup, sampler: AdaptiveMetropolis, ladder: TemperatureLadder):
        self.setup, self.ladder = setup, ladder
        self._sampler = sampler
        self._rng = np.random.default_rng(setup.seed.spawn(1)[0])
        self._apart = setup.initial_log_prior is not None
        n, budget = len(ladder.betas), setup.max_evaluations
        self._share = setup._replace(max_evaluations=None if budget is None else budget // n)
        initial = setup.initial_log_density
        prior = (
            setup.initial_log_prior
            if setup.initial_log_prior is not None
            else np.zeros(len(initial))
        )
        best = [
            best_starts(setup.initial, self._tempered(k, initial, prior), setup.chains)
            for k in range(n)
        ]
        self.log_density = np.array([initial[rows] for rows in best])
        self.log_prior = np.array([prior[rows] for rows in best])
        self._warmup = warmup_sweeps(self._share, _WARMUP)
        self._tunes_until = min(self._warmup // 2, _LONGEST_TUNING) if ladder.tuned else 0
        self._seen = [Reservoir(setup.dim + 2, _KEPT, self._rng) for _ in range(n)]
        self._sweep = 0
        self.levels = [
            self._level(k, self._warmup, x=setup.initial, values=initial, prior=prior)
            for k in range(n)
        ]
        self.warming_up = any(level.warming_up for level in self.levels)
        self._asked: list[np.ndarray] = []
        # sums over swaps after warm-up
        self._rates, self._offers = np.zeros(n - 1), np.zeros(n - 1)

    def propose(self) -> np.ndarray:
        """Propose a point for each state; return those (k, d) that moved, at all temperatures."""
        self._asked = [level.propose() for level in self.levels]
        return np.vstack(self._asked)

    def advance(self, values: np.ndarray, log_prior: np.ndarray | None = None) -> Step:
        """Decide at each temperature, swap, and tune the ladder.

        ``log_prior`` (k,) is that of the points.
        """
        prior = np.zeros(len(values)) if log_prior is None else log_prior
        ends = np.cumsum([len(rows) for rows in self._asked])[:-1]
        parts = zip(np.split(values, ends), np.split(prior, ends), strict=True)
        steps = [self._advance(k, *part) for k, part in enumerate(parts)]
        warmup = self.warming_up
        rates = self.swap()
        self._sweep += 1
        if not warmup:
            self._rates += np.nan_to_num(rates).sum(axis=1)
            self._offers += np.sum(~np.isnan(rates), axis=1)
        elif self._sweep <= self._tunes_until:
            self._tune(rates)
        self.warming_up = warmup and any(level.warming_up for level in self.levels)
        offered = rates[~np.isnan(rates[:, 0])]
        stats = {
            **steps[0].stats,
            "n_evaluations": sum(step.stats["n_evaluations"] for step in steps),
            "swap_rate": offered.mean(axis=0)
            if len(offered)
            else np.full(self.setup.chains, np.nan),
            "tempered_log_density": (self.log_density - self.log_prior).T.copy(),
        }
        return Step(
            warmup=warmup,
            position=self.levels[0].walkers.x.copy(),
            log_density=self.log_density[0].copy(),
            stats=stats,
            proposed=steps[0].proposed,
            others=self._others(),
        )

    def swap(self) -> np.ndarray:
        """Offer swaps to every second pair of neighbors.

        Return their acceptance probabilities (n - 1, chains), NaN for pairs that were not offered
        one.
        """
        betas, n = self.ladder.betas, len(self.levels)
        rates = np.full((n - 1, self.setup.chains), np.nan)
        for k in range(int(self._rng.integers(min(n - 1, 2))), n - 1, 2):
            excess = self.log_density[k : k + 2] - self.log_prior[k : k + 2]
            for chain in range(self.setup.chains):
                rates[k, chain] = swap_acceptance(betas[k : k + 2], excess[:, chain])
                if self._rng.random() < rates[k, chain]:
                    self._exchange(k, chain)
        self._retemper()
        return rates

    def end_warmup(self) -> None:
        """End warm-up with the next sweep, and the tuning of the ladder now."""
        self._tunes_until = 0
        for level in self.levels:
            level.end_warmup()

    def report(self) -> dict[str, Any]:
        """Return facts for the results' attributes: of the sampler at T = 1, ladder and swaps."""
        rates = [
            float(rate / n) if n else None
            for rate, n in zip(self._rates, self._offers, strict=True)
        ]
        return {
            **self.levels[0].report(),
            "temperatures": self.ladder.temperatures,
            "swap_rates": rates,
            "tempered": "likelihood" if self._apart else "density",
        }

    def _advance(self, k: int, values: np.ndarray, prior: np.ndarray) -> Step:
        """Decide at one temperature, and keep log p and log π of what was accepted."""
        step = self.levels[k].advance(self._tempered(k, values, prior))
        evaluated, accepted = step.stats["n_evaluations"] > 0, step.stats["accepted"]
        for known, new in ((self.log_density[k], values), (self.log_prior[k], prior)):
            known[accepted] = new[accepted[evaluated]]
        return step

    def _exchange(self, k: int, chain: int) -> None:
        one, other = (level.walkers for level in self.levels[k : k + 2])
        one.x[chain], other.x[chain] = other.x[chain].copy(), one.x[chain].copy()
        for column in (self.log_density, self.log_prior):
            column[k : k + 2, chain] = column[k : k + 2, chain][::-1].copy()

    def _retemper(self) -> None:
        """Give the levels the log-densities of their states."""
        for k, level in enumerate(self.levels):
            level.walkers.log_density[:] = self._tempered(k, self.log_density[k], self.log_prior[k])

    def _tempered(self, k: int, values: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """Return log p_β of points (k,), from log p and log π."""
        beta = self.ladder.betas[k]
        if beta == 1.0:  # without rounding
            return values
        if beta == 0.0:  # the prior, also where the likelihood is zero
            return prior
        inside = np.isfinite(values)
        values, prior = np.where(inside, values, 0.0), np.where(inside, prior, 0.0)
        return np.where(inside, prior + beta * (values - prior), -np.inf)

    def _others(self) -> Proposed:
        """Return the states at other temperatures, except those where the likelihood is zero.

        These stay at β = 0.
        """
        x = np.concatenate([level.walkers.x for level in self.levels[1:]])
        values = np.concatenate(self.log_density[1:])
        possible = np.isfinite(values)
        return Proposed(x[possible], values[possible])

    # Warm-up

    def _tune(self, rates: np.ndarray) -> None:
        self.ladder.learn(rates, self._sweep)
        for k, seen in enumerate(self._seen):
            seen.offer(
                np.column_stack([self.levels[k].walkers.x, self.log_density[k], self.log_prior[k]])
            )
        if self._sweep == self._tunes_until:
            self._begin_again()
        self._retemper()

    def _begin_again(self) -> None:
        """Replace the samplers by new ones that saw no other temperature, at the states reached."""
        for k, (level, seen) in enumerate(zip(self.levels, self._seen, strict=True)):
            rows, left = seen.x, self._warmup - self._sweep
            self.levels[k] = self._level(
                k, left, x=rows[:, :-2], values=rows[:, -2], prior=rows[:, -1]
            )
            self.levels[k].walkers.x[:] = level.walkers.x

    def _level(
        self, k: int, warmup: int, *, x: np.ndarray, values: np.ndarray, prior: np.ndarray
    ) -> AdaptingState:
        """Return a sampler's state at temperature number k, with start points x (n, d)."""
        setup = self._share
        own = setup._replace(
            initial=x,
            initial_log_density=self._tempered(k, values, prior),
            initial_log_prior=None,
            warmup=warmup,
            seed=setup.seed.spawn(1)[0],
        )
        return self._sampler._start(own)


def swap_acceptance(betas: np.ndarray, excess: np.ndarray) -> float:
    """Return the acceptance probability of a swap between inverse temperatures (2,).

    ``excess`` is l (2,) of their states.
    """
    return math.exp(min(float((betas[0] - betas[1]) * (excess[1] - excess[0])), 0.0))


def _checked(temperatures: Any) -> int | tuple[float, ...]:
    expected = (
        "expected a whole number of at least 2, or increasing numbers of which the first is 1 "
        "(inf: the prior)"
    )
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


# The inverse temperatures of parallel tempering, given or tuned by the rates of swaps.

# to which neighbors are tuned (Kone and Kofke 2005; Atchadé, Roberts and Rosenthal 2011)
SWAP_RATE = 0.234
_FIRST_GAP = 2.0  # T' / T - 1 at first, over sqrt(d); set by hand
# largest log of the factor on it: a swap rate may exceed the target for any gap
_WIDEST = math.log(1e4)


class TemperatureLadder:
    """Temperatures T_0 = 1 < T_1 < ..., as inverse temperatures β = 1 / T.

    A tuned ladder has T_{k+1} = T_k (1 + 2 f_k / sqrt(d)). The factor f_k follows a Robbins–Monro
    recursion on the rate of swaps between k and k + 1 (Miasojedow, Moulines and Vihola 2013, "An
    adaptive parallel tempering algorithm", Journal of Computational and Graphical Statistics 22),
    so that the top of the ladder is found as well.

    Parameters
    ----------
    temperatures : int or tuple of float
        Their number, or the temperatures.
    dim : int
        d.

    Attributes
    ----------
    tuned : bool
        Whether :meth:`learn` changes it.
    betas : ndarray, shape (n,)
        Decreasing, the first is 1.
    """

    def __init__(self, temperatures: int | tuple[float, ...], dim: int):
        self.tuned = not isinstance(temperatures, tuple)
        if isinstance(temperatures, tuple):
            self.betas = 1.0 / np.array(temperatures)
            return
        self._gap = _FIRST_GAP / math.sqrt(dim)
        self._factors = [RobbinsMonro(SWAP_RATE) for _ in range(temperatures - 1)]
        self.betas = self._new_betas()

    @property
    def temperatures(self) -> list[float]:
        """1 / β of each."""
        return [1.0 / beta if beta > 0 else math.inf for beta in self.betas.tolist()]

    def learn(self, rates: np.ndarray, sweep: int) -> None:
        """Take acceptance probabilities (n - 1, chains) of a sweep's swaps, NaN if not offered."""
        for factor, offered in zip(self._factors, rates, strict=True):
            if not np.isnan(offered[0]):
                factor.learn(float(offered.mean()), sweep)
                factor.log_value = min(factor.log_value, _WIDEST)
        self.betas = self._new_betas()

    def _new_betas(self) -> np.ndarray:
        return 1.0 / np.cumprod(
            [1.0, *(1.0 + self._gap * factor.value for factor in self._factors)]
        )
