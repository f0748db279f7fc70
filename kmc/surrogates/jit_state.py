"""The surrogate at one point, jitted: a leapfrog loop calls it thousands of times.

Everything is in the coordinates z in which the surrogate was fitted (whitened), so no method of a Python object is
needed: the state is a NamedTuple of arrays, which does not recompile after a refit.

No fastmath: with it, newly compiled code and code loaded from numba's cache rounded differently, so a seed gave
different draws on the first run and on the second. Sums over centers go through BLAS, not through reassociated loops.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.jitted import register
from kmc.kernels.exponentials import exponential
from kmc.njit import njit
from kmc.surrogates.terms_jit_state import NO_TERMS, TermsState, check_arrays, check_terms_state, sum_of_terms

SHARPNESS = 0.2  # nats over which the bound takes over: three nats below it, it has no effect

ABOVE_TREND = 3.0  # nats that the sections may add to the trend anywhere


class SurrogateJitState(NamedTuple):
    """log s(z) = constant - depth(z) + Σ_a coefficients_a k(u, centers_a) with u = metric z - shift.

    The sections are radial, k = exp(-rate |u - c|²), or polynomials, k = (1 + rate <u, c>)⁴. Many polynomials are
    summed beforehand: if ``quartic`` is not empty, their sum is qᵀ quartic q, where q has 1, u_i and u_i u_j (i <= j),
    and the centers are not used. If ``terms`` has any, they take the place of all sections, with v = u.
    With ``matern``, k = (1 + r + r²/3) exp(-r) + both (1 + <u, c>/spread)⁴, r² = rate |u - c|². With ``fall`` above 0,
    the bound below is ``ceiling`` - fall (|z|² - reach²)+ instead.

    The trend's depth is a function of q = (z - location)ᵀ precision (z - location): (ν + d)/2 log(1 + q/ν) for a
    Student-t trend with ν = ``dof``, and q/2 for a Gaussian trend (``dof`` = 0), whose depth beyond ``cap`` grows as
    ``tail`` log(1 + (q/2 - cap) / tail) so that a wrong trend cannot build a wall.

    Polynomials also fall by thousands of nats where there are no data: with them the value beyond ``cap`` falls like
    the trend, by ``tail`` log(1 + (depth - cap) / tail), so that a path returns from there instead of diverging.

    That value is bounded from above, smoothly, by ``ceiling`` - tail log(1 + ((|z|/reach - 1)+ / .25)²), or by the
    trend plus three nats if that is higher, but nowhere by more than ``ceiling``: an expansion with large
    coefficients of both signs can rise by thousands of nats where there are no data. ``offset`` is the part of
    ``constant`` that belongs to the expansion and not to the trend.

    Bounds are on heights: the value plus Σ_g min(neck_slopes_g z + neck_offsets_g, 0), see :mod:`kmc.surrogates.necks`.
    """

    constant: float
    location: np.ndarray  # (d,)
    precision: np.ndarray  # (d, d)
    dof: float
    cap: float
    tail: float
    metric: np.ndarray  # (d, d)
    shift: np.ndarray  # (d,)
    centers: np.ndarray  # (d, m): coordinate-major, so that the loops over centers are contiguous
    coefficients: np.ndarray  # (m,)
    rate: float
    ceiling: float = np.inf
    reach: float = 1.0
    radial: bool = True
    offset: float = 0.0
    quartic: np.ndarray = np.zeros((0, 0))  # (p, p) with p = (d + 1)(d + 2) / 2
    terms: TermsState = NO_TERMS
    neck_slopes: np.ndarray = np.zeros((0, 0))  # (g, d)
    neck_offsets: np.ndarray = np.zeros(0)  # (g,)
    matern: bool = False
    both: float = 0.0
    spread: float = 1.0
    fall: float = 0.0


def check_jit_state(state: SurrogateJitState, dim: int) -> None:
    """Raise a ValueError if loops over the arrays would leave them, which compiled code does not notice."""
    m, g = state.coefficients.size, state.neck_offsets.size
    p = (dim + 1) * (dim + 2) // 2 if len(state.quartic) else 0
    shapes = {"location": (dim,), "precision": (dim, dim), "metric": (dim, dim), "shift": (dim,)}
    shapes |= {"centers": (dim, m), "coefficients": (m,), "quartic": (p, p), "neck_offsets": (g,)}
    check_arrays(state, {**shapes, "neck_slopes": (g, dim) if g else state.neck_slopes.shape})
    if p and m > p:
        raise ValueError(f"{m} centers beside a polynomial of {p} coefficients")
    check_terms_state(state.terms, dim)


@njit()
def workspace(state):
    """Scratch arrays for :func:`value_and_gradient`."""
    d, m = state.centers.shape
    return np.empty((5, d)), np.empty((2, max(m, len(state.quartic)))), np.empty((2, 1 + d + state.terms.rates.size))


@njit()
def value_and_gradient(state, z, gradient, work):
    """log s(z); the gradient is written into ``gradient`` (d,)."""
    d = state.centers.shape[0]
    vectors, sections, factors = work
    r, pr, u, g = vectors[0], vectors[1], vectors[2], vectors[3]

    q = 0.0
    for i in range(d):
        r[i] = z[i] - state.location[i]
    _multiply(state.precision, r, pr)
    _multiply(state.metric, z, u)
    for i in range(d):
        u[i] -= state.shift[i]
        q += r[i] * pr[i]
    depth, slope = _trend(q, state.dof, state.cap, state.tail, d)

    sections_sum = _sections(state, u, g, sections, factors)
    if state.matern:
        sections_sum += _polynomials(state, u, g, vectors[4], sections)
    _multiply_transposed(state.metric, g, gradient)
    for i in range(d):
        gradient[i] -= 2.0 * slope * pr[i]
    if not state.neck_offsets.size:
        return _bounded(state, z, sections_sum, state.constant - depth, 2.0 * slope, pr, gradient)
    correction = _correction(state, z, r)
    for i in range(d):
        gradient[i] += r[i]
        pr[i] = 2.0 * slope * pr[i] - r[i]
    height = _bounded(state, z, sections_sum, state.constant - depth + correction, 1.0, pr, gradient)
    for i in range(d):
        gradient[i] -= r[i]
    return height - correction


@njit()
def _multiply(matrix, x, out):
    """out = matrix x for a square matrix.

    Four rows at a time: each sum waits for its last addition, and four do so together.
    """
    d = x.size
    whole = d - d % 4
    for i in range(0, whole, 4):
        s0 = s1 = s2 = s3 = 0.0
        for j in range(d):
            s0 += matrix[i, j] * x[j]
            s1 += matrix[i + 1, j] * x[j]
            s2 += matrix[i + 2, j] * x[j]
            s3 += matrix[i + 3, j] * x[j]
        out[i], out[i + 1], out[i + 2], out[i + 3] = s0, s1, s2, s3
    for i in range(whole, d):
        total = 0.0
        for j in range(d):
            total += matrix[i, j] * x[j]
        out[i] = total


@njit()
def _multiply_transposed(matrix, x, out):
    """out = matrixᵀ x for a square matrix; row by row, so that the inner loop is over contiguous numbers."""
    out[:] = 0.0
    for j in range(x.size):
        row, factor = matrix[j], x[j]
        for i in range(x.size):
            out[i] += row[i] * factor


register(SurrogateJitState, workspace, value_and_gradient)


@njit()
def _sections(state, u, g, work, factors):
    """The sum of the sections at u; the gradient in u is written into ``g``."""
    d, m = state.centers.shape
    argument, value = work[0], work[1]
    if state.terms.coefficients.size:
        return sum_of_terms(state.terms, u, g, factors[0], factors[1])
    if len(state.quartic):
        return _quartic(state.quartic, u, g, argument, value)
    argument[:] = 0.0
    if not state.radial:
        np.dot(u, state.centers, argument)
        total = 0.0
        for a in range(m):
            base = 1.0 + state.rate * argument[a]
            slope = state.coefficients[a] * base * base * base
            total += slope * base
            value[a] = 4.0 * state.rate * slope
        np.dot(state.centers, value, g)
        return total
    for j in range(d):
        uj = u[j]
        centers = state.centers[j]
        for a in range(m):
            argument[a] += (uj - centers[a]) ** 2
    if state.matern:
        return _matern(state, u, g, argument, value)
    for a in range(m):
        value[a] = exponential(-state.rate * argument[a])
    total = np.dot(state.coefficients, value)
    for a in range(m):
        value[a] *= state.coefficients[a]
    np.dot(state.centers, value, g)
    for j in range(d):
        g[j] = 2.0 * state.rate * (g[j] - u[j] * total)
    return total


@njit()
def _matern(state, u, g, argument, value):
    """The sum of Matérn kernels with squared distances in ``argument``; its gradient in u is written into ``g``."""
    total = 0.0
    slopes = 0.0
    for a in range(len(state.coefficients)):
        r = np.sqrt(state.rate * argument[a])
        decay = state.coefficients[a] * exponential(-r)
        total += (1.0 + r + r * r / 3.0) * decay
        value[a] = (1.0 + r) * decay
        slopes += value[a]
    np.dot(state.centers, value, g)
    for j in range(len(u)):
        g[j] = state.rate / 3.0 * (g[j] - u[j] * slopes)
    return total


@njit()
def _polynomials(state, u, g, more, work):
    """The sum of the polynomials beside radial sections; its gradient in u is added to ``g``."""
    argument, value = work[0], work[1]
    np.dot(u, state.centers, argument)
    total = 0.0
    for a in range(len(state.coefficients)):
        base = 1.0 + argument[a] / state.spread
        slope = state.both * state.coefficients[a] * base * base * base
        total += slope * base
        value[a] = 4.0 * slope / state.spread
    np.dot(state.centers, value, more)
    for j in range(len(u)):
        g[j] += more[j]
    return total


@njit()
def _quartic(matrix, u, g, q, product):
    """qᵀ matrix q, its gradient in u in ``g``: one product with a small matrix for any number of centers."""
    d = len(u)
    q[0] = 1.0
    at = 1 + d
    for i in range(d):
        q[1 + i] = u[i]
        for j in range(i, d):
            q[at] = u[i] * u[j]
            at += 1
    np.dot(matrix, q, product)
    total = np.dot(q, product)
    for i in range(d):
        g[i] = product[1 + i]
    at = 1 + d
    for i in range(d):
        for j in range(i, d):
            g[i] += product[at] * u[j]
            g[j] += product[at] * u[i]
            at += 1
    for i in range(d):
        g[i] *= 2.0
    return total


@njit()
def _correction(state, z, slope):
    """What turns a value at z into a height; the gradient is written into ``slope`` (d,)."""
    slope[:] = 0.0
    total = 0.0
    for g in range(state.neck_offsets.size):
        each = state.neck_offsets[g]
        for i in range(z.size):
            each += state.neck_slopes[g, i] * z[i]
        if each < 0.0:
            total += each
            for i in range(z.size):
                slope[i] += state.neck_slopes[g, i]
    return total


@njit()
def _bounded(state, z, sections, trend, slope, pr, gradient):
    """-τ log(exp(-value/τ) + exp(-bound/τ)) with τ = SHARPNESS, and its gradient in place.

    The trend's gradient is -slope pr.
    """
    value = trend + sections
    if state.fall > 0.0:
        return _bounded_by_ball(state, z, value, gradient)
    beyond = state.constant - value - state.cap
    if not state.radial and beyond > 0.0:
        for i in range(z.size):
            gradient[i] /= 1.0 + beyond / state.tail
        return state.constant - state.cap - state.tail * np.log1p(beyond / state.tail)
    trend -= state.offset
    if state.ceiling == np.inf or value < min(trend + ABOVE_TREND, state.ceiling) - 30.0 * SHARPNESS:
        return value
    radius = 0.0
    for i in range(z.size):
        radius += z[i] * z[i]
    radius = np.sqrt(radius)
    excess = max(radius / state.reach - 1.0, 0.0) / 0.25
    bound = state.ceiling - state.tail * np.log1p(excess * excess)
    radial = bound > trend + ABOVE_TREND
    if not radial:
        bound = trend + ABOVE_TREND
    level = bound > state.ceiling
    if level:
        bound = state.ceiling
    above = (value - bound) / SHARPNESS
    if above < -30.0:
        return value
    outward = -state.tail * 2.0 * excess / (1.0 + excess * excess) / (0.25 * state.reach * max(radius, 1e-300))
    share = 1.0 / (1.0 + np.exp(-above))  # weight of the bound in the gradient
    for i in range(z.size):
        along = outward * z[i] if radial else -slope * pr[i]
        if level:
            along = 0.0
        gradient[i] = (1.0 - share) * gradient[i] + share * along
    if above > 0.0:
        return bound - SHARPNESS * np.log1p(np.exp(-above))
    return value - SHARPNESS * np.log1p(np.exp(above))


@njit()
def _bounded_by_ball(state, z, value, gradient):
    """The value bounded by the ceiling in a ball, and by a falling parabola outside; its gradient in place."""
    outside = max(np.dot(z, z) - state.reach * state.reach, 0.0)
    above = (value - state.ceiling + state.fall * outside) / SHARPNESS
    if above < -30.0:
        return value
    share = 1.0 / (1.0 + np.exp(-above))  # weight of the bound in the gradient
    slope = -2.0 * state.fall if outside > 0.0 else 0.0
    for i in range(z.size):
        gradient[i] = (1.0 - share) * gradient[i] + share * slope * z[i]
    if above > 0.0:
        return state.ceiling - state.fall * outside - SHARPNESS * np.log1p(np.exp(-above))
    return value - SHARPNESS * np.log1p(np.exp(above))


@njit()
def values(state, points):
    """log s at the rows of ``points`` (n, d), shape (n,)."""
    work = workspace(state)
    gradient = np.empty(points.shape[1])
    out = np.empty(len(points))
    for i in range(len(points)):
        out[i] = value_and_gradient(state, points[i], gradient, work)
    return out


@njit()
def gradients(state, points):
    """∇ log s at the rows of ``points`` (n, d), shape (n, d)."""
    work = workspace(state)
    out = np.empty(points.shape)
    for i in range(len(points)):
        value_and_gradient(state, points[i], out[i], work)
    return out


@njit()
def _trend(q, dof, cap, tail, d):
    """Depth of the trend and its derivative in q."""
    if dof > 0.0:
        return 0.5 * (dof + d) * np.log1p(q / dof), 0.5 * (dof + d) / (dof + q)
    depth = 0.5 * q
    if depth <= cap:
        return depth, 0.5
    excess = (depth - cap) / tail
    return cap + tail * np.log1p(excess), 0.5 / (1.0 + excess)
