"""Mass and Dirichlet form of radial sections in one pass: distances and profiles are evaluated once, in cache."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from kmc.bases.geometry import RadialGeometry
from kmc.kernels import Gaussian
from kmc.kernels.exponentials import exponential

ROWS = 1024  # per block


def mass_and_dirichlet(
    kernel: Any, geometry: RadialGeometry, between: np.ndarray, x: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Σ w φ (m,), Σ w (φ - φ̄)(φ - φ̄)ᵀ and Σ w <∇φ, ∇φᵀ>, (m, m), of sections of q(|A(x - y)|²) at centers y.

    With T = 2 √w q' and S, D the distances of points to centers and between centers (both pulled by AᵀA), the second is
    ½ [(T∘S)ᵀT + Tᵀ(T∘S) - D∘TᵀT] (Cabannes and Bach 2023, algorithm 3, without its loops). For a Gaussian, T is the
    mass's own matrix up to a factor, and one product less is needed. Functions are shifted by their value at a
    reference before they are squared, so that a large mean costs no digits.
    """
    m = len(geometry.centers)
    count, shift = (float(len(x)) if weights is None else float(weights.sum())), np.zeros(m)
    total, scatter, cross, square = np.zeros(m), np.zeros((m, m)), np.zeros((m, m)), np.zeros((m, m))
    gaussian = isinstance(kernel, Gaussian)
    for start in range(0, len(x), ROWS):
        points = geometry.centered(x[start : start + ROWS])
        root = np.ones(len(points)) if weights is None else np.sqrt(weights[start : start + ROWS])
        s = geometry.distances(points)
        pulled = geometry.pulled_distances(points, s)
        if gaussian:
            q = np.empty_like(s)
            _gaussian(s, kernel.rate, q)
        else:
            q, slope = kernel.derivatives(s, 1)
        if start == 0:
            shift = q.mean(axis=0)
        if gaussian:
            slope = np.empty_like(s)  # √w q: T up to its factor
            _scale_gaussian(q, slope, pulled, root, shift)
        else:
            _scale(q, slope, pulled, root, shift)
            square += slope.T @ slope
        total += root @ q
        scatter += q.T @ q
        cross += pulled.T @ slope
    if gaussian:
        square = scatter + np.outer(shift, total) + np.outer(total, shift) + count * np.outer(shift, shift)
        factor = (2.0 * kernel.rate) ** 2
        square *= factor
        cross *= factor
    dirichlet = 0.5 * (cross + cross.T - between * square)
    if count > 0:
        scatter -= np.outer(total, total) / count
    return total + count * shift, scatter, dirichlet


@numba.njit(cache=True, error_model="numpy")
def _gaussian(s, rate, q):
    n, m = s.shape
    for i in range(n):
        for j in range(m):
            q[i, j] = exponential(-rate * s[i, j])


@numba.njit(cache=True, error_model="numpy")
def _scale_gaussian(q, half, pulled, root, shift):
    """Half = √w q, pulled = S √w q, q = √w (q - shift)."""
    n, m = q.shape
    for i in range(n):
        w = root[i]
        for j in range(m):
            half[i, j] = w * q[i, j]
            pulled[i, j] *= half[i, j]
            q[i, j] = w * (q[i, j] - shift[j])


@numba.njit(cache=True, error_model="numpy")
def _scale(q, slope, pulled, root, shift):
    """Slope = T = 2 √w q', pulled = S T, q = √w (q - shift)."""
    n, m = q.shape
    for i in range(n):
        w = root[i]
        for j in range(m):
            slope[i, j] *= 2.0 * w
            pulled[i, j] *= slope[i, j]
            q[i, j] = w * (q[i, j] - shift[j])
