"""The expansion f = c + Σ_a α_a k(A y_a, ·) fitted to values and gradients: the objective, and its normal equations.

J(α, c) = ½ Σ_i w_i (f(z_i) - y_i)²            values
        + ½ Σ_j v_j |∇f(z_j) - t_j|²           gradients, if any: algorithms 4 and 5 of paper 001
        + λ/2 αᵀ (K + jitter I) α              the norm of lemma 4 of paper 004, jittered

Everything is in the unwhitened sections, so this is only for cases that are well conditioned.
"""

from __future__ import annotations

import numpy as np

from tests.oracles import sections


def objective(alpha, c, data, kernel):
    """J, term by term; ``kernel`` = (bandwidth, metric, λ, jitter)."""
    bandwidth, metric, regularization, jitter = kernel
    m = len(data.centers)
    total = 0.0
    for i in range(len(data.z)):
        f = c + sum(alpha[a] * sections.section(data.z[i], data.centers[a], bandwidth, metric) for a in range(m))
        total += 0.5 * data.weights[i] * (f - data.residual[i]) ** 2
    for x, t, v in slopes_of(data):
        slope = sum(alpha[a] * sections.section_gradient(x, data.centers[a], bandwidth, metric) for a in range(m))
        total += 0.5 * v * (slope - t) @ (slope - t)
    norm = sections.gram(data.centers, bandwidth, metric) + jitter * np.eye(m)
    return total + 0.5 * regularization * alpha @ norm @ alpha


def solve(data, kernel, without=None):
    """(α, c) where the gradient of J vanishes, the value at row ``without`` left out."""
    bandwidth, metric, regularization, jitter = kernel
    m = len(data.centers)
    matrix, target = np.zeros((m + 1, m + 1)), np.zeros(m + 1)
    for i in range(len(data.z)):
        if i == without:
            continue
        phi = [sections.section(data.z[i], y, bandwidth, metric) for y in data.centers]
        row = np.array([*phi, 1.0])
        matrix += data.weights[i] * np.outer(row, row)
        target += data.weights[i] * data.residual[i] * row
    for x, t, v in slopes_of(data):
        for j in range(len(t)):
            row = np.array([*(sections.section_gradient(x, y, bandwidth, metric)[j] for y in data.centers), 0.0])
            matrix += v * np.outer(row, row)
            target += v * t[j] * row
    matrix[:m, :m] += regularization * (sections.gram(data.centers, bandwidth, metric) + jitter * np.eye(m))
    solution = np.linalg.solve(matrix, target)
    return solution[:m], solution[m]


def slopes_of(data):
    """Points, gradients and weights, one by one."""
    return zip(*data.slopes) if data.slopes else ()


def leave_one_out(data, kernel):
    """Residual of every value from the solution without it."""
    bandwidth, metric, *_ = kernel
    residuals = []
    for i in range(len(data.z)):
        alpha, c = solve(data, kernel, without=i)
        phi = [sections.section(data.z[i], y, bandwidth, metric) for y in data.centers]
        residuals.append(data.residual[i] - c - alpha @ np.array(phi))
    return np.array(residuals)
