"""Chains with proposals that learn from their states: the state of adaptive Metropolis samplers.

Every chain makes one proposal and one true evaluation per sweep. What the proposals depend on is in
a *proposer*, which learns after each sweep in warm-up, and afterwards if the adaptation is
vanishing. Chains either share one proposer or have one each.

A density is learned while chains run, too: by the default surrogate from all evaluations, or by an
estimator from states. It is refitted at sweeps that are fixed in advance and ever rarer. What
proposals make of it is corrected by the true density, so that a wrong fit makes a sampler slow,
never wrong.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from kmc.njit import njit
from kmc.samplers.base import SamplerSetup, Step
from kmc.samplers.metropolis import Proposal
from kmc.samplers.score_field import Affine, Field, GradientEstimator
from kmc.samplers.score_fitter import Fitter, History
from kmc.samplers.walkers import Walkers, best_starts, requested
from kmc.surrogate.coordinates.whitening import whiten_states
from kmc.surrogate.process import Process, Seen, fit_to_draws

_DECAY = 0.6  # step sizes of the recursion are proportional to sweep^-0.6
_GAIN = 2.0

_DELAY = 10  # sweeps by which the recursion's step sizes lag
_MOST = 0.5  # largest step size
_FLOOR = 1e-8  # variance added in each direction, relative to the coordinates' variances

# sweep of the first fit, and the factor between successive ones; set by hand
_FIRST, _GROWTH = 30, 1.4


class Moved(NamedTuple):
    """What a proposer learns from after a sweep, one row per chain."""

    start: np.ndarray  # (chains, d): the states before the sweep
    position: np.ndarray  # (chains, d): the states after it
    log_density: np.ndarray  # (chains,)
    proposals: Sequence[Proposal]
    proposed: np.ndarray  # (chains, d): their positions, or the states of chains that proposed none
    proposed_log_density: np.ndarray  # (chains,)
    stats: dict[str, np.ndarray]  # (chains,) each; see STATS


class Proposer(Protocol):
    """Makes the proposals of one or more chains, and learns from these chains only."""

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        """Propose a point from the state x (d,); the proposer does not change."""

    def learn(self, moved: Moved, sweep: int) -> None:
        """Adapt after a sweep, the first of which has the number 1."""

    def facts(self) -> dict[str, Any]:
        """Return facts for the results' attributes."""


class AdaptingState:
    """See :class:`kmc.samplers.base.SamplerState`.

    Parameters
    ----------
    setup : SamplerSetup
    walkers : Walkers
        One per chain.
    proposers : sequence of Proposer
        One, or one per chain.
    freeze : bool
        Whether they stop learning at the end of warm-up.
    warmup : int
        Sweeps of warm-up.
    """

    def __init__(
        self,
        setup: SamplerSetup,
        walkers: Walkers,
        proposers: Sequence[Proposer],
        *,
        freeze: bool,
        warmup: int,
    ):
        self.setup = setup
        self.warming_up = warmup > 0
        self.proposers, self.freeze, self.warmup = list(proposers), freeze, warmup
        self.walkers = walkers
        self._sweep = 0
        self._proposals: list[Proposal] = []

    def propose(self) -> np.ndarray:
        """Propose a point for each chain, and return the positions (k, d) of those that moved."""
        rngs, x = self.walkers.rngs, self.walkers.x
        n = len(self.proposers)
        self._proposals = [self.proposers[i % n].propose(rngs[i], x[i]) for i in range(len(x))]
        return requested(self._proposals, self.setup.dim)

    def advance(self, values: np.ndarray) -> Step:
        """Decide, and learn if it is due."""
        start = self.walkers.x.copy()
        stats = self.walkers.decide(self._proposals, values)
        step = self.walkers.sweep(self.warming_up, stats, self.setup.chains)
        self._sweep += 1
        if self.warming_up or not self.freeze:
            self._learn(start, stats)
        self.warming_up = self.warming_up and self._sweep < self.warmup
        return step

    def end_warmup(self) -> None:
        """End warm-up with the next sweep."""
        self.warmup = 0

    def wrap(self, wrapper: Callable[[Proposer], Proposer]) -> None:
        """Replace each proposer by one that uses it; only before the first sweep."""
        assert self._sweep == 0
        self.proposers = [wrapper(proposer) for proposer in self.proposers]

    def report(self) -> dict[str, Any]:
        """Return facts for the results' attributes; those of single chains' proposers are lists."""
        facts = [proposer.facts() for proposer in self.proposers]
        shared = (
            facts[0]
            if len(facts) == 1
            else {name: [one[name] for one in facts] for name in facts[0]}
        )
        return {"noisy": self.setup.noisy, "n_refits": 0, **shared}

    def _learn(self, start: np.ndarray, stats: dict[str, np.ndarray]) -> None:
        walkers, n = self.walkers, len(self.proposers)
        for i, proposer in enumerate(self.proposers):
            mine = {name: column[i::n] for name, column in stats.items()}
            moved = Moved(
                start=start[i::n],
                position=walkers.x[i::n],
                log_density=walkers.log_density[i::n],
                proposals=self._proposals[i::n],
                proposed=walkers.proposed.position[i::n],
                proposed_log_density=walkers.proposed.log_density[i::n],
                stats=mine,
            )
            proposer.learn(moved, self._sweep)


def walkers_of(setup: SamplerSetup) -> Walkers:
    """Return one walker per chain, at the best start points, each with its own random stream."""
    best = best_starts(setup.initial, setup.initial_log_density, setup.chains)
    rngs = [np.random.default_rng(seed) for seed in setup.seed.spawn(setup.chains)]
    return Walkers(rngs, setup.initial[best], setup.initial_log_density[best])


def warmup_sweeps(setup: SamplerSetup, share: int) -> int:
    """Return the user's number of sweeps of warm-up.

    By default it is the number of draws or one in ``share`` evaluations of the budget, whichever is
    smaller.
    """
    if setup.warmup is not None:
        return setup.warmup
    limits = []
    if setup.draws is not None:
        limits.append(setup.draws)
    if setup.max_evaluations is not None:
        limits.append(setup.max_evaluations // (share * setup.chains))
    return min(limits, default=sys.maxsize)  # no limit: until the time for warm-up is over


# The scale of a proposal, tuned to an acceptance rate by a Robbins–Monro recursion.


class RobbinsMonro:
    """A factor f, tuned by the acceptance of each sweep (Andrieu and Thoms 2008).

    After sweep t, log f <- log f + 2 (t + 1)^-0.6 (acceptance - target).

    Parameters
    ----------
    target : float
        Acceptance rate.

    Attributes
    ----------
    log_value : float
        log f, 0 at first.
    """

    def __init__(self, target: float):
        self._target = target
        self.log_value = 0.0

    @property
    def value(self) -> float:
        """The factor."""
        return math.exp(self.log_value)

    def learn(self, acceptance: float, sweep: int, weight: float = 1.0) -> None:
        """Take the mean acceptance of a sweep, the first of which is 1.

        ``weight`` is the share of the chains in it.
        """
        self.log_value += weight * _GAIN * (sweep + 1) ** -_DECAY * (acceptance - self._target)

    def restart(self) -> None:
        """Set the factor to 1 again, for a new proposal."""
        self.log_value = 0.0


# A random part of the history of the chains, of bounded size.


class Reservoir:
    """States of the chains, where the state number s stays with a probability that grows with s.

    With t states offered to a full reservoir of n, the next one replaces a random entry with
    probability min(1, 2 n / t). Entry number s is still present with probability (s / t)², so that
    over-dispersed starts are forgotten, and the reservoir changes ever more slowly.

    Parameters
    ----------
    dim, size : int
    rng : Generator
    """

    def __init__(self, dim: int, size: int, rng: np.random.Generator):
        self._x = np.empty((size, dim))
        self._rng = rng
        self._offered = 0

    def __len__(self) -> int:
        return min(self._offered, len(self._x))

    @property
    def x(self) -> np.ndarray:
        """(n, d), a view."""
        return self._x[: len(self)]

    def offer(self, x: np.ndarray) -> None:
        """Offer states (k, d)."""
        size = len(self._x)
        for row in x:
            if self._offered < size:
                self._x[self._offered] = row
            elif self._rng.random() * self._offered < 2 * size:
                self._x[self._rng.integers(size)] = row
            self._offered += 1


# Mean and covariance of the chains' states, learned recursively at O(d²) per state.


class Moments:
    """The mean m and the Cholesky factor L of the covariance C = L Lᵀ.

    After sweep t, with the step size r = 2 / (t + 10) and the chains' states x_1, ..., x_k,

        C <- (1 - r) C + r (mean of (x_i - m)(x_i - m)ᵀ + ε D),    m <- m + r mean of (x_i - m).

    With 2/t instead of 1/t the first half of the history is forgotten in the limit. ε D keeps the
    covariance positive definite (Haario, Saksman and Tamminen 2001); D is diagonal with the
    variances, and one coordinate per sweep takes its turn. All terms are of rank one, and L follows
    by updates of a Cholesky factor.

    Parameters
    ----------
    mean : ndarray, shape (d,)
    sd : ndarray, shape (d,)
        At the start.
    """

    def __init__(self, mean: np.ndarray, sd: np.ndarray):
        self.mean = mean.copy()
        self.root = np.diag(sd).astype(float)
        self.sd = sd.copy()  # standard deviations (d,)

    def whitened(self, step: np.ndarray) -> np.ndarray:
        """Return L⁻¹ times a vector (d,)."""
        return forward_substitution(self.root, step)

    def learn(self, x: np.ndarray, sweep: int) -> None:
        """Take the states (k, d) after a sweep; sweeps count from 1."""
        rate = min(2.0 / (sweep + _DELAY), _MOST)
        deviations = x - self.mean
        root = math.sqrt(1.0 - rate) * self.root  # a new array: proposals may hold the old one
        for row in deviations:
            add_outer_product(root, math.sqrt(rate / len(x)) * row)
        i, dim = sweep % len(root), len(root)
        floor = np.zeros(dim)
        floor[i] = math.sqrt(
            rate * dim * (_FLOOR * float(root[i] @ root[i]) + np.finfo(float).tiny)
        )
        add_outer_product(root, floor)
        if np.all(np.isfinite(root)):
            self.mean, self.root = self.mean + rate * deviations.mean(axis=0), root
            self.sd = np.sqrt(np.sum(root**2, axis=1))


@njit()
def forward_substitution(root, v):
    """Return L⁻¹ v for a lower triangular matrix L, in O(d²) operations."""
    z = np.empty_like(v)
    for i in range(v.size):
        total = v[i]
        for j in range(i):
            total -= root[i, j] * z[j]
        z[i] = total / root[i, i]
    return z


@njit()
def add_outer_product(root, v):
    """Change a Cholesky factor of C into one of C + v vᵀ, in place: O(d²). ``v`` is overwritten."""
    d = v.size
    for k in range(d):
        if v[k] == 0.0:
            continue
        new = math.hypot(root[k, k], v[k])
        c, s = new / root[k, k], v[k] / root[k, k]
        root[k, k] = new
        for i in range(k + 1, d):
            root[i, k] = (root[i, k] + s * v[i]) / c
            v[i] = c * v[i] - s * root[i, k]


class Learned(NamedTuple):
    """A fitted density."""

    field: Field  # its gradient, in the coordinates in which states are white
    surrogate: Process | None  # None: it is the field's estimator

    def log_density(self, x: np.ndarray) -> float:
        """Return the log-density at x (d,), up to a constant."""
        if self.surrogate is not None:
            return float(self.surrogate.log_density(x[None])[0])
        field: Any = self.field
        points = field.whitening(x[None]) if field.in_z else x[None]
        return float(field.estimator.log_density(points)[0])


class Online(NamedTuple):
    """Updates at sweep t > ``first`` with the probability t^-exponent."""

    first: int
    exponent: float


class DensityLearner:
    """Collects what chains evaluate and visit, and refits.

    Parameters
    ----------
    estimator : GradientEstimator or None
        Fitted to states, in coordinates in which they are white; None: the default surrogate.
    dim, max_states : int
        The largest number of states to which an estimator is fitted.
    noisy : bool
        Whether log-densities are those of noisy estimates.
    rng : Generator
    online : Online, optional
        Updates by ``partial_fit`` instead of refits, from some sweep on.

    Attributes
    ----------
    learned : Learned or None
        The last fit; None before the first.
    n_fits : int
    """

    def __init__(
        self,
        estimator: GradientEstimator | None,
        *,
        dim: int,
        max_states: int,
        noisy: bool,
        rng: np.random.Generator,
        online: Online | None = None,
    ):
        self._online = online
        self._waiting = History(dim)  # states since the last update
        self.learned: Learned | None = None
        self.n_fits = 0
        self._dim, self._noisy, self._rng = dim, noisy, rng
        self._fitter = (
            None if estimator is None else Fitter(estimator, values=False, refit=True, rng=rng)
        )
        self._evaluated = History(dim)
        self._states = Reservoir(dim + 1, max_states, rng)  # with their log-densities
        self._next = float(_FIRST)

    def learn(self, moved: Moved, sweep: int) -> bool:
        """Take what a sweep evaluated and visited, and return whether there is a new fit."""
        if self._fitter is None:
            made = moved.stats["n_evaluations"] > 0
            self._evaluated.extend(moved.proposed[made], moved.proposed_log_density[made])
        self._states.offer(np.column_stack([moved.position, moved.log_density]))
        if self._online is not None and sweep > self._online.first and self.learned is not None:
            return self._update(self._online, moved, sweep)
        if sweep < self._next:
            return False
        self._next = max(_GROWTH * self._next, sweep + 1.0)
        found = (
            self._from_evaluations() if self._fitter is None else self._from_states(self._fitter)
        )
        if found is None:
            return False
        self.learned, self.n_fits = found, self.n_fits + 1
        return True

    def facts(self) -> dict[str, Any]:
        """Return facts for the results' attributes."""
        facts: dict[str, Any] = {"n_refits": self.n_fits}
        if self._fitter is not None:
            facts |= {"surrogate": self._fitter.name, "n_failed_refits": self._fitter.n_failed}
            if self._fitter.n_failed:
                facts["refit_error"] = self._fitter.error
        return facts

    def _update(self, online: Online, moved: Moved, sweep: int) -> bool:
        """Give the estimator, with some probability, the states since its last update.

        The probability does not depend on the states. Return whether there is a new fit.
        """
        assert self._fitter is not None and self.learned is not None
        self._waiting.extend(moved.position, moved.log_density)
        if self._rng.random() >= sweep**-online.exponent:
            return False
        field = self._fitter.extended(
            self.learned.field, self._waiting.x, self._waiting.log_density
        )
        self._waiting = History(self._dim)
        if field is None:
            return False
        self.learned, self.n_fits = Learned(field, None), self.n_fits + 1
        return True

    def _from_evaluations(self) -> Learned | None:
        x, values = self._evaluated.x, self._evaluated.log_density
        states = np.unique(self._states.x[:, :-1], axis=0)
        if len(states) < 3 * self._dim + 10:
            return None
        surrogate = fit_to_draws(
            Seen(x, values, states, np.full(x.shape, np.nan), self._noisy), self._rng
        )
        same = Affine(surrogate.jit_state, np.zeros(self._dim), np.eye(self._dim))
        return Learned(Field(None, surrogate.whitening, True, same), surrogate)

    def _from_states(self, fitter: Fitter) -> Learned | None:
        rows = self._states.x
        distinct, first, visits = np.unique(
            rows[:, :-1], axis=0, return_index=True, return_counts=True
        )
        if len(distinct) < 3 * self._dim + 10:
            return None
        field = fitter.fitted(
            distinct, rows[first, -1], visits, whitening=whiten_states(rows[:, :-1])
        )
        return None if field is None else Learned(field, None)
