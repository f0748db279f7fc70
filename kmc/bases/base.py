"""Finite bases of functions on R^d, and linear combinations: f = Σ_a coefficients_a φ_a."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from kmc.bases import general
from kmc.bases.base_jit_state import BaseJitState
from kmc.checks import as_array

Both = Callable[[np.ndarray, np.ndarray | None], tuple[np.ndarray, np.ndarray, np.ndarray]]


class Basis:
    """A finite basis: blocks of values and derivatives at points, and what can be computed from them.

    A subclass has ``size`` and ``values``, and ``gradients`` and ``laplacians`` if its forms need them. Everything else
    has a default that uses these, in slices of bounded memory; a basis with a faster way to the same numbers overrides
    it.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.bases import Basis, Contraction
    >>> class Squares(Basis):  # x_1², x_2², ...
    ...     size = 2
    ...     def values(self, x):
    ...         return x**2
    ...     def gradients(self, x):
    ...         return 2.0 * x[:, :, None] * np.eye(2)
    >>> Contraction(Squares(), np.array([1.0, -1.0])).gradient(np.array([[3.0, 2.0]]))
    array([[ 6., -4.]])
    """

    if TYPE_CHECKING:  # a property or an attribute

        @property
        def size(self) -> int:
            """Number of functions p."""

    def values(self, x: np.ndarray) -> np.ndarray:
        """(n, p) values at the rows of x (n, d)."""
        raise self._lacks("values")

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """(n, p, d) gradients."""
        raise self._lacks("gradients")

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """(n, p) Laplacians."""
        raise self._lacks("laplacians")

    def derivative(self, x: np.ndarray, index: Sequence[int]) -> np.ndarray:
        """(n, p) partial derivatives ∂^α, for a multi-index α of d whole numbers.

        By default those of order 0 and 1, from values and gradients; TypeError for others.
        """
        return general.derivative(self, x, index)

    def directional(self, x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """(n, p) derivatives <∇φ_a, v> along a vector at each row of x, ``vectors`` (n, d)."""
        return general.directional(self, x, vectors)

    def sum_dirichlet(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sum over the rows of x of w <∇φ_a, ∇φ_b>, (p, p)."""
        return general.sum_dirichlet(self, x, weights)

    def sum_linear(self, x: np.ndarray, weights: np.ndarray, base_gradient: np.ndarray | None = None) -> np.ndarray:
        """Sum over the rows of x of w (Δφ_a + <∇φ_a, g>), (p,), with g = ∇log q0 there."""
        return general.sum_linear(self, x, weights, base_gradient)

    @property
    def sum_mass_and_dirichlet(self) -> Both | None:
        """A function that sums both forms in one evaluation, or None, the default: each is summed by itself.

        The function takes x and weights (None: ones), and returns Σ w φ, Σ w (φ - φ̄)(φ - φ̄)ᵀ and Σ w <∇φ_a, ∇φ_b>.
        """
        return None

    def gram(self) -> np.ndarray | None:
        """(p, p) inner products of the functions in a reproducing-kernel space; None if there is no such space."""
        return None

    def contract_values(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the combination with coefficients (p,) at the rows of x, shape (n,)."""
        return self.values(x) @ coefficients

    def contract_gradients(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the gradients of the combination, shape (n, d)."""
        return np.einsum("npd,p->nd", self.gradients(x), coefficients, optimize=True)

    def contract_gradients_each(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the gradients of k combinations, the columns of coefficients (p, k), shape (n, k, d)."""
        return np.stack([self.contract_gradients(x, column) for column in coefficients.T], axis=1)

    def contract_laplacians(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the Laplacians of the combination, shape (n,)."""
        return self.laplacians(x) @ coefficients

    def contract_hessians(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the combination, (n, d, d), by default from :meth:`derivative`."""
        d = x.shape[1]
        out = np.empty((len(x), d, d))
        for i, j in zip(*np.triu_indices(d), strict=True):
            index = np.bincount([i, j], minlength=d)
            out[:, i, j] = out[:, j, i] = self.derivative(x, index.tolist()) @ coefficients
        return out

    def jit_state(
        self, coefficients: np.ndarray, base: BaseJitState | None = None, origin: np.ndarray | None = None
    ) -> Any:
        """Return the combination for jitted loops, see :meth:`Contraction.jit_state`; TypeError by default."""
        raise TypeError(f"{type(self).__name__} has no jit_state: jitted loops cannot evaluate it")

    def _lacks(self, name):
        return TypeError(f"{type(self).__name__} has no {name}(x), which is needed here: give it this method")


@dataclass(frozen=True, eq=False)
class Contraction:
    r"""The function :math:`f = \sum_a \beta_a \varphi_a` of a basis, with its derivatives.

    Methods of the basis (``contract_values``, ``contract_gradients``, ...) evaluate it in slices of points, so that
    memory is bounded (16 MB of gradients) for any number of points.

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
        object.__setattr__(self, "basis", as_basis(self.basis))
        coefficients = as_array("coefficients", self.coefficients)
        if coefficients.shape != (self.basis.size,):
            raise ValueError(f"coefficients has shape {coefficients.shape}: expected ({self.basis.size},)")
        if not np.all(np.isfinite(coefficients)):
            raise ValueError("coefficients contains NaN or infinity: expected finite numbers")
        object.__setattr__(self, "coefficients", coefficients)

    def values(self, x: np.ndarray) -> np.ndarray:
        """f at the rows of x (n, d), shape (n,)."""
        return self._sliced(self.basis.contract_values, x, np.empty(len(x)))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """∇f at the rows of x (n, d), shape (n, d)."""
        return self._sliced(self.basis.contract_gradients, x, np.empty(x.shape))

    def laplacian(self, x: np.ndarray) -> np.ndarray:
        """Δf at the rows of x (n, d), shape (n,)."""
        return self._sliced(self.basis.contract_laplacians, x, np.empty(len(x)))

    def hessian(self, x: np.ndarray) -> np.ndarray:
        """Return the matrices of second derivatives at the rows of x (n, d), shape (n, d, d).

        TypeError if the basis has no derivatives of order two.
        """
        return self._sliced(self.basis.contract_hessians, x, np.empty((*x.shape, x.shape[1])))

    def jit_state(self, base: BaseJitState | None = None, origin: np.ndarray | None = None) -> Any:
        """Return the state of base(x) + f(x - origin) for jitted loops, see :mod:`kmc.jitted`.

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
        return self.basis.jit_state(self.coefficients, base, origin)

    def _sliced(self, contract, x, out):
        for rows in general.slices(len(x), self.basis.size * x.shape[1]):
            out[rows] = contract(x[rows], self.coefficients)
        return out


def as_basis(basis: Any, name: str = "basis", needs: Sequence[str] = ("values", "gradients")) -> Basis:
    """Return a basis unchanged, or wrap an object with ``size`` and the methods ``needs`` as a basis.

    Raises
    ------
    TypeError
        For anything else.
    """
    if isinstance(basis, Basis):
        return basis
    if not is_basis(basis, needs):
        methods = ", ".join(f"{need}(x)" for need in needs)
        raise TypeError(f"{name}={basis!r}: expected an object of kmc.bases, or one with size, {methods}")
    return _Foreign(basis)


@runtime_checkable
class Centered(Protocol):
    """What a basis may have besides: the points (m, d) to which its functions belong."""

    centers: np.ndarray


def centers_of(basis: Basis) -> np.ndarray | None:
    """Return the points (m, d) to which the functions of a basis belong; None if they belong to none."""
    return basis.centers if isinstance(basis, Centered) else None


def is_basis(basis: Any, needs: Sequence[str] = ("values", "gradients")) -> bool:
    """Whether an object is a basis, or has the methods of one."""
    if isinstance(basis, type):
        return False
    return isinstance(basis, Basis) or all(hasattr(basis, need) for need in ("size", *needs))


class _Foreign(Basis):
    """An object with a basis's methods that is not a :class:`Basis`; methods that it lacks have their defaults."""

    def __init__(self, basis: Any):
        self.wrapped = basis
        for name in vars(Basis):
            if not name.startswith("_") and hasattr(basis, name) and name != "sum_mass_and_dirichlet":
                setattr(self, name, getattr(basis, name))

    if not TYPE_CHECKING:

        @property
        def size(self):
            return self.wrapped.size

    @property
    def sum_mass_and_dirichlet(self) -> Both | None:
        """The object's own function, or None if it has none."""
        return getattr(self.wrapped, "sum_mass_and_dirichlet", None)

    def __reduce__(self):
        return _Foreign, (self.wrapped,)

    def __repr__(self) -> str:
        return repr(self.wrapped)
