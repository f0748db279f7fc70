"""The posterior that emulated outputs imply, at one point, jitted: its log-density and gradient.

In the coordinates z of the draws, u = origin + z back, and x_i = m_i + s_i u_i where x_i has a
hierarchical prior and is to be non-centered, else x_i = u_i. It is a density of u. With v =
(x_inputs - center) whitening and w = v metric, outputs on the scale of their likelihood are
η = offset + basis a, with the components

    a = constant + C φ(v),   φ = (v_i, v_i v_j for i <= j, k(w, w_j) for each simulation j)

with the Matérn and the bent kernel of :mod:`kmc.surrogate.covariance`. Outputs that depend on the
same inputs are a group, and all this is a group's own. Then log s is the log-likelihood of all η,
divided by the temperature, plus what is known. Outside of a ball it falls as the density of a
log-density alone does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kmc.jitted import register, register_wall
from kmc.kernels.exponentials import exponential
from kmc.njit import dot, njit
from kmc.surrogate.coordinates.walls import WallState, barrier, check_wall_state
from kmc.surrogate.emulator.structure import (
    BINOMIAL,
    SMALLEST,
    Data,
    Parameters,
    Structure,
    log_likelihood,
)
from kmc.surrogate.known import (
    check_arrays,
    check_columns,
    check_flags,
    check_splines,
    constrained,
    from_u,
    gradient_along_u,
    log_prior,
)

_MOST = 2**40  # numbers of inputs, components, simulations or data of a group


class Group(NamedTuple):
    """The regression of a group's components, and its outputs.

    The coefficients C of features and of sections are apart.
    """

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


class EmulatorJitState(NamedTuple):
    """See above; arrays of all groups are one after the other.

    So compiled code is the same for any number of groups. Data, outputs and components are in the
    order of the groups.
    """

    origin: np.ndarray  # (d,)
    back: np.ndarray  # (d, d)
    noncentered: np.ndarray  # (d,) of bool: which x_i are m_i + s_i u_i
    sizes: np.ndarray  # (g, 4) of int: p, c, m and n of each group
    inputs: np.ndarray  # this and those that follow: of all groups, raveled
    center: np.ndarray
    whitening: np.ndarray
    metric: np.ndarray
    constant: np.ndarray
    polynomial: np.ndarray
    sections: np.ndarray
    centers: np.ndarray
    rate: np.ndarray  # (g,)
    matern: np.ndarray  # (g,)
    bent: np.ndarray  # (g,)
    spread: np.ndarray  # (g,)
    offset: np.ndarray
    basis: np.ndarray
    parameters: Parameters
    data: Data
    temperature: float
    reach: float
    fall: float
    wall: WallState

    @classmethod
    def of(cls, groups: Sequence[Group], **others: Any) -> EmulatorJitState:
        """Return the state of these groups."""
        sizes = [
            (len(one.center), len(one.constant), one.sections.shape[1], len(one.offset))
            for one in groups
        ]
        joined: dict[str, Any] = {
            name: np.concatenate([np.ravel(getattr(one, name)) for one in groups])
            for name in Group._fields
        }
        return cls(sizes=np.array(sizes, np.int64), **joined, **others)


def check_emulator_state(state: EmulatorJitState, dim: int) -> None:
    """Raise a ValueError if loops would leave the arrays, which compiled code does not notice."""
    check_columns("sizes", state.sizes, (*np.shape(state.sizes)[:1], 4), 1, _MOST)
    sizes = state.sizes.tolist()  # whole numbers that do not overflow
    lengths = dict.fromkeys(("rate", "matern", "bent", "spread"), len(sizes))
    lengths |= {
        "center": sum(p for p, _, _, _ in sizes),
        "whitening": sum(p * p for p, _, _, _ in sizes),
        "metric": sum(p * p for p, _, _, _ in sizes),
        "constant": sum(c for _, c, _, _ in sizes),
        "polynomial": sum(c * (p + p * (p + 1) // 2) for p, c, _, _ in sizes),
        "sections": sum(c * m for _, c, m, _ in sizes),
        "centers": sum(p * m for p, _, m, _ in sizes),
        "offset": sum(n for _, _, _, n in sizes),
        "basis": sum(n * c for _, c, _, n in sizes),
    }
    shapes = {name: (length,) for name, length in lengths.items()}
    check_arrays(state, {"origin": (dim,), "back": (dim, dim), **shapes})
    check_flags("noncentered", state.noncentered, dim)
    check_columns("inputs", state.inputs, shapes["center"], 0, dim - 1)
    for part, kind in (state.parameters, Parameters), (state.data, Data), (state.wall, WallState):
        if type(part) is not kind:
            raise ValueError(f"a {kind.__name__} of type {type(part).__name__}")
    _check_known(state.parameters, state.data, lengths["offset"], dim)
    check_wall_state(state.wall, dim)


def check_structure(structure: Structure, dim: int) -> None:
    """Raise a ValueError unless the arrays fit together, and all columns are coordinates."""
    n, k, groups = len(structure.data.observed), len(structure.inputs), len(structure.depends)
    _check_known(structure.parameters, structure.data, n, dim)
    check_columns("inputs", structure.inputs, (k,), 0, dim - 1)
    check_columns("group", structure.group, (n,), 0, groups - 1)
    if structure.depends.dtype != bool or structure.depends.shape != (groups, k):
        raise ValueError(f"depends is not an array of bool of shape {(groups, k)}")


def _check_known(parameters, data, n, dim):
    check_arrays(parameters, {"quantiles": (dim, parameters.quantiles.shape[-1])})
    parameters.noncentered.check(dim)
    check_splines(parameters.known, dim)
    check_arrays(
        data,
        dict.fromkeys(
            ("observed", "constants", "variances", "relative", "shapes", "repeats"), (n,)
        ),
    )
    check_columns("kinds", data.kinds, (n,), 0, BINOMIAL)
    check_columns("scales", data.scales, (n, *data.scales.shape[1:2]), -1, dim - 1)
    check_columns(
        "relative_scales", data.relative_scales, (n, *data.relative_scales.shape[1:2]), -1, dim - 1
    )
    check_columns("shape_columns", data.shape_columns, (n,), -1, dim - 1)


@njit()
def workspace(state):
    """Return scratch arrays for :func:`value_and_gradient` and for the wall.

    Also return where each group begins in all arrays. The places are those of p, p², c, c k, c m,
    p m, n, n c, k and m numbers, with k features.
    """
    starts = np.zeros((len(state.sizes) + 1, 10), np.int64)
    for g in range(len(state.sizes)):
        p, c, m, n = state.sizes[g, 0], state.sizes[g, 1], state.sizes[g, 2], state.sizes[g, 3]
        k = p + p * (p + 1) // 2
        for i, length in enumerate((p, p * p, c, c * k, c * m, p * m, n, n * c, k, m)):
            starts[g + 1, i] = starts[g, i] + length
    ends = starts[-1]
    return (
        np.empty((8, state.origin.size)),
        np.empty((4, ends[0])),
        np.empty((2, ends[8])),
        np.empty((3, ends[9])),
        np.empty((3, ends[6])),
        np.empty((3, ends[2])),
        starts,
    )


@njit(allocates=False, no_cpython_wrapper=True)  # which would count references
def _group(state, starts, g):
    """Return the arrays of a group, without copies."""
    p, c, m, n = state.sizes[g, 0], state.sizes[g, 1], state.sizes[g, 2], state.sizes[g, 3]
    at = starts[g]
    return Group(
        state.inputs[at[0] : at[0] + p],
        state.center[at[0] : at[0] + p],
        _matrix(state.whitening, at[1], p, p),
        _matrix(state.metric, at[1], p, p),
        state.constant[at[2] : at[2] + c],
        _matrix(state.polynomial, at[3], c, p + p * (p + 1) // 2),
        _matrix(state.sections, at[4], c, m),
        _matrix(state.centers, at[5], p, m),
        state.rate[g],
        state.matern[g],
        state.bent[g],
        state.spread[g],
        state.offset[at[6] : at[6] + n],
        _matrix(state.basis, at[7], n, c),
    )


@njit(inline="always")  # an array made here may not be returned where references are not counted
def _matrix(raveled, start, rows, columns):
    return raveled[start : start + rows * columns].reshape(rows, columns)


class _Scratch(NamedTuple):
    """A group's part of the scratch arrays."""

    v: np.ndarray  # (p,)
    w: np.ndarray  # (p,)
    along_v: np.ndarray  # (p,), gradient of the log-likelihood, as the next three
    along_w: np.ndarray  # (p,)
    phi: np.ndarray  # (k,)
    along_phi: np.ndarray  # (k,)
    k: np.ndarray  # (m,), kernels, and later the gradient along them
    decays: np.ndarray  # (m,)
    products: np.ndarray  # (m,)
    a: np.ndarray  # (c,)
    from_sections: np.ndarray  # (c,)
    along_a: np.ndarray  # (c,)
    eta: np.ndarray  # (n,)
    along_eta: np.ndarray  # (n,)


@njit(allocates=False, no_cpython_wrapper=True)  # which would count references
def _scratch(work, g):
    _, inner, features, sections, outputs, components, starts = work
    p, c, n, k, m = starts[g, 0], starts[g, 2], starts[g, 6], starts[g, 8], starts[g, 9]
    p_end, c_end, n_end = starts[g + 1, 0], starts[g + 1, 2], starts[g + 1, 6]
    k_end, m_end = starts[g + 1, 8], starts[g + 1, 9]
    return _Scratch(
        inner[0, p:p_end],
        inner[1, p:p_end],
        inner[2, p:p_end],
        inner[3, p:p_end],
        features[0, k:k_end],
        features[1, k:k_end],
        sections[0, m:m_end],
        sections[1, m:m_end],
        sections[2, m:m_end],
        components[0, c:c_end],
        components[1, c:c_end],
        components[2, c:c_end],
        outputs[0, n:n_end],
        outputs[1, n:n_end],
    )


@njit(allocates=False)
def value_and_gradient(state, z, gradient, work):
    """Return log s(z) without the wall, and write its gradient into ``gradient`` (d,)."""
    vectors, _, _, _, outputs, _, starts = work
    d = z.size
    x, along, theta, slopes, along_theta, u, along_u = (
        vectors[0],
        vectors[1],
        vectors[2],
        vectors[3],
        vectors[4],
        vectors[5],
        vectors[6],
    )
    dot(z, state.back, u)
    for i in range(d):
        u[i] += state.origin[i]
        along_theta[i] = 0.0
    from_u(state.parameters, state.noncentered, u, x, theta, slopes)
    for g in range(len(state.sizes)):
        _outputs(_group(state, starts, g), x, _scratch(work, g))
    value = _likelihood(state.data, outputs, theta, along_theta) / state.temperature
    for i in range(d):
        along_theta[i] /= state.temperature
    value += log_prior(state.parameters, state.noncentered, x, theta, u, along, along_theta)
    for i in range(d):
        along_u[i] = 0.0
        if state.noncentered[i]:  # the prior is a function of u
            along_u[i], along[i] = along[i], 0.0
        along[i] += along_theta[i] * slopes[i]
    for i in range(state.offset.size):
        outputs[1, i] /= state.temperature
    for g in range(len(state.sizes)):
        group, own = _group(state, starts, g), _scratch(work, g)
        _pull_back(group, own)
        inputs, whitening, along_v = group.inputs, group.whitening, own.along_v
        for i in range(inputs.size):
            for j in range(inputs.size):
                along[inputs[i]] += whitening[i, j] * along_v[j]
    gradient_along_u(state.parameters, state.noncentered, u, theta, slopes, along_u, along)
    dot(state.back, along, gradient)
    square = 0.0
    for i in range(d):
        square += z[i] * z[i]
    outside = square - state.reach * state.reach
    if outside > 0.0:
        value -= state.fall * outside
        for i in range(d):
            gradient[i] -= 2.0 * state.fall * z[i]
    return value


@njit(allocates=False)
def _outputs(group, x, own):
    """Write a group's features, kernels and their slopes, components and outputs η at x."""
    p, m = group.center.size, group.centers.shape[1]
    v, w, phi, a, eta = own.v, own.w, own.phi, own.a, own.eta
    k, decays, products, centers = own.k, own.decays, own.products, group.centers
    inputs, center, whitening = group.inputs, group.center, group.whitening
    for i in range(p):
        v[i] = 0.0
        for j in range(p):
            v[i] += (x[inputs[j]] - center[j]) * whitening[j, i]
    dot(v, group.metric, w)
    at = p
    for i in range(p):
        phi[i] = v[i]
        for j in range(i, p):
            phi[at] = v[i] * v[j]
            at += 1
    # The loops over centers are contiguous: the compiler vectorizes them.
    for b in range(m):
        k[b] = products[b] = 0.0
    for i in range(p):
        wi, row = w[i], centers[i]
        for b in range(m):
            k[b] += (wi - row[b]) ** 2
            products[b] += wi * row[b]
    for b in range(m):
        r = np.sqrt(group.rate * k[b])
        decay = group.matern * exponential(-r)
        base = 1.0 + products[b] / group.spread
        cube = group.bent * base * base * base
        k[b] = (1.0 + r + r * r / 3.0) * decay + cube * base
        decays[b] = group.rate / 3.0 * (1.0 + r) * decay
        products[b] = 4.0 / group.spread * cube
    dot(group.polynomial, phi, a)
    dot(group.sections, k, own.from_sections)
    constant, from_sections, offset = group.constant, own.from_sections, group.offset
    for i in range(a.size):
        a[i] += constant[i] + from_sections[i]
    dot(group.basis, a, eta)
    for i in range(eta.size):
        eta[i] += offset[i]


@njit(allocates=False)
def _likelihood(data, outputs, theta, along_theta):
    """Return the log-likelihood of η, and write its gradient into ``outputs``.

    Add the gradient along θ to ``along_theta``.
    """
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


@njit(allocates=False)
def _pull_back(group, own):
    """Write the gradient of the log-likelihood along v and along the components of a group."""
    p, m = group.center.size, group.centers.shape[1]
    v, w, along_v, along_w, along_phi, along_k = (
        own.v,
        own.w,
        own.along_v,
        own.along_w,
        own.along_phi,
        own.k,
    )
    decays, products, centers, metric = own.decays, own.products, group.centers, group.metric
    dot(own.along_eta, group.basis, own.along_a)
    dot(own.along_a, group.polynomial, along_phi)
    dot(own.along_a, group.sections, along_k)
    for i in range(p):
        along_v[i] = along_phi[i]
    at = p
    for i in range(p):
        for j in range(i, p):
            along_v[i] += along_phi[at] * v[j]
            along_v[j] += along_phi[at] * v[i]
            at += 1
    total = 0.0
    for b in range(m):
        decay = along_k[b] * decays[b]
        total += decay
        products[b] = decay + along_k[b] * products[b]
    dot(centers, products, along_w)
    for i in range(p):
        rise = along_w[i] - total * w[i]
        for j in range(p):
            along_v[j] += metric[j, i] * rise


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
    """Return log-densities (k,) at points x (k, d) with outputs η (k, n), without an emulator."""
    d, n = points.shape[1], eta.shape[1]
    theta, slopes, along, u, along_theta = (
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
    )
    outputs, found, noncentered = np.empty((3, n)), np.empty(len(points)), np.zeros(d, np.bool_)
    for i in range(len(points)):
        outputs[0] = eta[i]
        constrained(structure.parameters.transforms, points[i], theta, slopes)
        found[i] = _likelihood(structure.data, outputs, theta, along_theta)
        found[i] += log_prior(
            structure.parameters, noncentered, points[i], theta, u, along, along_theta
        )
    return found
