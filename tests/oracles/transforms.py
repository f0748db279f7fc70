"""The constraint transforms of Stan's reference manual (2.37), one number at a time, and Jacobians
by differences.
"""

from __future__ import annotations

import numpy as np
from scipy import integrate

from tests.oracles.differences import gradient


def lower_bound(x, lower):
    return lower + np.exp(x)


def upper_bound(x, upper):
    return upper - np.exp(x)


def straight_interval(x, lower, upper):
    """The mean of logistic steps at all places of [-4, 4], which rise from the lower to the upper
    bound.
    """

    def share(x):
        return integrate.quad(
            lambda place: 1 / (1 + np.exp(2 * (place - x))) / 8, -4, 4, epsabs=1e-13
        )[0]

    return lower + (upper - lower) * np.vectorize(share)(x)


def interval(x, lower, upper):
    return lower + (upper - lower) / (1 + np.exp(-x))


def simplex(x):
    """The isometric log-ratio: a vector that sums to zero, in an orthonormal basis of such vectors,
    and its softmax.
    """
    z, total = np.zeros(len(x) + 1), 0.0
    for n in range(len(x), 0, -1):
        w = x[n - 1] / np.sqrt(n * (n + 1))
        total += w
        z[n - 1] += total
        z[n] -= n * w
    return np.exp(z) / np.sum(np.exp(z))


def ordered(x):
    y = [x[0]]
    for step in x[1:]:
        y.append(y[-1] + np.exp(step))
    return np.array(y)


def cholesky_correlation(x, size):
    z = iter(np.tanh(x))
    factor = np.zeros((size, size))
    for i in range(size):
        for j in range(i):
            factor[i, j] = next(z) * np.sqrt(1 - np.sum(factor[i, :j] ** 2))
        factor[i, i] = np.sqrt(1 - np.sum(factor[i, :i] ** 2))
    return factor


def log_jacobian(function, x):
    """Log of the absolute Jacobian determinant at x (k,) of a function with k values."""
    rows = [gradient(lambda at, i=i: np.ravel(function(at))[i], x) for i in range(len(x))]
    return np.linalg.slogdet(np.array(rows))[1]


def direction(x, low, high):
    """From the middle of [low, high), as many parts of it as the angle of the point x in the plane
    is of 2 pi.
    """
    turns = np.angle(complex(*x)) / (2 * np.pi)
    return low + (high - low) * ((turns + 0.5) % 1.0)


def log_plane_density(x, low, high, spread):
    """Of a point whose direction is uniform on [low, high) with density 1, and whose radius is
    log-normal.
    """
    r = np.hypot(*x)
    radius = np.exp(-0.5 * (np.log(r) / spread) ** 2) / (np.sqrt(2 * np.pi) * spread * r)
    return np.log((high - low) / (2 * np.pi) * radius / r)


def positive_definite(x, size):
    """Row by row: Stan's cov_matrix."""
    factor = np.zeros((size, size))
    k = 0
    for i in range(size):
        for j in range(i + 1):
            factor[i, j] = np.exp(x[k]) if i == j else x[k]
            k += 1
    return factor @ factor.T
