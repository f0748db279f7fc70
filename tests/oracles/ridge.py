"""Weighted ridge regression with an unpenalized constant, solved afresh without each point."""

from __future__ import annotations

import numpy as np


def solve(phi, y, weights, penalty):
    """(β, c) that minimize Σ w (y - c - φβ)² + βᵀ penalty β."""
    p = phi.shape[1]
    matrix, target = np.zeros((p + 1, p + 1)), np.zeros(p + 1)
    for row, value, w in zip(np.column_stack([phi, np.ones(len(phi))]), y, weights):
        matrix += w * np.outer(row, row)
        target += w * value * row
    matrix[:p, :p] += penalty
    solution = np.linalg.solve(matrix, target)
    return solution[:p], solution[p]


def leave_one_out(phi, y, weights, penalty):
    """Residual of each y from the fit without it; the weights of the others are unchanged."""
    residuals = []
    for i in range(len(phi)):
        rest = np.arange(len(phi)) != i
        beta, c = solve(phi[rest], y[rest], weights[rest], penalty)
        residuals.append(y[i] - c - phi[i] @ beta)
    return np.array(residuals)
