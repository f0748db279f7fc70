"""A surrogate with a learned wall, at one point, jitted: log s(z) + log c(z), c the probability of positive density.

Paths use the gradient of log s alone and are reflected where c < 1/2, so a wall can be arbitrarily steep.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kmc.njit import njit

DEEP = -8.0
"""Below this log c is its logarithm: a chain at a point that is wrongly considered forbidden must be able to leave it.
A constant would leave mass behind a wall, as the density that is learned in front of it may rise there, and far."""

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


NO_WALL = WallState(np.empty((0, 0)), np.empty(0), np.empty(0), np.empty((0, 0)), np.empty((0, 0, 0)))
"""For a density that is positive everywhere."""


def check_arrays(owner: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise a ValueError if a field is not an array of floats of this shape."""
    for name, shape in shapes.items():
        array = getattr(owner, name)
        if type(array) is not np.ndarray or array.dtype != np.float64 or array.shape != shape:
            raise ValueError(f"{name} is not an array of numbers of shape {shape}")


def check_wall_state(wall: WallState, dim: int) -> None:
    """Raise a ValueError if loops over the arrays would leave them."""
    k = wall.bias.size
    dim = dim if k else 0
    curved = k if len(wall.quadratic) else 0
    shapes = {"matrix": (dim, dim), "shift": (dim,), "bias": (k,), "linear": (k, dim)}
    check_arrays(wall, {**shapes, "quadratic": (curved, dim, dim)})


@njit()
def slowed(chance):
    """Return log c for an intersection's ``chance``: algebraic in it below DEEP, with equal value and slope there."""
    return chance if chance > DEEP else DEEP * (1.0 + np.log(chance / DEEP))


@njit()
def log_chance(wall, z, normal, work):
    """Return log c(z), slowed, and whether c < 1/2; if so, write the gradient of log c into ``normal`` (d,)."""
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
    return slowed(chance), outside


@njit()
def log_chances(wall, points):
    """Return log c at the rows of ``points`` (n, d), shape (n,)."""
    work, normal = np.empty((4, points.shape[1])), np.empty(points.shape[1])
    out = np.empty(len(points))
    for i in range(len(points)):
        out[i] = log_chance(wall, points[i], normal, work)[0]
    return out
