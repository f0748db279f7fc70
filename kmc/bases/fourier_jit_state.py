"""A combination of Fourier features at one point, with a base density, inside jitted loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc import jitted
from kmc.bases.base_jit_state import base_value_and_gradient
from kmc.bases.trigonometry import cosines_and_sines
from kmc.njit import njit


class FourierState(NamedTuple):
    """Base(x) + Σ_j coefficients_j cos(ω_j·(x - origin) + phases_j); see
    :class:`kmc.bases.base_jit_state.BaseJitState`.
    """

    constant: float
    location: np.ndarray  # (d,)
    precision: np.ndarray  # (d, d)
    dof: float
    origin: np.ndarray  # (d,)
    frequencies: np.ndarray  # (d, p): coordinate-major, so that the loops over features are contiguous
    phases: np.ndarray  # (p,)
    coefficients: np.ndarray  # (p,), those of the features times their scale


@njit()
def workspace(state):
    """Scratch arrays for :func:`value_and_gradient`."""
    d, p = state.frequencies.shape
    return np.empty(d), np.empty((3, p))


@njit()
def value_and_gradient(state, x, gradient, work):
    """The value at x (d,); the gradient is written into ``gradient`` (d,)."""
    d, p = state.frequencies.shape
    slope, rows = work
    angles, cosines, sines = rows[0], rows[1], rows[2]
    for j in range(p):
        angles[j] = state.phases[j]
    for i in range(d):
        r = x[i] - state.origin[i]
        frequencies = state.frequencies[i]
        for j in range(p):
            angles[j] += r * frequencies[j]
    cosines_and_sines(angles, cosines, sines)
    value = base_value_and_gradient(state.constant, state.location, state.precision, state.dof, x, gradient)
    value += np.dot(state.coefficients, cosines)
    for j in range(p):
        sines[j] *= state.coefficients[j]
    np.dot(state.frequencies, sines, slope)
    for i in range(d):
        gradient[i] -= slope[i]
    return value


jitted.register(FourierState, workspace, value_and_gradient)
