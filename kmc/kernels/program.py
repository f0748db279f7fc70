"""Radial kernels as programs of a small postfix machine, for jitted loops and blocks of distances.

numba cannot call methods of Python objects. So a kernel is written as instructions: a profile
pushes its derivatives onto a stack, a sum or a product combines the two topmost entries. The
machine is compiled once; kernels are data.

Each family of profiles q(s) has one jitted definition: ``family(s, first, second, order, out)``
writes q, q', ..., of orders 0..order <= 4 at s (n,) into the first n columns of the rows of ``out``
(order + 1 or more, n or more), C-contiguous; ``first`` and ``second`` are the family's numbers.
Each loop runs over contiguous points and is vectorized; nothing is allocated. Values that diverge
at s = 0 are written as 0 there: they only enter multiplied by s or by x - y, and those products
vanish.

No fastmath: with it, newly compiled code and code loaded from numba's cache rounded differently, so
a seed gave different draws on the first run and on the second.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from kmc.checks import derivative_order
from kmc.kernels.exponentials import exponential
from kmc.njit import njit

GAUSSIAN, POWER, MATERN, SUM, PRODUCT, SCALE = range(6)

Instruction = tuple[int, float, float]

_BINOMIAL = np.array(
    [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 2, 1, 0, 0], [1, 3, 3, 1, 0], [1, 4, 6, 4, 1]], float
)
_TILE = 512  # distances at a time: the stack fits in the fastest cache
COINCIDENT = 1e-30  # smaller distances, in bandwidths, count as zero: 1/a^7 would overflow
# bandwidths; exp(-700) is the smallest value of the exponential, and a^3 must not overflow
_FARTHEST = 700.0

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


class Postfix(Protocol):
    """A kernel's interface for programs."""

    def postfix(self) -> tuple[Instruction, ...] | None:
        """Return the kernel's instructions, or None if it has none."""


class Program(NamedTuple):
    """A radial kernel q(s) in postfix order.

    It has arrays only, so that another kernel does not recompile a loop.
    """

    codes: np.ndarray  # (k,) int64, the instructions
    params: np.ndarray  # (k, 2), their numbers


def program(kernel: Postfix) -> Program | None:
    """Return the program of a radial kernel, or None if it is not composed of built-in radial ones.

    Parameters
    ----------
    kernel : Kernel

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Gaussian, Matern52, program, run_program, stack_for
    >>> code = program(Gaussian() + 0.5 * Matern52(2.0))
    >>> s = np.array([0.0, 1.0])
    >>> stack = stack_for(code, len(s))
    >>> run_program(code, s, 1, stack)
    >>> stack[0, :2]  # q and q'
    array([[ 1.5  ,  1.021],
           [-0.604, -0.375]])
    """
    postfix = kernel.postfix()
    return None if postfix is None else _assemble(postfix)


@njit()
def stack_for(program: Program, m: int) -> np.ndarray:
    """Allocate the stack (depth, 5, m) that :func:`run_program` needs for up to m distances."""
    depth = 0
    deepest = 0
    for code in program.codes:
        if code in (SUM, PRODUCT):
            depth -= 1
        elif code != SCALE:
            depth += 1
            deepest = max(deepest, depth)
    return np.empty((deepest, 5, m))


@njit()
def run_program(program: Program, s: np.ndarray, order: int, stack: np.ndarray) -> None:
    """Write q, q', ... at squared distances s (n,) into ``stack[0, :order + 1, :n]``.

    ``order`` is at most 4, ``s`` is contiguous, ``stack`` comes from :func:`stack_for` with at
    least n columns. Nothing is allocated or checked.
    """
    top = -1
    for i in range(program.codes.size):
        code = program.codes[i]
        first = program.params[i, 0]
        second = program.params[i, 1]
        if code == SUM:
            top -= 1
            _add(stack[top], stack[top + 1], order, s.size)
        elif code == PRODUCT:
            top -= 1
            _multiply(stack[top], stack[top + 1], order, s.size)
        elif code == SCALE:
            _scale(stack[top], first, order, s.size)
        else:
            top += 1
            if code == GAUSSIAN:
                gaussian(s, first, second, order, stack[top])
            elif code == POWER:
                power(s, first, second, order, stack[top])
            else:
                matern(s, first, second, order, stack[top])


def evaluate(postfix: tuple[Instruction, ...], s: np.ndarray, order: int) -> tuple[np.ndarray, ...]:
    """Return q, q', ... of a program at squared distances of any shape.

    ``derivatives`` of radial kernels calls it.
    """
    order = derivative_order(order)
    s = np.asarray(s, dtype=float)
    flat = np.ascontiguousarray(s).reshape(-1)
    if not flat.flags.writeable:  # numba would treat it as another type, and compile again
        flat = flat.copy()
    out = np.empty((order + 1, flat.size))
    _evaluate(*_assemble(postfix), flat, order, out)
    return tuple(row.reshape(s.shape)[()] for row in out)


@njit()
def _evaluate(codes, params, s, order, out):
    # numba unboxes two arrays ten times as fast as a tuple of them
    program = Program(codes, params)
    if codes.size == 1 and order == 0:  # a single pass, which needs no stack
        run_program(program, s, order, out.reshape(1, 1, s.size))
        return
    stack = stack_for(program, min(s.size, _TILE))
    for start in range(0, s.size, _TILE):
        tile = s[start : start + _TILE]
        run_program(program, tile, order, stack)
        for k in range(order + 1):
            row, result = out[k], stack[0, k]
            for a in range(tile.size):
                row[start + a] = result[a]


@lru_cache(maxsize=256)
def _assemble(postfix: tuple[Instruction, ...]) -> Program:
    return Program(
        np.array([code for code, _, _ in postfix], np.int64),
        np.array([numbers for _, *numbers in postfix], float),
    )


@njit()
def _add(f, g, order, n):
    for k in range(order + 1):
        left, right = f[k], g[k]
        for a in range(n):
            left[a] += right[a]


@njit()
def _scale(f, factor, order, n):
    for k in range(order + 1):
        row = f[k]
        for a in range(n):
            row[a] *= factor


@njit()
def _multiply(f, g, order, n):
    """Write (fg)^(k) = Σ_j C(k, j) f^(j) g^(k-j) over f, from the highest order down."""
    for k in range(order, -1, -1):
        row, factor = f[k], g[0]
        for a in range(n):
            row[a] *= factor[a]
        for j in range(k):
            lower, factor = f[j], g[k - j]
            binomial = _BINOMIAL[k, j]
            for a in range(n):
                row[a] += binomial * lower[a] * factor[a]


@njit(error_model="numpy")
def gaussian(s, rate, _, order, out):
    """Write q = exp(-rate s), q' = -rate q, ..."""
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
    """Write q = w^-exponent and its derivatives, with w = 1 + scale s.

    The k-th derivative is the one before times -(exponent + k - 1) scale / w.
    """
    _inverse_power(s, scale, exponent, out[0])
    n = s.size
    for k in range(1, order + 1):
        lower, row = out[k - 1], out[k]
        factor = -(exponent + k - 1.0) * scale
        for a in range(n):
            row[a] = factor * lower[a] / (1.0 + scale * s[a])


@njit(error_model="numpy")
def _inverse_power(s, scale, exponent, q):
    """Write (1 + scale s)^-exponent.

    Small multiples of 1/2 use products and a square root, which are vectorized.
    """
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
    """Write Matérn profiles of a = sqrt(scale s), which are each other's derivatives up to factors.

    With shapes g_0 = 1 + a + 2a²/5 + a³/15 (Matérn-7/2), g_1 = 1 + a + a²/3 (5/2), g_2 = 1 + a
    (3/2), g_3 = 1 (1/2), g_4 = 1/a, g_5 = (1 + a)/a³, ...: d/ds [g_j exp(-a)] = -scale g_{j+1}
    exp(-a) times 1/10, 1/6, 1/2, 1/2, ... The kernel's own shape is ``start`` (a whole number, 3 at
    most).
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
