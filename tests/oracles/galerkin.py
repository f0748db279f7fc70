"""Algorithm 1 of Cabannes and Bach (2023), with their appendix A.3, one pair of functions at a
time.

Functions are callables of one point.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import sqrtm


def algorithm_1(h, phi, psi, x, epsilon=0.0):
    """λ (p,) and the values of f_i and g_i at the samples, (p, n) both, for a bilinear h(f, g, x).

    With the ε of footnote 6 it is the decomposition of (L, Φ + εI, Ψ + εI).
    """
    form = np.array([[sum(h(f, g, point) for point in x) for g in psi] for f in phi]) / len(x)
    first = np.array([[sum(f(point) * g(point) for point in x) for g in phi] for f in phi]) / len(x)
    second = np.array([[sum(f(point) * g(point) for point in x) for g in psi] for f in psi]) / len(
        x
    )
    first, second = (matrix + epsilon * np.eye(len(matrix)) for matrix in (first, second))
    left, right = np.linalg.inv(sqrtm(first).real), np.linalg.inv(sqrtm(second).real)
    u, values, v = np.linalg.svd(left @ form @ right)
    a, b = (left @ u).T, (right @ v.T).T
    f = a @ np.array([[function(point) for point in x] for function in phi])
    g = b @ np.array([[function(point) for point in x] for function in psi])
    return values, f, g


def differential(coefficients, step=1e-3):
    """H_c of equation 10, by central differences."""

    def h(f, g, x):
        total = 0.0
        for (alpha, beta), c in coefficients.items():
            total += c * _partial(f, x, alpha, step) * _partial(g, x, beta, step)
        return total

    return h


def tangent_prop(tangents):
    """H of equation 19, for a function that gives a list of tangents at a point."""

    def h(f, g, x):
        total, vectors = 0.0, tangents(x)
        for u in vectors:
            total += _along(f, x, u) * _along(g, x, u)
        return total / len(vectors)

    return h


def augmentation_pairs(pair):
    """H of equation 20, for a function that gives the two augmentations of a point."""

    def h(f, g, x):
        first, second = pair(x)
        return (f(first) - f(second)) * (g(first) - g(second))

    return h


def _partial(f, x, index, step):
    for axis, order in enumerate(index):
        if order:
            lower = tuple(o - (i == axis) for i, o in enumerate(index))
            shift = step * (np.arange(len(x)) == axis)
            return (_partial(f, x + shift, lower, step) - _partial(f, x - shift, lower, step)) / (
                2 * step
            )
    return f(x)


def _along(f, x, u, step=1e-5):
    return (f(x + step * u) - f(x - step * u)) / (2 * step)
