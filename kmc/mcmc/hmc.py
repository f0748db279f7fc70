"""Hamiltonian Monte Carlo with a gradient of the user's: a yardstick for what gradients would buy.

In the coordinates z = x / sd, with momenta p ~ N(0, I), a path of leapfrog steps

    p <- p + ε/2 ∇log p(z),    z <- z + ε p,    p <- p + ε/2 ∇log p(z)

goes from (z, p) to (z', p'), and is accepted with probability min(1, p(z') / p(z) exp((|p|² - |p'|²) / 2)). Leapfrog
steps are reversible and preserve volume for any field in place of the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kmc.checks import check_number
from kmc.mcmc.adapting import AdaptingState, Moved, walkers_of, warmup_sweeps
from kmc.mcmc.base import MOVES, SamplerSetup, Step
from kmc.mcmc.hmc_adaptation import Adaptation
from kmc.mcmc.integrators import HOPELESS
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.parts import Composable, Gradient, own_warmup
from kmc.mcmc.user_gradient import GradientCheck, UserGradient, check_is_function, place_of
from kmc.mcmc.walkers import Walkers, start_spread

_MOVE = MOVES.index("hmc")
_MOST_STEPS = 500  # of a path
_SPREAD = 0.5  # of the length of a path, relative to its mean: paths of one length can be periodic


@dataclass(frozen=True)
class HMC(Composable):
    """Hamiltonian Monte Carlo with your gradient: to see what a gradient would buy.

    Parameters
    ----------
    gradient : callable
        The gradient of the log-density that is sampled, at the unconstrained vector x (d,): an array of shape (d,). For
        a model with named parameters, that density includes priors and the log-Jacobian.
    trajectory_length : float
        Mean length of a path, in standard deviations of the states. Lengths are uniform, within half of it.
    target_acceptance : float
        The mean acceptance probability to which the step size is tuned.

    Raises
    ------
    TypeError, ValueError
        An invalid option; a gradient of the wrong shape, when it is first called.

    Warns
    -----
    KmcWarning
        The gradient differs from differences of the log-density at the start points, two evaluations each.

    See Also
    --------
    kmc.NUTS : finds the length of its paths.
    kmc.KernelHMC : needs no gradient.

    Notes
    -----
    A path costs an evaluation of the log-density at its end, and a gradient per step. ``max_evaluations`` counts the
    evaluations; gradients are counted in the attribute ``n_gradients`` of the result, and a draw's ``n_steps`` is the
    number that it cost. Gradients are evaluated in this process, one after the other, whatever the executor. The step
    size is tuned by dual averaging and the metric, which is diagonal, by the variances of the states [1]_; both are
    fixed after warm-up.

    References
    ----------
    .. [1] Neal (2011), "MCMC using Hamiltonian dynamics", Handbook of Markov Chain Monte Carlo; Hoffman and Gelman
       (2014), "The No-U-Turn sampler", Journal of Machine Learning Research 15.

    Examples
    --------
    >>> import kmc
    >>> sampler = kmc.HMC(lambda x: -x)
    >>> idata = kmc.sample(lambda x: -0.5 * x @ x, dim=3, sampler=sampler, draws=500, seed=1, progress=False)
    >>> idata.attrs["n_gradients"] > idata.attrs["n_evaluations"]
    True
    """

    gradient: Callable[[np.ndarray], Any]
    trajectory_length: float = 1.5
    target_acceptance: float = 0.8

    name: ClassVar[str] = "hmc"
    warmup_share: ClassVar[int] = 4

    def __post_init__(self):
        check_is_function(self.gradient)
        check_number(self, "trajectory_length", 0)
        check_number(self, "target_acceptance", 0, 1)

    def _start(self, setup: SamplerSetup) -> HMCState:
        walkers, spread = walkers_of(setup), start_spread(setup.initial)
        warmup = warmup_sweeps(setup, self.warmup_share)
        gradient = UserGradient(self.gradient)
        proposer = PathProposer(
            gradient,
            Adaptation(spread, self.target_acceptance, own_warmup(setup, self.warmup_share)),
            length=self.trajectory_length,
            chains=setup.chains,
        )
        check = None
        if setup.check_gradient and not setup.noisy:
            check = GradientCheck(
                gradient.at(walkers.x),
                walkers.x,
                spread=spread,
                rng=np.random.default_rng(setup.seed.spawn(1)[0]),
            )
        return HMCState(setup, walkers, proposer, warmup=warmup, check=check)

    def with_gradient(self, wrap: Callable[[Gradient], Gradient]) -> HMC:
        """The same with another gradient."""
        return replace(self, gradient=wrap(self.gradient))


class HMCState(AdaptingState):
    """See :class:`kmc.mcmc.base.SamplerState`; it asks for the differences of the check first."""

    def __init__(
        self, setup: SamplerSetup, walkers: Walkers, proposer: PathProposer, *, warmup: int, check: GradientCheck | None
    ):
        super().__init__(setup, walkers, [proposer], freeze=True, warmup=warmup)
        self._check = check
        self._gradient_error = float("nan")
        self._paths = proposer
        if not self.warming_up:
            proposer.adaptation.freeze()

    def propose(self) -> np.ndarray:
        """The ends of paths, or what the check needs."""
        return super().propose() if self._check is None else self._check.points

    def advance(self, values: np.ndarray) -> Step | None:  # type: ignore[override]
        """Decide, and learn in warm-up."""
        if self._check is not None:
            self._gradient_error, self._check = self._check.warn(values), None
            return None
        step = super().advance(values)
        if not self.warming_up:
            self._paths.adaptation.freeze()
        return step

    def finish_warmup(self) -> None:
        """End warm-up now."""
        super().finish_warmup()
        self._paths.adaptation.freeze()

    def adopt(self, walkers: Walkers) -> None:
        """Move these chains from now on, of a density that may have changed."""
        super().adopt(walkers)
        self._paths.forget()

    def report(self) -> dict[str, Any]:
        """Facts for the results' attributes."""
        return {**super().report(), "gradient_error": self._gradient_error}


class PathProposer:
    """See :class:`kmc.mcmc.adapting.Proposer`."""

    def __init__(self, gradient: UserGradient, adaptation: Adaptation, *, length: float, chains: int):
        self.adaptation = adaptation
        self._gradient, self._length = gradient, length
        self._known: dict[str, Phase] = {}  # ends of the last paths, whose gradients need not be evaluated again
        self._n_known = 2 * chains

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        """The end of a path from x (d,); the length of the path does not depend on x."""
        step_size, sd = self.adaptation.step_size, self.adaptation.sd
        length = self._length * rng.uniform(1.0 - _SPREAD, 1.0 + _SPREAD)
        n_steps = min(max(round(length / step_size), 1), _MOST_STEPS)
        momentum = rng.standard_normal(len(x))
        end = leapfrog(self._gradient, self._from(x)._replace(momentum=momentum), step=step_size * sd, n_steps=n_steps)
        if end is None:
            return Proposal(x, 0.0, _MOVE, moved=False, n_steps=n_steps, step_size=step_size, diverging=True)
        self._keep(end)
        log_ratio = 0.5 * float(momentum @ momentum - end.momentum @ end.momentum)
        return Proposal(end.x, log_ratio, _MOVE, n_steps=n_steps, step_size=step_size)

    def learn(self, moved: Moved, sweep: int) -> None:
        """Adapt step size and metric."""
        self.adaptation.learn(moved.position, float(moved.stats["acceptance_rate"].mean()), sweep)

    def forget(self) -> None:
        """Evaluate all gradients anew."""
        self._known = {}

    def facts(self) -> dict[str, Any]:
        """Facts for the results' attributes."""
        return {"n_gradients": self._gradient.n_calls, "step_size": self.adaptation.step_size}

    def _from(self, x: np.ndarray) -> Phase:
        phase = self._known.get(place_of(x))
        if phase is None:
            phase = Phase(x.copy(), np.zeros_like(x), self._gradient(x))
        self._keep(phase)
        return phase

    def _keep(self, phase: Phase) -> None:
        """As the last one; the first one is forgotten, if there are too many."""
        place = place_of(phase.x)
        self._known.pop(place, None)
        self._known[place] = phase
        if len(self._known) > self._n_known:
            del self._known[next(iter(self._known))]


class Phase(NamedTuple):
    """A point of a path."""

    x: np.ndarray  # (d,)
    momentum: np.ndarray  # (d,)
    gradient: np.ndarray  # (d,)


def leapfrog(
    gradient: Callable[[np.ndarray], np.ndarray], start: Phase, *, step: np.ndarray, n_steps: int
) -> Phase | None:
    """So many leapfrog steps; ``step`` (d,) is ε times the standard deviations, negative to go back.

    None if the kinetic energy becomes too large to be useful: it would be on the reversed path as well.
    """
    x, momentum, slope = start
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(n_steps):
            momentum = momentum + 0.5 * step * slope
            if not momentum @ momentum < 2.0 * HOPELESS:  # also NaN; before the drift, so that x stays finite
                return None
            x = x + step * momentum
            slope = gradient(x)
            momentum = momentum + 0.5 * step * slope
    return Phase(x, momentum, slope) if math.isfinite(float(momentum @ momentum)) else None
