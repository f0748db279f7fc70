"""The full kernel exponential family, literally: equations 2 to 4 of paper 004, one entry at a
time.

``kernel_partial(name, x, y)`` gives partial derivatives of the kernel at two points (d,): "k", "x",
"y", "xy", "xx", "yy", "xxy", "xyy", "xxyy" as in :func:`kmc.kernels.kernel_derivative`.
"""

from __future__ import annotations

import numpy as np


def gram(kernel_partial, X):
    """G_{(a,i),(b,j)} = ∂_i ∂_{j+d} k(X_a, X_b)."""
    n, d = X.shape
    G = np.zeros((n * d, n * d))
    for a in range(n):
        for b in range(n):
            block = kernel_partial("xy", X[a], X[b])
            for i in range(d):
                for j in range(d):
                    G[a * d + i, b * d + j] = block[i, j]
    return G


def h(kernel_partial, X, base_gradient, weights):
    """h_{(b,i)} = ∂_i ξ(X_b), ξ = Σ_a w_a [Δ k(X_a, ·) + Σ_j ∂_j k(X_a, ·) ∂_j log q0(X_a)] / Σ w
    (equation 3).
    """
    n, d = X.shape
    out = np.zeros(n * d)
    for b in range(n):
        for a in range(n):
            third, mixed = kernel_partial("xyy", X[b], X[a]), kernel_partial("xy", X[b], X[a])
            for i in range(d):
                term = third[i]
                for j in range(d):
                    term += mixed[i, j] * base_gradient[a, j]
                out[b * d + i] += weights[a] * term / weights.sum()
    return out


def coefficients(kernel_partial, X, regularization, base_gradient, weights):
    """β of equation 4: (G + n λ I) β = h / λ; with weights, n λ / w_b on the diagonal for sample b,
    n = Σ w.
    """
    n, d = X.shape
    G = gram(kernel_partial, X)
    for b in range(n):
        for i in range(d):
            G[b * d + i, b * d + i] += weights.sum() * regularization / weights[b]
    return np.linalg.solve(G, h(kernel_partial, X, base_gradient, weights) / regularization)


def function(kernel_partial, X, beta, regularization, base_gradient, weights, x):
    """(f, ∇f, Δf) of equation 2 at x (d,)."""
    n, d = X.shape
    value, gradient, laplacian = 0.0, np.zeros(d), 0.0
    for a in range(n):
        share = weights[a] / (weights.sum() * regularization)
        value -= share * kernel_partial("yy", x, X[a])
        gradient -= share * kernel_partial("xyy", x, X[a])
        laplacian -= share * kernel_partial("xxyy", x, X[a])
        for i in range(d):
            coefficient = beta[a * d + i] - share * base_gradient[a, i]
            value += coefficient * kernel_partial("y", x, X[a])[i]
            gradient += coefficient * kernel_partial("xy", x, X[a])[:, i]
            laplacian += coefficient * kernel_partial("xxy", x, X[a])[i]
    return value, gradient, laplacian


def first_variation(
    kernel_partial, X, gradients, regularization, base_gradient, weights, at, value, residuals=None
):
    """Derivative of the penalized objective at f in the direction k(at, ·), which is zero for the
    minimizer.

    Ĵ'(f)[g] + λ <f, g> + γ Σ w r g / Σ w, with g = k(at, ·), so that <f, g> = f(at) = ``value``;
    ``gradients`` are ∇f at the samples, ``residuals`` γ (f + c - y) there.
    """
    total = 0.0
    for b in range(len(X)):
        slope = kernel_partial("x", X[b], at)
        term = kernel_partial("xx", X[b], at) + slope @ (base_gradient[b] + gradients[b])
        if residuals is not None:
            term += residuals[b] * kernel_partial("k", X[b], at)
        total += weights[b] * term
    return total / weights.sum() + regularization * value
