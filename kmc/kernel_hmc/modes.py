"""Modes of the regression, and jumps between them.

Hamiltonian trajectories stay in a mode. A jump maps one mode to another: x' = m_j + L_j L_i⁻¹ (x -
m_i), with the center m and a square root L of the covariance of each. Its Jacobian is |L_j| /
|L_i|, and the way back is the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from kmc.surrogate.jit_state import gradients, values_and_gradients
from kmc.surrogate.process import Process

MOST = 8
"""Most modes, and ascents of a search for them."""

BARRIER = 2.0
"""Nats: maxima are two modes if the mean between them is lower than both by so much."""

_FLATTEST = 0.05  # smallest curvature, in nats per squared standard deviation of the draws
_STEP = 0.05  # of finite differences, in the same unit


class Modes(NamedTuple):
    """Where modes are, and how wide."""

    centers: np.ndarray  # (k, d)
    roots: np.ndarray  # (k, d, d), lower Cholesky factors of covariances
    log_volumes: np.ndarray  # (k,), log |L|

    def jump(self, rng: np.random.Generator, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return x (n, d) mapped to another mode, drawn for each, and log |L_j| - log |L_i|, (n,).

        A point that the map back would not bring home has -inf there.
        """
        k, n = len(self.centers), len(x)
        source = self._nearest(x)
        to = (source + 1 + rng.integers(k - 1, size=n)) % k
        apart = zip(self.roots[source], x - self.centers[source], strict=True)
        white = np.array([np.linalg.solve(root, difference) for root, difference in apart])
        moved = self.centers[to] + np.einsum("nij,nj->ni", self.roots[to], white)
        change = np.where(
            self._nearest(moved) == to, self.log_volumes[to] - self.log_volumes[source], -np.inf
        )
        return moved, change

    def _nearest(self, x):
        white = np.linalg.solve(self.roots[:, None], (x - self.centers[:, None])[..., None])[..., 0]
        return np.argmin(0.5 * np.sum(white**2, axis=2) + self.log_volumes[:, None], axis=0)


def find_modes(process: Process, points: np.ndarray) -> Modes | None:
    """Return modes of the process's mean found from some points (n, d), or None if there is one."""
    z = process.coordinates(points)
    heights = process.heights(points)
    corners = np.stack([z.min(axis=0), z.max(axis=0)])
    maxima: list[np.ndarray] = []
    for start in far_apart(z, int(np.argmax(heights)), MOST):
        top = maximum(process, start, corners)
        if all(_separate(process, top, other) for other in maxima):
            maxima.append(top)
    if len(maxima) < 2:
        return None
    roots = np.array([_root(process, top) for top in maxima])
    with np.errstate(divide="ignore"):
        volumes = np.log(np.abs(np.diagonal(roots, axis1=1, axis2=2))).sum(axis=1)
    # in a funnel's neck one may have no volume in floating-point numbers
    wide = np.isfinite(volumes) & (np.linalg.cond(roots) * np.finfo(float).eps < 1.0)
    return (
        Modes(process.back(np.array(maxima))[wide], roots[wide], volumes[wide])
        if wide.sum() > 1
        else None
    )


def far_apart(points: np.ndarray, first: int, most: int) -> np.ndarray:
    """Return at most so many of the points (n, d) that are far from each other.

    The first one has the index ``first``; each further one is the farthest from those before.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernel_hmc.modes import far_apart
    >>> far_apart(np.array([[0.0], [1.0], [5.0], [3.0]]), 0, 3).T
    array([[0., 5., 3.]])
    """
    chosen = [first]
    distances = np.full(len(points), np.inf)
    for _ in range(min(most, len(points)) - 1):
        distances = np.minimum(distances, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
        chosen.append(int(np.argmax(distances)))
    return points[chosen]


def maximum(process: Process, start: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Return a maximum of the mean in z, from a start (d,), between two corners (2, d)."""

    def depth(z):
        value, slope = values_and_gradients(process.jit_state, z[None, :])
        return -value[0], -slope[0]

    bounds = list(zip(corners.min(axis=0), corners.max(axis=0), strict=True))
    start = np.clip(start, corners.min(axis=0), corners.max(axis=0))
    return minimize(
        depth, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 50}
    ).x


def _separate(process, one, other):
    """Return whether the mean is low somewhere between two points in z."""
    way = other + np.linspace(0.0, 1.0, 22)[:, None] * (one - other)
    heights = process.temperature * process.heights(process.back(way))
    return heights.min() < min(heights[0], heights[-1]) - BARRIER


def _root(process, top):
    """Return the root, in x, of the inverse curvature at a maximum in z."""
    dim = len(top)
    steps = _STEP * np.vstack([np.eye(dim), -np.eye(dim)])
    slopes = gradients(process.jit_state, top + steps)
    curvature = -(slopes[:dim] - slopes[dim:]) / (2.0 * _STEP)
    curvatures, vectors = np.linalg.eigh((curvature + curvature.T) / 2.0)
    root = vectors / np.sqrt(np.maximum(curvatures, _FLATTEST))
    x = process.back(top + steps)
    jacobian = (x[:dim] - x[dim:]).T / (2.0 * _STEP)
    return np.linalg.qr((jacobian @ root).T)[1].T
