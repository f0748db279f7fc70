"""Radial kernels as programs of a small postfix machine, for use inside jitted loops and for blocks of distances.

numba cannot call methods of Python objects. So a kernel is written as instructions: a profile pushes its derivatives
onto a stack, a sum or a product combines the two topmost entries. The machine is compiled once; kernels are data.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from kmc.checks import derivative_order
from kmc.kernels import profiles
from kmc.njit import njit

GAUSSIAN, POWER, MATERN, SUM, PRODUCT, SCALE = range(6)

Instruction = tuple[int, float, float]

_BINOMIAL = np.array([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 2, 1, 0, 0], [1, 3, 3, 1, 0], [1, 4, 6, 4, 1]], float)

_TILE = 512  # distances at a time: the stack fits in the fastest cache


class Postfix(Protocol):
    """A kernel's interface for programs."""

    def postfix(self) -> tuple[Instruction, ...] | None:
        """Return the kernel's instructions, or None if it has none."""


class Program(NamedTuple):
    """A radial kernel q(s) in postfix order; arrays only, so that another kernel does not recompile a loop."""

    codes: np.ndarray  # (k,) int64, the instructions
    params: np.ndarray  # (k, 2), their numbers


def program(kernel: Postfix) -> Program | None:
    """Return the program of a radial kernel, or None if it is not composed of built-in radial kernels.

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
    """Allocate the stack that :func:`run_program` needs for up to m distances, shape (depth, 5, m)."""
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
    """Write q and its derivatives up to ``order`` <= 4 at squared distances s (n,) into ``stack[0, :order + 1, :n]``.

    ``s`` is contiguous, ``stack`` comes from :func:`stack_for` with at least n columns. Nothing is allocated or
    checked.
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
                profiles.gaussian(s, first, second, order, stack[top])
            elif code == POWER:
                profiles.power(s, first, second, order, stack[top])
            else:
                profiles.matern(s, first, second, order, stack[top])


def evaluate(postfix: tuple[Instruction, ...], s: np.ndarray, order: int) -> tuple[np.ndarray, ...]:
    """q, q', ... of a program at squared distances of any shape; ``derivatives`` of radial kernels calls it."""
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
    program = Program(codes, params)  # numba unboxes two arrays ten times as fast as a tuple of them
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
        np.array([code for code, _, _ in postfix], np.int64), np.array([numbers for _, *numbers in postfix], float)
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
    """Leibniz: (fg)^(k) = Σ_j C(k, j) f^(j) g^(k-j), from the highest order down so that f can be overwritten."""
    for k in range(order, -1, -1):
        row, factor = f[k], g[0]
        for a in range(n):
            row[a] *= factor[a]
        for j in range(k):
            lower, factor = f[j], g[k - j]
            binomial = _BINOMIAL[k, j]
            for a in range(n):
                row[a] += binomial * lower[a] * factor[a]
