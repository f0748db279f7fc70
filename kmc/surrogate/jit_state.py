"""The surrogate at one point, jitted: a leapfrog loop calls it thousands of times.

Everything is in the coordinates z in which draws are white, so no method of a Python object is
needed: the state is a NamedTuple of arrays, which does not recompile after a refit.

No fastmath: with it, newly compiled code and code loaded from numba's cache rounded differently, so
a seed gave different draws on the first run and on the second. Sums over centers go through BLAS,
or are written out side by side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import kmc.jitted as jitted
from kmc.jitted import register, register_wall
from kmc.kernels.exponentials import exponential
from kmc.njit import dot, njit, sum_of
from kmc.surrogate.coordinates.noncentered import check_hierarchy
from kmc.surrogate.coordinates.walls import WallState, barrier, check_wall_state
from kmc.surrogate.covariance import LARGEST_LOG_SCALE
from kmc.surrogate.known import (
    Hierarchy,
    Splines,
    check_arrays,
    check_splines,
    from_u,
    gradient_along_u,
    log_prior,
)
from kmc.surrogate.known import value_and_gradient as known

SHARPNESS = 0.2  # nats over which the bound takes over: three nats below it, it has no effect


class SurrogateJitState(NamedTuple):
    """log s = constant + slope·z - q(z)/2 + Σ_a coefficients_a k(z, z_a) + Σ_b w_b·∂k(z, z_b)/∂z_b.

    q(z) = (z - location)ᵀ precision (z - location), and k(z, z_a) = (1 + r + r²/3) exp(-r) + both
    (1 + ψ·ψ_a/spread)^p with r² = rate |u - u_a|² and u = metric z; the second sum comes from known
    gradients. ψ is u and p is 4, or there are scales: then ψ has z, and e = exp(rates_i·z) and e z
    for each, and p is 2: see :mod:`kmc.surrogate.covariance`.

    What is known of the log-density is apart: Σ_i f_i(x_i) with x = origin + z back is added, see
    :mod:`kmc.surrogate.known`. With a hierarchical prior, x is a function of origin + z back, all
    above is one of (x - center) whitening, and the prior is added: see
    :class:`kmc.surrogate.known.Hierarchy`.

    Inside loops the value is bounded, smoothly, by ``ceiling`` - ``fall`` (|z|² - reach²)+: it
    cannot rise where there are no data, and falls outside the ball of the evaluations. A learned
    wall adds its term, see :mod:`kmc.surrogate.coordinates.walls`.
    """

    constant: float
    slope: np.ndarray  # (d,), along which q is flat
    location: np.ndarray  # (d,)
    precision: np.ndarray  # (d, d)
    metric: np.ndarray  # (d, d)
    rates: np.ndarray  # (k, d)
    # (d, m), u_a: coordinate-major, so that the loops over centers are contiguous
    centers: np.ndarray
    bent_centers: np.ndarray  # (p, m), ψ_a
    coefficients: np.ndarray  # (m,)
    ends: np.ndarray  # (g, d), u_b
    slopes: np.ndarray  # (g, d), the weights w along u
    bent_ends: np.ndarray  # (g, p), ψ_b
    bent_slopes: np.ndarray  # (g, p), the weights along ψ
    rate: float
    both: float
    spread: float
    ceiling: float
    reach: float
    fall: float
    origin: np.ndarray  # (d,)
    back: np.ndarray  # (d, d)
    known: Splines
    hierarchy: Hierarchy
    wall: WallState


def without_bumps(state: SurrogateJitState) -> SurrogateJitState:
    """Return the same state without its kernels."""
    return state._replace(
        centers=np.ascontiguousarray(state.centers[:, :0]),
        bent_centers=np.ascontiguousarray(state.bent_centers[:, :0]),
        coefficients=state.coefficients[:0],
        ends=state.ends[:0],
        slopes=state.slopes[:0],
        bent_ends=state.bent_ends[:0],
        bent_slopes=state.bent_slopes[:0],
    )


def check_jit_state(state: SurrogateJitState, dim: int) -> None:
    """Raise a ValueError if loops would leave the arrays, which compiled code does not notice."""
    m, g, k = state.coefficients.size, len(state.slopes), len(state.rates)
    p = dim + k * (1 + dim)
    shapes = {
        "slope": (dim,),
        "location": (dim,),
        "precision": (dim, dim),
        "metric": (dim, dim),
        "rates": (k, dim),
    }
    shapes |= {"origin": (dim,), "back": (dim, dim)}
    shapes |= {"centers": (dim, m), "bent_centers": (p, m), "coefficients": (m,)}
    check_arrays(
        state,
        {
            **shapes,
            "ends": (g, dim),
            "slopes": (g, dim),
            "bent_ends": (g, p),
            "bent_slopes": (g, p),
        },
    )
    check_splines(state.known, dim)
    if type(state.hierarchy) is not Hierarchy:
        raise ValueError(f"a hierarchy of type {type(state.hierarchy).__name__}")
    if state.hierarchy.center.size:
        check_hierarchy(state.hierarchy, dim)
    if type(state.wall) is not WallState:
        raise ValueError(f"a wall of type {type(state.wall).__name__}")
    check_wall_state(state.wall, dim)


@njit()
def workspace(state):
    """Return scratch arrays for :func:`value_and_gradient` and for the wall."""
    p, m = state.bent_centers.shape
    return np.empty((15, state.location.size)), np.empty((2, m)), np.empty((2, p))


@njit(allocates=False)
def value_and_gradient(state, z, gradient, work):
    """Return log s(z) without the wall, and write its gradient into ``gradient`` (d,)."""
    hierarchy = state.hierarchy
    if not hierarchy.center.size:
        return _without_hierarchy(state, z, gradient, work)
    d, vectors, noncentered = z.size, work[0], hierarchy.noncentered
    u, x, theta, slopes, along_theta = vectors[6], vectors[7], vectors[8], vectors[9], vectors[10]
    along, along_u, inner, along_inner = vectors[11], vectors[12], vectors[13], vectors[14]
    _multiply_transposed(state.back, z, u)
    for i in range(d):
        u[i] += state.origin[i]
        along_theta[i] = 0.0
    from_u(hierarchy, noncentered, u, x, theta, slopes)
    for i in range(d):
        along[i] = x[i] - hierarchy.center[i]
    _multiply_transposed(hierarchy.whitening, along, inner)
    value = _without_hierarchy(state, inner, along_inner, work)
    value += log_prior(hierarchy, noncentered, x, theta, u, along, along_theta)
    _multiply(hierarchy.whitening, along_inner, inner)
    for i in range(d):
        along_u[i] = 0.0
        if noncentered[i]:  # the prior is a function of u
            along_u[i], along[i] = along[i], 0.0
        along[i] += along_theta[i] * slopes[i] + inner[i]
    gradient_along_u(hierarchy, noncentered, u, theta, slopes, along_u, along)
    _multiply(state.back, along, gradient)
    return value


@njit(allocates=False)
def _without_hierarchy(state, z, gradient, work):
    d = z.size
    vectors, sections, features = work
    r, pr, u, g = vectors[0], vectors[1], vectors[2], vectors[3]
    psi, along = features[0], features[1]
    q = rise = 0.0
    for i in range(d):
        rise += state.slope[i] * z[i]
        r[i] = z[i] - state.location[i]
    _multiply(state.precision, r, pr)
    for i in range(d):
        q += r[i] * pr[i]
    _multiply(state.metric, z, u)
    _features(state, z, u, psi)
    value = (
        state.constant
        + rise
        - 0.5 * q
        + _radial(state, u, g, sections)
        + _bent(state, psi, along, sections)
    )
    if len(state.slopes):
        value += _known_slopes(state, u, g, psi, along)
    if not len(state.rates):
        for i in range(d):
            g[i] += along[i]
    _multiply_transposed(state.metric, g, gradient)
    if len(state.rates):
        _pull_back(state, z, psi, along, gradient)
    for i in range(d):
        gradient[i] += state.slope[i] - pr[i]
    if state.known.nodes.size:
        x, along_x = vectors[4], vectors[5]
        _multiply_transposed(state.back, z, x)
        for i in range(d):
            x[i] += state.origin[i]
        value += known(state.known, x, along_x)
        _multiply(state.back, along_x, x)
        for i in range(d):
            gradient[i] += x[i]
    return _bounded(state, z, value, gradient)


@njit(allocates=False)
def _features(state, z, u, psi):
    """Write the features ψ at z into ``psi`` (p,); see :class:`SurrogateJitState`."""
    d = z.size
    if not len(state.rates):
        for i in range(d):
            psi[i] = u[i]
        return
    for i in range(d):
        psi[i] = z[i]
    at = d
    for k in range(len(state.rates)):
        log = 0.0
        for i in range(d):
            log += state.rates[k, i] * z[i]
        scale = np.exp(min(max(log, -LARGEST_LOG_SCALE), LARGEST_LOG_SCALE))
        psi[at] = scale
        for i in range(d):
            psi[at + 1 + i] = scale * z[i]
        at += 1 + d


@njit(allocates=False)
def _pull_back(state, z, psi, along, gradient):
    """Add the gradient along z of a function whose gradient along ψ is ``along``."""
    d = z.size
    for i in range(d):
        gradient[i] += along[i]
    at = d
    for k in range(len(state.rates)):
        scale, total, log = psi[at], along[at], 0.0
        for i in range(d):
            total += z[i] * along[at + 1 + i]
            log += state.rates[k, i] * z[i]
            gradient[i] += scale * along[at + 1 + i]
        if abs(log) < LARGEST_LOG_SCALE:
            for i in range(d):
                gradient[i] += scale * total * state.rates[k, i]
        at += 1 + d


@njit(allocates=False)
def _multiply(matrix, x, out):
    """Write the product of a square matrix and x into ``out``.

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


@njit(allocates=False)
def _multiply_transposed(matrix, x, out):
    """Write the product of a transposed square matrix and x into ``out``.

    It goes row by row, so that the inner loop is over contiguous numbers.
    """
    out[:] = 0.0
    for j in range(x.size):
        row, factor = matrix[j], x[j]
        for i in range(x.size):
            out[i] += row[i] * factor


register(SurrogateJitState, workspace, value_and_gradient)
register_wall(SurrogateJitState, barrier)


@njit(allocates=False)
def _radial(state, u, g, work):
    """Return the sum of the Matérn kernels at u, and write its gradient in u into ``g``."""
    d, m = state.centers.shape
    argument, value = work[0], work[1]
    argument[:] = 0.0
    # A sum inside a loop over centers would keep the compiler from vectorizing it.
    for j in range(d):
        uj = u[j]
        centers = state.centers[j]
        for a in range(m):
            argument[a] += (uj - centers[a]) ** 2
    for a in range(m):
        r = np.sqrt(state.rate * argument[a])
        decay = state.coefficients[a] * exponential(-r)
        argument[a] = (1.0 + r + r * r / 3.0) * decay
        value[a] = (1.0 + r) * decay
    slopes = sum_of(value)
    dot(state.centers, value, g)
    for j in range(d):
        g[j] = state.rate / 3.0 * (g[j] - u[j] * slopes)
    return sum_of(argument)


@njit(allocates=False)
def _bent(state, psi, along, work):
    """Return the sum of the bent kernels at ψ, and write its gradient in ψ into ``along``."""
    argument, value = work[0], work[1]
    argument[:] = 1.0
    for i in range(psi.size):
        factor, centers = psi[i] / state.spread, state.bent_centers[i]
        for a in range(argument.size):
            argument[a] += factor * centers[a]
    degree = 2.0 if len(state.rates) else 4.0
    for a in range(argument.size):
        base = argument[a]
        slope = state.both * state.coefficients[a] * base
        if degree == 4.0:
            slope *= base * base
        argument[a] = slope * base
        value[a] = degree / state.spread * slope
    dot(state.bent_centers, value, along)
    return sum_of(argument)


@njit(allocates=False)
def _known_slopes(state, u, g, psi, along):
    """Return the sum from known gradients; add its gradients in u and ψ to ``g`` and ``along``."""
    d = u.size
    degree = 2.0 if len(state.rates) else 4.0
    total = 0.0
    for b in range(len(state.slopes)):
        end, weight = state.ends[b], state.slopes[b]
        square = along_r = 0.0
        for j in range(d):
            square += (u[j] - end[j]) ** 2
            along_r += weight[j] * (u[j] - end[j])
        r = np.sqrt(state.rate * square)
        decay = exponential(-r)
        f = state.rate / 3.0 * (1.0 + r) * decay  # f (u - u_b) is the kernel's gradient in u_b
        inward = state.rate * state.rate / 3.0 * decay * along_r
        total += f * along_r
        for j in range(d):
            g[j] += f * weight[j] - inward * (u[j] - end[j])

        end, weight = state.bent_ends[b], state.bent_slopes[b]
        product = rise = 0.0
        for j in range(psi.size):
            product += end[j] * psi[j]
            rise += weight[j] * psi[j]
        base = 1.0 + product / state.spread
        second = degree * state.both / state.spread
        if degree == 4.0:
            second *= base * base
        first = second * base
        total += first * rise
        second *= (degree - 1.0) / state.spread * rise
        for j in range(psi.size):
            along[j] += first * weight[j] + second * end[j]
    return total


@njit(allocates=False)
def _bounded(state, z, value, gradient):
    """Return -τ log(exp(-value/τ) + exp(-bound/τ)) with τ = SHARPNESS.

    Change ``gradient`` into its gradient.
    """
    square = 0.0
    for i in range(z.size):
        square += z[i] * z[i]
    outside = max(square - state.reach * state.reach, 0.0)
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


def values(state: Any, points: np.ndarray) -> np.ndarray:
    """Return log s (n,) at ``points`` (n, d), without the wall, for any registered state."""
    return values_and_gradients(state, points)[0]


def gradients(state: Any, points: np.ndarray) -> np.ndarray:
    """Return ∇ log s without the wall at the rows of ``points`` (n, d), shape (n, d)."""
    return values_and_gradients(state, points)[1]


@njit()
def values_and_gradients(state, points):
    """Return values (n,) and gradients (n, d) of log s at points (n, d), by one function.

    Each function with a state takes a second to compile.
    """
    work = jitted.workspace(state)
    found, slopes = np.empty(len(points)), np.empty(points.shape)
    for i in range(len(points)):
        found[i] = jitted.value_and_gradient(state, points[i], slopes[i], work)
    return found, slopes
