"""The base density of an exponential family at one point, inside jitted loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.njit import njit


class BaseJitState(NamedTuple):
    """A Gaussian, Student-t or flat log-density as numbers.

    With r = x - location and q = rᵀ precision r: constant - q/2 where dof = 0, constant - (ν + d)/2
    log(1 + q/ν) where ν = dof > 0, and the constant where dof < 0.
    """

    constant: float
    location: np.ndarray  # (d,)
    precision: np.ndarray  # (d, d)
    dof: float


def flat(dim: int) -> BaseJitState:
    """Return the log-density that is zero everywhere."""
    return BaseJitState(0.0, np.zeros(dim), np.zeros((dim, dim)), -1.0)


@njit()
def base_value_and_gradient(constant, location, precision, dof, x, gradient):
    """Return the log-density at x (d,), and write its gradient into ``gradient`` (d,).

    See :class:`BaseJitState`.
    """
    d = x.size
    if dof < 0.0:
        gradient[:] = 0.0
        return constant
    q = 0.0
    for i in range(d):
        total = 0.0
        for j in range(d):
            total += precision[i, j] * (x[j] - location[j])
        gradient[i] = -total
        q += (x[i] - location[i]) * total
    if dof == 0.0:
        return constant - 0.5 * q
    for i in range(d):
        gradient[i] *= (dof + d) / (dof + q)
    return constant - 0.5 * (dof + d) * np.log1p(q / dof)
