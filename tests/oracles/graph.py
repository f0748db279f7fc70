"""Graph Laplacians one pair of points at a time."""

from __future__ import annotations

import math

import numpy as np


def weights(x, bandwidth, alpha):
    """k_ij / (q_i q_j)^α over all pairs, and the degrees q."""
    n = len(x)
    k = np.array([[math.exp(-((a - b) @ (a - b)) / (2 * bandwidth**2)) for b in x] for a in x])
    q = [sum(k[i]) for i in range(n)]
    return np.array([[k[i, j] / (q[i] * q[j]) ** alpha for j in range(n)] for i in range(n)]), q


def diffusion_map(x, bandwidth, alpha):
    """Eigenvalues of (I - D⁻¹W) / (h²/2), ascending, and right eigenvectors (n, n)."""
    w, _ = weights(x, bandwidth, alpha)
    generator = (np.eye(len(x)) - w / w.sum(axis=1, keepdims=True)) / (bandwidth**2 / 2)
    values, vectors = np.linalg.eig(generator)
    order = np.argsort(values.real)
    return values.real[order], vectors.real[:, order]


def energy(x, functions, bandwidth):
    """Σ_ij w_ij (f(x_i) - f(x_j)) (g(x_i) - g(x_j)) / 2 of equation 16, W = D^-1/2 W̃ D^-1/2, over
    all pairs (f, g).
    """
    w, _ = weights(x, bandwidth, 0.5)
    phi = [[f(point) for point in x] for f in functions]
    return np.array(
        [
            [
                sum(
                    w[i, j] * (f[i] - f[j]) * (g[i] - g[j]) / 2
                    for i in range(len(x))
                    for j in range(len(x))
                )
                for g in phi
            ]
            for f in phi
        ]
    )
