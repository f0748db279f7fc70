"""A kernel expansion at one point, with a base density, inside jitted loops.

Two passes over the centers: first distances and projections, then a matrix product with
coefficients from the kernel's derivatives. Arrays are coordinate-major, so that every loop runs
over contiguous centers. The state has few arrays on purpose: numba counts references to each of
them, which takes as long as the arithmetic of a small expansion.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from kmc import jitted
from kmc.bases.base_jit_state import BaseJitState, base_value_and_gradient, flat
from kmc.bases.section_forms import RadialGeometry, profile_and_metric
from kmc.kernels import Gaussian, Kernel, Program, program, run_program, stack_for
from kmc.kernels.exponentials import exponential
from kmc.njit import njit


class RadialExpansion(Protocol):
    """The parts of a :class:`kmc.bases.KernelExpansion`."""

    @property
    def kernel(self) -> Kernel:
        """A radial kernel."""

    @property
    def centers(self) -> np.ndarray:
        """(m, d)."""

    @property
    def sections(self) -> np.ndarray | None:
        """Coefficients (m,) of k(·, y_a)."""

    @property
    def gradients(self) -> np.ndarray | None:
        """Coefficients (m, d) of the gradients of k(·, y_a) in y_a."""

    @property
    def laplacians(self) -> np.ndarray | None:
        """Coefficients (m,) of the Laplacians of k(·, y_a) in y_a."""


class ExpansionState(NamedTuple):
    """A kernel expansion plus a base log-density, as arrays and numbers.

    The value is base(x) + Σ_a α_a q - 2q' (r·β_a) + γ_a (4q''τ + 2Tq') at z = A (x - origin), with
    r = z - y_a and s =
    |r|²; E is the diagonal AAᵀ, τ = rᵀEr, T = tr E. The y_a and β_a are mapped by A, too. See
    :class:`kmc.bases.base_jit_state.BaseJitState` and :class:`kmc.bases.KernelExpansion`.
    """

    constant: float
    location: np.ndarray  # (d,)
    precision: np.ndarray  # (d, d)
    dof: float
    # (1 + k, d): the origin, near the centers, and A with orthogonal rows; k = 0 for the identity
    frame: np.ndarray
    # (k + 3, 1 or 2, m): y_ai in row i, then ones, α and γ; second, if any, β_ai and zeros
    rows: np.ndarray
    has_laplacians: bool
    rate: float  # of a Gaussian kernel exp(-rate s), otherwise zero
    codes: np.ndarray  # the kernel's program
    params: np.ndarray


def expansion_state(
    expansion: RadialExpansion, base: BaseJitState | None = None, origin: np.ndarray | None = None
) -> ExpansionState:
    """Return the state of base(x) + f(x - origin).

    Raise TypeError if the kernel is not made of built-in radial ones.
    """
    profile, metric = profile_and_metric(expansion.kernel)
    code = program(profile)
    if code is None or profile.kind != "distance":
        raise TypeError(
            f"kernel={expansion.kernel!r} cannot be evaluated inside jitted loops: expected one "
            "composed of built-in radial kernels, in a metric or not"
        )
    d = expansion.centers.shape[1]
    geometry = RadialGeometry(metric, expansion.centers)
    mapping = geometry.principal[0]
    total = geometry.origin if origin is None else geometry.origin + origin
    # the shift that was added, after rounding
    shift = geometry.origin if origin is None else total - origin
    base = flat(d) if base is None else base
    return ExpansionState(
        constant=float(base.constant),
        location=np.array(base.location, dtype=float, order="C"),  # always the same type for numba
        precision=np.array(base.precision, dtype=float, order="C"),
        dof=float(base.dof),
        frame=total[None].copy() if mapping is None else np.vstack([total, mapping]),
        rows=_rows(expansion, expansion.centers - shift, np.eye(d) if mapping is None else mapping),
        has_laplacians=expansion.laplacians is not None,
        rate=float(profile.rate) if isinstance(profile, Gaussian) else 0.0,
        codes=code.codes,
        params=code.params,
    )


def _rows(expansion, centers, mapping):
    parts = [centers] if expansion.gradients is None else [centers, expansion.gradients]
    k = len(mapping)
    rows = np.zeros((k + 3, len(parts), len(centers)))
    for i, part in enumerate(parts):
        rows[:k, i] = mapping @ part.T
    rows[k, 0] = 1.0
    for i, coefficients in enumerate([expansion.sections, expansion.laplacians]):
        if coefficients is not None:
            rows[k + 1 + i, 0] = coefficients
    return rows


@njit()
def workspace(state):
    """Return scratch arrays for :func:`value_and_gradient`."""
    size, parts, m = state.rows.shape
    stack = stack_for(Program(state.codes, state.params), m)
    return np.empty((2, size - 2)), np.empty((4, m)), np.empty(parts * m), stack


@njit()
def value_and_gradient(state, x, gradient, work):
    """Return the value at x (d,), and write the gradient into ``gradient`` (d,)."""
    value = base_value_and_gradient(
        state.constant, state.location, state.precision, state.dof, x, gradient
    )
    vectors, pairs, coefficients, stack = work
    k = len(state.rows) - 3
    _map(state.frame, x, vectors[0])
    _distances(state.rows, vectors[0], pairs)
    if state.rate == 0.0 or state.has_laplacians:
        order = 3 if state.has_laplacians else state.rows.shape[1]
        run_program(Program(state.codes, state.params), pairs[0], order, stack)
    if state.rate > 0.0:
        _gaussian(state.rate, state.rows, pairs, coefficients)
    else:
        value += _radial(state.rows, pairs, coefficients, stack)
    np.dot(state.rows[: k + 1].reshape(k + 1, coefficients.size), coefficients, vectors[1])
    if state.rate > 0.0:
        value += vectors[1, k] / (2.0 * state.rate)
    for i in range(k):
        vectors[1, i] -= vectors[1, k] * vectors[0, i]
    if state.has_laplacians:
        value += _laplacians(state.frame, state.rows, vectors, pairs, stack)
    _pull(state.frame, vectors[1], gradient)
    return value


@njit()
def _map(frame, x, z):
    """Write z = A (x - origin)."""
    size, d = frame.shape
    if size == 1:
        for i in range(d):
            z[i] = x[i] - frame[0, i]
    for i in range(1, size):
        total = 0.0
        for j in range(d):
            total += frame[i, j] * (x[j] - frame[0, j])
        z[i - 1] = total


@njit()
def _pull(frame, slope, gradient):
    """Add Aᵀ slope to the gradient."""
    size, d = frame.shape
    if size == 1:
        for i in range(d):
            gradient[i] += slope[i]
    for i in range(1, size):
        for j in range(d):
            gradient[j] += frame[i, j] * slope[i - 1]


@njit()
def _distances(rows, z, pairs):
    """Write |r|² and r·β into the first two rows of ``pairs``.

    Four coordinates at a time, so that sums are loaded and stored a quarter as often.
    """
    size, parts, m = rows.shape
    s, along = pairs[0], pairs[1]
    for a in range(m):
        s[a] = 0.0
        along[a] = 0.0
    k = size - 3
    whole = k - k % 4
    for i in range(0, whole, 4):
        y0, y1, y2, y3 = rows[i, 0], rows[i + 1, 0], rows[i + 2, 0], rows[i + 3, 0]
        z0, z1, z2, z3 = z[i], z[i + 1], z[i + 2], z[i + 3]
        if parts == 1:
            for a in range(m):
                r0, r1, r2, r3 = z0 - y0[a], z1 - y1[a], z2 - y2[a], z3 - y3[a]
                s[a] += (r0 * r0 + r1 * r1) + (r2 * r2 + r3 * r3)
        else:
            b0, b1, b2, b3 = rows[i, 1], rows[i + 1, 1], rows[i + 2, 1], rows[i + 3, 1]
            for a in range(m):
                r0, r1, r2, r3 = z0 - y0[a], z1 - y1[a], z2 - y2[a], z3 - y3[a]
                s[a] += (r0 * r0 + r1 * r1) + (r2 * r2 + r3 * r3)
                along[a] += (r0 * b0[a] + r1 * b1[a]) + (r2 * b2[a] + r3 * b3[a])
    for i in range(whole, k):
        y, zi = rows[i, 0], z[i]
        if parts == 1:
            for a in range(m):
                s[a] += (zi - y[a]) ** 2
        else:
            b = rows[i, 1]
            for a in range(m):
                r = zi - y[a]
                s[a] += r * r
                along[a] += r * b[a]


@njit()
def _gaussian(rate, rows, pairs, coefficients):
    """Write c, and e if there are gradients, of ∇f = Σ c (y - z) + e β into ``coefficients``.

    For q = exp(-ρs) they are e = 2ρq and c = e (α + 2ρ r·β), and f = Σ c / 2ρ.
    """
    size, parts, m = rows.shape
    s, along, sections = pairs[0], pairs[1], rows[size - 2, 0]
    for a in range(m):
        e = 2.0 * rate * exponential(-rate * s[a])
        coefficients[a] = e * (sections[a] + 2.0 * rate * along[a])
        along[a] = e
    if parts > 1:
        for a in range(m):
            coefficients[m + a] = along[a]


@njit()
def _radial(rows, pairs, coefficients, stack):
    """Write the coefficients of :func:`_gaussian` for any profile, and return f = Σ αq + e r·β.

    They are e = -2q' and c = 4q'' r·β - 2αq'.
    """
    size, parts, m = rows.shape
    along, values, sections = pairs[1], pairs[2], rows[size - 2, 0]
    q0, q1 = stack[0, 0], stack[0, 1]
    for a in range(m):
        e = -2.0 * q1[a]
        values[a] = q0[a] * sections[a] + e * along[a]
        coefficients[a] = e * sections[a]
    if parts > 1:
        q2 = stack[0, 2]
        for a in range(m):
            coefficients[a] += 4.0 * q2[a] * along[a]
            coefficients[m + a] = -2.0 * q1[a]
    return np.dot(rows[size - 3, 0], values)


@njit()
def _laplacians(frame, rows, vectors, pairs, stack):
    """Return Σ γ (4q''τ + 2Tq'), and add its gradient in z to ``vectors[1]``.

    The gradient is Σ γ (8q'''τ + 4Tq'') r + 8γq'' Er.
    """
    size, _, m = rows.shape
    tau, third, second = pairs[1], pairs[2], pairs[3]
    ones, laplacians = rows[size - 3, 0], rows[size - 1, 0]
    trace = 0.0
    for a in range(m):
        tau[a] = 0.0
    for i in range(size - 3):
        y, zi, spread = rows[i, 0], vectors[0, i], _spread(frame, i)
        trace += spread
        for a in range(m):
            tau[a] += spread * (zi - y[a]) ** 2
    q1, q2, q3 = stack[0, 1], stack[0, 2], stack[0, 3]
    for a in range(m):
        third[a] = 4.0 * q2[a] * tau[a] + 2.0 * trace * q1[a]
    total = np.dot(laplacians, third)
    for a in range(m):
        third[a] = laplacians[a] * (8.0 * q3[a] * tau[a] + 4.0 * trace * q2[a])
        second[a] = 8.0 * laplacians[a] * q2[a]
    sums = np.dot(ones, third), np.dot(ones, second)
    for i in range(size - 3):
        y, zi = rows[i, 0], vectors[0, i]
        bend = zi * sums[1] - np.dot(y, second)
        vectors[1, i] += zi * sums[0] - np.dot(y, third) + _spread(frame, i) * bend
    return total


@njit()
def _spread(frame, i):
    """Return the squared length of row i of A."""
    size, d = frame.shape
    if size == 1:
        return 1.0
    total = 0.0
    for j in range(d):
        total += frame[1 + i, j] ** 2
    return total


jitted.register(ExpansionState, workspace, value_and_gradient)
