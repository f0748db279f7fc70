"""A kernel expansion at one point, with a base density, inside jitted loops.

Two passes over the centres: distances and projections first, then one product of a matrix with the coefficients that
the kernel's derivatives give. Arrays are coordinate-major, so that every loop runs over contiguous centres.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numba
import numpy as np

from kmc import points
from kmc.bases.base_point import BasePoint, base_value_and_gradient, flat
from kmc.bases.geometry import RadialGeometry
from kmc.bases.section_forms import profile_and_metric
from kmc.kernels import Program, program, run_program, stack_for
from kmc.kernels.exponentials import exponential
from kmc.kernels.program import GAUSSIAN

if TYPE_CHECKING:
    from kmc.bases.expansion import KernelExpansion


class ExpansionState(NamedTuple):
    """Base(x) + Σ_a α_a q - 2q' (r·β_a) + γ_a (4q''τ + 2Tq'), with z = metric (x - origin), r = z - y_a, s = |r|²,
    τ = Σ_i spread_i r_i² and T = Σ_i spread_i; see :class:`kmc.bases.base_point.BasePoint` and
    :class:`kmc.bases.KernelExpansion`.
    """

    constant: float
    location: np.ndarray  # (d,)
    precision: np.ndarray  # (d, d)
    dof: float
    origin: np.ndarray  # (d,), near the centres
    metric: np.ndarray  # (k, d) with orthogonal rows, or (0, d) for the identity
    spread: np.ndarray  # (k,), the squared lengths of those rows
    codes: np.ndarray  # of the kernel's program
    params: np.ndarray
    rows: np.ndarray  # (k + 1, 1 or 2, m): in row i the y_ai and, if there are gradients, the β_ai; last ones and zeros
    sections: np.ndarray  # (m,), α
    laplacians: np.ndarray  # (m,), γ; empty if there are none


def expansion_state(
    expansion: KernelExpansion, base: BasePoint | None = None, origin: np.ndarray | None = None
) -> ExpansionState:
    """The state of base(x) + f(x - origin); TypeError if the kernel is not made of built-in radial ones."""
    profile, metric = profile_and_metric(expansion.kernel)
    code = program(profile)
    if code is None or profile.argument != "distance":
        raise TypeError(
            f"kernel={expansion.kernel!r} cannot be evaluated inside jitted loops: expected one made of built-in radial "
            "kernels, in a metric or not"
        )
    m, d = expansion.centres.shape
    geometry = RadialGeometry(metric, expansion.centres)
    mapping, spread = geometry.principal
    matrix = np.eye(d) if mapping is None else mapping
    parts = [geometry.centres] if expansion.gradients is None else [geometry.centres, expansion.gradients]
    rows = np.zeros((len(matrix) + 1, len(parts), m))
    for i, part in enumerate(parts):
        rows[:-1, i] = matrix @ part.T
    rows[-1, 0] = 1.0
    base = flat(d) if base is None else base
    return ExpansionState(
        constant=float(base.constant),
        location=base.location,
        precision=base.precision,
        dof=float(base.dof),
        origin=geometry.origin if origin is None else geometry.origin + origin,
        metric=np.zeros((0, d)) if mapping is None else np.ascontiguousarray(mapping),
        spread=spread,
        codes=code.codes,
        params=code.params,
        rows=rows,
        sections=np.zeros(m) if expansion.sections is None else expansion.sections,
        laplacians=np.zeros(0) if expansion.laplacians is None else expansion.laplacians,
    )


@numba.njit(cache=True)
def workspace(state):
    """Scratch arrays for :func:`value_and_gradient`."""
    k, parts, m = state.rows.shape
    stack = stack_for(Program(state.codes, state.params), m)
    return np.empty((3, k)), np.empty((4, m)), np.empty(parts * m), stack


@numba.njit(cache=True)
def value_and_gradient(state, x, gradient, work):
    """The value at x (d,); its gradient is written into ``gradient`` (d,)."""
    k, parts, m = state.rows.shape
    vectors, pairs, coefficients, stack = work
    z, slope, bend = vectors[0, : k - 1], vectors[1], vectors[2]
    s, along = pairs[0], pairs[1]
    matrix = state.rows.reshape(k, parts * m)

    value = base_value_and_gradient(state.constant, state.location, state.precision, state.dof, x, gradient)
    _map(state, x, z)
    _distances(state.rows, z, s, along)
    if state.laplacians.size == 0:
        if state.codes.size == 1 and state.codes[0] == GAUSSIAN:
            _gaussian(state, s, along, coefficients)
            np.dot(matrix, coefficients, slope)
            value += slope[k - 1] / (2.0 * state.params[0, 0])
        else:
            value += _radial(state, s, along, coefficients, pairs[2], stack)
            np.dot(matrix, coefficients, slope)
        for i in range(k - 1):
            slope[i] -= slope[k - 1] * z[i]
    else:
        value += _with_laplacians(state, z, s, along, coefficients, pairs[2], pairs[3], stack, bend)
        np.dot(matrix, coefficients, slope)
        for i in range(k - 1):
            slope[i] += bend[i] - slope[k - 1] * z[i]
    _pull(state, slope, gradient)
    return value


@numba.njit(cache=True)
def _map(state, x, z):
    """z = metric (x - origin)."""
    k, d = state.metric.shape
    if k == 0:
        for i in range(d):
            z[i] = x[i] - state.origin[i]
    for i in range(k):
        total = 0.0
        for j in range(d):
            total += state.metric[i, j] * (x[j] - state.origin[j])
        z[i] = total


@numba.njit(cache=True)
def _pull(state, slope, gradient):
    """Add metricᵀ slope to the gradient."""
    k, d = state.metric.shape
    if k == 0:
        for i in range(d):
            gradient[i] += slope[i]
    for i in range(k):
        for j in range(d):
            gradient[j] += state.metric[i, j] * slope[i]


@numba.njit(cache=True)
def _distances(rows, z, s, along):
    """s = |z - y|² and along = (z - y)·β; four coordinates at a time, so that the sums are loaded and stored less."""
    for a in range(s.size):
        s[a] = 0.0
        along[a] = 0.0
    whole = z.size - z.size % 4
    if rows.shape[1] == 1:
        for i in range(0, whole, 4):
            y0, y1, y2, y3 = rows[i, 0], rows[i + 1, 0], rows[i + 2, 0], rows[i + 3, 0]
            z0, z1, z2, z3 = z[i], z[i + 1], z[i + 2], z[i + 3]
            for a in range(s.size):
                r0, r1, r2, r3 = z0 - y0[a], z1 - y1[a], z2 - y2[a], z3 - y3[a]
                s[a] += (r0 * r0 + r1 * r1) + (r2 * r2 + r3 * r3)
        for i in range(whole, z.size):
            y, zi = rows[i, 0], z[i]
            for a in range(s.size):
                s[a] += (zi - y[a]) ** 2
        return
    for i in range(0, whole, 4):
        y0, y1, y2, y3 = rows[i, 0], rows[i + 1, 0], rows[i + 2, 0], rows[i + 3, 0]
        b0, b1, b2, b3 = rows[i, 1], rows[i + 1, 1], rows[i + 2, 1], rows[i + 3, 1]
        z0, z1, z2, z3 = z[i], z[i + 1], z[i + 2], z[i + 3]
        for a in range(s.size):
            r0, r1, r2, r3 = z0 - y0[a], z1 - y1[a], z2 - y2[a], z3 - y3[a]
            s[a] += (r0 * r0 + r1 * r1) + (r2 * r2 + r3 * r3)
            along[a] += (r0 * b0[a] + r1 * b1[a]) + (r2 * b2[a] + r3 * b3[a])
    for i in range(whole, z.size):
        y, b, zi = rows[i, 0], rows[i, 1], z[i]
        for a in range(s.size):
            r = zi - y[a]
            s[a] += r * r
            along[a] += r * b[a]


@numba.njit(cache=True)
def _gaussian(state, s, along, coefficients):
    """Those of y and β in ∇f = Σ c (y - z) + e β: e = 2ρq and c = e (α + 2ρ r·β), of which f is the sum over 2ρ."""
    m = s.size
    twice = 2.0 * state.params[0, 0]
    if coefficients.size == m:
        for a in range(m):
            coefficients[a] = twice * exponential(-0.5 * twice * s[a]) * state.sections[a]
        return
    for a in range(m):
        e = twice * exponential(-0.5 * twice * s[a])
        coefficients[a] = e * (state.sections[a] + twice * along[a])
        coefficients[m + a] = e


@numba.njit(cache=True)
def _radial(state, s, along, coefficients, values, stack):
    """Those of y and β in ∇f = Σ c (y - z) + e β: e = -2q' and c = 4q'' r·β - 2αq'; returns f = Σ αq + e r·β."""
    m = s.size
    if coefficients.size == m:
        run_program(Program(state.codes, state.params), s, 1, stack)
        q0, q1 = stack[0, 0], stack[0, 1]
        for a in range(m):
            coefficients[a] = -2.0 * q1[a] * state.sections[a]
        return np.dot(q0[:m], state.sections)
    run_program(Program(state.codes, state.params), s, 2, stack)
    q0, q1, q2 = stack[0, 0], stack[0, 1], stack[0, 2]
    for a in range(m):
        e = -2.0 * q1[a]
        coefficients[a] = 4.0 * q2[a] * along[a] + e * state.sections[a]
        coefficients[m + a] = e
        values[a] = q0[a] * state.sections[a] + e * along[a]
    return np.dot(state.rows[-1, 0], values)


@numba.njit(cache=True)
def _with_laplacians(state, z, s, along, coefficients, values, tau, stack, bend):
    """As :func:`_radial`, with γ (4q''τ + 2Tq') in f; the part Σ 8γq'' spread r of its gradient goes into ``bend``."""
    m = s.size
    for a in range(m):
        tau[a] = 0.0
    trace = 0.0
    for i in range(z.size):
        y, zi, weight = state.rows[i, 0], z[i], state.spread[i]
        trace += weight
        for a in range(m):
            tau[a] += weight * (zi - y[a]) ** 2
    run_program(Program(state.codes, state.params), s, 3, stack)
    q0, q1, q2, q3 = stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3]
    for a in range(m):
        alpha, gamma = state.sections[a], state.laplacians[a]
        values[a] = q0[a] * alpha - 2.0 * q1[a] * along[a] + gamma * (4.0 * q2[a] * tau[a] + 2.0 * trace * q1[a])
        coefficients[a] = 4.0 * q2[a] * along[a] - 2.0 * q1[a] * alpha
        coefficients[a] -= gamma * (8.0 * q3[a] * tau[a] + 4.0 * trace * q2[a])
    if coefficients.size > m:
        for a in range(m):
            coefficients[m + a] = -2.0 * q1[a]
    ones = state.rows[-1, 0]
    total = np.dot(ones, values)
    for a in range(m):
        values[a] = 8.0 * state.laplacians[a] * q2[a]
    weight = np.dot(ones, values)
    for i in range(z.size):
        bend[i] = state.spread[i] * (z[i] * weight - np.dot(state.rows[i, 0], values))
    return total


points.register(ExpansionState, workspace, value_and_gradient)
