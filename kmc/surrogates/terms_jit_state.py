"""A sum of products of coordinates and exponentials of coordinates at one point, jitted."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from kmc.kernels.exponentials import exponential

LARGEST = 40.0  # of the argument of an exponential; beyond it a term goes on with this value
MOST_FACTORS = 5


class TermsState(NamedTuple):
    """Σ_a coefficients_a Π_b w[factors_ab] with w = (1, v_1, ..., v_d, exp(rates_1 v_j1), exp(rates_2 v_j2), ...)."""

    factors: np.ndarray  # (s, MOST_FACTORS) indices into w, the zeros (ones of w) last
    coefficients: np.ndarray  # (s,)
    drivers: np.ndarray  # (e,) indices j, from zero
    rates: np.ndarray  # (e,)


NO_TERMS = TermsState(
    np.zeros((0, MOST_FACTORS), dtype=np.int64), np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0)
)


@numba.njit(cache=True)
def sum_of_terms(state, v, gradient, w, slope):
    """The sum at v (d,); its gradient is written into ``gradient`` (d,). Scratch: ``w`` and ``slope`` (1 + d + e,)."""
    d = v.size
    n_exponentials = state.rates.size
    w[0] = 1.0
    for i in range(d):
        w[1 + i] = v[i]
    for e in range(n_exponentials):
        argument = state.rates[e] * v[state.drivers[e]]
        w[1 + d + e] = exponential(min(max(argument, -LARGEST), LARGEST))
    for i in range(1 + d + n_exponentials):
        slope[i] = 0.0
    total = 0.0
    for a in range(state.coefficients.size):
        factors = state.factors[a]
        size = 0
        while size < factors.size and factors[size] != 0:
            size += 1
        left = state.coefficients[a]
        for b in range(size):  # the product of all but factor b
            others = left
            for c in range(b + 1, size):
                others *= w[factors[c]]
            slope[factors[b]] += others
            left *= w[factors[b]]
        total += left
    for i in range(d):
        gradient[i] = slope[1 + i]
    for e in range(n_exponentials):
        argument = state.rates[e] * v[state.drivers[e]]
        if -LARGEST < argument < LARGEST:
            gradient[state.drivers[e]] += state.rates[e] * w[1 + d + e] * slope[1 + d + e]
    return total


@numba.njit(cache=True)
def gradients_of_terms(state, points):
    """Gradients of the sum at the rows of ``points`` (n, d), in v, shape (n, d)."""
    n, d = points.shape
    w, slope = np.empty(1 + d + state.rates.size), np.empty(1 + d + state.rates.size)
    out = np.empty((n, d))
    for i in range(n):
        sum_of_terms(state, points[i], out[i], w, slope)
    return out
