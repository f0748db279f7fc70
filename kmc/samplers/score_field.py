"""A score estimator as a gradient field in whitened coordinates, and leapfrog paths through it.

A kick shifts the momentum by a function of the position, a drift shifts the position by a function
of the momentum: both preserve volume, and half a kick, a drift and half a kick are undone by the
same three with the momentum reversed. None of that requires that the field is a gradient, or that
it is near the truth.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numba
import numpy as np

from kmc import jitted
from kmc.njit import njit
from kmc.samplers.base import MOVES
from kmc.samplers.leapfrog import HOPELESS, leapfrog
from kmc.samplers.metropolis import Proposal
from kmc.samplers.walkers import BEST_SCALE
from kmc.surrogate.coordinates.whitening import Whitening

_STEP = 1e-4  # of differences of the surrogate's gradient, in white coordinates


class GradientEstimator(Protocol):
    """The interface of estimators for :class:`kmc.ScoreHMC`; all those in ``kmc.scores`` have it.

    ``fit`` may lack ``weights``: it then gets rows as often as the chains visited them. It may lack
    ``values``, which only ``ScoreHMC(values=True)`` passes. An estimator that is also a
    :class:`JittedEstimator` has faster paths.
    """

    def fit(self, X: np.ndarray, *, values: Any = None, weights: Any = None) -> Any:
        """Fit to points (n, d), log-densities (n,) if passed, and weights (n,)."""

    def gradient(self, X: np.ndarray) -> np.ndarray:
        """Return the estimated gradients (n, d) of the log-density at the rows of X (n, d)."""


@runtime_checkable
class JittedEstimator(Protocol):
    """An estimator whose fitted function jitted code can evaluate; most in ``kmc.scores`` are."""

    def jit_state(self) -> Any:
        """Return the state of the function, in the coordinates of ``gradient``.

        Its type is registered with :func:`kmc.jitted.register`. None if this fit has no such form.
        """


@runtime_checkable
class ChoosingEstimator(Protocol):
    """An estimator that chooses some of its parameters at each fit."""

    def fix_choices(self) -> Any:
        """Use one fixed choice from now on."""


class Path(NamedTuple):
    """The end of a leapfrog path."""

    z: np.ndarray  # (d,)
    momentum: np.ndarray  # (d,)
    energy: float  # on the surrogate; NaN if only its gradient is known
    diverging: bool


@dataclass(frozen=True)
class Field:
    """The gradient field of a fitted estimator in coordinates z where momenta are standard normal.

    Attributes
    ----------
    estimator : GradientEstimator or None
        None: the function is known by ``state`` only.
    whitening : Whitening
        From the target's coordinates x to z.
    in_z : bool
        Whether the estimator was fitted to z; else to x.
    state : Affine or None
        The fitted function in z, for jitted paths.
    """

    estimator: GradientEstimator | None
    whitening: Whitening
    in_z: bool
    state: Affine | None = None

    @classmethod
    def of(cls, estimator: GradientEstimator, whitening: Whitening, in_z: bool) -> Field:
        """Return the field of an estimator, jitted if it can be.

        Raise a TypeError for a ``jit_state()`` of unknown type.
        """
        inner = _registered(estimator)
        if inner is None:
            return cls(estimator, whitening, in_z)
        origin, root = whitening.origin, np.ascontiguousarray(whitening.inverse)
        if in_z:
            # one type of state, compiled once
            origin, root = np.zeros_like(origin), np.eye(len(origin))
        return cls(estimator, whitening, in_z, Affine(inner, origin, root))

    def gradient(self, z: np.ndarray) -> np.ndarray:
        """Return the field at z (d,), shape (d,)."""
        if self.estimator is None:
            out = np.empty_like(z)
            jitted.value_and_gradient(self.state, z, out, jitted.workspace(self.state))
            return out
        if self.in_z:
            return np.asarray(self.estimator.gradient(z[None]))[0]
        return (
            np.asarray(self.estimator.gradient(self.whitening.back(z[None])))[0]
            @ self.whitening.inverse
        )

    def log_density(self, x: np.ndarray) -> np.ndarray | None:
        """Return the estimated log-density at points x (n, d) of the target, up to a constant.

        It is None if the estimator has none.
        """
        evaluate = getattr(self.estimator, "log_density", None)
        if evaluate is None:
            return None
        try:
            return np.asarray(evaluate(np.ascontiguousarray(self.whitening(x)) if self.in_z else x))
        except ValueError:  # as of a network whose gradient belongs to no density
            return None

    def hessian(self, z: np.ndarray) -> np.ndarray:
        """Return the Jacobian of the field at z (d,), symmetric (d, d).

        It is the estimator's, or by differences of the surrogate's gradient.

        Any function of z would do: what proposals make of it is corrected by their densities.
        """
        if self.estimator is None:
            h = _STEP * np.eye(len(z))
            rows = np.array([self.gradient(z + step) - self.gradient(z - step) for step in h]) / (
                2.0 * _STEP
            )
            return 0.5 * (rows + rows.T)
        estimator: Any = self.estimator
        if self.in_z:
            return np.asarray(estimator.hessian(z[None]))[0]
        inverse = self.whitening.inverse
        return inverse.T @ np.asarray(estimator.hessian(self.whitening.back(z[None])))[0] @ inverse

    def path(self, z: np.ndarray, momentum: np.ndarray, *, step_size: float, n_steps: int) -> Path:
        """Follow a leapfrog path from z (d,) with a momentum (d,).

        Whether it diverges is the same for the reversed path.
        """
        if self.state is None:
            return plain_path(self.gradient, z, momentum, step_size=step_size, n_steps=n_steps)
        z, momentum = z.copy(), momentum.copy()
        kind: Any = type(self.state.inner)
        integrate = _jitted_path(kind)
        energy, spread = integrate(self.state, 1.0, z, momentum, step_size, n_steps)
        return Path(z, momentum, energy if spread < np.inf else np.nan, not spread < np.inf)


def plain_path(
    gradient: Callable[[np.ndarray], np.ndarray],
    z: np.ndarray,
    momentum: np.ndarray,
    *,
    step_size: float,
    n_steps: int,
) -> Path:
    """Follow a leapfrog path through any function z (d,) -> (d,).

    A path diverges if its kinetic energy is too large to be useful.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        diverging = _hopeless(momentum)
        kick = 0.5 * step_size * gradient(z)
        for _ in range(n_steps):
            momentum = momentum + kick
            if _hopeless(momentum):  # before the drift, so that z stays finite
                return Path(z, momentum, np.nan, True)
            z = z + step_size * momentum
            kick = 0.5 * step_size * gradient(z)
            momentum = momentum + kick
        return Path(z, momentum, np.nan, diverging or _hopeless(momentum))


def _hopeless(momentum: np.ndarray) -> bool:
    return bool(not 0.5 * momentum @ momentum < HOPELESS)  # also NaN


@cache
def _jitted_path(kind: type) -> Callable[..., Any]:
    """Return the jitted path through states of this type, with a file of its own in numba's cache.

    numba cannot read a file with a type that no longer exists, after a change of kmc or of the
    script that defined it. In a common file this would affect all other types, too; hence also the
    leapfrog below.
    """

    def path(state, power, z, momentum, step_size, n_steps):
        gradient, normal = np.empty(z.size), np.empty(z.size)
        work = jitted.workspace(state)
        value = jitted.value_and_gradient(state, z, gradient, work)
        _, energy, spread = _leapfrog(
            state, power, z, momentum, gradient, value, step_size, n_steps, normal, work
        )
        return energy, spread

    path.__qualname__ = "path_" + re.sub(r"\W", "_", f"{kind.__module__}.{kind.__qualname__}")
    return njit()(path)


# not cached separately: it is in the file of the path
_leapfrog = numba.njit(inspect.unwrap(leapfrog))


def _registered(estimator: Any) -> Any:
    """Return the estimator's state for jitted loops, or None if it has none."""
    state = estimator.jit_state() if isinstance(estimator, JittedEstimator) else None
    if state is not None:
        try:
            jitted.workspace(state)
        except KeyError:
            raise TypeError(
                f"{type(estimator).__name__}.jit_state() returned a {type(state).__name__}: "
                "expected None, or a NamedTuple whose type is known to kmc.jitted.register"
            ) from None
    return state


# The proposals of score HMC: leapfrog paths through a score estimator's gradient, and random-walk
# steps.


# Set by hand.
LEAST_STEPS, MOST_STEPS = 5, 20  # range of the leapfrog steps of a path, uniform
STEP_JITTER = 0.7, 1.0  # range of the factor on the step size, uniform
_DECADES = 1.0  # range of this scale, in decades

PATH, WALK = MOVES.index("surrogate"), MOVES.index("random-walk")


class ScoreMixture(NamedTuple):
    """How walkers move until the mixture is replaced."""

    field: Field | None  # None before the first fit: a random walk only
    whitening: Whitening  # gives the covariance of the random walk
    walk_probability: float  # probability of a random-walk move
    step_size: float  # largest step of leapfrog, in whitened coordinates

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        """Propose a point from x (d,); the move's kind, length and step size do not depend on x."""
        if self.field is None or rng.random() < self.walk_probability:
            return self._walk(rng, x)
        n_steps = int(rng.integers(LEAST_STEPS, MOST_STEPS + 1))
        step_size = self.step_size * rng.uniform(*STEP_JITTER)
        momentum = rng.standard_normal(len(x))
        path = self.field.path(
            self.field.whitening(x[None])[0], momentum, step_size=step_size, n_steps=n_steps
        )
        if path.diverging:
            return Proposal(
                x, 0.0, PATH, moved=False, n_steps=n_steps, step_size=step_size, diverging=True
            )
        return Proposal(
            position=self.field.whitening.back(path.z[None])[0],
            log_ratio=0.5 * float(momentum @ momentum - path.momentum @ path.momentum),
            move=PATH,
            n_steps=n_steps,
            step_size=step_size,
            energy=path.energy,
        )

    def _walk(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        """Propose a random-walk step; scales range over a decade, so that some suit any target."""
        scale = BEST_SCALE / np.sqrt(len(x)) * 10.0 ** -(_DECADES * rng.random())
        step = self.whitening.inverse @ rng.standard_normal(len(x))
        return Proposal(x + scale * step, 0.0, WALK, step_size=scale)


class Affine(NamedTuple):
    """The state of h(z) = f(origin + root z), made from the state of f; see :mod:`kmc.jitted`.

    Its functions are not cached separately, but with the loops that use them.
    """

    inner: Any  # a registered state
    origin: np.ndarray  # (d,)
    root: np.ndarray  # (d, d)


@numba.njit
def _affine_workspace(state):
    """Return scratch arrays for :func:`_affine_value_and_gradient`."""
    d = state.origin.size
    return np.empty(d), np.empty(d), jitted.workspace(state.inner)


@numba.njit
def _affine_value_and_gradient(state, z, gradient, work):
    """Return h(z), and write its gradient, rootᵀ ∇f, into ``gradient`` (d,)."""
    x, inner_gradient, inner_work = work
    d = z.size
    for i in range(d):
        total = state.origin[i]
        for j in range(d):
            total += state.root[i, j] * z[j]
        x[i] = total
    value = jitted.value_and_gradient(state.inner, x, inner_gradient, inner_work)
    for j in range(d):
        total = 0.0
        for i in range(d):
            total += state.root[i, j] * inner_gradient[i]
        gradient[j] = total
    return value


jitted.register(Affine, _affine_workspace, _affine_value_and_gradient)
