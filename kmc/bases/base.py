"""The interface of a finite basis of functions on R^d."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Basis(Protocol):
    """Blocks of values and derivatives at points: the general interface, which every basis has.

    A basis may have faster methods for the same numbers, which are then used:

    - ``sum_dirichlet(x, weights)`` (p, p) and ``sum_linear(x, weights, base_gradient=None)`` (p,), forms summed over
      points directly (:mod:`kmc.forms`);
    - ``sum_mass_and_dirichlet(x, weights)``, (Σ w φ, Σ w (φ - φ̄)(φ - φ̄)ᵀ, Σ w <∇φ, ∇φᵀ>) together, or None;
    - ``directional(x, vectors)`` (n, p), derivatives along a vector at each point;
    - ``derivative(x, index)`` (n, p), partial derivatives ∂^α of orders above one;
    - ``contract_values(x, coefficients)`` (n,), ``contract_gradients`` (n, d) and ``contract_laplacians`` (n,), a
      combination of its functions without evaluating each function (:class:`kmc.bases.Contraction`);
    - ``jit_state(coefficients, base, origin)``, a combination for use inside jitted loops (:mod:`kmc.jitted`);
    - ``gram()`` (p, p), inner products of the functions in a reproducing-kernel space.
    """

    @property
    def size(self) -> int:
        """Number of functions p."""

    def values(self, x: np.ndarray) -> np.ndarray:
        """(n, p) values at the rows of x (n, d)."""

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """(n, p, d) gradients."""

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """(n, p) Laplacians."""


def check_basis(basis: Any) -> None:
    """TypeError if it is not a basis."""
    if isinstance(basis, type) or not isinstance(basis, Basis):
        raise TypeError(f"basis={basis!r}: expected an object of kmc.bases")
