"""Mean and covariance of the chains' states, learned recursively at O(d²) per state."""

from __future__ import annotations

import math

import numpy as np

from kmc.njit import njit

_DELAY = 10  # sweeps by which the recursion's step sizes lag
_MOST = 0.5  # largest step size
_FLOOR = 1e-8  # variance added in each direction, relative to the coordinates' variances


class Moments:
    """The mean m and the Cholesky factor L of the covariance C = L Lᵀ.

    After sweep t, with the step size r = 2 / (t + 10) and the chains' states x_1, ..., x_k,

        C <- (1 - r) C + r (mean of (x_i - m)(x_i - m)ᵀ + ε D),    m <- m + r mean of (x_i - m).

    With 2/t instead of 1/t the first half of the history is forgotten in the limit. ε D keeps the covariance positive
    definite (Haario, Saksman and Tamminen 2001); D is diagonal with the variances, and one coordinate per sweep takes
    its turn. All terms are of rank one, and L follows by updates of a Cholesky factor.

    Parameters
    ----------
    mean : ndarray, shape (d,)
    sd : ndarray, shape (d,)
        At the start.
    """

    def __init__(self, mean: np.ndarray, sd: np.ndarray):
        self.mean = mean.copy()
        self.root = np.diag(sd).astype(float)
        self.sd = sd.copy()  # standard deviations (d,)

    def whitened(self, step: np.ndarray) -> np.ndarray:
        """L⁻¹ times a vector (d,)."""
        return forward_substitution(self.root, step)

    def learn(self, x: np.ndarray, sweep: int) -> None:
        """Take the states (k, d) after a sweep; sweeps count from 1."""
        rate = min(2.0 / (sweep + _DELAY), _MOST)
        deviations = x - self.mean
        root = math.sqrt(1.0 - rate) * self.root  # a new array: proposals may hold the old one
        for row in deviations:
            add_outer_product(root, math.sqrt(rate / len(x)) * row)
        i, dim = sweep % len(root), len(root)
        floor = np.zeros(dim)
        floor[i] = math.sqrt(rate * dim * (_FLOOR * float(root[i] @ root[i]) + np.finfo(float).tiny))
        add_outer_product(root, floor)
        if np.all(np.isfinite(root)):
            self.mean, self.root = self.mean + rate * deviations.mean(axis=0), root
            self.sd = np.sqrt(np.sum(root**2, axis=1))


@njit()
def forward_substitution(root, v):
    """L⁻¹ v for a lower triangular matrix L: O(d²)."""
    z = np.empty_like(v)
    for i in range(v.size):
        total = v[i]
        for j in range(i):
            total -= root[i, j] * z[j]
        z[i] = total / root[i, i]
    return z


@njit()
def add_outer_product(root, v):
    """Change a Cholesky factor of C into one of C + v vᵀ, in place: O(d²). ``v`` is overwritten."""
    d = v.size
    for k in range(d):
        if v[k] == 0.0:
            continue
        new = math.hypot(root[k, k], v[k])
        c, s = new / root[k, k], v[k] / root[k, k]
        root[k, k] = new
        for i in range(k + 1, d):
            root[i, k] = (root[i, k] + s * v[i]) / c
            v[i] = c * v[i] - s * root[i, k]
