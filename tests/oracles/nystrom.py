"""Theorem 1 of Sutherland et al. (2018) for a Gaussian kernel, literally: equations 5 to 9, one
entry at a time.

∂_i is the derivative in coordinate i of the first argument of k, ∂_{j+d} that in coordinate j of
the second one. Equation 5 needs Y_a where it prints Y_b.
"""

from __future__ import annotations

import math

import numpy as np


def kernel(x, y, bandwidth):
    """k(x, y) = exp(-|x - y|² / (2 bandwidth²))."""
    return math.exp(-sum((a - b) ** 2 for a, b in zip(x, y)) / (2 * bandwidth**2))


def first(i, x, y, bandwidth):
    """∂_i k(x, y)."""
    return -(x[i] - y[i]) / bandwidth**2 * kernel(x, y, bandwidth)


def mixed(i, j, x, y, bandwidth):
    """∂_i ∂_{j+d} k(x, y)."""
    r, tau = x - y, bandwidth**2
    return ((i == j) / tau - r[i] * r[j] / tau**2) * kernel(x, y, bandwidth)


def third(i, j, x, y, bandwidth):
    """∂_i ∂²_{j+d} k(x, y)."""
    r, tau = x - y, bandwidth**2
    square = r[j] ** 2 / tau**2 - 1 / tau  # ∂²_{j+d} k over k
    return (2 * (i == j) * r[j] / tau**2 - r[i] / tau * square) * kernel(x, y, bandwidth)


def b_matrix(X, Y, bandwidth):
    """Equation 7: B_(b,i),(a,j) = ∂_i ∂_{j+d} k(X_b, Y_a)."""
    n, d = X.shape
    m = len(Y)
    B = np.zeros((n * d, m * d))
    for b in range(n):
        for i in range(d):
            for a in range(m):
                for j in range(d):
                    B[b * d + i, a * d + j] = mixed(i, j, X[b], Y[a], bandwidth)
    return B


def gram(Y, bandwidth):
    """Equation 8: G_(a,i),(a',j) = ∂_i ∂_{j+d} k(Y_a, Y_a')."""
    return b_matrix(Y, Y, bandwidth)


def h(X, Y, bandwidth, base_gradient):
    """Equation 9: h_(a,i) = (1/n) Σ_b Σ_j ∂_i ∂²_{j+d} k(Y_a, X_b) + ∂_i ∂_{j+d} k(Y_a, X_b) ∂_j
    log q0(X_b).
    """
    n, d = X.shape
    out = np.zeros(len(Y) * d)
    for a in range(len(Y)):
        for i in range(d):
            for b in range(n):
                for j in range(d):
                    out[a * d + i] += third(i, j, Y[a], X[b], bandwidth) / n
                    out[a * d + i] += mixed(i, j, Y[a], X[b], bandwidth) * base_gradient[b, j] / n
    return out


def coefficients(X, Y, bandwidth, regularization, base_gradient):
    """Equation 6: β = -(BᵀB/n + λG)⁺ h."""
    B = b_matrix(X, Y, bandwidth)
    system = B.T @ B / len(X) + regularization * gram(Y, bandwidth)
    return -np.linalg.pinv(system) @ h(X, Y, bandwidth, base_gradient)


def function(beta, Y, bandwidth, x):
    """Equation 5: f(x) = Σ_a Σ_i β_(a,i) ∂_i k(Y_a, x)."""
    d = Y.shape[1]
    return sum(
        beta[a * d + i] * first(i, Y[a], x, bandwidth) for a in range(len(Y)) for i in range(d)
    )


def lemma_4(X, functions, gram, regularization, base_gradient, step=1e-3):
    """β = -(BᵀB/n + λG)⁻¹ h of lemma 4, for functions of one point, with derivatives by central
    differences.

    B_(b,i),a = ∂_i y_a(X_b) and h_a = (1/n) Σ_b Σ_i ∂_i² y_a(X_b) + ∂_i y_a(X_b) ∂_i log q0(X_b).
    """
    n, d = X.shape
    B, h = np.zeros((n * d, len(functions))), np.zeros(len(functions))
    for b in range(n):
        for i in range(d):
            e = step * np.eye(d)[i]
            for a, y in enumerate(functions):
                up, here, down = y(X[b] + e), y(X[b]), y(X[b] - e)
                B[b * d + i, a] = (up - down) / (2 * step)
                h[a] += (
                    (up - 2 * here + down) / step**2 + B[b * d + i, a] * base_gradient[b, i]
                ) / n
    return -np.linalg.solve(B.T @ B / n + regularization * gram, h)
