"""The No-U-Turn sampler with a gradient of the user's.

Hoffman and Gelman (2014), "The No-U-Turn sampler: adaptively setting path lengths in Hamiltonian Monte Carlo", Journal
of Machine Learning Research 15, with the multinomial sampling of Betancourt (2017), "A conceptual introduction to
Hamiltonian Monte Carlo", appendix A. A path is doubled, forward or backward in time, until its ends approach each
other:

    (z₊ - z₋) · p₋ < 0    or    (z₊ - z₋) · p₊ < 0

for the whole path, or for its new half or one of the halves, quarters, ... of that, which is then dropped. The next
state is one of the path's points, with probability proportional to exp(-H), except that a new half is preferred to the
old one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kmc.checks import check_count, check_number
from kmc.mcmc.adapting import walkers_of
from kmc.mcmc.base import MOVES, STATS, SamplerSetup, Step
from kmc.mcmc.hmc_adaptation import Adaptation
from kmc.mcmc.parts import Composable, Gradient, last_of_warmup, own_warmup
from kmc.mcmc.user_gradient import GradientCheck, UserGradient, check_is_function
from kmc.mcmc.walkers import Walkers, start_spread

_MOVE = MOVES.index("nuts")
_WARMUP = 20  # one sweep for so many evaluations of the budget; warm-up has at most half of it
_DIVERGING = 1000.0  # error of the energy


@dataclass(frozen=True)
class NUTS(Composable):
    """The No-U-Turn sampler with your gradient: to see what a gradient would buy.

    Parameters
    ----------
    gradient : callable
        The gradient of the log-density that is sampled, at the unconstrained vector x (d,): an array of shape (d,). For
        a model with named parameters, that density includes priors and the log-Jacobian.
    target_acceptance : float
        The mean acceptance statistic to which the step size is tuned.
    max_depth : int
        Largest number of doublings of a path.

    Raises
    ------
    TypeError, ValueError
        An invalid option; a gradient of the wrong shape, when it is first called; noisy log-densities.

    Warns
    -----
    KmcWarning
        The gradient differs from differences of the log-density at the start points, two evaluations each.

    See Also
    --------
    kmc.HMC : paths of given length, one evaluation each.

    Notes
    -----
    Each point of a path costs a gradient and an evaluation: so many are a draw's ``n_steps`` and ``n_evaluations``.
    ``max_evaluations`` counts the evaluations; the result's attribute ``n_gradients`` counts the gradients. Those
    are evaluated in this process, one after the other, whatever the executor; points of different chains are evaluated
    together. The algorithm is that of [1]_ with the sampling of [2]_; step size and metric as in :class:`kmc.HMC`.

    References
    ----------
    .. [1] Hoffman and Gelman (2014), "The No-U-Turn sampler: adaptively setting path lengths in Hamiltonian Monte
       Carlo", Journal of Machine Learning Research 15.
    .. [2] Betancourt (2017), "A conceptual introduction to Hamiltonian Monte Carlo", arXiv:1701.02434.

    Examples
    --------
    >>> import kmc
    >>> sampler = kmc.NUTS(lambda x: -x)
    >>> idata = kmc.sample(lambda x: -0.5 * x @ x, dim=3, sampler=sampler, draws=200, seed=1, progress=False)
    >>> idata.attrs["sampler"]
    'nuts'
    """

    gradient: Callable[[np.ndarray], Any]
    target_acceptance: float = 0.8
    max_depth: int = 10

    name: ClassVar[str] = "nuts"
    sweep_cost: ClassVar[int] = 7  # paths of eight points, the first of which is known

    def __post_init__(self):
        check_is_function(self.gradient)
        check_number(self, "target_acceptance", 0, 1)
        check_count(self, "max_depth", 1)

    def with_gradient(self, wrap: Callable[[Gradient], Gradient]) -> NUTS:
        """The same with another gradient."""
        return replace(self, gradient=wrap(self.gradient))

    def _start(self, setup: SamplerSetup) -> NUTSState:
        if setup.noisy:
            raise ValueError("noisy=True: kmc.NUTS needs exact log-densities along its paths; kmc.HMC does not")
        return NUTSState(self, setup)


class NUTSState:
    """See :class:`kmc.mcmc.base.SamplerState`: a draw takes as many requests as the longest path has points."""

    def __init__(self, options: NUTS, setup: SamplerSetup):
        self.setup = setup
        self._max_depth = options.max_depth
        self._walkers, spread = walkers_of(setup), start_spread(setup.initial)
        self._warmup = last_of_warmup(setup, _WARMUP)
        self._gradient = UserGradient(options.gradient)
        self._adaptation = Adaptation(spread, options.target_acceptance, own_warmup(setup, _WARMUP))
        rng = np.random.default_rng(setup.seed.spawn(1)[0])
        x = self._walkers.x
        self._check: GradientCheck | None = None
        if setup.check_gradient:
            self._check = GradientCheck(self._gradient.at(x), x, spread=spread, rng=rng)
        self._gradient_error = float("nan")
        self._gradients: list[np.ndarray] = []  # of the states, once they are needed
        self._trees: list[Tree] = []
        self._sweep = self._n_evaluations = 0
        self.warming_up = True
        self._end_of_warmup()

    def propose(self) -> np.ndarray:
        """The next point of each path that is not finished, or what the check needs."""
        if self._check is not None:
            return self._check.points
        if not self._gradients:
            self._gradients = [self._gradient(x) for x in self._walkers.x]
        if not self._trees:
            self._trees = [self._new_tree(i) for i in range(len(self._walkers))]
        step = self._adaptation.step_size * self._adaptation.sd
        return np.array([tree.ask(self._walkers.rngs[i], step) for i, tree in self._growing()])

    def advance(self, values: np.ndarray) -> Step | None:
        """Take the points in; a step when all paths are finished."""
        self._n_evaluations += len(values)
        if self._check is not None:
            self._gradient_error, self._check = self._check.warn(values), None
            return None
        step = self._adaptation.step_size * self._adaptation.sd
        for (i, tree), value in zip(list(self._growing()), values, strict=True):
            x = tree.asked
            slope = self._gradient(x) if np.isfinite(value) else np.zeros_like(x)
            tree.tell(self._walkers.rngs[i], float(value), slope, step=step, max_depth=self._max_depth)
        if any(self._growing()):
            return None
        return self._finished()

    def end_warmup(self) -> None:
        """End warm-up with the next draw."""
        self._warmup = 0

    def finish_warmup(self) -> None:
        """End warm-up now."""
        self.warming_up = False
        self._adaptation.freeze()

    @property
    def walkers(self) -> Walkers:
        """One per chain."""
        return self._walkers

    def adopt(self, walkers: Walkers) -> None:
        """Move these chains from now on, of a density that may have changed."""
        self._walkers, self._gradients = walkers, []

    def report(self) -> dict[str, Any]:
        """Facts for the results' attributes."""
        return {
            "noisy": False,
            "n_refits": 0,
            "n_gradients": self._gradient.n_calls,
            "step_size": self._adaptation.step_size,
            "gradient_error": self._gradient_error,
        }

    def _growing(self) -> Iterator[tuple[int, Tree]]:
        return ((i, tree) for i, tree in enumerate(self._trees) if not tree.done)

    def _new_tree(self, i: int) -> Tree:
        x = self._walkers.x[i].copy()
        momentum = self._walkers.rngs[i].standard_normal(len(x))
        return Tree(Point(x, momentum, self._gradients[i], float(self._walkers.log_density[i])))

    def _finished(self) -> Step:
        walkers, trees, warmup = self._walkers, self._trees, self.warming_up
        stats: dict[str, np.ndarray] = {name: np.zeros(len(trees), kind) for name, kind in STATS.items()}
        for i, tree in enumerate(trees):
            chosen = tree.chosen
            stats["accepted"][i] = tree.moved
            stats["acceptance_rate"][i] = tree.acceptance
            stats["diverging"][i] = tree.diverging
            stats["n_steps"][i] = stats["n_evaluations"][i] = tree.n_points
            stats["energy"][i] = chosen.energy
            walkers.x[i], walkers.log_density[i] = chosen.x, chosen.log_density
            self._gradients[i] = chosen.gradient
        stats["step_size"][:] = self._adaptation.step_size
        stats["move"][:], stats["inverse_temperature"][:] = _MOVE, 1.0
        self._trees = []
        self._sweep += 1
        if warmup:
            self._adaptation.learn(walkers.x, float(stats["acceptance_rate"].mean()), self._sweep)
            self._end_of_warmup()
        return Step(warmup, walkers.x.copy(), walkers.log_density.copy(), stats)

    def _end_of_warmup(self) -> None:
        budget = self.setup.max_evaluations
        alone = self.setup.own_warmup is None
        spent = alone and budget is not None and self.setup.warmup is None and self._n_evaluations >= budget // 2
        if self._sweep >= self._warmup or spent:
            self.warming_up = False
            self._adaptation.freeze()


class Point(NamedTuple):
    """A point of a path."""

    x: np.ndarray  # (d,)
    momentum: np.ndarray  # (d,), in the coordinates x / sd
    gradient: np.ndarray  # (d,)
    log_density: float

    @property
    def energy(self) -> float:
        """H."""
        return 0.5 * float(self.momentum @ self.momentum) - self.log_density


class Tree:
    """A path that is doubled, one point at a time.

    Parameters
    ----------
    start : Point

    Attributes
    ----------
    chosen : Point
        The next state, if nothing more is added.
    asked : ndarray, shape (d,)
        Whose log-density and gradient :meth:`tell` expects.
    done, diverging, moved : bool
    n_points : int
        Points that were added, those of dropped halves included.
    """

    def __init__(self, start: Point):
        self.chosen = start
        self.asked = start.x
        self.done = self.diverging = self.moved = False
        self.n_points = 0
        self._ends = [start, start]  # earliest, latest
        self._energy, self._log_weight = start.energy, 0.0
        self._depth, self._sum_of_rates = 0, 0.0
        self._forward = True
        self._half: list[Point] = []  # the new half, in the order in which it grows
        self._half_chosen, self._half_log_weight = start, -math.inf
        self._momentum = start.momentum  # after half a kick

    @property
    def acceptance(self) -> float:
        """Mean of min(1, exp(H_0 - H)) over the points."""
        return self._sum_of_rates / max(self.n_points, 1)

    def ask(self, rng: np.random.Generator, step: np.ndarray) -> np.ndarray:
        """The next point's position (d,); ``step`` (d,) is ε times the standard deviations."""
        if not self._half:
            self._forward = bool(rng.random() < 0.5)
            self._half_log_weight = -math.inf
        last = self._half[-1] if self._half else self._ends[self._forward]
        signed = step if self._forward else -step
        with np.errstate(over="ignore", invalid="ignore"):
            self._momentum = last.momentum + 0.5 * signed * last.gradient
            self.asked = last.x + signed * self._momentum
        if not np.all(np.isfinite(self.asked)):  # of a gradient that is not finite: a point whose energy is infinite
            self.asked, self._momentum = last.x, np.full_like(last.x, np.inf)
        return self.asked

    def tell(
        self, rng: np.random.Generator, value: float, gradient: np.ndarray, *, step: np.ndarray, max_depth: int
    ) -> None:
        """Add the point that was asked for."""
        with np.errstate(over="ignore", invalid="ignore"):
            momentum = self._momentum + 0.5 * (step if self._forward else -step) * gradient
            point = Point(self.asked, momentum, gradient, value)
            log_weight = self._energy - point.energy
        self.n_points += 1
        if not log_weight > -_DIVERGING:  # also NaN
            self.done = self.diverging = True
            return
        self._sum_of_rates += math.exp(min(log_weight, 0.0))
        self._half.append(point)
        self._half_log_weight = float(np.logaddexp(self._half_log_weight, log_weight))
        if len(self._half) == 1 or rng.random() < math.exp(log_weight - self._half_log_weight):
            self._half_chosen = point
        size = 2
        while len(self._half) % size == 0:
            first = self._half[-size]
            if _turned(first, point, step) if self._forward else _turned(point, first, step):
                self.done = True
                return
            size *= 2
        if len(self._half) == 2**self._depth:
            self._join(rng, step, max_depth)

    def _join(self, rng: np.random.Generator, step: np.ndarray, max_depth: int) -> None:
        """The new half becomes part of the path."""
        if rng.random() < math.exp(min(self._half_log_weight - self._log_weight, 0.0)):
            self.chosen, self.moved = self._half_chosen, True
        self._log_weight = float(np.logaddexp(self._log_weight, self._half_log_weight))
        self._ends[self._forward] = self._half[-1]
        self._depth += 1
        self._half = []
        self.done = self._depth == max_depth or _turned(self._ends[0], self._ends[1], step)


def _turned(first: Point, last: Point, step: np.ndarray) -> bool:
    """Whether two points approach each other, of which the first is the earlier one."""
    way = (last.x - first.x) / step
    return bool(way @ first.momentum < 0 or way @ last.momentum < 0)
