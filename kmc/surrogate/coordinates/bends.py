"""Coordinates in which a bent ridge is straight.

Where the data determine a nonlinear combination of parameters, the posterior lies along a curve. A kernel knows a
narrow curve only as far as there are values along it, and calls the density low beyond, so that chains never go there.
Sheared by a quadratic function of one direction, such a posterior is close to a normal one, and goes on as it should.
It is a transport map (Parno and Marzouk 2018, "Transport map accelerated Markov chain Monte Carlo", SIAM/ASA Journal on
Uncertainty Quantification 6) that keeps volumes, and whose parameters are two vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar

import numpy as np


@dataclass(frozen=True, eq=False)
class Bend:
    """u = x - b t², with t = v·(x - origin) and v·b = 0, so that t is the same at x and at u."""

    origin: np.ndarray  # (d,)
    direction: np.ndarray  # (d,), v
    bending: np.ndarray  # (d,), b

    driver: ClassVar[None] = None

    @property
    def size(self) -> int:
        """Number of learned parameters."""
        return 2 * len(self.bending) - 2

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the coordinates u of the rows of x (n, d)."""
        return x - self._along(x)[:, None] ** 2 * self.bending

    def back(self, u: np.ndarray) -> np.ndarray:
        """Return the rows of x that have the coordinates u (n, d)."""
        return u + self._along(u)[:, None] ** 2 * self.bending

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return zeros (n,)."""
        return np.zeros(len(x))

    def bent(self, more: np.ndarray, turn: np.ndarray | float = 0.0) -> Bend:
        """Return it with ``more`` (d,) added to b, and ``turn`` (d,) to v."""
        bending, direction = self.bending + more, self.direction + turn
        along = direction * (direction @ bending) / (direction @ direction)
        return replace(self, direction=direction, bending=bending - along)

    def _along(self, x: np.ndarray) -> np.ndarray:
        return (x - self.origin) @ self.direction


def bends(states: np.ndarray, *, of_pairs: bool = True) -> Iterator[Bend]:
    """Yield bends along each parameter, and with ``of_pairs`` along sums and differences of two.

    Each is a regression of states (k, d), in units of their standard deviations, on t and t².
    """
    dim = states.shape[1]
    origin, unit = states.mean(axis=0), states.std(axis=0)
    if not np.all(unit > 0):
        return
    white, axes = (states - origin) / unit, np.eye(dim)
    pairs = combinations(axes, 2) if of_pairs else ()
    for direction in (*axes, *((one + sign * other) / np.sqrt(2.0) for one, other in pairs for sign in (1.0, -1.0))):
        t = white @ direction
        design = np.column_stack([np.ones(len(t)), t, t**2])
        slopes = np.linalg.lstsq(design, white, rcond=None)[0][2]
        yield Bend(origin, direction / unit, np.zeros(dim)).bent(slopes * unit)
