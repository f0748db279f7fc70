"""The estimators of kscore (Zhou, Shi and Zhu 2020, "Nonparametric score estimators") in NumPy.

kscore is TensorFlow code; these are its formulas: a kernel matrix K between samples, the means h of
the kernel's divergence, and a regularized inverse of K. Kernels are diagonal, k(x, y) I, or
curl-free, -∇∇ψ(|x - y|²).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.spatial.distance import cdist

MOST_CONJUGATE_GRADIENTS = 40  # as in kscore


@dataclass(frozen=True)
class Kernel:
    """A matrix-valued kernel: its products, and the means of its divergence over samples."""

    name: str
    curl_free: bool
    derivatives: Callable  # of ψ at squared distances and a width, of order 0 to 3

    def between(
        self, x: np.ndarray, samples: np.ndarray, width: float
    ) -> tuple[Callable, np.ndarray]:
        """The product with (n, d) coefficients at samples, giving (m, d), and the mean divergence
        (m, d).
        """
        s, d = cdist(x, samples, "sqeuclidean"), x.shape[1]
        g0, g1, g2, g3 = self.derivatives(s, width)
        if not self.curl_free:
            return lambda z: g0 @ z, _differences(-2 * g1, x, samples) / len(samples)

        def product(z):
            along = -4 * g2 * (x @ z.T - np.sum(samples * z, axis=1))
            return _differences(along, x, samples) - 2 * g1 @ z

        return product, _differences(4 * ((d + 2) * g2 + 2 * s * g3), x, samples) / len(samples)


def _differences(weights, x, y):
    """Σ_j w_ij (x_i - y_j)."""
    return weights.sum(axis=1)[:, None] * x - weights @ y


def _gaussian(s, width):
    a = 0.5 / width**2
    g = np.exp(-a * s)
    return g, -a * g, a**2 * g, -(a**3) * g


def _multiquadric(s, width):
    a, u = 1 / width**2, 1 / (1 + s / width**2)
    g = np.sqrt(u)
    return g, -0.5 * a * u * g, 0.75 * a**2 * u**2 * g, -1.875 * a**3 * u**3 * g


KERNELS = (
    Kernel("diagonal Gaussian", False, _gaussian),
    Kernel("diagonal IMQ", False, _multiquadric),
    Kernel("curl-free Gaussian", True, _gaussian),
    Kernel("curl-free IMQ", True, _multiquadric),
)

REGULARIZATIONS = 10.0 ** np.arange(-6.0, 1.0)
ITERATIONS = (5, 10, 20, 50, 100, 200)
Estimates = Iterator[tuple[str, np.ndarray]]


def estimates(x: np.ndarray, points: np.ndarray, kernel: Kernel, width: float) -> Estimates:
    """Names of estimators, and their scores (m, d) at points for each of their settings."""
    product, h = kernel.between(x, x, width)
    at, h_at = kernel.between(points, x, width)
    n = len(x)
    for regularization in REGULARIZATIONS:
        coefficients = _conjugate_gradients(product, n * regularization, h / regularization)
        yield "Tikhonov (KEF)", at(coefficients) - h_at / regularization
    for a, c in _nu_method(product, h, n):
        yield "nu-method", at(c) + h_at * a
    for a, c in _landweber(product, h, n):
        yield "Landweber", at(c) + h_at * a
    if not kernel.curl_free:
        gram = product(np.eye(n))
        values, vectors = linalg.eigh(gram / n)
        for cutoff in REGULARIZATIONS:
            kept = values > min(cutoff, 0.99 * values[-1])
            inverse = vectors[:, kept] / values[kept] ** 2 @ vectors[:, kept].T
            yield "spectral cutoff (SSGE)", -at(inverse @ h / n)
        yield from _stein(gram, x, points, kernel, width)


def _nu_method(product, h, n, nu=1.0):
    """Coefficients of h at points and at samples after some iterations, as kscore's with ν = 1."""
    a, previous_a = -(4 * nu + 2) / (4 * nu + 1), 0.0
    c, previous_c = np.zeros_like(h), np.zeros_like(h)
    for t in range(2, max(ITERATIONS) + 1):
        top = (t - 1) * (2 * t - 3) * (2 * t + 2 * nu - 1)
        u = top / ((t + 2 * nu - 1) * (2 * t + 4 * nu - 1) * (2 * t + 2 * nu - 3))
        w = 4 * (2 * t + 2 * nu - 1) * (t + nu - 1) / ((t + 2 * nu - 1) * (2 * t + 4 * nu - 1))
        c, previous_c = (1 + u) * c - w * (a * h + product(c)) / n - u * previous_c, c
        a, previous_a = (1 + u) * a - u * previous_a - w, a
        if t in ITERATIONS:
            yield a, c


def _landweber(product, h, n):
    """The same for gradient descent; with the longest stable step, where kscore's is .01 by
    default.
    """
    z, norm = h, 1.0
    for _ in range(20):
        z = product(z)
        z, norm = z / np.linalg.norm(z), np.linalg.norm(z)
    step, c = 1.0 / norm, np.zeros_like(h)
    for t in range(1, max(ITERATIONS) + 1):
        c = c - step * product(c) - t * step**2 * h
        if t in ITERATIONS:
            yield -(t + 1) * step, c


def _stein(gram, x, points, kernel, width):
    """Li and Turner (2018), with their extension to other points."""
    n = len(x)
    s = cdist(x, points, "sqeuclidean")
    k, slope, *_ = kernel.derivatives(s, width)
    at_samples = n * kernel.between(x, x, width)[1]
    for regularization in REGULARIZATIONS:
        ridge = n**2 * regularization
        inverse = linalg.inv(gram + ridge * np.eye(n))
        fitted = -inverse @ at_samples
        # divergence at sample j and point i: -2 ψ' (x_j - x_i)
        weights = (k.T @ inverse + 1) * (-2 * slope.T)
        spread = weights @ x - weights.sum(axis=1)[:, None] * points
        scale = -1 / (1 + ridge - np.einsum("ij,ik,kj->j", k, inverse, k, optimize=True))
        yield "Stein", scale[:, None] * (k.T @ fitted - spread)


def _conjugate_gradients(product, ridge, right, tolerance=1e-4):
    x, r = np.zeros_like(right), right.copy()
    p, square, first = r.copy(), np.sum(r * r), np.sum(r * r)
    for _ in range(MOST_CONJUGATE_GRADIENTS):
        if square <= tolerance**2 * first:
            break
        q = product(p) + ridge * p
        step = square / np.sum(p * q)
        x, r = x + step * p, r - step * q
        square, before = np.sum(r * r), square
        p = r + square / before * p
    return x
