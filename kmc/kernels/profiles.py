r"""Profiles q(s) of the built-in radial kernels and their derivatives in s: one jitted definition for each family.

``family(s, first, second, order, out)`` writes q, q', ..., of orders 0..order <= 4 at s (n,) into the first n columns
of the rows of ``out`` (order + 1 or more, n or more), C-contiguous; ``first`` and ``second`` are the family's numbers.
Each loop runs over contiguous points and is vectorized; nothing is allocated. Values that diverge at s = 0 are written
as 0 there: they only enter multiplied by s or by x - y, and those products vanish.

No fastmath: with it, newly compiled code and code loaded from numba's cache rounded differently, so a seed
gave different draws on the first run and on the second.
"""

from __future__ import annotations

import numpy as np

from kmc.kernels.exponentials import exponential
from kmc.njit import njit

COINCIDENT = 1e-30  # smaller distances, in bandwidths, count as zero: 1/a^7 would overflow

_FARTHEST = 700.0  # bandwidths; exp(-700) is the smallest value of the exponential, and a^3 must not overflow


@njit(error_model="numpy")
def gaussian(s, rate, _, order, out):
    """q = exp(-rate s), q' = -rate q, ..."""
    n = s.size
    q = out[0]
    for a in range(n):
        q[a] = exponential(-rate * s[a])
    for k in range(1, order + 1):
        lower, row = out[k - 1], out[k]
        for a in range(n):
            row[a] = -rate * lower[a]


@njit(error_model="numpy")
def power(s, scale, exponent, order, out):
    """q = w^-exponent with w = 1 + scale s; each derivative is the previous one times -(exponent + k - 1) scale / w."""
    _inverse_power(s, scale, exponent, out[0])
    n = s.size
    for k in range(1, order + 1):
        lower, row = out[k - 1], out[k]
        factor = -(exponent + k - 1.0) * scale
        for a in range(n):
            row[a] = factor * lower[a] / (1.0 + scale * s[a])


@njit(error_model="numpy")
def _inverse_power(s, scale, exponent, q):
    """(1 + scale s)^-exponent: small multiples of 1/2 by products and a square root, which are vectorized."""
    n = s.size
    halves = int(2.0 * min(exponent, 8.0))
    if halves != 2.0 * exponent:
        for a in range(n):
            q[a] = exponential(-exponent * np.log1p(scale * s[a]))
        return
    if halves % 2 == 1:
        for a in range(n):
            q[a] = 1.0 / np.sqrt(1.0 + scale * s[a])
    else:
        for a in range(n):
            q[a] = 1.0
    for _ in range(halves // 2):
        for a in range(n):
            q[a] /= 1.0 + scale * s[a]


@njit(error_model="numpy")
def matern(s, scale, start, order, out):
    """Matérn profiles of a = sqrt(scale s), which are each other's derivatives up to factors.

    With shapes g_0 = 1 + a + 2a²/5 + a³/15 (Matérn-7/2), g_1 = 1 + a + a²/3 (5/2), g_2 = 1 + a (3/2), g_3 = 1 (1/2),
    g_4 = 1/a, g_5 = (1 + a)/a³, ...: d/ds [g_j exp(-a)] = -scale g_{j+1} exp(-a) times 1/10, 1/6, 1/2, 1/2, ...
    The kernel's own shape is ``start`` (a whole number, 3 at most).
    """
    n = s.size
    first = int(start)
    q = out[0]  # a, until the derivatives are done
    for i in range(n):
        a = np.sqrt(scale * s[i])
        q[i] = _FARTHEST if a > _FARTHEST else a
    factor = 1.0
    for k in range(1, order + 1):
        factor *= -scale * _STEP[first + k - 1]
        _matern_row(q, first + k, factor, out[k], n)
    c0, c1, c2, c3 = _NUMERATOR[first]
    for i in range(n):
        a = q[i]
        q[i] = exponential(-a) * (c0 + a * (c1 + a * (c2 + a * c3)))


@njit(error_model="numpy")
def _matern_row(distance, shape, factor, row, n):
    """Write factor g_shape(a) exp(-a) at the distances a into the first n entries of ``row``."""
    c0, c1, c2, c3 = _NUMERATOR[shape]
    for i in range(n):
        a = distance[i]
        row[i] = factor * exponential(-a) * (c0 + a * (c1 + a * (c2 + a * c3)))
    if shape < 4:
        return
    for i in range(n):
        a = distance[i]
        row[i] *= 1.0 / a if a > COINCIDENT else 0.0
    for _ in range(4, shape):
        for i in range(n):
            a = distance[i]
            row[i] *= 1.0 / (a * a) if a > COINCIDENT else 0.0


_STEP = np.array([1 / 10, 1 / 6, 1 / 2, 1 / 2, 1 / 2, 1 / 2, 1 / 2])

_NUMERATOR = np.array(  # of the shapes; from g_4 on they are divided by a, a³, a⁵, a⁷
    [
        [1, 1, 2 / 5, 1 / 15],
        [1, 1, 1 / 3, 0],
        [1, 1, 0, 0],
        [1, 0, 0, 0],
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [3, 3, 1, 0],
        [15, 15, 6, 1],
    ]
)
