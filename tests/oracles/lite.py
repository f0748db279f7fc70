"""Lemma 4 of Sutherland et al. (2018) in sections of a Gaussian kernel, by loops."""

import numpy as np


def system(x, landmarks, bandwidth, base_gradient):
    """A = BᵀB/n, h and K.

    B_(b,i),a = ∂_i k(Y_a, X_b) and h_a = mean_b Σ_i ∂_i² k(Y_a, X_b) + ∂_i k(Y_a, X_b) ∂_i log
    q0(X_b).
    """
    n, d = x.shape
    m = len(landmarks)
    b = np.zeros((n, d, m))
    h = np.zeros(m)
    gram = np.zeros((m, m))
    for a in range(m):
        for c in range(m):
            gram[a, c] = np.exp(-np.sum((landmarks[a] - landmarks[c]) ** 2) / (2 * bandwidth**2))
        for s in range(n):
            k = np.exp(-np.sum((x[s] - landmarks[a]) ** 2) / (2 * bandwidth**2))
            for i in range(d):
                r = x[s, i] - landmarks[a, i]
                b[s, i, a] = -r / bandwidth**2 * k
                h[a] += (
                    (r**2 / bandwidth**4 - 1 / bandwidth**2) * k + b[s, i, a] * base_gradient[s, i]
                ) / n
    b = b.reshape(n * d, m)
    return b.T @ b / n, h, gram


def evaluate(alpha, landmarks, bandwidth, points):
    """f and its gradient at points."""
    f, gradient = np.zeros(len(points)), np.zeros(points.shape)
    for s, x in enumerate(points):
        for a, y in enumerate(landmarks):
            k = alpha[a] * np.exp(-np.sum((x - y) ** 2) / (2 * bandwidth**2))
            f[s] += k
            gradient[s] -= k * (x - y) / bandwidth**2
    return f, gradient
