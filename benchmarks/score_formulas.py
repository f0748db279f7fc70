r"""The formulas of Sutherland et al. (2018) in plain NumPy, literally transcribed from the paper.

The package is timed against them, and tests use them as an independent reference. As in the paper
and its code, the kernel is :math:`k(x, y) = \exp(-|x - y|^2 / \sigma)` and q0 is uniform; B has all
its (n d) × (m d) entries.
"""

from __future__ import annotations

import numpy as np


def kernel_and_differences(x, y, sigma):
    """k (n, m) and x − y (n, m, d)."""
    r = x[:, None, :] - y[None, :, :]
    return np.exp(-np.einsum("nmd,nmd->nm", r, r) / sigma), r


def mixed_derivatives(x, y, sigma):
    """∂_i ∂_{j+d} k(X_b, Y_a) as a matrix (n d, m d): equations 7 and 8."""
    k, r = kernel_and_differences(x, y, sigma)
    (n, m), d = k.shape, x.shape[1]
    blocks = (
        (2 / sigma)
        * k[:, :, None, None]
        * (np.eye(d) - (2 / sigma) * np.einsum("nmi,nmj->nmij", r, r))
    )
    return blocks.transpose(0, 2, 1, 3).reshape(n * d, m * d)


def linear_term(x, y, sigma):
    """(1/n) Σ_b Σ_j ∂_i ∂²_{j+d} k(Y_a, X_b) as a vector (m d,): equation 9."""
    k, r = kernel_and_differences(y, x, sigma)
    s = np.einsum("mnd,mnd->mn", r, r)
    weights = (2 / len(x)) * k * ((2 * x.shape[1] + 4) / sigma**2 - 4 * s / sigma**3)
    return np.einsum("mn,mnd->md", weights, r).ravel()


def assemble(x, y, sigma, block=500):
    """BᵀB / n (m d, m d), and h: B in blocks of samples, so that it fits into memory."""
    total = np.zeros((y.size, y.size))
    for start in range(0, len(x), block):
        b = mixed_derivatives(x[start : start + block], y, sigma)
        total += b.T @ b
    return total / len(x), sum(
        len(part) / len(x) * linear_term(part, y, sigma)
        for part in np.array_split(x, max(len(x) // block, 1))
    )


def fit_nystrom(x, y, sigma, regularization, jitter=1e-5):
    """β (m, d): equation 6, with the paper's jitter."""
    matrix, linear = assemble(x, y, sigma)
    matrix += regularization * mixed_derivatives(y, y, sigma) + jitter * np.eye(y.size)
    return -np.linalg.solve(matrix, linear).reshape(y.shape)


def looped_gradient(point, y, sigma, beta):
    """∇f (d,) at a point (d,), landmark by landmark, as in the published code."""
    total = np.zeros(len(point))
    for landmark, coefficients in zip(y, beta):
        r = point - landmark
        k = np.exp(-np.dot(r, r) / sigma)
        hessian = (2 / sigma) * k * (np.eye(len(point)) - (2 / sigma) * np.outer(r, r))
        total += hessian.dot(coefficients)
    return total


def nystrom_gradient(point, y, sigma, beta):
    """The same with all blocks at once: Σ_a ∂∂k(x, Y_a) β_a."""
    return mixed_derivatives(point[None, :], y, sigma) @ beta.ravel()


def contracted_gradient(point, y, sigma, beta):
    """The same without the blocks: Σ_a (2/σ) k β_a − (4/σ²) k (r·β_a) r."""
    r = point - y
    k = np.exp(-np.einsum("md,md->m", r, r) / sigma)
    along = np.einsum("md,md->m", r, beta)
    return (2 / sigma) * (k @ beta - (2 / sigma) * ((k * along) @ r))


def fit_full(x, sigma, regularization):
    """β (n, d) of equation 4: (G + nλI) β = h / λ."""
    n = len(x)
    matrix = mixed_derivatives(x, x, sigma) + n * regularization * np.eye(x.size)
    # h_(b,i) = ∂_i ξ(X_b): the linear term between the samples themselves
    return np.linalg.solve(matrix, linear_term(x, x, sigma) / regularization).reshape(x.shape)


def full_gradient(points, x, sigma, regularization, beta):
    """∇f (k, d) at points: equation 2, the gradient of −ξ/λ + Σ β_(a,i) ∂_i k(X_a, ·)."""
    k, r = kernel_and_differences(points, x, sigma)
    s, d = np.einsum("knd,knd->kn", r, r), x.shape[1]
    xi = (2 / len(x)) * np.einsum("kn,knd->kd", k * ((2 * d + 4) / sigma**2 - 4 * s / sigma**3), r)
    along = np.einsum("knd,nd->kn", r, beta)
    expansion = (2 / sigma) * (k @ beta - (2 / sigma) * np.einsum("kn,knd->kd", k * along, r))
    return expansion - xi / regularization


def fit_lite(x, sigma, regularization):
    """α (n,) of the original estimator: sections at all points of x, with the regularizer λ(K + I),
    lemma 4.
    """
    k, r = kernel_and_differences(x, x, sigma)
    s, d = np.einsum("nmd,nmd->nm", r, r), x.shape[1]
    gradients = (-2 / sigma) * k[:, :, None] * r
    matrix = np.einsum("bai,bci->ac", gradients, gradients, optimize=True) / len(x)
    linear = (k * (4 * s / sigma**2 - 2 * d / sigma)).mean(axis=0)
    return -np.linalg.solve(matrix + regularization * (k + np.eye(len(x))), linear)


def lite_gradient(points, x, sigma, alpha):
    """∇f (k, d) at points."""
    k, r = kernel_and_differences(points, x, sigma)
    return (-2 / sigma) * np.einsum("kn,knd->kd", k * alpha, r)
