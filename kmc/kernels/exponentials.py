"""The exponential, written so that compilers vectorize loops over it (libm's is not vectorized)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from kmc.njit import njit

_LOG2E = 1.4426950408889634
_LN2_HIGH = 0.693147180369123816490
_LN2_LOW = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the rounded integer in the low bits
_LEAST = -700.0


def _fused(_context, a, b, c):
    """Generate code for a b + c rounded once: equal on all machines, with half the instructions."""

    def generate(_context, builder, _signature, arguments):
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


def _reinterpreted(_context, a, kind):
    """Generate code that reads the bits of a 64-bit number as another type."""

    def generate(context, builder, _signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(kind.dtype))

    return kind.dtype(a, kind), generate


_fma: Any = intrinsic(_fused)
_reinterpret: Any = intrinsic(_reinterpreted)


@njit(allocates=False)
def exponential(x: float) -> float:
    """Return exp(x) for x <= 700, to 1 ulp; below -700 the result is exp(-700), and NaN stays NaN.

    exp(x) = 2^n exp(r), |r| <= ln(2)/2, and exp(r) = 1 + r + r² g(r) with g of degree 9
    interpolated at Chebyshev nodes. (The Taylor polynomial of degree 12 is less accurate.)
    """
    x = _LEAST if x < _LEAST else x
    t = _fma(x, _LOG2E, ROUND)
    n = t - ROUND
    r = _fma(n, -_LN2_LOW, _fma(n, -_LN2_HIGH, x))
    p = 2.5100491196560127e-08
    p = _fma(p, r, 2.7620090001687383e-07)
    p = _fma(p, r, 2.7557268155388257e-06)
    p = _fma(p, r, 2.48015212920282e-05)
    p = _fma(p, r, 0.0001984126986334991)
    p = _fma(p, r, 0.0013888888917217076)
    p = _fma(p, r, 0.008333333333329954)
    p = _fma(p, r, 0.041666666666624115)
    p = _fma(p, r, 0.16666666666666669)
    p = _fma(p, r, 0.5000000000000001)
    p = _fma(p, r, 1.0)
    p = _fma(p, r, 1.0)
    return p * _reinterpret((_reinterpret(t, np.int64) << 52) + (1023 << 52), np.float64)


@njit(allocates=False)
def exponentials(x: np.ndarray, out: np.ndarray) -> None:
    """Write exp(x) for x <= 700 into ``out``, both (n,), in half a nanosecond per element."""
    for a in range(x.size):
        out[a] = exponential(x[a])
