"""Sine and cosine, written so that the compiler vectorizes the loop (libm's are not vectorized)."""

from __future__ import annotations

import numpy as np

from kmc.njit import njit

_MOST = 1e6  # beyond, multiples of π/2 are no longer exact

_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to a whole number
_TWO_OVER_PI = 0.6366197723675814
_HALF_PI_HIGH = 1.57079632673412561417  # 33 bits: whole multiples up to 2^20 are exact
_HALF_PI_LOW = 6.07710050650619224932e-11


@njit()
def cosines_and_sines(angles, cosines, sines):
    """Both, elementwise over arrays (n,), to an absolute error of 2e-16.

    The remainder r of the angle after whole multiples of π/2, |r| <= π/4, goes into the polynomials of fdlibm (Sun
    Microsystems, 1993); which of the two is the sine, and the signs, depend on the multiple modulo four.
    """
    largest = 0.0
    for a in range(angles.size):
        largest = max(largest, abs(angles[a]))
    if not largest < _MOST:
        for a in range(angles.size):
            cosines[a] = np.cos(angles[a])
            sines[a] = np.sin(angles[a])
        return
    for a in range(angles.size):
        n = (angles[a] * _TWO_OVER_PI + _ROUND) - _ROUND
        quarter = n - 4.0 * np.floor(0.25 * n)
        r = (angles[a] - n * _HALF_PI_HIGH) - n * _HALF_PI_LOW
        z = r * r
        s = 1.58969099521155010221e-10
        s = s * z - 2.50507602534068634195e-08
        s = s * z + 2.75573137070700676789e-06
        s = s * z - 1.98412698298579493134e-04
        s = s * z + 8.33333333332248946124e-03
        s = s * z - 1.66666666666666324348e-01
        s = r + r * z * s
        c = -1.13596475577881948265e-11
        c = c * z + 2.08757232129817482790e-09
        c = c * z - 2.75573143513906633035e-07
        c = c * z + 2.48015872894767294178e-05
        c = c * z - 1.38888888888741095749e-03
        c = c * z + 4.16666666666666019037e-02
        c = (1.0 - 0.5 * z) + z * z * c
        odd = quarter == 1.0 or quarter == 3.0
        cosine = s if odd else c
        sine = c if odd else s
        cosines[a] = -cosine if quarter == 1.0 or quarter == 2.0 else cosine
        sines[a] = -sine if quarter >= 2.0 else sine
