"""The surrogate at one point: the formulas of :class:`kmc.surrogates.jit_state.SurrogateJitState`, term by term."""

from __future__ import annotations

import math


def depth(q, state, dim):
    """Student-t, Gaussian, or Gaussian beyond its cap."""
    if state.dof > 0:
        return (state.dof + dim) / 2 * math.log(1 + q / state.dof)
    if q / 2 <= state.cap:
        return q / 2
    return state.cap + state.tail * math.log(1 + (q / 2 - state.cap) / state.tail)


def value(state, z):
    """log s(z) = constant - depth(q) + Σ_a coefficients_a k(u, centers_a), u = metric z - shift.

    k = exp(-rate |u - c|²) or, if the sections are not radial, (1 + rate <u, c>)⁴.
    """
    r = z - state.location
    total = state.constant - depth(r @ state.precision @ r, state, len(z))
    for coefficient, center in zip(state.coefficients, state.centers.T):
        u = state.metric @ z - state.shift
        if state.radial:
            total += coefficient * math.exp(-state.rate * ((u - center) @ (u - center)))
        else:
            total += coefficient * (1 + state.rate * (u @ center)) ** 4
    beyond = state.constant - state.cap - total
    if not state.radial and beyond > 0:
        return state.constant - state.cap - state.tail * math.log(1 + beyond / state.tail)
    return total
