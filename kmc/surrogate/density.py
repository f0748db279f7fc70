"""A density in learned coordinates.

Frozen, it can be evaluated and drawn from without the data of the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from kmc.surrogate import jit_state
from kmc.surrogate.coordinates.bends import Bend
from kmc.surrogate.coordinates.funnels import Funnel
from kmc.surrogate.coordinates.noncentered import NonCentered
from kmc.surrogate.coordinates.tails import HeavyTails
from kmc.surrogate.coordinates.transport import Identity, Transport
from kmc.surrogate.coordinates.walls import log_chances
from kmc.surrogate.coordinates.whitening import Whitening
from kmc.surrogate.emulator.jit_state import EmulatorJitState, check_emulator_state
from kmc.surrogate.jit_state import SurrogateJitState, check_jit_state
from kmc.surrogate.known import check_arrays

JitState = SurrogateJitState | EmulatorJitState
"""The states of the functions that a surrogate's log-density can be."""

_CHECKS: dict[type, Callable[[Any, int], None]] = {
    SurrogateJitState: check_jit_state,
    EmulatorJitState: check_emulator_state,
}


class InCoordinates:
    """A log-density s of x, known in coordinates z: x -> u by a transport, u -> z by a whitening.

    It is the base of classes with these fields.

    Attributes
    ----------
    whitening : Whitening
    jit_state : SurrogateJitState or EmulatorJitState
        log s of u as a function of z, for jitted loops; with its wall, if it has one.
    transport : Transport
    """

    whitening: Whitening
    jit_state: JitState
    transport: Transport

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return log s at the rows of x (n, d), shape (n,)."""
        smooth, wall = self.parts(self.coordinates(x))
        return smooth + wall + self.transport.log_jacobian(x)

    def parts(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        """Return the smooth surrogate (n,) at coordinates z (n, d) and a wall's term, (n,) or 0."""
        smooth, wall = jit_state.values(self.jit_state, z), self.jit_state.wall
        return smooth, log_chances(wall, z) if len(wall.bias) else 0.0

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Return z at the rows of x (n, d)."""
        return np.ascontiguousarray(self.whitening(self.transport(x)))

    def back(self, z: np.ndarray) -> np.ndarray:
        """Return the rows of x that have the coordinates z (n, d)."""
        return self.transport.back(self.whitening.back(z))


@dataclass(frozen=True, eq=False)
class Component(InCoordinates):
    """One surrogate."""

    transport: Transport
    whitening: Whitening
    jit_state: JitState

    @classmethod
    def of(cls, surrogate: InCoordinates) -> Component:
        """Return a surrogate without the data of its fit."""
        return cls(surrogate.transport, surrogate.whitening, surrogate.jit_state)

    def check(self, dim: int) -> None:
        """Raise a ValueError unless the fields are those of a surrogate in ``dim`` dimensions.

        Compiled loops do not check indices, so a component from a file has to be checked before it
        is evaluated.
        """
        check_state = _CHECKS.get(type(self.jit_state))
        if check_state is None or type(self.whitening) is not Whitening:
            raise ValueError(f"a surrogate of type {type(self.jit_state).__name__}")
        check_state(self.jit_state, dim)
        arrays = {"origin": (dim,), "matrix": (dim, dim), "inverse": (dim, dim)}
        check_arrays(self.whitening, arrays)
        if type(self.transport) not in (Identity, Bend, Funnel, HeavyTails, NonCentered):
            raise ValueError(f"a transport of type {type(self.transport).__name__}")
        if type(self.transport) is NonCentered:
            self.transport.check(dim)
        if type(self.transport) is HeavyTails:
            check_arrays(self.transport, {**arrays, "dofs": (1 if self.transport.radial else dim,)})
        if type(self.transport) is Bend:
            check_arrays(self.transport, dict.fromkeys(("origin", "direction", "bending"), (dim,)))
        if type(self.transport) is Funnel:
            check_arrays(self.transport, {"centers": (dim,), "slopes": (dim,)})
            if not (0 <= self.transport.driver < dim and 0 <= self.transport.location < dim):
                raise ValueError(
                    f"a funnel along {self.transport.driver} and {self.transport.location} of {dim}"
                )

    @property
    def log_volume(self) -> float:
        """log |du/dz|."""
        return float(np.linalg.slogdet(self.whitening.inverse)[1])


@dataclass(frozen=True, eq=False)
class Density:
    """A frozen surrogate s, or the sum of those of several modes."""

    components: tuple[Component, ...]

    @classmethod
    def of(cls, surrogates: Sequence[InCoordinates]) -> Density:
        """Return the sum of surrogates, without the data of their fits."""
        return cls(tuple(map(Component.of, surrogates)))

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.components[0].whitening.origin)

    def check(self, dim: int) -> None:
        """Raise a ValueError unless all components can be evaluated in ``dim`` dimensions."""
        if not self.components or any(
            type(component) is not Component for component in self.components
        ):
            raise ValueError("a density without components")
        for component in self.components:
            component.check(dim)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return log s at the rows of x (n, d), shape (n,); it is not normalized."""
        return logsumexp([component.log_density(x) for component in self.components], axis=0)
