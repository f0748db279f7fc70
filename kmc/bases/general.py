"""Forms and contractions of any basis by its general interface, in slices of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from kmc.kernels import axes_of

NUMBERS = 2**21  # in one array of gradients: 16 MB

FEW = 256
"""Points whose values, of some hundred functions, stay in the processor's cache."""


class Differentiable(Protocol):
    """The part of :class:`kmc.bases.Basis` that forms of derivatives need."""

    @property
    def size(self) -> int:
        """Number p of functions."""

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """Return the gradients at points (n, d), shape (n, p, d)."""

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """Return the Laplacians at points (n, d), shape (n, p)."""


def slices(n: int, numbers_per_row: int) -> Iterator[slice]:
    """Return slices of n rows, each with at most about ``NUMBERS`` numbers."""
    step = max(NUMBERS // max(numbers_per_row, 1), 1)
    return (slice(start, start + step) for start in range(0, n, step))


def few(n: int) -> Iterator[slice]:
    """Slices of n rows, each with at most ``FEW`` rows."""
    return (slice(start, start + FEW) for start in range(0, n, FEW))


def sum_dirichlet(basis: Differentiable, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sum over the rows of x (n, d) of w <∇φ_a, ∇φ_b>, shape (p, p)."""
    total = np.zeros((basis.size, basis.size))
    for rows in slices(len(x), basis.size * x.shape[1]):
        # a copy, which may be modified
        gradients = np.array(basis.gradients(x[rows]).transpose(1, 0, 2), order="C")
        gradients *= np.sqrt(weights[rows])[:, None]
        flat = gradients.reshape(basis.size, -1)
        total += flat @ flat.T
    return total


def sum_linear(
    basis: Differentiable,
    x: np.ndarray,
    weights: np.ndarray,
    base_gradient: np.ndarray | None = None,
) -> np.ndarray:
    """Sum over the rows of x (n, d) of w (Δφ_a + <∇φ_a, g>), shape (p,), with g = ∇log q0 there."""
    total = np.zeros(basis.size)
    for rows in slices(len(x), basis.size * x.shape[1]):
        total += weights[rows] @ basis.laplacians(x[rows])
        if base_gradient is not None:
            weighted = weights[rows, None] * base_gradient[rows]
            total += np.einsum("npd,nd->p", basis.gradients(x[rows]), weighted, optimize=True)
    return total


def directional(basis: Differentiable, x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return the (n, p) derivatives <∇φ_a, v> at each row of x, with v from ``vectors`` (n, d)."""
    out = np.empty((len(x), basis.size))
    for rows in slices(len(x), basis.size * x.shape[1]):
        out[rows] = np.einsum("npd,nd->np", basis.gradients(x[rows]), vectors[rows], optimize=True)
    return out


def derivative(basis: Any, x: np.ndarray, index: Sequence[int]) -> np.ndarray:
    """Return the (n, p) partial derivatives ∂^α, for a multi-index α of d whole numbers.

    Orders 0 and 1 come from the values and gradients; for others the basis must have a method
    ``derivative(x, index)``, else TypeError.
    """
    axes = axes_of(index, x.shape[1])
    if not axes:
        return basis.values(x)
    if len(axes) > 1:
        raise TypeError(
            f"{basis!r} has no derivatives of order {len(axes)}: give it a method derivative(x, "
            f"index)"
        )
    out = np.empty((len(x), basis.size))
    for rows in slices(len(x), basis.size * x.shape[1]):
        out[rows] = basis.gradients(x[rows])[:, :, axes[0]]
    return out
