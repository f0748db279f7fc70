"""A registered function in other coordinates: h(z) = f(origin + root z), for jitted loops.

Its functions are not cached separately, but with the loops that use them: see :mod:`kmc.mcmc.score_field`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from kmc import jitted


class Affine(NamedTuple):
    """The state of h, made from the state of f; see :mod:`kmc.jitted`."""

    inner: Any  # a registered state
    origin: np.ndarray  # (d,)
    root: np.ndarray  # (d, d)


@numba.njit
def workspace(state):
    """Scratch arrays for :func:`value_and_gradient`."""
    d = state.origin.size
    return np.empty(d), np.empty(d), jitted.workspace(state.inner)


@numba.njit
def value_and_gradient(state, z, gradient, work):
    """h(z); the gradient, rootᵀ ∇f, is written into ``gradient`` (d,)."""
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


jitted.register(Affine, workspace, value_and_gradient)
