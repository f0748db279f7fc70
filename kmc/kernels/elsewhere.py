"""Radial kernels in another array library: the programs of :mod:`kmc.kernels.program`, up to the first derivative.

Kernels with a kink are left out: where x = y, distances by products are not zero.
"""

from __future__ import annotations

from typing import Any

from kmc.kernels import profiles
from kmc.kernels.program import GAUSSIAN, MATERN, POWER, PRODUCT, SUM, Instruction


def profile(xp: Any, postfix: tuple[Instruction, ...], s: Any, slopes: bool) -> tuple[Any, Any]:
    """Q and, if ``slopes``, q' at squared distances, an array of the namespace ``xp``."""
    stack: list[tuple[Any, Any]] = []
    for code, first, second in postfix:
        if code in (SUM, PRODUCT):
            (g, g1), (f, f1) = stack.pop(), stack.pop()
            if code == SUM:
                stack.append((f + g, f1 + g1 if slopes else None))
            else:
                stack.append((f * g, f1 * g + f * g1 if slopes else None))
        elif code == GAUSSIAN:
            q = xp.exp(-first * s)
            stack.append((q, -first * q if slopes else None))
        elif code == POWER:
            w = 1.0 + first * s
            q = w ** (-second)
            stack.append((q, (-second * first) * q / w if slopes else None))
        elif code == MATERN:
            stack.append(_matern(xp, s, first, int(second), slopes))
        else:  # SCALE
            f, f1 = stack.pop()
            stack.append((first * f, first * f1 if slopes else None))
    return stack[0]


def _matern(xp, s, scale, start, slopes):
    a = xp.sqrt(scale * s)
    decay = xp.exp(-a)
    q = _shape(a, start) * decay
    if not slopes:
        return q, None
    return q, (-scale * float(profiles._STEP[start])) * _shape(a, start + 1) * decay


def _shape(a, number):
    c0, c1, c2, c3 = (float(c) for c in profiles._NUMERATOR[number])
    return c0 + a * (c1 + a * (c2 + a * c3))
