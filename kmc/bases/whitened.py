"""Linear combinations of a basis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.bases.base import Basis, Contraction, as_basis
from kmc.bases.base_jit_state import BaseJitState
from kmc.checks import as_array


@dataclass(frozen=True)
class Whitened(Basis):
    """Linear combinations φᵀW of a basis; orthonormal with respect to its Gram matrix if W whitens it.

    Forms summed in this basis keep digits that whitening them afterwards would lose: with a jitter of 1e-11 the
    entries of W reach 1e5, and Wᵀ(Σ φφᵀ)W would amplify rounding by 1e10.

    Parameters
    ----------
    basis : Basis
        A basis of p functions.
    matrix : ndarray, shape (p, r)

    Raises
    ------
    ValueError, TypeError
        The matrix is not finite, or does not have a row for each function.
    """

    basis: Basis
    matrix: np.ndarray

    def __post_init__(self):
        object.__setattr__(self, "basis", as_basis(self.basis))
        matrix = as_array("matrix", self.matrix)
        if matrix.ndim != 2 or len(matrix) != self.basis.size:
            raise ValueError(f"matrix has shape {matrix.shape}: expected ({self.basis.size}, r)")
        if not np.all(np.isfinite(matrix)):
            raise ValueError("matrix contains NaN or infinity: expected finite numbers")
        object.__setattr__(self, "matrix", matrix)

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

    def sum_linear(self, x: np.ndarray, weights: np.ndarray, base_gradient: np.ndarray | None = None) -> np.ndarray:
        """Sum over x of w (Δφ_a + <∇φ_a, g>), (r,): linear, so nothing is lost by combining the sums."""
        return self.basis.sum_linear(x, weights, base_gradient) @ self.matrix

    def directional(self, x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """(n, r) derivatives <∇φ_a, v> along a vector at each point, ``vectors`` (n, d)."""
        return self.basis.directional(x, vectors) @ self.matrix

    def derivative(self, x: np.ndarray, index: Sequence[int]) -> np.ndarray:
        """(n, r) partial derivatives ∂^α."""
        return self.basis.derivative(x, index) @ self.matrix

    def contract_values(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the combination with coefficients (r,) at the rows of x, shape (n,)."""
        return self._contraction(coefficients).values(x)

    def contract_gradients(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the gradients of the combination, shape (n, d)."""
        return self._contraction(coefficients).gradient(x)

    def contract_laplacians(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the Laplacians of the combination, shape (n,)."""
        return self._contraction(coefficients).laplacian(x)

    def contract_hessians(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the combination, (n, d, d)."""
        return self._contraction(coefficients).hessian(x)

    def jit_state(
        self, coefficients: np.ndarray, base: BaseJitState | None = None, origin: np.ndarray | None = None
    ) -> Any:
        """Return the combination for jitted loops, see :meth:`kmc.bases.Contraction.jit_state`."""
        return self._contraction(coefficients).jit_state(base, origin)

    def _contraction(self, coefficients):
        return Contraction(self.basis, self.matrix @ coefficients)
