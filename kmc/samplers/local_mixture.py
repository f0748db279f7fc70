"""Gaussians around draws: proposals that are nearly independent of where a chain is.

A Gaussian around each draw, with the covariance of its neighbors, follows a posterior that is
narrow, bent or in several parts: around some hundred draws, a fifth to a half of such proposals are
accepted in two to ten dimensions, where a trajectory along a narrow ridge takes hundreds of steps
(tried). In many dimensions hardly one is, and trajectories do the work.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from kmc.kernels.exponentials import exponential
from kmc.njit import njit, sum_of

_NEIGHBORS = 2  # for each dimension, and two more
_WIDER = 1.2  # factor on the standard deviations (tried: surrogate)
# Gaussians, numbers in all roots: a density costs as much as a few of the surrogate's
_MOST, _NUMBERS = 250, 50_000
_RIDGE = 1e-8  # relative to the variances of all draws


class LocalMixture(NamedTuple):
    """Gaussians of equal weight."""

    centers: np.ndarray  # (n, d)
    roots: np.ndarray  # (n, d, d), lower triangular: of the covariances
    # (d, d, n), of the roots, the Gaussians last so that the loops over them are contiguous
    inverses: np.ndarray
    shifts: np.ndarray  # (d, n), inverse times center
    heights: np.ndarray  # (n,), log-densities at the centers, up to a constant


def local_mixture(draws: np.ndarray) -> LocalMixture:
    """Return a mixture around draws (k, d), or around every few of them if they are many.

    It is empty if they are too few.
    """
    draws = np.unique(draws, axis=0)
    k, dim = draws.shape
    near = _NEIGHBORS * dim + 2
    if k <= near:
        none = np.empty((0, dim, dim))
        return LocalMixture(draws[:0], none, none.T, np.empty((dim, 0)), np.empty(0))
    centers = draws[:: -(-k // max(min(_MOST, _NUMBERS // dim**2), 1))]
    _, rows = cKDTree(draws).query(centers, near + 1)
    away = draws[rows] - centers[:, None]
    covariances = np.einsum("nki,nkj->nij", away, away) * (_WIDER**2 / near)
    covariances[:, range(dim), range(dim)] += _RIDGE * draws.var(axis=0) + np.finfo(float).tiny
    roots = np.linalg.cholesky(covariances)
    heights = -np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    inverses = np.ascontiguousarray(np.linalg.inv(roots).transpose(1, 2, 0))
    shifts = np.einsum("kjn,nj->kn", inverses, centers)
    return LocalMixture(np.ascontiguousarray(centers), roots, inverses, shifts, heights)


@njit(allocates=False)
def draw_from(mixture, rng, out):
    """Write a draw of a mixture, which is not empty, into ``out`` (d,)."""
    d = out.size
    i = int(rng.random() * len(mixture.heights))
    for k in range(d):
        out[k] = mixture.centers[i, k]
    for j in range(d):
        step = rng.standard_normal()
        for k in range(j, d):
            out[k] += mixture.roots[i, k, j] * step


@njit(allocates=False)
def log_density_of(mixture, z, work):
    """Return a mixture's log-density at z (d,), up to a constant; ``work`` (2, n) is scratch."""
    levels, residuals = work[0], work[1]
    n = levels.size
    for a in range(n):
        levels[a] = mixture.heights[a]
    for k in range(z.size):
        shifts = mixture.shifts[k]
        for a in range(n):
            residuals[a] = -shifts[a]
        for j in range(k + 1):
            inverses, zj = mixture.inverses[k, j], z[j]
            for a in range(n):
                residuals[a] += inverses[a] * zj
        for a in range(n):
            levels[a] -= 0.5 * residuals[a] * residuals[a]
    highest = -np.inf
    for a in range(n):
        highest = max(highest, levels[a])
    for a in range(n):
        levels[a] = exponential(levels[a] - highest)
    return highest + np.log(sum_of(levels))


@njit()
def log_densities(mixture, points):
    """Return the log-densities of a mixture at points (k, d), up to a constant, (k,)."""
    out, work = np.empty(len(points)), np.empty((2, len(mixture.heights)))
    for i in range(len(points)):
        out[i] = log_density_of(mixture, points[i], work)
    return out
