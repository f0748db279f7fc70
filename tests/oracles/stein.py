"""Stein kernels by finite differences of the kernel, and statistics of them by loops."""

import numpy as np


def stein(k, x, y, x_score, y_score, step=1e-4):
    """<s, s'> k + <s, ∇_y k> + <s', ∇_x k> + Σ_i ∂²k/∂x_i ∂y_i for a function k of two points."""
    value = np.dot(x_score, y_score) * k(x, y)
    for i in range(len(x)):
        e = np.zeros(len(x))
        e[i] = step
        value += x_score[i] * (k(x, y + e) - k(x, y - e)) / (2 * step)
        value += y_score[i] * (k(x + e, y) - k(x - e, y)) / (2 * step)
        value += (k(x + e, y + e) - k(x + e, y - e) - k(x - e, y + e) + k(x - e, y - e)) / (
            4 * step**2
        )
    return value


def matrix(k, points, scores):
    """The Stein kernel at all pairs."""
    n = len(points)
    return np.array(
        [[stein(k, points[i], points[j], scores[i], scores[j]) for j in range(n)] for i in range(n)]
    )


def u_statistic(values):
    """Mean over pairs of different points."""
    n = len(values)
    return sum(values[i, j] for i in range(n) for j in range(n) if i != j) / (n * (n - 1))


def v_statistic(values):
    """Mean over all pairs."""
    n = len(values)
    return sum(values[i, j] for i in range(n) for j in range(n)) / n**2


def control_functional(values, f, regularization):
    """The constant c of kernel ridge regression.

    ``values`` is the Stein kernel at all pairs of draws, and the sections at all of them the basis:
    least mean_i (f_i - c - Σ_a β_a k_p(x_a, x_i))² + λ βᵀKβ.
    """
    return _constant(values, values, f, regularization)


def jackknife(values, f, groups, regularization):
    """√((g - 1)/g Σ (c_without - mean)²) over the g groups of draws that are left out in turn."""
    constants = []
    for group in sorted(set(groups)):
        rest = [i for i in range(len(f)) if groups[i] != group]
        constants.append(_constant(values[rest], values, f[rest], regularization))
    g = len(constants)
    return np.sqrt((g - 1) / g * np.sum((np.array(constants) - np.mean(constants)) ** 2))


def _constant(phi, gram, f, regularization):
    values, vectors = np.linalg.eigh(gram)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T  # rootᵀ root = K
    centered, residual = phi - phi.mean(axis=0), f - f.mean()
    stacked = np.concatenate([centered / np.sqrt(len(f)), np.sqrt(regularization) * root])
    target = np.concatenate([residual / np.sqrt(len(f)), np.zeros(len(gram))])
    beta = np.linalg.lstsq(stacked, target, rcond=1e-14)[0]
    return f.mean() - phi.mean(axis=0) @ beta
