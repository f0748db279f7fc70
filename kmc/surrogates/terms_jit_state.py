"""A sum of products of coordinates and exponentials of coordinates at one point, jitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kmc.kernels.exponentials import exponential
from kmc.njit import njit

LARGEST = 40.0  # of the argument of an exponential; beyond it a term goes on with this value
MOST_FACTORS = 5  # as many as the loop below writes out


class TermsState(NamedTuple):
    """Σ_a coefficients_a Π_b w[factors_ab] with w = (1, v_1, ..., v_d, exp(rates_1 v_j1), exp(rates_2 v_j2), ...)."""

    factors: np.ndarray  # (s, MOST_FACTORS) indices into w, the zeros (ones of w) last
    coefficients: np.ndarray  # (s,)
    drivers: np.ndarray  # (e,) indices j, from zero
    rates: np.ndarray  # (e,)


NO_TERMS = TermsState(
    np.zeros((0, MOST_FACTORS), dtype=np.int64), np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0)
)


def check_arrays(owner: Any, shapes: Mapping[str, tuple[int, ...]], dtype: type = np.float64) -> None:
    """Raise a ValueError if a field is not an array of this type and shape."""
    for name, shape in shapes.items():
        array = getattr(owner, name)
        if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
            raise ValueError(f"{name} is not an array of numbers of shape {shape}")


def check_terms_state(state: TermsState, dim: int) -> None:
    """Raise a ValueError if an index points beyond its array."""
    s, e = state.coefficients.size, state.rates.size
    check_arrays(state, {"coefficients": (s,), "rates": (e,)})
    check_arrays(state, {"factors": (s, MOST_FACTORS), "drivers": (e,)}, np.int64)
    for name, indices, end in (("factors", state.factors, 1 + dim + e), ("drivers", state.drivers, dim)):
        if indices.size and not 0 <= indices.min() <= indices.max() < end:
            raise ValueError(f"{name} has indices from {indices.min()} to {indices.max()} of {end}")


@njit()
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
    factors, coefficients = state.factors, state.coefficients
    for a in range(coefficients.size):
        # Written out, for the frequent cases and for all five: more than twice as fast as loops over the factors.
        first, second, third, fourth = factors[a, 0], factors[a, 1], factors[a, 2], factors[a, 3]
        left = coefficients[a]
        if second == 0:
            slope[first] += left
            total += left * w[first]
            continue
        w1, w2 = w[first], w[second]
        if third == 0:
            slope[first] += left * w2
            left *= w1
            slope[second] += left
            total += left * w2
            continue
        w3 = w[third]
        if fourth == 0:
            slope[first] += left * w2 * w3
            left *= w1
            slope[second] += left * w3
            left *= w2
            slope[third] += left
            total += left * w3
            continue
        fifth = factors[a, 4]
        w4, w5 = w[fourth], w[fifth]
        slope[first] += left * w2 * w3 * w4 * w5
        left *= w1
        slope[second] += left * w3 * w4 * w5
        left *= w2
        slope[third] += left * w4 * w5
        left *= w3
        slope[fourth] += left * w5
        left *= w4
        slope[fifth] += left
        total += left * w5
    for i in range(d):
        gradient[i] = slope[1 + i]
    for e in range(n_exponentials):
        argument = state.rates[e] * v[state.drivers[e]]
        if -LARGEST < argument < LARGEST:
            gradient[state.drivers[e]] += state.rates[e] * w[1 + d + e] * slope[1 + d + e]
    return total


@njit()
def gradients_of_terms(state, points):
    """Gradients of the sum at the rows of ``points`` (n, d), in v, shape (n, d)."""
    n, d = points.shape
    w, slope = np.empty(1 + d + state.rates.size), np.empty(1 + d + state.rates.size)
    out = np.empty((n, d))
    for i in range(n):
        sum_of_terms(state, points[i], out[i], w, slope)
    return out
