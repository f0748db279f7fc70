"""The Dirichlet form of kernel gradients by columns of B, the direct way: best for few components or dimensions."""

from __future__ import annotations

import numba
import numpy as np
from scipy.linalg import blas

from kmc.bases import general
from kmc.bases.geometry import RadialGeometry
from kmc.bases.symmetric import mirror
from kmc.kernels import Kernel
from kmc.kernels.metric import mapped


def sum_dirichlet(
    profile: Kernel, geometry: RadialGeometry, selected: np.ndarray, x: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Σ_b w_b B_bᵀ B_b, (p, p), over centered points x (n, d); arguments as in :func:`columns`."""
    p = len(selected)
    total = np.zeros((p, p), order="F")
    for rows in general.slices(len(x), p * x.shape[1]):
        block = columns(profile, geometry, x[rows], selected)
        block *= np.sqrt(weights[rows])
        total = blas.dsyrk(1.0, block.reshape(p, -1).T, beta=1.0, c=total, trans=1, lower=1, overwrite_c=1)
    return mirror(total.T)


def columns(profile: Kernel, geometry: RadialGeometry, x: np.ndarray, selected: np.ndarray) -> np.ndarray:
    """∂_i ∂_{j+d} k(x_b, y_a) for the selected numbers a d + j, (p, d, n) with i in the middle, at centered points."""
    _, q1, q2 = profile.derivatives(geometry.distances(x), 2)
    out = np.empty((len(selected), x.shape[1], len(x)))
    pulled, centers = mapped(x, geometry.matrix), mapped(geometry.centers, geometry.matrix)
    _fill(np.ascontiguousarray(pulled.T), centers, geometry.matrix, q1, q2, selected, out)
    return out


@numba.njit(cache=True)
def _fill(x, centers, matrix, q1, q2, selected, out):
    """-2 q' M - 4 q'' v vᵀ, v = x - y of pulled points x (d, n) and centers (m, d)."""
    d, n = x.shape
    p, w = np.empty(n), np.empty(n)
    for c in range(selected.size):
        a, j = selected[c] // d, selected[c] % d
        for b in range(n):
            p[b] = -2.0 * q1[b, a]
            w[b] = -4.0 * q2[b, a] * (x[j, b] - centers[a, j])
        for i in range(d):
            row, points, center, entry = out[c, i], x[i], centers[a, i], matrix[i, j]
            for b in range(n):
                row[b] = p[b] * entry + w[b] * (points[b] - center)
