"""Kernels as functions of two points, literally, and their partial derivatives by central
differences.

The differences (those of :mod:`tests.oracles.differences`, nested) act on the full k(x, y), in x
and in y, and do not use profiles. With lengths of about two, the steps below leave errors of some
1e-8 in the fourth derivatives and of 1e-9 or less in the others, most of it truncation (measured:
it falls with the sixth power of the step).
"""

from __future__ import annotations

import math

import numpy as np

from kmc import kernels as K
from tests.oracles.differences import FIRST, SECOND

STEPS = {
    "x": 0.02,
    "y": 0.02,
    "xy": 0.02,
    "xx": 0.02,
    "yy": 0.02,
    "xxy": 0.025,
    "xyy": 0.025,
    "xxyy": 0.035,
}


def value(kernel, x, y):
    """k(x, y) of two vectors."""
    s, t = sum((a - b) ** 2 for a, b in zip(x, y)), sum(a * b for a, b in zip(x, y))
    match kernel:
        case K.Sum(left, right):
            return value(left, x, y) + value(right, x, y)
        case K.Product(left, right):
            return value(left, x, y) * value(right, x, y)
        case K.Scale(inner, factor):
            return factor * value(inner, x, y)
        case K.Metric(inner, matrix):
            a = np.diag(matrix) if matrix.ndim == 1 else matrix
            return value(inner, a @ x, a @ y)
        case K.Gaussian(h):
            return math.exp(-s / (2 * h**2))
        case K.InverseMultiquadric(h, exponent):
            return (1 + s / h**2) ** -exponent
        case K.Matern52(h):
            a = math.sqrt(5 * s) / h
            return (1 + a + a**2 / 3) * math.exp(-a)
        case K.Matern72(h):
            a = math.sqrt(7 * s) / h
            return (1 + a + 2 * a**2 / 5 + a**3 / 15) * math.exp(-a)
        case K.Exponential(h):
            return math.exp(-math.sqrt(s) / h)
        case K.Polynomial(degree, offset, h):
            return (t / h**2 + offset) ** degree
        case K.ExponentialDotProduct(h):
            return math.exp(t / h**2)
        case K.RadialFunction(profiles, h):
            return float(profiles[0](np.array(s / h**2)))
        case K.DotProductFunction(profiles, h):
            return float(profiles[0](np.array(t / h**2)))
    raise TypeError(f"kernel={kernel!r}: expected one of the kernels above")


def partial(kernel, name, x, y):
    """The partial derivative at two vectors (d,), by differences; names as in
    :func:`kmc.kernels.kernel_derivative`.
    """
    d, step = len(x), STEPS.get(name)

    def k(x, y):
        return value(kernel, x, y)

    if name == "k":
        return k(x, y)
    if name in ("x", "y"):
        return np.array([_first(k, x, y, name, i, step) for i in range(d)])
    if name in ("xx", "yy"):
        return _laplacian(k, x, y, name[0], step)
    if name == "xy":

        def slope(j):
            return lambda x, y: _first(k, x, y, "y", j, step)

        return np.array(
            [[_first(slope(j), x, y, "x", i, step) for j in range(d)] for i in range(d)]
        )

    def laplacian(x, y):
        return _laplacian(k, x, y, "y" if name == "xyy" else "x", step)

    if name == "xxyy":
        return _laplacian(laplacian, x, y, "y", step)
    return np.array(
        [_first(laplacian, x, y, "x" if name == "xyy" else "y", i, step) for i in range(d)]
    )


def _laplacian(k, x, y, which, step):
    return sum(_shifted_sum(k, x, y, which, i, SECOND, step) / step**2 for i in range(len(x)))


def _first(k, x, y, which, i, step):
    return _shifted_sum(k, x, y, which, i, FIRST, step) / step


def _shifted_sum(k, x, y, which, i, stencil, step):
    total = 0.0
    for multiple, coefficient in stencil.items():
        shift = np.zeros(len(x))
        shift[i] = multiple * step
        total += coefficient * (k(x + shift, y) if which == "x" else k(x, y + shift))
    return total
