"""A log-density s of x that is known in coordinates z: x -> u by a transport, u -> z by a whitening."""

from __future__ import annotations

import numpy as np

from kmc.surrogates import jit_state, wall_jit_state
from kmc.surrogates.jit_state import SurrogateJitState
from kmc.surrogates.transport import Identity, Transport
from kmc.surrogates.wall_jit_state import WalledState
from kmc.surrogates.whitening import Whitening


class InCoordinates:
    """Base of classes with these fields.

    Attributes
    ----------
    whitening : Whitening
    jit_state : SurrogateJitState or WalledState
        log s of u as a function of z, for jitted loops; with its wall, if it has one.
    transport : Transport
    """

    whitening: Whitening
    jit_state: SurrogateJitState | WalledState
    transport: Transport

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """log s at the rows of x (n, d), shape (n,)."""
        smooth, wall = self.parts(self.coordinates(x))
        return smooth + wall + self.transport.log_jacobian(x)

    def parts(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        """The smooth surrogate in its own coordinates z (n, d), and the term of a wall, (n,) each."""
        if isinstance(self.jit_state, WalledState):
            return jit_state.values(self.jit_state.smooth, z), wall_jit_state.log_chances(self.jit_state.wall, z)
        return jit_state.values(self.jit_state, z), 0.0

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """z at the rows of x (n, d)."""
        return np.ascontiguousarray(self.whitening(self.transport(x)))

    def back(self, z: np.ndarray) -> np.ndarray:
        """The rows of x that have the coordinates z (n, d)."""
        return self.transport.back(self.whitening.back(z))

    # A product with many rows at once may be rounded differently. Chains that move together have the same states as
    # chains that move one by one, so theirs are products of one row each.

    def coordinates_of_each(self, x: np.ndarray) -> np.ndarray:
        """z at the rows of x (n, d): to the bit what they are one by one."""
        if isinstance(self.transport, Identity):
            return np.ascontiguousarray(self.whitening(x[:, None])[:, 0])
        return np.vstack([self.coordinates(row[None]) for row in x])

    def back_of_each(self, z: np.ndarray) -> np.ndarray:
        """The rows of x that have the coordinates z (n, d): to the bit what they are one by one."""
        if isinstance(self.transport, Identity):
            return self.whitening.back(z[:, None])[:, 0]
        return np.vstack([self.back(row[None]) for row in z])

    def log_jacobians_of_each(self, x: np.ndarray, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log |du/dx| at the rows of x (n, d) and of other positions (n, d): to the bit what they are one by one."""
        if isinstance(self.transport, Identity):
            return np.zeros(len(x)), np.zeros(len(x))
        pairs = [self.transport.log_jacobian(np.stack(pair)) for pair in zip(x, position, strict=True)]
        now, then = np.array(pairs).T
        return now, then
