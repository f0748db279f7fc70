"""Gaussians around draws: proposals that are nearly independent of where a chain is.

A Gaussian around each draw, with the covariance of its neighbors, follows a posterior that is narrow, bent or in
several parts: around some hundred draws, a fifth to a half of such proposals are accepted in two to ten dimensions,
where a trajectory along a narrow ridge takes hundreds of steps (tried). In many dimensions hardly one is, and
trajectories do the work.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from kmc.njit import njit

_NEIGHBORS = 2  # for each dimension, and two more
_WIDER = 1.2  # factor on the standard deviations (tried: surrogate)
_MOST, _NUMBERS = 250, 50_000  # Gaussians, numbers in all roots: a density costs as much as a few of the surrogate's
_RIDGE = 1e-8  # relative to the variances of all draws
_NEGLIGIBLE = 40.0  # nats below the highest Gaussian


class LocalMixture(NamedTuple):
    """Gaussians of equal weight."""

    centers: np.ndarray  # (n, d)
    roots: np.ndarray  # (n, d, d), lower triangular: of the covariances
    inverses: np.ndarray  # (n, d, d), of the roots
    heights: np.ndarray  # (n,), log-densities at the centers, up to a constant


def local_mixture(draws: np.ndarray) -> LocalMixture:
    """Return a mixture around draws (k, d), or around every few of them if they are many; empty if they are too few."""
    draws = np.unique(draws, axis=0)
    k, dim = draws.shape
    near = _NEIGHBORS * dim + 2
    if k <= near:
        return LocalMixture(draws[:0], np.empty((0, dim, dim)), np.empty((0, dim, dim)), np.empty(0))
    centers = draws[:: -(-k // max(min(_MOST, _NUMBERS // dim**2), 1))]
    _, rows = cKDTree(draws).query(centers, near + 1)
    away = draws[rows] - centers[:, None]
    covariances = np.einsum("nki,nkj->nij", away, away) * (_WIDER**2 / near)
    covariances[:, range(dim), range(dim)] += _RIDGE * draws.var(axis=0) + np.finfo(float).tiny
    roots = np.linalg.cholesky(covariances)
    heights = -np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    return LocalMixture(np.ascontiguousarray(centers), roots, np.linalg.inv(roots), heights)


@njit()
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


@njit()
def log_density_of(mixture, z):
    """Return the log-density of a mixture at z (d,), up to a constant."""
    d = z.size
    highest, total = -np.inf, 0.0
    for i in range(len(mixture.heights)):
        level = mixture.heights[i]
        for k in range(d):
            residual = 0.0
            for j in range(k + 1):
                residual += mixture.inverses[i, k, j] * (z[j] - mixture.centers[i, j])
            level -= 0.5 * residual * residual
            if level < highest - _NEGLIGIBLE:
                break
        if level > highest:
            total = total * np.exp(highest - level) + 1.0
            highest = level
        elif level > highest - _NEGLIGIBLE:
            total += np.exp(level - highest)
    return highest + np.log(total)
