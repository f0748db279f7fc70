"""Kernel adaptive Metropolis–Hastings, transcribed from Sejdinovic et al. (2014), section 4 and
algorithm 2.
"""

import numpy as np
from scipy import stats


def kernel(x, y, bandwidth):
    """k(x, y) = exp(-|x - y|² / (2 bandwidth²))."""
    return np.exp(-np.sum((x - y) ** 2) / (2 * bandwidth**2))


def kernel_gradient(x, z, bandwidth):
    """∇_x k(x, z)."""
    return -kernel(x, z, bandwidth) * (x - z) / bandwidth**2


def covariance(y, z, bandwidth, gamma, nu):
    """R_y = γ² I + ν² M H Mᵀ, with M = 2 [∇_x k(x, z_1), ..., ∇_x k(x, z_n)] at x = y."""
    n, d = z.shape
    m = np.empty((d, n))
    for i in range(n):
        m[:, i] = 2 * kernel_gradient(y, z[i], bandwidth)
    h = np.eye(n) - np.ones((n, n)) / n
    return gamma**2 * np.eye(d) + nu**2 * m @ h @ m.T


def log_proposal(x, y, z, bandwidth, gamma, nu):
    """log q(x | y)."""
    return stats.multivariate_normal(y, covariance(y, z, bandwidth, gamma, nu)).logpdf(x)


def acceptance(log_density, x, y, z, bandwidth, gamma, nu):
    """A(y, x) = min(1, p(x) q(y | x) / (p(y) q(x | y)))."""
    back, there = (
        log_proposal(y, x, z, bandwidth, gamma, nu),
        log_proposal(x, y, z, bandwidth, gamma, nu),
    )
    return min(1.0, np.exp(log_density(x) - log_density(y) + back - there))
