"""Finite bases of functions on R^d: the interface, a user's functions, and sums Σ_a c_a φ_a."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from kmc.arrays import as_array
from kmc.bases import general
from kmc.bases.base_jit_state import BaseJitState
from kmc.checks import is_whole

Both = Callable[[np.ndarray, np.ndarray | None], tuple[np.ndarray, np.ndarray, np.ndarray]]


class Basis:
    """A finite basis: blocks of values and derivatives at points, and what is computed from them.

    A subclass has ``size`` and ``values``, and ``gradients`` and ``laplacians`` if its forms need
    them. Everything else has a default that uses these, in slices of bounded memory; a basis with a
    faster way to the same numbers overrides it.

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
        """Return the (n, p) values at the rows of x (n, d)."""
        raise self._lacks("values")

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """Return the (n, p, d) gradients."""
        raise self._lacks("gradients")

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """Return the (n, p) Laplacians."""
        raise self._lacks("laplacians")

    def derivative(self, x: np.ndarray, index: Sequence[int]) -> np.ndarray:
        """Return the (n, p) partial derivatives ∂^α, for a multi-index α of d whole numbers.

        By default those of order 0 and 1, from values and gradients; TypeError for others.
        """
        return general.derivative(self, x, index)

    def directional(self, x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return the (n, p) derivatives <∇φ_a, v> at each point, with v from ``vectors`` (n, d)."""
        return general.directional(self, x, vectors)

    def sum_dirichlet(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sum over the rows of x of w <∇φ_a, ∇φ_b>, (p, p)."""
        return general.sum_dirichlet(self, x, weights)

    def sum_linear(
        self, x: np.ndarray, weights: np.ndarray, base_gradient: np.ndarray | None = None
    ) -> np.ndarray:
        """Sum over the rows of x of w (Δφ_a + <∇φ_a, g>), (p,), with g = ∇log q0 there."""
        return general.sum_linear(self, x, weights, base_gradient)

    @property
    def sum_mass_and_dirichlet(self) -> Both | None:
        """A function that sums both forms in one evaluation; by default None: each is summed alone.

        The function takes x and weights (None: ones), and returns Σ w φ, Σ w (φ - φ̄)(φ - φ̄)ᵀ and
        Σ w <∇φ_a, ∇φ_b>.
        """
        return None

    def gram(self) -> np.ndarray | None:
        """Return the inner products (p, p) in a reproducing-kernel space; None if there is none."""
        return None

    def contract_values(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the combination with coefficients (p,) at the rows of x, shape (n,)."""
        return self.values(x) @ coefficients

    def contract_gradients(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the gradients of the combination, shape (n, d)."""
        return np.einsum("npd,p->nd", self.gradients(x), coefficients, optimize=True)

    def contract_gradients_each(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the gradients (n, k, d) of k combinations, the columns of coefficients (p, k)."""
        return np.stack([self.contract_gradients(x, column) for column in coefficients.T], axis=1)

    def contract_laplacians(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the Laplacians of the combination, shape (n,)."""
        return self.laplacians(x) @ coefficients

    def contract_hessians(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the combination's Hessians (n, d, d), by default from :meth:`derivative`."""
        d = x.shape[1]
        out = np.empty((len(x), d, d))
        for i, j in zip(*np.triu_indices(d), strict=True):
            index = np.bincount([i, j], minlength=d)
            out[:, i, j] = out[:, j, i] = self.derivative(x, index.tolist()) @ coefficients
        return out

    def jit_state(
        self,
        coefficients: np.ndarray,
        base: BaseJitState | None = None,
        origin: np.ndarray | None = None,
    ) -> Any:
        """Return the combination for jitted loops; raise TypeError by default.

        See :meth:`Contraction.jit_state`.
        """
        raise TypeError(f"{type(self).__name__} has no jit_state: jitted loops cannot evaluate it")

    def _lacks(self, name):
        return TypeError(
            f"{type(self).__name__} has no {name}(x), which is needed here: give it this method"
        )


@dataclass(frozen=True, eq=False)
class Contraction:
    r"""The function :math:`f = \sum_a \beta_a \varphi_a` of a basis, with its derivatives.

    Methods of the basis (``contract_values``, ``contract_gradients``, ...) evaluate it in slices of
    points, so that memory is bounded (16 MB of gradients) for any number of points.

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
            raise ValueError(
                f"coefficients has shape {coefficients.shape}: expected ({self.basis.size},)"
            )
        if not np.all(np.isfinite(coefficients)):
            raise ValueError("coefficients contains NaN or infinity: expected finite numbers")
        object.__setattr__(self, "coefficients", coefficients)

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return f at the rows of x (n, d), shape (n,)."""
        return self._sliced(self.basis.contract_values, x, np.empty(len(x)))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return ∇f at the rows of x (n, d), shape (n, d)."""
        return self._sliced(self.basis.contract_gradients, x, np.empty(x.shape))

    def laplacian(self, x: np.ndarray) -> np.ndarray:
        """Return Δf at the rows of x (n, d), shape (n,)."""
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


def as_basis(
    basis: Any, name: str = "basis", needs: Sequence[str] = ("values", "gradients")
) -> Basis:
    """Return a basis unchanged, or wrap as one an object with ``size`` and the methods ``needs``.

    Raises
    ------
    TypeError
        For anything else.
    """
    if isinstance(basis, Basis):
        return basis
    if not is_basis(basis, needs):
        methods = ", ".join(f"{need}(x)" for need in needs)
        raise TypeError(
            f"{name}={basis!r}: expected an object of kmc.bases, or one with size, {methods}"
        )
    return _Foreign(basis)


@runtime_checkable
class Centered(Protocol):
    """What a basis may have besides: the points (m, d) to which its functions belong."""

    centers: np.ndarray


def centers_of(basis: Basis) -> np.ndarray | None:
    """Return the points (m, d) to which the functions of a basis belong, or None."""
    return basis.centers if isinstance(basis, Centered) else None


def is_basis(basis: Any, needs: Sequence[str] = ("values", "gradients")) -> bool:
    """Return whether an object is a basis, or has the methods of one."""
    if isinstance(basis, type):
        return False
    return isinstance(basis, Basis) or all(hasattr(basis, need) for need in ("size", *needs))


class _Foreign(Basis):
    """An object with a basis's methods that is not a :class:`Basis`.

    Methods that it lacks have their defaults.
    """

    def __init__(self, basis: Any):
        self.wrapped = basis
        for name in vars(Basis):
            if (
                not name.startswith("_")
                and hasattr(basis, name)
                and name != "sum_mass_and_dirichlet"
            ):
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


Evaluator = Callable[[np.ndarray], Any]


class UserFunctions(Basis):
    """Functions given by callables, whose results are checked.

    Parameters
    ----------
    values : callable
        Points (n, d) to values (n, p).
    gradients : callable, optional
        To (n, p, d); the forms "dirichlet" and "linear" need it.
    laplacians : callable, optional
        To (n, p); the form "linear" needs it.
    size : int
        Number of functions p. Leave the constant out: score matching does not depend on it.

    Raises
    ------
    TypeError
        An evaluator is not callable, or one that was not given is needed.
    ValueError
        ``size`` is not positive; or a result has a different shape than above, or is not finite.

    Notes
    -----
    Forms and contractions call the evaluators, slice by slice. Jitted loops cannot call them:
    register a jitted state of your own in :mod:`kmc.jitted` for that.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.bases import UserFunctions
    >>> waves = UserFunctions(np.sin, lambda x: np.cos(x)[:, :, None], lambda x: -np.sin(x), size=1)
    >>> waves.gradients(np.array([[0.0]]))
    array([[[1.]]])
    """

    size: int

    def __init__(
        self,
        values: Evaluator,
        gradients: Evaluator | None = None,
        laplacians: Evaluator | None = None,
        *,
        size: int,
    ):
        if not is_whole(size) or size < 1:
            raise ValueError(
                f"size={size!r}: expected the number of functions, a whole number of at least 1"
            )
        self._evaluators = {"values": values, "gradients": gradients, "laplacians": laplacians}
        for name, evaluator in self._evaluators.items():
            if not callable(evaluator) and (evaluator is not None or name == "values"):
                raise TypeError(f"{name}={evaluator!r}: expected a callable of points (n, d)")
        self.size = int(size)

    def __repr__(self) -> str:
        given = [name for name, evaluator in self._evaluators.items() if evaluator is not None]
        return f"UserFunctions({', '.join(given)}, size={self.size})"

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return the (n, p) values."""
        return self._evaluate("values", x, (len(x), self.size))

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """Return the (n, p, d) gradients."""
        return self._evaluate("gradients", x, (len(x), self.size, x.shape[1]))

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """Return the (n, p) Laplacians."""
        return self._evaluate("laplacians", x, (len(x), self.size))

    def _evaluate(self, name, x, shape):
        evaluator = self._evaluators[name]
        if evaluator is None:
            raise TypeError(
                f"{name}=None: this needs the {name} of the functions, give UserFunctions(..., "
                f"{name}=...)"
            )
        out = as_array(f"{name}(x)", evaluator(x))
        if out.shape != shape:
            raise ValueError(
                f"{name}(x) returned shape {out.shape} for {shape[0]} points: expected {shape}"
            )
        if not np.all(np.isfinite(out)):
            n, a = np.argwhere(~np.isfinite(out))[0][:2]
            raise ValueError(
                f"{name}(x) returned NaN or infinity, first of function {a} at x = {x[n]}"
            )
        return out


@dataclass(frozen=True)
class Whitened(Basis):
    """Combinations φᵀW of a basis; orthonormal with respect to its Gram matrix if W whitens it.

    Forms summed in this basis keep digits that whitening them afterwards would lose: with a jitter
    of 1e-11 the entries of W reach 1e5, and Wᵀ(Σ φφᵀ)W would amplify rounding by 1e10.

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
        """Return the (n, r) values."""
        return self.basis.values(x) @ self.matrix

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """Return the (n, r, d) gradients."""
        return np.einsum("npd,pr->nrd", self.basis.gradients(x), self.matrix, optimize=True)

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """Return the (n, r) Laplacians."""
        return self.basis.laplacians(x) @ self.matrix

    def sum_linear(
        self, x: np.ndarray, weights: np.ndarray, base_gradient: np.ndarray | None = None
    ) -> np.ndarray:
        """Sum over x of w (Δφ_a + <∇φ_a, g>), (r,): linear, so combining sums loses nothing."""
        return self.basis.sum_linear(x, weights, base_gradient) @ self.matrix

    def directional(self, x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return the (n, r) derivatives <∇φ_a, v> at each point, with v from ``vectors`` (n, d)."""
        return self.basis.directional(x, vectors) @ self.matrix

    def derivative(self, x: np.ndarray, index: Sequence[int]) -> np.ndarray:
        """Return the (n, r) partial derivatives ∂^α."""
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
        self,
        coefficients: np.ndarray,
        base: BaseJitState | None = None,
        origin: np.ndarray | None = None,
    ) -> Any:
        """Return the combination for jitted loops, see :meth:`kmc.bases.Contraction.jit_state`."""
        return self._contraction(coefficients).jit_state(base, origin)

    def _contraction(self, coefficients):
        return Contraction(self.basis, self.matrix @ coefficients)
