"""Kernel sections and their forms, one center and one sample at a time (paper 004; MATH.md,
"Section basis").
"""

from __future__ import annotations

import math

import numpy as np


def section(x, y, bandwidth, metric):
    """k(A x, A y) = exp(-|A (x - y)|² / (2 bandwidth²))."""
    r = metric @ (x - y)
    return math.exp(-(r @ r) / (2 * bandwidth**2))


def section_gradient(x, y, bandwidth, metric):
    """2 q' AᵀA (x - y), with q' = -q / (2 bandwidth²)."""
    q1 = -section(x, y, bandwidth, metric) / (2 * bandwidth**2)
    return 2 * q1 * (metric.T @ metric @ (x - y))


def gram(centers, bandwidth, metric):
    """K, the Gram matrix of the section basis (lemma 4: G = K)."""
    m = len(centers)
    return np.array(
        [[section(centers[a], centers[b], bandwidth, metric) for b in range(m)] for a in range(m)]
    )


def dirichlet(gradients, weights):
    """Σ_b w_b <∇φ_a(x_b), ∇φ_c(x_b)> from gradients[b][a] (lemma 4: BᵀB = 4 Σ q' q' r·r' without a
    metric).
    """
    m = len(gradients[0])
    total = np.zeros((m, m))
    for at_sample, w in zip(gradients, weights):
        for a in range(m):
            for c in range(m):
                total[a, c] += w * (at_sample[a] @ at_sample[c])
    return total


def linear(gradients, laplacians, weights, base_gradient):
    """Σ_b w_b (Δφ_a + <∇φ_a, ∇log q0>) at x_b (lemma 4: h_a = Σ L, and the term of the base
    density).
    """
    m = len(gradients[0])
    total = np.zeros(m)
    for b, w in enumerate(weights):
        for a in range(m):
            total[a] += w * (laplacians[b][a] + gradients[b][a] @ base_gradient[b])
    return total
