"""Finite bases of functions on R^d.

A basis gives blocks of values and derivatives at points (the general mode, and the oracle of the others) and may sum
forms over points directly where a fused expression is faster (``sum_dirichlet``, ``sum_linear``). Contractions at one
point, for use inside a jitted loop, are functions of arrays: see :mod:`kmc.surrogates.point`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from kmc.kernels import RadialKernel, squared_distances


class Basis(Protocol):
    """The general mode of access, which every basis has."""

    @property
    def size(self) -> int:
        """Number of functions p."""

    def values(self, x: np.ndarray) -> np.ndarray:
        """(n, p) values at the rows of x (n, d)."""

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """(n, p, d) gradients."""

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """(n, p) Laplacians."""


@dataclass(frozen=True)
class KernelSections:
    r"""Sections :math:`\varphi_a(x) = k(A x, A y_a)` of a radial kernel at centres, in a linear metric A.

    Parameters
    ----------
    kernel : RadialKernel
    centres : ndarray, shape (m, d)
    metric : ndarray, shape (d, d), optional
        The matrix A; the identity by default. Derivatives are with respect to x.
    """

    kernel: RadialKernel
    centres: np.ndarray
    metric: np.ndarray | None = None
    _mapped: np.ndarray = field(init=False, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "_mapped", self._map(self.centres))

    @property
    def size(self) -> int:
        """Number of sections m."""
        return len(self.centres)

    def values(self, x: np.ndarray) -> np.ndarray:
        """(n, m) kernel values."""
        return self.kernel.profile(self._distances(x))

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """(n, m, d): 2 q' AᵀA (x - y)."""
        _, q1, _ = self.kernel.derivatives(self._distances(x))
        return 2.0 * q1[:, :, None] * self._pull(x[:, None, :] - self.centres)

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """(n, m): 4 q'' |AᵀA (x - y)|^2 + 2 tr(AᵀA) q'."""
        _, q1, q2 = self.kernel.derivatives(self._distances(x))
        return 4.0 * q2 * self._pulled_distances(x) + 2.0 * self._trace() * q1

    def gram(self) -> np.ndarray:
        """(m, m) Gram matrix of the reproducing-kernel space, k(A y_a, A y_b)."""
        return self.kernel.profile(squared_distances(self._mapped, self._mapped))

    def sum_dirichlet(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sum over x of w <∇φ_a, ∇φ_b>, (m, m), in three matrix products.

        With T = 2 q', S the squared distances |AᵀA(x - y)|^2 and D those between centres,
        v_a·v_b = (S_a + S_b - D_ab)/2 turns the sum over d into products of (n, m) matrices.
        """
        _, q1, _ = self.kernel.derivatives(self._distances(x))
        t = 2.0 * np.sqrt(weights)[:, None] * q1
        cross = (t * self._pulled_distances(x)).T @ t
        centres = self._pull(self.centres)
        return 0.5 * (cross + cross.T - squared_distances(centres, centres) * (t.T @ t))

    def sum_linear(self, x: np.ndarray, weights: np.ndarray, base_gradient: np.ndarray | None = None) -> np.ndarray:
        """Sum over x of w (Δφ_a + <∇φ_a, g>), (m,), with g = ∇log q0 at the rows of x."""
        _, q1, q2 = self.kernel.derivatives(self._distances(x))
        total = weights @ (4.0 * q2 * self._pulled_distances(x) + 2.0 * self._trace() * q1)
        if base_gradient is not None:
            g = self._pull(base_gradient)  # <AᵀA r, g> = <r, AᵀA g>
            along = np.einsum("nd,nd->n", x, g)[:, None] - g @ self.centres.T
            total += weights @ (2.0 * q1 * along)
        return total

    def _map(self, x):
        return x if self.metric is None else x @ self.metric.T

    def _pull(self, r):
        return r if self.metric is None else r @ (self.metric.T @ self.metric)

    def _trace(self):
        return float(self.centres.shape[1] if self.metric is None else np.sum(self.metric**2))

    def _distances(self, x):
        return squared_distances(self._map(x), self._mapped)

    def _pulled_distances(self, x):
        return squared_distances(self._pull(x), self._pull(self.centres))


@dataclass(frozen=True)
class Whitened:
    """Linear combinations φᵀW of a basis, orthonormal in its Gram matrix when W whitens it.

    Forms summed in this basis keep the digits that whitening them afterwards would lose: with a jitter of 1e-11 the
    entries of W reach 1e5, and Wᵀ(Σ φφᵀ)W would amplify rounding by 1e10.

    Parameters
    ----------
    basis : Basis
        Of p functions.
    matrix : ndarray, shape (p, r)
    """

    basis: Basis
    matrix: np.ndarray

    @property
    def size(self) -> int:
        """Number of combinations r."""
        return self.matrix.shape[1]

    def values(self, x: np.ndarray) -> np.ndarray:
        """(n, r) values."""
        return self.basis.values(x) @ self.matrix

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """(n, r, d) gradients."""
        return np.einsum("npd,pr->nrd", self.basis.gradients(x), self.matrix, optimize=True)

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """(n, r) Laplacians."""
        return self.basis.laplacians(x) @ self.matrix
