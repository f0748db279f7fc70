"""The posterior that emulated outputs imply, at one point, jitted: its log-density and gradient.

In the coordinates z of the draws, x = origin + z back. With v = (x_inputs - center) whitening and w = v metric, outputs
on the scale of their likelihood are η = offset + basis a, with the components

    a = constant + C φ(v),   φ = (v_i, v_i v_j for i <= j, k(w, w_j) for each simulation j)

with the Matérn and the bent kernel of :mod:`kmc.surrogate.covariance`. Then log s is the log-likelihood of η plus what
is known, all divided by the temperature. Outside of a ball it falls as the density of a log-density alone does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.jitted import register, register_wall
from kmc.kernels.exponentials import exponential
from kmc.njit import njit
from kmc.surrogate.coordinates.noncentered import LARGEST_SD, SMALLEST_SD
from kmc.surrogate.coordinates.walls import WallState, barrier, check_wall_state
from kmc.surrogate.emulator.structure import BINOMIAL, SMALLEST, Data, Parameters, Structure, log_likelihood
from kmc.surrogate.known import check_arrays, check_columns, check_splines, constrained
from kmc.surrogate.known import value_and_gradient as known


class EmulatorJitState(NamedTuple):
    """See above; the coefficients C of the features and of the sections are apart."""

    origin: np.ndarray  # (d,)
    back: np.ndarray  # (d, d)
    inputs: np.ndarray  # (p,) of int
    center: np.ndarray  # (p,)
    whitening: np.ndarray  # (p, p)
    metric: np.ndarray  # (p, p)
    constant: np.ndarray  # (c,)
    polynomial: np.ndarray  # (c, p + p (p + 1) / 2)
    sections: np.ndarray  # (c, m)
    centers: np.ndarray  # (p, m), w_j
    rate: float  # of the Matérn kernel: r² = rate |w - w_j|²
    matern: float
    bent: float
    spread: float
    offset: np.ndarray  # (n,)
    basis: np.ndarray  # (n, c)
    parameters: Parameters
    data: Data
    temperature: float
    reach: float
    fall: float
    wall: WallState


def check_emulator_state(state: EmulatorJitState, dim: int) -> None:
    """Raise a ValueError if loops over the arrays would leave them, which compiled code does not notice."""
    p, m, n, c = len(state.inputs), state.sections.shape[-1], len(state.offset), len(state.constant)
    shapes = {"origin": (dim,), "back": (dim, dim), "center": (p,), "whitening": (p, p), "metric": (p, p)}
    shapes |= {"constant": (c,), "polynomial": (c, p + p * (p + 1) // 2), "sections": (c, m), "centers": (p, m)}
    check_arrays(state, {**shapes, "offset": (n,), "basis": (n, c)})
    for part, kind in (state.parameters, Parameters), (state.data, Data), (state.wall, WallState):
        if type(part) is not kind:
            raise ValueError(f"a {kind.__name__} of type {type(part).__name__}")
    check_structure(Structure(state.inputs, state.parameters, state.data), dim)
    check_wall_state(state.wall, dim)


def check_structure(structure: Structure, dim: int) -> None:
    """Raise a ValueError unless the arrays fit together, and all columns are coordinates."""
    parameters, data = structure.parameters, structure.data
    n = len(data.observed)
    check_arrays(parameters, {"quantiles": (dim, parameters.quantiles.shape[-1])})
    parameters.noncentered.check(dim)
    check_splines(parameters.known, dim)
    check_arrays(data, dict.fromkeys(("observed", "constants", "variances", "relative", "shapes", "repeats"), (n,)))
    check_columns("inputs", structure.inputs, structure.inputs.shape[:1], 0, dim - 1)
    check_columns("kinds", data.kinds, (n,), 0, BINOMIAL)
    check_columns("scales", data.scales, (n, *data.scales.shape[1:2]), -1, dim - 1)
    check_columns("relative_scales", data.relative_scales, (n, *data.relative_scales.shape[1:2]), -1, dim - 1)
    check_columns("shape_columns", data.shape_columns, (n,), -1, dim - 1)


@njit()
def workspace(state):
    """Return scratch arrays for :func:`value_and_gradient` and for the wall."""
    d, m, n, c = state.origin.size, state.sections.shape[1], state.offset.size, state.constant.size
    p, k = state.inputs.size, state.polynomial.shape[1]
    return np.empty((7, d)), np.empty((4, p)), np.empty((2, k)), np.empty((3, m)), np.empty((3, n)), np.empty((3, c))


@njit()
def value_and_gradient(state, z, gradient, work):
    """Return log s(z) without the wall, and write its gradient into ``gradient`` (d,)."""
    vectors, inner, features, sections, outputs, components = work
    d, p = z.size, state.inputs.size
    x, along, theta, slopes, along_theta, u = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4], vectors[5]
    v, w, g = inner[0], inner[1], inner[2]
    np.dot(z, state.back, x)
    for i in range(d):
        x[i] += state.origin[i]
        along_theta[i] = 0.0
    for i in range(p):
        v[i] = 0.0
        for j in range(p):
            v[i] += (x[state.inputs[j]] - state.center[j]) * state.whitening[j, i]
    np.dot(v, state.metric, w)
    _outputs(state, v, w, features, sections, components, outputs)
    constrained(state.parameters.transforms, x, theta, slopes)
    value = _prior(state.parameters, x, theta, u, along, along_theta)
    value += _likelihood(state.data, outputs, theta, along_theta)
    value /= state.temperature
    for i in range(d):
        along[i] = (along[i] + along_theta[i] * slopes[i]) / state.temperature
    for i in range(state.offset.size):
        outputs[1, i] /= state.temperature
    _pull_back(state, v, w, g, features, sections, components, outputs)
    for i in range(p):
        for j in range(p):
            along[state.inputs[i]] += state.whitening[i, j] * g[j]
    np.dot(state.back, along, gradient)
    square = 0.0
    for i in range(d):
        square += z[i] * z[i]
    outside = square - state.reach * state.reach
    if outside > 0.0:
        value -= state.fall * outside
        for i in range(d):
            gradient[i] -= 2.0 * state.fall * z[i]
    return value


@njit()
def _outputs(state, v, w, features, sections, components, outputs):
    """Write the features, the kernels and their slopes, the components and the outputs η at v."""
    p, m = v.size, state.centers.shape[1]
    phi, k, decays, products, a = features[0], sections[0], sections[1], sections[2], components[0]
    at = p
    for i in range(p):
        phi[i] = v[i]
        for j in range(i, p):
            phi[at] = v[i] * v[j]
            at += 1
    for b in range(m):
        square, product = 0.0, 0.0
        for i in range(p):
            square += (w[i] - state.centers[i, b]) ** 2
            product += w[i] * state.centers[i, b]
        r = np.sqrt(state.rate * square)
        decay = state.matern * exponential(-r)
        base = 1.0 + product / state.spread
        cube = state.bent * base * base * base
        k[b] = (1.0 + r + r * r / 3.0) * decay + cube * base
        decays[b] = state.rate / 3.0 * (1.0 + r) * decay
        products[b] = 4.0 / state.spread * cube
    np.dot(state.polynomial, phi, a)
    np.dot(state.sections, k, components[1])
    for i in range(a.size):
        a[i] += state.constant[i] + components[1, i]
    np.dot(state.basis, a, outputs[0])
    for i in range(state.offset.size):
        outputs[0, i] += state.offset[i]


@njit()
def _prior(parameters, x, theta, u, along, along_theta):
    """Return what is known, write its gradient along x, and add that along θ to ``along_theta``."""
    for i in range(x.size):
        mean, sd = _mean_and_sd(parameters, i, theta)
        u[i] = (x[i] - mean) / sd
    total = known(parameters.known, u, along)
    for i in range(x.size):
        j, k = parameters.means[i], parameters.sds[i]
        if j < 0 and k < 0:
            continue
        _, sd = _mean_and_sd(parameters, i, theta)
        along[i] /= sd
        total -= np.log(sd)
        if j >= 0:
            along_theta[j] -= along[i]
        if k >= 0:
            along_theta[k] -= along[i] * u[i] + 1.0 / sd
    return total


@njit()
def _mean_and_sd(parameters, i, theta):
    j, k = parameters.means[i], parameters.sds[i]
    mean = theta[j] if j >= 0 else parameters.numbers[i, 0]
    sd = theta[k] if k >= 0 else parameters.numbers[i, 1]
    return mean, min(max(sd, SMALLEST_SD), LARGEST_SD)


@njit()
def _likelihood(data, outputs, theta, along_theta):
    """Return the log-likelihood of η, write its gradient into ``outputs``, and add that along θ to ``along_theta``."""
    eta, along = outputs[0], outputs[1]
    total = 0.0
    for i in range(eta.size):
        variance, relative, shape = data.variances[i], data.relative[i], data.shapes[i]
        for column in data.scales[i]:
            if column >= 0:
                variance += theta[column] ** 2
        for column in data.relative_scales[i]:
            if column >= 0:
                relative += theta[column] ** 2
        if data.shape_columns[i] >= 0:
            shape = max(theta[data.shape_columns[i]], SMALLEST)
        value, along[i], along_variance, along_relative, along_shape = log_likelihood(
            data.kinds[i], data.observed[i], eta[i], variance, relative, shape, data.repeats[i]
        )
        total += value + data.constants[i]
        for column in data.scales[i]:
            if column >= 0:
                along_theta[column] += 2.0 * theta[column] * along_variance
        for column in data.relative_scales[i]:
            if column >= 0:
                along_theta[column] += 2.0 * theta[column] * along_relative
        if data.shape_columns[i] >= 0:
            along_theta[data.shape_columns[i]] += along_shape
    return total


@njit()
def _pull_back(state, v, w, g, features, sections, components, outputs):
    """Write the gradient of the log-likelihood along v into ``g``, and that along the components."""
    p, m = v.size, state.centers.shape[1]
    weights, along_phi, along_k = components[2], features[1], sections[0]
    decays, products = sections[1], sections[2]
    np.dot(outputs[1], state.basis, weights)
    np.dot(weights, state.polynomial, along_phi)
    np.dot(weights, state.sections, along_k)
    for i in range(p):
        g[i] = along_phi[i]
    at = p
    for i in range(p):
        for j in range(i, p):
            g[i] += along_phi[at] * v[j]
            g[j] += along_phi[at] * v[i]
            at += 1
    total = 0.0
    for b in range(m):
        decay = along_k[b] * decays[b]
        total += decay
        products[b] = decay + along_k[b] * products[b]
    for i in range(p):
        rise = -total * w[i]
        for b in range(m):
            rise += products[b] * state.centers[i, b]
        for j in range(p):
            g[j] += state.metric[j, i] * rise


register(EmulatorJitState, workspace, value_and_gradient)
register_wall(EmulatorJitState, barrier)


@njit()
def slopes_along_components(state, points):
    """Return log s (n,), and the gradients along the components (n, c), at z (n, d)."""
    work = workspace(state)
    values, gradient = np.empty(len(points)), np.empty(state.origin.size)
    found = np.empty((len(points), state.constant.size))
    for i in range(len(points)):
        values[i] = value_and_gradient(state, points[i], gradient, work)
        found[i] = work[5][2]
    return values, found


@njit()
def log_densities(structure, points, eta):
    """Return the log-density (k,) at points x (k, d) where the outputs are η (k, n), without an emulator."""
    d, n = points.shape[1], eta.shape[1]
    theta, slopes, along, u, along_theta = np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    outputs, found = np.empty((3, n)), np.empty(len(points))
    for i in range(len(points)):
        outputs[0] = eta[i]
        constrained(structure.parameters.transforms, points[i], theta, slopes)
        found[i] = _likelihood(structure.data, outputs, theta, along_theta)
        found[i] += _prior(structure.parameters, points[i], theta, u, along, along_theta)
    return found
