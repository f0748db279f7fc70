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

    k = exp(-rate |u - c|²) or, if the sections are not radial, (1 + rate <u, c>)⁴; and the terms, with v = u.
    """
    r = z - state.location
    total = state.constant - depth(r @ state.precision @ r, state, len(z))
    for coefficient, center in zip(state.coefficients, state.centers.T):
        u = state.metric @ z - state.shift
        if state.radial:
            total += coefficient * math.exp(-state.rate * ((u - center) @ (u - center)))
        else:
            total += coefficient * (1 + state.rate * (u @ center)) ** 4
    total += sum_of_terms(state.terms, state.metric @ z - state.shift)
    beyond = state.constant - state.cap - total
    if not state.radial and beyond > 0:
        return state.constant - state.cap - state.tail * math.log(1 + beyond / state.tail)
    return total


def sum_of_terms(terms, v):
    """Σ_a coefficients_a Π_b w[factors_ab], w = (1, v_1, ..., v_d, exp(rates_1 v_j1), ...)."""
    w = [1.0, *v, *(math.exp(rate * v[j]) for j, rate in zip(terms.drivers, terms.rates))]
    return sum(c * math.prod(w[f] for f in factors) for c, factors in zip(terms.coefficients, terms.factors))
