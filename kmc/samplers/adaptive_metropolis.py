"""Adaptive Metropolis: random walk, differential evolution and independent proposals.

They are learned from the chains. With a score estimator, there are Langevin steps along its
gradient as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kmc.checks import as_flag, check_choice, check_count, check_number
from kmc.samplers.adapting import (
    AdaptingState,
    DensityLearner,
    Moments,
    Moved,
    Reservoir,
    RobbinsMonro,
    walkers_of,
    warmup_sweeps,
)
from kmc.samplers.adaptive_langevin import BEST_STEP, LANGEVIN, langevin
from kmc.samplers.ask_tell import Startable
from kmc.samplers.base import MOVES, SamplerSetup
from kmc.samplers.metropolis import Proposal
from kmc.samplers.moves import differential_evolution
from kmc.samplers.score_field import GradientEstimator
from kmc.samplers.score_fitter import check_estimator
from kmc.samplers.walkers import BEST_SCALE, start_spread

# Set by hand, on the targets of the benchmarks.
KINDS = ("random-walk", "differential-evolution", "independence")
WALK, EVOLUTION, INDEPENDENCE = (MOVES.index(kind) for kind in KINDS)
_WARMUP_SHARE = 6  # warm-up has one in so many evaluations of the budget
_LEAST = 10, 40  # states in the archive before it is used: per dimension, and in any case
_SHARE = 0.1  # smallest probability of a kind
_DOF = 5  # of the independent proposal
_LANGEVIN_ACCEPTANCE = 0.574  # the best on many targets (Roberts and Rosenthal 1998)
_DELAY = 100  # of the recursion for the squared jumps


@dataclass(frozen=True)
class AdaptiveMetropolis(Startable):
    r"""Adaptive Metropolis: proposals learned from the history of all chains.

    Parameters
    ----------
    adaptation : {"vanishing", "freeze"}
        "vanishing": adaptation continues with step sizes that tend to zero. "freeze": the proposals
        do not change after warm-up.
    target_acceptance : float
        The acceptance rate to which the scales of random walk and differential evolution are tuned.
    moves : tuple of str
        The kinds of proposals, of which "random-walk" is always one. With several, their
        probabilities are tuned; none is below 0.1. ``("random-walk",)`` is the algorithm of [1]_
        with the scaling of [2]_.
    pooled : bool
        Whether all chains learn from one history. False: each chain from its own, so that chains
        are independent.
    max_archive : int
        Largest number of past states kept for differential evolution, and for the estimator.
    estimator : estimator, optional
        An object with ``fit(X)`` and ``gradient(X)``, such as ``kmc.scores.NystromKEF()``, for a
        further kind of proposals: steps with the covariance and drift of the density that it learns
        from past states. It is copied. It needs ``pooled=True``.

    Raises
    ------
    TypeError, ValueError
        An invalid option.

    See Also
    --------
    kmc.KernelHMC : the default sampler, with far more effective draws per evaluation on most
        targets.

    Notes
    -----
    The kinds of proposals from a state x, with the learned mean m and covariance C = L Lᵀ:

    - random walk, x + f L N(0, I) (Haario, Saksman and Tamminen 2001 [1]_). The factor f begins at
      2.38 / sqrt(d) and follows a Robbins–Monro recursion on the acceptance rate (algorithm 4 of
      [2]_).
    - differential evolution, x + γ (a - b) with two past states a and b [3]_; one in ten has γ = 1,
      for jumps between modes.
    - independence: a Student-t with 5 degrees of freedom, location m and scale matrix C, as in
      section 5 of [2]_ and in [4]_; its tails are heavy so that the acceptance rate does not vanish
      far out.
    - Langevin, with an estimator: x + ε²/2 S g(x) + ε S^½ N(0, I), with the gradient g of the
      estimated log-density (a kernel exponential family [5]_) and the covariance S of the states
      that it was fitted to. It is accepted with the densities of both directions, so that a wrong
      estimate makes it slow, never wrong. ε is tuned to an acceptance of 0.574. The estimator is
      fitted anew at sweeps 30, 42, 59, ..., which are fixed in advance and ever rarer; with
      ``adaptation="freeze"`` to the end of warm-up.

    A kind's probability is proportional to its mean squared jump :math:`|L^{-1}(x' - x)|^2` times
    the acceptance probability, which is averaged with vanishing step sizes. m and C follow the
    recursion of [1]_ with the step sizes 2/t, and C is regularized; L is updated at O(d²) per
    state.

    References
    ----------
    .. [1] Haario, Saksman and Tamminen (2001), "An adaptive Metropolis algorithm", Bernoulli 7.
    .. [2] Andrieu and Thoms (2008), "A tutorial on adaptive MCMC", Statistics and Computing 18.
    .. [3] ter Braak and Vrugt (2008), "Differential evolution Markov chain with snooker updater and
       fewer chains", Statistics and Computing 18.
    .. [4] Giordani and Kohn (2010), "Adaptive independent Metropolis–Hastings by fast estimation of
       mixtures of normals", Journal of Computational and Graphical Statistics 19.
    .. [5] Sutherland, Strathmann, Arbel and Gretton (2018), "Efficient and principled score
       estimation with Nyström kernel exponential families", AISTATS, theorem 1.

    Examples
    --------
    >>> import kmc
    >>> kmc.AdaptiveMetropolis().adaptation
    'vanishing'
    >>> kmc.AdaptiveMetropolis(moves=("random-walk",), pooled=False).pooled
    False
    >>> sampler = kmc.AdaptiveMetropolis(estimator=kmc.scores.NystromKEF(n_basis=20))
    >>> idata = kmc.sample(
    ...     lambda x: -0.5 * x @ x, dim=2, sampler=sampler, draws=100, seed=1, progress=False
    ... )
    >>> idata.posterior.attrs["surrogate"]
    'NystromKEF'
    """

    adaptation: str = "vanishing"
    target_acceptance: float = 0.234
    moves: tuple[str, ...] = KINDS
    pooled: bool = True
    max_archive: int = 1000
    estimator: GradientEstimator | None = None

    name: ClassVar[str] = "adaptive-metropolis"

    def __post_init__(self):
        check_choice(self, "adaptation", ("vanishing", "freeze"))
        check_number(self, "target_acceptance", 0, 1)
        object.__setattr__(self, "moves", _kinds(self.moves))
        as_flag("pooled", self.pooled)
        check_count(self, "max_archive", 10)
        if self.estimator is not None:
            check_estimator(self.estimator, False)
            if not self.pooled:
                raise ValueError(
                    f"pooled={self.pooled!r}, but an estimator learns from all chains: leave one "
                    f"of the two options out"
                )

    def _start(self, setup: SamplerSetup) -> AdaptingState:
        walkers, spread = walkers_of(setup), start_spread(setup.initial)
        starts = [walkers.x] if self.pooled else [row[None] for row in walkers.x]
        rngs = [np.random.default_rng(seed) for seed in setup.seed.spawn(len(starts))]
        learner = None
        if self.estimator is not None:
            rng = np.random.default_rng(setup.seed.spawn(1)[0])
            learner = DensityLearner(
                self.estimator,
                dim=setup.dim,
                max_states=self.max_archive,
                noisy=setup.noisy,
                rng=rng,
            )
        proposers = [
            LearnedMixture(self, x, spread=spread, rng=rng, learner=learner)
            for x, rng in zip(starts, rngs, strict=True)
        ]
        warmup = warmup_sweeps(setup, _WARMUP_SHARE)
        return AdaptingState(
            setup, walkers, proposers, freeze=self.adaptation == "freeze", warmup=warmup
        )


class LearnedMixture:
    """The proposals of adaptive Metropolis; see :class:`kmc.samplers.adapting.Proposer`.

    Parameters
    ----------
    options : AdaptiveMetropolis
    x : ndarray, shape (k, d)
        The start points of its chains.
    spread : ndarray, shape (d,)
        Standard deviations of the first proposals.
    rng : Generator
        For the choice of states in the archive.
    learner : DensityLearner, optional
        Of the density for Langevin steps.

    Attributes
    ----------
    moments : Moments
    kinds : list of int
        Indices into :data:`kmc.samplers.base.MOVES`.
    probabilities : ndarray
        Of the kinds.
    """

    def __init__(
        self,
        options: AdaptiveMetropolis,
        x: np.ndarray,
        *,
        spread: np.ndarray,
        rng: np.random.Generator,
        learner: DensityLearner | None = None,
    ):
        self.moments = Moments(x.mean(axis=0), spread)
        self._learner = learner
        self.kinds = [LANGEVIN] * (learner is not None) + [
            MOVES.index(kind) for kind in options.moves
        ]
        self._archive = Reservoir(len(spread), options.max_archive, rng)
        self._walk, self._evolution = (RobbinsMonro(options.target_acceptance) for _ in range(2))
        self._step = RobbinsMonro(_LANGEVIN_ACCEPTANCE)
        self._jumps = np.ones(len(self.kinds))  # mean squared jumps of each kind
        self._counts = np.zeros(len(self.kinds))
        self.probabilities = self._new_probabilities()

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        """Propose a point from x (d,); the kind of move does not depend on x."""
        kind = self._kind(rng)
        if kind == LANGEVIN:
            # else its probability is zero
            assert self._learner is not None and self._learner.learned is not None
            return langevin(
                self._learner.learned, x, rng.standard_normal(len(x)), step_size=self._langevin_step
            )
        if kind == EVOLUTION:
            return differential_evolution(
                rng, x, self._archive.x, scale=self._evolution.value, sd=self.moments.sd
            )
        if kind == INDEPENDENCE:
            return self._independent(rng, x)
        scale = BEST_SCALE / math.sqrt(len(x)) * self._walk.value
        step = self.moments.root @ rng.standard_normal(len(x))
        return Proposal(x + scale * step, 0.0, WALK, step_size=scale)

    def learn(self, moved: Moved, sweep: int) -> None:
        """Adapt the probabilities, then the scales, then the moments."""
        kinds, rates = moved.stats["move"], moved.stats["acceptance_rate"]
        for proposal, rate, start in zip(moved.proposals, rates, moved.start, strict=True):
            i = self.kinds.index(proposal.move)
            step = self.moments.whitened(proposal.position - start)
            self._counts[i] += 1
            gain = 1.0 / min(self._counts[i] + 3, _DELAY + 0.5 * self._counts[i])
            self._jumps[i] += gain * (float(rate) * float(step @ step) - self._jumps[i])
        for kind, scale in (
            (WALK, self._walk),
            (EVOLUTION, self._evolution),
            (LANGEVIN, self._step),
        ):
            if np.any(mine := kinds == kind):
                scale.learn(float(rates[mine].mean()), sweep, float(mine.mean()))
        self.moments.learn(moved.position, sweep)
        self._archive.offer(moved.position)
        if self._learner is not None:
            self._learner.learn(moved, sweep)
        self.probabilities = self._new_probabilities()

    def facts(self) -> dict[str, Any]:
        """Return the random walk's scale, the kinds' probabilities, and facts on the estimator."""
        scale = BEST_SCALE / math.sqrt(len(self.moments.mean)) * self._walk.value
        probabilities = dict(
            zip((MOVES[kind] for kind in self.kinds), self.probabilities.tolist(), strict=True)
        )
        facts: dict[str, Any] = {"proposal_factor": scale, "move_probabilities": probabilities}
        if self._learner is not None:
            facts |= {**self._learner.facts(), "langevin_step_size": self._langevin_step}
        return facts

    @property
    def _langevin_step(self) -> float:
        return BEST_STEP * len(self.moments.mean) ** (-1 / 6) * self._step.value

    def _new_probabilities(self) -> np.ndarray:
        """Return the probabilities of the kinds, in the order of the options.

        Before there is an archive, only the random walk has a positive one; before the first fit,
        Langevin steps have none.
        """
        if len(self._archive) < max(_LEAST[0] * len(self.moments.mean), _LEAST[1]):
            return np.array([float(kind == WALK) for kind in self.kinds])
        fitted = self._learner is not None and self._learner.learned is not None
        ready = np.array([kind != LANGEVIN or fitted for kind in self.kinds])
        jumps = np.where(ready, self._jumps, 0.0)
        return np.where(ready, _SHARE + (1 - ready.sum() * _SHARE) * (jumps / jumps.sum()), 0.0)

    def _kind(self, rng: np.random.Generator) -> int:
        left = 1.0
        for kind, probability in zip(self.kinds[:-1], self.probabilities[:-1], strict=True):
            if rng.random() < probability / left:
                return kind
            left -= probability
        return self.kinds[-1]

    def _independent(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        """Propose a point from a Student-t distribution.

        Its density is proportional to (1 + |L⁻¹(x - m)|² / ν)^(-(ν + d) / 2).
        """
        mean, root = self.moments.mean, self.moments.root
        normal, chi = rng.standard_normal(len(x)), rng.standard_normal(_DOF)
        white = normal * math.sqrt(_DOF / float(chi @ chi))
        depths = [math.log1p(float(z @ z) / _DOF) for z in (self.moments.whitened(x - mean), white)]
        return Proposal(
            mean + root @ white, 0.5 * (_DOF + len(x)) * (depths[1] - depths[0]), INDEPENDENCE
        )


def _kinds(moves: Any) -> tuple[str, ...]:
    expected = (
        f"expected a tuple of distinct names out of {', '.join(map(repr, KINDS))}, "
        "with 'random-walk' among them"
    )
    if not isinstance(moves, (tuple, list)) or not all(isinstance(move, str) for move in moves):
        raise TypeError(f"moves={moves!r}: {expected}")
    if not set(moves) <= set(KINDS) or len(set(moves)) < len(moves) or KINDS[0] not in moves:
        raise ValueError(f"moves={moves!r}: {expected}")
    return tuple(kind for kind in KINDS if kind in moves)
