r"""The Dirichlet form of kernel gradients by moments of the samples about the centers, O(n m² d²).

At a sample x and a center y, with r = x - y, s = |r|², p = -2q'(s) and w = -4q''(s), the block of B
is pI + w rrᵀ (equation 7 of Sutherland, Strathmann, Arbel and Gretton 2018). For a second center y'
write r' = r + Δ, Δ = y - y'. Then r·r' = (s + s' - |Δ|²)/2 turns all terms of second order in r
into a single one, with t = p + ws/2:

.. math::

    (pI + w\,rr^\top)(p'I + w'\,r'r'^\top)
    = c\,rr^\top + (c - p'w)\,r\Delta^\top + p w'\,\Delta r'^\top + pp' I,
    \qquad c = w t' + t w' - \tfrac12 |\Delta|^2 w w'.

So a pair of centers needs n numbers c and one product of them with the d(d + 3)/2 features r_i r_j,
r_i of the samples about the first center, and products for the features r_i alone with p'w and pw'
(which are the same for a Gaussian kernel). That is n m² d²/2 multiplications for all pairs y <= y',
while a product BᵀB takes n m² d³. Moments about a center of the pair lose no digits: where the
coefficients are not small, neither r nor r' is large.

In a metric A the samples are mapped so that E = AAᵀ is diagonal, and between Aᵀ and A the block is
p p' E + p'w rrᵀE + pw' E r'r'ᵀ + ww'(rᵀEr') rr'ᵀ. Then its second-order terms are of three kinds,
unless E is a multiple of I.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from kmc.bases import general
from kmc.bases.section_forms import RadialGeometry
from kmc.kernels import Gaussian, Kernel, Scale, squared_distances
from kmc.kernels.metric import mapped
from kmc.njit import njit

_GROUP = 4  # centers at a time: they share the samples' coefficients while these are in the cache
_STEP = 64  # samples at a time: BLAS runs such small products without packing


def sum_dirichlet(
    profile: Kernel,
    geometry: RadialGeometry,
    selected: np.ndarray,
    x: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return Σ_b w_b B_bᵀ B_b between the selected functions a d + i, (p, p).

    Parameters
    ----------
    profile : Kernel
        A profile of distance.
    geometry : RadialGeometry
        With m centers.
    selected : ndarray of int, shape (p,)
        Increasing numbers.
    x : ndarray, shape (n, d)
        Centered points.
    weights : ndarray, shape (n,)
    """
    m, d = geometry.centers.shape
    total = np.zeros((len(selected), len(selected)))
    starts = np.searchsorted(selected, d * np.arange(m + 1))
    for rows in general.slices(len(x), 4 * m):
        samples = _samples(profile, geometry, x[rows], weights[rows])
        for first in range(0, m, _GROUP):
            for a, moments in _moments(samples, first):
                strip = _strip(samples, a, moments)
                strip = strip if samples.mapping is None else _pulled(samples.mapping, strip)
                row, column = (
                    selected[starts[a] : starts[a + 1]] - a * d,
                    selected[starts[a] :] - a * d,
                )
                flat = strip.transpose(0, 2, 1).reshape(d, -1)
                flat = flat if len(selected) == m * d else flat[np.ix_(row, column)]
                total[starts[a] : starts[a + 1], starts[a] :] += flat
    return mirror(total)


class _Samples(NamedTuple):
    """Data for the sums over a block of samples."""

    x: np.ndarray  # (k, n), mapped: coordinate-major, so that loops over samples are contiguous
    centers: np.ndarray  # (m, k), mapped
    mapping: np.ndarray | None  # (k, d)
    spread: np.ndarray | None  # (k,), the diagonal of E; None where it is the identity
    p: np.ndarray  # (n, m); this and the next two are multiplied by the root of the weights
    w: np.ndarray  # (n, m)
    t: np.ndarray  # (n, m)
    halves: np.ndarray  # (m, m), |Δ|²/2 in E
    pp: np.ndarray  # (m, m), Σ_b p p'
    pw: np.ndarray  # (m, m), Σ_b p w'
    proportional: bool  # whether p/w is a constant


def _samples(profile, geometry, x, weights):
    mapping, spread = geometry.principal
    z, y = (
        (x, geometry.centers)
        if mapping is None
        else (mapped(x, mapping), mapped(geometry.centers, mapping))
    )
    s = squared_distances(z, y)
    if geometry.isotropic:
        weights = weights * spread[0]
        root, tau = np.ones(1), s
    else:
        root = np.sqrt(spread)
        tau = squared_distances(root * z, root * y)
    _, p, w = profile.derivatives(s, 2)
    p *= -2.0 * np.sqrt(weights)[:, None]
    w *= -4.0 * np.sqrt(weights)[:, None]
    t = (0.5 * tau) * w
    if geometry.isotropic:
        t += p
    return _Samples(
        x=np.ascontiguousarray(z.T),
        centers=np.ascontiguousarray(y),
        mapping=mapping,
        spread=None if geometry.isotropic else spread,
        p=p,
        w=w,
        t=t,
        halves=0.5 * squared_distances(root * y, root * y),
        pp=p.T @ p,
        pw=p.T @ w,
        proportional=_is_gaussian(profile),
    )


def _moments(samples, first):
    """Yield for each center a of a group (a, (Σ c φ, Σ p'w φ, Σ pw' φ)), each (features, m - a)."""
    m, k = samples.centers.shape
    group, features = min(_GROUP, m - first), k * (k + 3) // 2
    # first of the features that p'w and pw' are needed for
    begin = features - k if samples.spread is None else 0
    moments = np.zeros((group, features, m - first))
    crosses = np.zeros((1 if samples.proportional else 2, group, features - begin, m - first))
    arrays = samples.x, samples.centers, samples.p, samples.w, samples.t, samples.halves
    _accumulate(*arrays, first, begin, moments, crosses)
    for i in range(group):
        yield first + i, (moments[i, :, i:], crosses[0, i, :, i:], crosses[-1, i, :, i:])


def _strip(samples, a, moments):
    """Return the blocks of the center a with the centers from a on, (k, k, m - a)."""
    second, by_p, by_w = moments
    k = len(samples.x)
    quadratic = len(second) - k
    delta = (samples.centers[a] - samples.centers[a:]).T
    packed = _packed(k)
    blocks = second[packed]
    if samples.spread is None:
        linear = by_w
        third = second[quadratic:] - by_p - by_w  # Σ ww' (r·r') r
        e = np.ones((k, 1))
    else:
        linear = by_w[quadratic:]
        third = second[quadratic:]
        e = samples.spread[:, None]
        blocks += by_p[packed] * e
        blocks += by_w[packed] * e[:, None]
    blocks += (third + e * (linear + samples.pw[a, a:] * delta))[:, None] * delta
    blocks += (e * delta)[:, None] * linear
    blocks[np.arange(k), np.arange(k)] += samples.pp[a, a:] * e
    return blocks


def _pulled(mapping, blocks):
    """Return Aᵀ block A, (d, d, width)."""
    k, d = mapping.shape
    half = mapping.T @ blocks.reshape(k, -1)
    return mapping.T @ half.reshape(d, k, -1)


@lru_cache
def _packed(k):
    """Return the row of the feature r_i r_j, (k, k)."""
    i, j = np.triu_indices(k)
    rows = np.empty((k, k), np.intp)
    rows[i, j] = rows[j, i] = np.arange(len(i))
    return rows


def _is_gaussian(profile):
    return isinstance(profile, Gaussian) or (
        isinstance(profile, Scale) and _is_gaussian(profile.kernel)
    )


@njit()
def _accumulate(x, centers, p, w, t, halves, first, begin, moments, crosses):
    """Add Σ_b c φ to ``moments``, and Σ_b p'w φ and Σ_b pw' φ to ``crosses``.

    The latter two are of the features from ``begin`` on.
    """
    n = x.shape[1]
    kinds, group, fewer, width = crosses.shape
    features = moments.shape[1]
    left = np.empty(features * _STEP), np.empty(fewer * _STEP)
    right = np.empty(_STEP * width), np.empty(kinds * _STEP * width)
    product, crossed = np.empty((features, width)), np.empty((fewer, width))
    for start in range(0, n, _STEP):
        count = min(_STEP, n - start)
        phi = left[0][: features * count].reshape(features, count)
        scaled = left[1][: fewer * count].reshape(fewer, count)
        c = right[0][: count * width].reshape(count, width)
        others = right[1][: kinds * count * width].reshape(kinds, count, width)
        for kind in range(kinds):
            _copy(p if kind == 0 else w, start, first, others[kind])
        for i in range(group):
            a = first + i
            _features(x, start, centers[a], phi)
            _coefficients(w, t, halves[a], start, a, first, c)
            np.dot(phi, c, product)
            _add(product, moments[i])
            for kind in range(kinds):
                _scale(phi, begin, w if kind == 0 else p, start, a, scaled)
                np.dot(scaled, others[kind], crossed)
                _add(crossed, crosses[kind, i])


@njit()
def _features(x, start, center, phi):
    """Write r_i r_j, i <= j, and then r_i into the rows of ``phi`` (k(k + 3)/2, count)."""
    k = center.size
    count = phi.shape[1]
    linear = len(phi) - k
    for i in range(k):
        row, points, c = phi[linear + i], x[i, start : start + count], center[i]
        for b in range(count):
            row[b] = points[b] - c
    at = 0
    for i in range(k):
        r = phi[linear + i]
        for j in range(i, k):
            row, other = phi[at], phi[linear + j]
            for b in range(count):
                row[b] = r[b] * other[b]
            at += 1


@njit()
def _coefficients(w, t, halves, start, a, first, c):
    """Write w t' + t w' - |Δ|²/2 w w' into ``c`` (count, width).

    The centers are a and those from ``first`` on.
    """
    half = halves[first:]
    for b in range(len(c)):
        row, w_b, t_b = c[b], w[start + b, first:], t[start + b, first:]
        w_a, t_a = w[start + b, a], t[start + b, a]
        for j in range(row.size):
            row[j] = w_a * t_b[j] + w_b[j] * (t_a - half[j] * w_a)


@njit()
def _scale(phi, begin, factors, start, a, out):
    count = out.shape[1]
    factor = factors[start : start + count, a].copy()
    for i in range(len(out)):
        row, feature = out[i], phi[begin + i]
        for b in range(count):
            row[b] = factor[b] * feature[b]


@njit()
def _copy(source, start, first, out):
    for b in range(len(out)):
        row, given = out[b], source[start + b, first:]
        for j in range(row.size):
            row[j] = given[j]


@njit()
def _add(source, target):
    for i in range(len(target)):
        row, given = target[i], source[i]
        for j in range(row.size):
            row[j] += given[j]


_TILE = 32  # rows and columns at a time, so that both triangles fit in the fastest cache


@njit()
def mirror(matrix: np.ndarray) -> np.ndarray:
    """Copy a square matrix's upper triangle onto the lower one, in place; return the matrix."""
    n = len(matrix)
    for top in range(0, n, _TILE):
        for left in range(0, top + 1, _TILE):
            for i in range(top, min(top + _TILE, n)):
                for j in range(left, min(left + _TILE, i)):
                    matrix[i, j] = matrix[j, i]
    return matrix
