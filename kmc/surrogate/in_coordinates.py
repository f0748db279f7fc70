"""A log-density s of x that is known in coordinates z: x -> u by a transport, u -> z by a whitening."""

from __future__ import annotations

import numpy as np

from kmc.surrogate import jit_state, wall_jit_state
from kmc.surrogate.jit_state import SurrogateJitState
from kmc.surrogate.transport import Transport
from kmc.surrogate.whitening import Whitening


class InCoordinates:
    """Base of classes with these fields.

    Attributes
    ----------
    whitening : Whitening
    jit_state : SurrogateJitState
        log s of u as a function of z, for jitted loops; with its wall, if it has one.
    transport : Transport
    """

    whitening: Whitening
    jit_state: SurrogateJitState
    transport: Transport

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """log s at the rows of x (n, d), shape (n,)."""
        smooth, wall = self.parts(self.coordinates(x))
        return smooth + wall + self.transport.log_jacobian(x)

    def parts(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        """The smooth surrogate in its own coordinates z (n, d), and the term of a wall, (n,) each."""
        smooth, wall = jit_state.values(self.jit_state, z), self.jit_state.wall
        return smooth, wall_jit_state.log_chances(wall, z) if len(wall.bias) else 0.0

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """z at the rows of x (n, d)."""
        return np.ascontiguousarray(self.whitening(self.transport(x)))

    def back(self, z: np.ndarray) -> np.ndarray:
        """The rows of x that have the coordinates z (n, d)."""
        return self.transport.back(self.whitening.back(z))
