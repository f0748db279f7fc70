"""A function in a basis, f = Σ_a coefficients_a φ_a, evaluated at many points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.bases.base import Basis, check_basis
from kmc.bases.base_jit_state import BaseJitState
from kmc.bases.general import slices
from kmc.checks import as_array


@dataclass(frozen=True, eq=False)
class Contraction:
    r"""The function :math:`f = \sum_a \beta_a \varphi_a` of a basis, with its derivatives.

    Methods of the basis are used if it has them (``contract_values``, ``contract_gradients``, ``contract_laplacians``);
    otherwise it is evaluated in slices of points, so that memory is bounded (16 MB of gradients) for any number of
    points.

    Parameters
    ----------
    basis : Basis
        A basis of p functions.
    coefficients : ndarray, shape (p,)

    Raises
    ------
    ValueError
        The coefficients are not p finite numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.bases import Contraction, Monomials
    >>> f = Contraction(Monomials(2, 1), np.array([1.0, 3.0]))  # x + 3x²
    >>> f.gradient(np.array([[2.0]]))
    array([[13.]])
    """

    basis: Basis
    coefficients: np.ndarray

    def __post_init__(self):
        check_basis(self.basis)
        coefficients = as_array("coefficients", self.coefficients)
        if coefficients.shape != (self.basis.size,):
            raise ValueError(f"coefficients has shape {coefficients.shape}: expected ({self.basis.size},)")
        if not np.all(np.isfinite(coefficients)):
            raise ValueError("coefficients contains NaN or infinity: expected finite numbers")
        object.__setattr__(self, "coefficients", coefficients)

    def values(self, x: np.ndarray) -> np.ndarray:
        """f at the rows of x (n, d), shape (n,)."""
        contract = getattr(self.basis, "contract_values", lambda rows, beta: self.basis.values(rows) @ beta)
        return self._sliced(contract, x, np.empty(len(x)))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """∇f at the rows of x (n, d), shape (n, d)."""
        contract = getattr(self.basis, "contract_gradients", self._gradient)
        return self._sliced(contract, x, np.empty(x.shape))

    def laplacian(self, x: np.ndarray) -> np.ndarray:
        """Δf at the rows of x (n, d), shape (n,)."""
        contract = getattr(self.basis, "contract_laplacians", lambda rows, beta: self.basis.laplacians(rows) @ beta)
        return self._sliced(contract, x, np.empty(len(x)))

    def jit_state(self, base: BaseJitState | None = None, origin: np.ndarray | None = None) -> Any:
        """Base(x) + f(x - origin) for jitted loops, see :mod:`kmc.jitted`.

        Parameters
        ----------
        base : BaseJitState, optional
            A log-density to add; none by default.
        origin : ndarray, shape (d,), optional
            Zero by default.

        Raises
        ------
        TypeError
            The basis has no such state.
        """
        state = getattr(self.basis, "jit_state", None)
        if state is None:
            raise TypeError(f"{type(self.basis).__name__} has no jit_state: jitted loops cannot evaluate it")
        return state(self.coefficients, base, origin)

    def _gradient(self, x, coefficients):
        return np.einsum("npd,p->nd", self.basis.gradients(x), coefficients, optimize=True)

    def _sliced(self, contract, x, out):
        for rows in slices(len(x), self.basis.size * x.shape[1]):
            out[rows] = contract(x[rows], self.coefficients)
        return out
