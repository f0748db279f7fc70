"""A polynomial at one point, with a base density, inside jitted loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc import jitted
from kmc.bases.base_jit_state import base_value_and_gradient
from kmc.njit import njit


class MonomialState(NamedTuple):
    """Base(x) + Σ_a coefficients_a m_a(z), z = (x - center) / scale; see
    :class:`kmc.bases.base_jit_state.BaseJitState`.

    m_0 = 1 and m_a = m_{parents_a} z_{variables_a} are all monomials, by degree; the first of them also carry the
    coefficients of the gradient.
    """

    constant: float
    location: np.ndarray  # (d,)
    precision: np.ndarray  # (d, d)
    dof: float
    center: np.ndarray  # (d,)
    scale: np.ndarray  # (d,)
    parents: np.ndarray  # (1 + p,) int
    variables: np.ndarray  # (1 + p,) int
    coefficients: np.ndarray  # (1 + p,)
    gradient_coefficients: np.ndarray  # (d, q)


@njit()
def workspace(state):
    """Scratch arrays for :func:`value_and_gradient`."""
    return np.empty((2, state.center.size)), np.empty(state.coefficients.size)


@njit()
def value_and_gradient(state, x, gradient, work):
    """The value at x (d,); the gradient is written into ``gradient`` (d,)."""
    d, q = state.gradient_coefficients.shape
    vectors, monomials = work
    z, slope = vectors[0], vectors[1]
    for i in range(d):
        z[i] = (x[i] - state.center[i]) / state.scale[i]
    monomials[0] = 1.0
    for a in range(1, monomials.size):
        monomials[a] = monomials[state.parents[a]] * z[state.variables[a]]
    value = base_value_and_gradient(state.constant, state.location, state.precision, state.dof, x, gradient)
    np.dot(state.gradient_coefficients, monomials[:q], slope)
    for i in range(d):
        gradient[i] += slope[i]
    return value + np.dot(state.coefficients, monomials)


jitted.register(MonomialState, workspace, value_and_gradient)
