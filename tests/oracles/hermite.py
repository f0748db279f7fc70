"""Algorithms 4 and 5 of Cabannes and Bach (2023), line by line: one entry of one matrix at a time.

Their p functions are the kernel at the first p data points, with no penalty, no intercept and equal
weights.
"""

from __future__ import annotations

import numpy as np


def dot_product(x, v, t, p, q, dq):
    """α (p,) of algorithm 4, for k(x, y) = q(<x, y>) with derivative dq."""
    n = len(x)
    inner = [[x[i] @ x[j] for j in range(n)] for i in range(p)]
    psi, laplacian = np.zeros((p, p)), np.zeros((p, p))
    for i in range(p):
        for j in range(p):
            psi[i, j] = sum(q(inner[i][k]) * q(inner[j][k]) for k in range(n))
            laplacian[i, j] = sum(dq(inner[i][k]) * dq(inner[j][k]) for k in range(n)) * inner[i][j]
    b = np.zeros(p)
    for i in range(p):
        for k in range(n):
            b[i] += q(inner[i][k]) * v[k] + dq(inner[i][k]) * (x[i] @ t[k])
    return np.linalg.solve(laplacian + psi, b)


def distance(x, v, t, p, q, dq):
    """α (p,) of algorithm 5, for k(x, y) = q(|x - y|) with derivative dq, zero at zero."""
    n = len(x)
    inner = [[x[i] @ x[j] for j in range(n)] for i in range(n)]
    length = [[np.linalg.norm(x[i] - x[k]) for k in range(n)] for i in range(p)]
    slope = [
        [dq(length[i][k]) / length[i][k] if length[i][k] else 0.0 for k in range(n)]
        for i in range(p)
    ]
    psi, laplacian = np.zeros((p, p)), np.zeros((p, p))
    for i in range(p):
        for j in range(p):
            psi[i, j] = sum(q(length[i][k]) * q(length[j][k]) for k in range(n))
            for k in range(n):
                gamma = inner[k][k] - inner[i][k] - inner[j][k] + inner[i][j]
                laplacian[i, j] += gamma * slope[i][k] * slope[j][k]
    b = np.zeros(p)
    for i in range(p):
        for k in range(n):
            along = -(x[i] @ t[k]) + x[k] @ t[k]
            b[i] += q(length[i][k]) * v[k] + slope[i][k] * along
    return np.linalg.solve(laplacian + psi, b)
