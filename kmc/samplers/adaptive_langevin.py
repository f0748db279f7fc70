"""Kernel adaptive Langevin: steps along a learned gradient, without a gradient of the target.

In coordinates z in which the states of the chains are white, with the gradient g of a learned
log-density,

    z' = z + ε²/2 g(z) + ε ξ,    ξ ~ N(0, I),

accepted with the densities of both directions. This is one leapfrog step with the momentum ξ, which
is reversible and preserves volume for any g: the ratio of the densities is exp((|ξ|² - |ξ'|²) / 2)
with the momentum ξ' at its end.

With a covariance C(z) that depends on the position, from the Hessian of the learned log-density,

    z' = z + ε²/2 C(z) g(z) + ε C(z)^½ ξ,

and with the ξ' that leads back, the ratio is |C(z)|^½ / |C(z')|^½ exp((|ξ|² - |ξ'|²) / 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kmc.checks import check_choice, check_count, check_number
from kmc.samplers.adapting import (
    AdaptingState,
    DensityLearner,
    Learned,
    Moments,
    Moved,
    Online,
    RobbinsMonro,
    walkers_of,
    warmup_sweeps,
)
from kmc.samplers.ask_tell import Startable
from kmc.samplers.base import MOVES, SamplerSetup
from kmc.samplers.metropolis import Proposal
from kmc.samplers.score_field import Field, GradientEstimator
from kmc.samplers.score_fitter import check_estimator, check_schedule
from kmc.samplers.walkers import BEST_SCALE, start_spread

LANGEVIN, WALK = MOVES.index("langevin"), MOVES.index("random-walk")
_WARMUP_SHARE = 4  # warm-up has one in so many evaluations of the budget
BEST_STEP = 1.65  # of a Langevin step on a Gaussian, over d^(1/6) (Roberts and Rosenthal 1998)
_WALK_ACCEPTANCE = 0.234
_CURVATURES = 0.1, 10.0  # range of the eigenvalues of a metric, in white coordinates; set by hand


@dataclass(frozen=True)
class AdaptiveLangevin(Startable):
    """Langevin proposals along a learned gradient, preconditioned by the learned covariance.

    Parameters
    ----------
    estimator : estimator, optional
        An object with ``fit(X)`` and ``gradient(X)``, such as ``kmc.scores.NystromKEF()``: kernel
        adaptive Langevin [1]_. It is copied, and fitted to past states. By default the gradient is
        that of the surrogate of :class:`kmc.KernelHMC`, fitted to all evaluated log-densities.
    adaptation : {"vanishing", "freeze"}
        "vanishing": refits at sweeps that are fixed in advance and ever rarer, and step sizes of
        the recursions that tend to zero. "freeze": the proposals do not change after warm-up.
    target_acceptance : float
        The acceptance rate to which the step size is tuned.
    random_walk_probability : float
        Probability that a proposal is a random-walk step: far from the states the gradient may be
        useless.
    max_states : int
        Largest number of past states to which an estimator is fitted.
    covariance : {"states", "hessian"}
        "states": that of the past states, everywhere. "hessian": at each position the inverse of
        the learned log-density's negative Hessian, with eigenvalues bounded to [0.1, 10] times the
        states' covariance and their signs dropped [3]_. For estimators with a method ``hessian``,
        and for the default.
    schedule : float, optional
        By default the estimator is fitted anew at sweeps 30, 42, 59, ..., to at most ``max_states``
        states. A number α in (0, 1]: after warm-up it takes in all further states by
        ``partial_fit``, at sweep t with the probability t^-α, as in [1]_; 1 is 1/t. For estimators
        with that method. The work per state does not grow with their number for
        ``kmc.scores.FiniteKEF``; for ``LiteKEF`` and ``NystromKEF``, which are fitted anew to all
        states whenever these have doubled, only on average. Those also keep the states.

    Raises
    ------
    TypeError, ValueError
        An invalid option.

    See Also
    --------
    kmc.ScoreHMC : longer paths along the same gradient.

    Notes
    -----
    A proposal is accepted by the true density and the densities of both directions [2]_, so that a
    wrong gradient makes the sampler slow, never wrong. Until the first fit all proposals are
    random-walk steps with a learned covariance.

    References
    ----------
    .. [1] Sejdinovic, Strathmann, Lomeli Garcia, Andrieu and Gretton (2014), "Kernel adaptive
       Metropolis-Hastings", ICML; Strathmann, Sejdinovic, Livingstone, Szabó and Gretton (2015),
       "Gradient-free Hamiltonian Monte Carlo with efficient kernel exponential families", NIPS.
    .. [2] Roberts and Tweedie (1996), "Exponential convergence of Langevin distributions and their
       discrete approximations", Bernoulli 2.
    .. [3] Girolami and Calderhead (2011), "Riemann manifold Langevin and Hamiltonian Monte Carlo
       methods", Journal of the Royal Statistical Society B 73, the simplified algorithm of section
       5; Betancourt (2013), "A general metric for Riemannian manifold Hamiltonian Monte Carlo",
       Geometric Science of Information.

    Examples
    --------
    >>> import kmc
    >>> kmc.AdaptiveLangevin(kmc.scores.NystromKEF(n_basis=50)).target_acceptance
    0.574
    """

    estimator: GradientEstimator | None = None
    adaptation: str = "vanishing"
    target_acceptance: float = 0.574
    random_walk_probability: float = 0.1
    max_states: int = 1000
    covariance: str = "states"
    schedule: float | None = None

    name: ClassVar[str] = "adaptive-langevin"

    def __post_init__(self):
        check_choice(self, "adaptation", ("vanishing", "freeze"))
        check_number(self, "target_acceptance", 0, 1)
        # never 0: a wrong gradient could trap a chain
        check_number(self, "random_walk_probability", 0, 1, "(]")
        check_count(self, "max_states", 10)
        check_choice(self, "covariance", ("states", "hessian"))
        if self.estimator is not None:
            check_estimator(self.estimator, False)
            if self.covariance == "hessian" and not callable(
                getattr(self.estimator, "hessian", None)
            ):
                raise TypeError(
                    f"covariance='hessian', but estimator={self.estimator!r} has no method "
                    "hessian: use kmc.scores.FiniteKEF() or another one with it, the default "
                    "surrogate, or covariance='states'"
                )
        check_schedule(self)

    def _start(self, setup: SamplerSetup) -> AdaptingState:
        walkers = walkers_of(setup)
        moments = Moments(walkers.x.mean(axis=0), start_spread(setup.initial))
        warmup = warmup_sweeps(setup, _WARMUP_SHARE)
        learner = DensityLearner(
            self.estimator,
            dim=setup.dim,
            max_states=self.max_states,
            noisy=setup.noisy,
            rng=np.random.default_rng(setup.seed.spawn(1)[0]),
            online=None if self.schedule is None else Online(warmup, self.schedule),
        )
        proposer = LangevinProposer(self, moments, learner)
        return AdaptingState(
            setup, walkers, [proposer], freeze=self.adaptation == "freeze", warmup=warmup
        )


class LangevinProposer:
    """See :class:`kmc.samplers.adapting.Proposer`."""

    def __init__(self, options: AdaptiveLangevin, moments: Moments, learner: DensityLearner):
        self._walk_probability = options.random_walk_probability
        self._local_covariance = options.covariance == "hessian"
        self._moments, self._learner = moments, learner
        self._walk, self._step = (
            RobbinsMonro(_WALK_ACCEPTANCE),
            RobbinsMonro(options.target_acceptance),
        )

    @property
    def step_size(self) -> float:
        """ε, in white coordinates."""
        return BEST_STEP * len(self._moments.mean) ** (-1 / 6) * self._step.value

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        """Propose a point from x (d,); the kind of move does not depend on x."""
        learned = self._learner.learned
        if learned is None or rng.random() < self._walk_probability:
            scale = BEST_SCALE / math.sqrt(len(x)) * self._walk.value
            return Proposal(
                x + scale * (self._moments.root @ rng.standard_normal(len(x))),
                0.0,
                WALK,
                step_size=scale,
            )
        noise = rng.standard_normal(len(x))
        if self._local_covariance:
            return riemannian(learned, x, noise, step_size=self.step_size)
        return langevin(learned, x, noise, step_size=self.step_size)

    def learn(self, moved: Moved, sweep: int) -> None:
        """Adapt the scales and the covariance, and refit if it is due."""
        kinds, rates = moved.stats["move"], moved.stats["acceptance_rate"]
        for kind, scale in ((WALK, self._walk), (LANGEVIN, self._step)):
            if np.any(mine := kinds == kind):
                scale.learn(float(rates[mine].mean()), sweep, float(mine.mean()))
        self._moments.learn(moved.position, sweep)
        self._learner.learn(moved, sweep)

    def facts(self) -> dict[str, Any]:
        """Return facts for the results' attributes."""
        return {**self._learner.facts(), "langevin_step_size": self.step_size}


def langevin(learned: Learned, x: np.ndarray, noise: np.ndarray, *, step_size: float) -> Proposal:
    """Propose a Langevin step from x (d,) with standard normal noise (d,)."""
    field = learned.field
    path = field.path(field.whitening(x[None])[0], noise, step_size=step_size, n_steps=1)
    if path.diverging:
        return Proposal(
            x, 0.0, LANGEVIN, moved=False, n_steps=1, step_size=step_size, diverging=True
        )
    return Proposal(
        position=field.whitening.back(path.z[None])[0],
        log_ratio=0.5 * float(noise @ noise - path.momentum @ path.momentum),
        move=LANGEVIN,
        n_steps=1,
        step_size=step_size,
    )


def riemannian(learned: Learned, x: np.ndarray, noise: np.ndarray, *, step_size: float) -> Proposal:
    """Propose a step from x (d,) with the position's covariance and standard normal noise (d,)."""
    field = learned.field
    z = field.whitening(x[None])[0]
    here = _Local.of(field, z)
    end = here.mean(step_size) + step_size * here.root @ noise
    ratio = math.nan
    if np.all(np.isfinite(end)):
        there = _Local.of(field, end)
        back = np.linalg.solve(there.root, z - there.mean(step_size)) / step_size
        ratio = here.log_det - there.log_det + 0.5 * float(noise @ noise - back @ back)
    if not math.isfinite(ratio):  # no step leads back from there, either
        return Proposal(
            x, 0.0, LANGEVIN, moved=False, n_steps=1, step_size=step_size, diverging=True
        )
    return Proposal(
        field.whitening.back(end[None])[0], ratio, LANGEVIN, n_steps=1, step_size=step_size
    )


class _Local(NamedTuple):
    """What a step makes of a position."""

    z: np.ndarray
    gradient: np.ndarray
    root: np.ndarray  # C(z)^½, symmetric
    log_det: float  # of the root

    @classmethod
    def of(cls, field: Field, z: np.ndarray) -> _Local:
        hessian = field.hessian(z)
        curvatures, vectors = np.linalg.eigh(
            hessian if np.all(np.isfinite(hessian)) else np.eye(len(z))
        )
        scales = np.clip(np.abs(curvatures), *_CURVATURES) ** -0.5
        return cls(
            z, field.gradient(z), (vectors * scales) @ vectors.T, float(np.log(scales).sum())
        )

    def mean(self, step_size: float) -> np.ndarray:
        """Return the mean (d,) of the step from z."""
        return self.z + 0.5 * step_size**2 * self.root @ (self.root @ self.gradient)
