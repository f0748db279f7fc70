"""A surrogate with a learned wall, at one point, jitted: log s(z) + log c(z), c the probability of positive density.

Paths use the gradient of log s alone and are reflected where c < 1/2, so a wall can be arbitrarily steep.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.jitted import register, register_wall
from kmc.njit import njit
from kmc.surrogates import jit_state

LEAST = -8.0
"""Lower limit of log c: a chain at a point that is wrongly considered forbidden must be able to leave it."""

OUTSIDE = float(np.log(0.5))


class WallState(NamedTuple):
    """log c(z) = Σ_k log σ(h_k), h_k = bias_k + <linear_k, v> + vᵀ quadratic_k v, v = matrix z - shift.

    ``quadratic`` has no rows if all h are linear.
    """

    matrix: np.ndarray  # (d, d)
    shift: np.ndarray  # (d,)
    bias: np.ndarray  # (k,)
    linear: np.ndarray  # (k, d)
    quadratic: np.ndarray  # (k, d, d), symmetric, or (0, d, d)


class WalledState(NamedTuple):
    """A surrogate's state with its wall."""

    smooth: jit_state.SurrogateJitState
    wall: WallState

    @property
    def ceiling(self) -> float:
        """The ceiling of the surrogate's bound."""
        return self.smooth.ceiling

    @property
    def reach(self) -> float:
        """The reach of the surrogate's bound."""
        return self.smooth.reach


def check_wall_state(wall: WallState, dim: int) -> None:
    """Raise a ValueError if loops over the arrays would leave them."""
    k = wall.bias.size
    curved = k if len(wall.quadratic) else 0
    shapes = {"matrix": (dim, dim), "shift": (dim,), "bias": (k,), "linear": (k, dim)}
    jit_state.check_arrays(wall, {**shapes, "quadratic": (curved, dim, dim)})


@njit()
def log_chance(wall, z, normal, work):
    """log c(z), at least LEAST, and whether c < 1/2; there the gradient of log c is written into ``normal``."""
    d = z.size
    v, slope, product = work[0], work[1], work[2]
    for i in range(d):
        total = 0.0
        for j in range(d):
            total += wall.matrix[i, j] * z[j]
        v[i] = total - wall.shift[i]
        slope[i] = 0.0
    curved = len(wall.quadratic) > 0
    chance = 0.0
    for k in range(wall.bias.size):
        h = wall.bias[k]
        if curved:
            for i in range(d):
                total = wall.linear[k, i]
                for j in range(d):
                    total += wall.quadratic[k, i, j] * v[j]
                h += total * v[i]
                product[i] = 2.0 * total - wall.linear[k, i]
        else:
            for i in range(d):
                h += wall.linear[k, i] * v[i]
                product[i] = wall.linear[k, i]
        if h < 0.0:
            decay = np.exp(h)
            chance += h - np.log1p(decay)
            weight = 1.0 / (1.0 + decay)
        else:
            decay = np.exp(-h)
            chance -= np.log1p(decay)
            weight = decay / (1.0 + decay)
        for i in range(d):
            slope[i] += weight * product[i]
    outside = chance < OUTSIDE
    if outside:
        for j in range(d):
            total = 0.0
            for i in range(d):
                total += wall.matrix[i, j] * slope[i]
            normal[j] = total
    return np.log(np.exp(LEAST) + (1.0 - np.exp(LEAST)) * np.exp(chance)), outside


@njit()
def _workspace(state):
    return np.empty((4, state.wall.shift.size)), jit_state.workspace(state.smooth)


@njit()
def _value_and_gradient(state, z, gradient, work):
    return jit_state.value_and_gradient(state.smooth, z, gradient, work[1])


@njit()
def _barrier(state, z, normal, work):
    return log_chance(state.wall, z, normal, work[0])


register(WalledState, _workspace, _value_and_gradient)
register_wall(WalledState, _barrier)


@njit()
def log_chances(wall, points):
    """log c at the rows of ``points`` (n, d), shape (n,)."""
    work, normal = np.empty((4, points.shape[1])), np.empty(points.shape[1])
    out = np.empty(len(points))
    for i in range(len(points)):
        out[i] = log_chance(wall, points[i], normal, work)[0]
    return out
