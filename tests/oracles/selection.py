"""Leave-one-out the slow way: fit without each sample."""

import numpy as np


def leave_one_out(gradients, linear, penalty, regularization):
    """Objective of each sample, (n,), at β = -(Σ_{c≠b} B_cᵀB_c + nλP)⁻¹ Σ_{c≠b} h_c.

    ``gradients`` (n, p, d), ``linear`` (n, p).
    """
    n = len(gradients)
    out = np.empty(n)
    for b in range(n):
        rest = [c for c in range(n) if c != b]
        matrix = sum(gradients[c] @ gradients[c].T for c in rest) + n * regularization * penalty
        beta = -np.linalg.solve(matrix, sum(linear[c] for c in rest))
        out[b] = 0.5 * np.sum((gradients[b].T @ beta) ** 2) + linear[b] @ beta
    return out
