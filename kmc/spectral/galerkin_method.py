"""The Galerkin method: eigen- and singular functions of an operator in the span of two bases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from kmc.bases import Basis, Contraction, general
from kmc.bases.base import as_basis
from kmc.checks import is_number, is_whole
from kmc.errors import warn
from kmc.estimator import as_points
from kmc.forms import Forms, accumulate
from kmc.forms.stream import blocks
from kmc.linalg import eigen_whitening, eigh
from kmc.spectral.operators import Bilinear, Form

ROUNDING = 1e-28
"""Fraction of a second moment that remains for a constant when its mean is subtracted."""


@dataclass(frozen=True, eq=False)
class Decomposition:
    """L ≈ Σ_i λ_i f_i ⊗ g_i, equation 2 of Cabannes and Bach (2023).

    Attributes
    ----------
    singular_values_ : ndarray, shape (k,)
        λ, not negative.
    eigenvalues_ : ndarray, shape (k,), or None
        For a self-adjoint operator in one basis.
    left, right : Combinations
        f and g, orthonormal over the weighted samples, with ``values`` (n, k), ``gradients`` (n, k,
        d) and ``laplacians`` at any points; for eigenvalues, both are the eigenfunctions.
    ranks_ : tuple of int
        Numerical ranks of the two bases over the samples.
    """

    singular_values_: np.ndarray
    eigenvalues_: np.ndarray | None
    left: Combinations
    right: Combinations
    ranks_: tuple[int, int]


def galerkin(
    form: Form | Callable[..., Any],
    left: Basis,
    right: Basis | None,
    X: Any,
    *,
    weights: Any = None,
    n_components: int | None = None,
    which: str = "smallest",
    tolerance: float = 2e-8,
    regularization: float = 0.0,
    block: int = 2048,
) -> Decomposition:
    r"""Decompose the operator of a bilinear form in the span of two bases.

    Algorithm 1 of Cabannes and Bach (2023), "The Galerkin method beats graph-based approaches for
    spectral algorithms": with :math:`L = (E[H(\varphi_i, \psi_j, X)])_{ij}`, Φ and Ψ the second
    moments of the two bases, find A and B with :math:`A^\top L B` diagonal and :math:`A^\top \Phi A
    = B^\top \Psi B = I`, by the generalized singular value decomposition of their appendix A.3, or
    by a symmetric eigenproblem if the form is symmetric and the bases are the same.

    Parameters
    ----------
    form : Form or callable
        :class:`DirichletForm`, :class:`DifferentialOperator`, :class:`TangentProp`,
        :class:`AugmentationPairs`, or a callable as in :class:`Bilinear`.
    left : Basis
        φ, of p functions: an object of :mod:`kmc.bases`, or your own.
    right : Basis or None
        ψ, of q functions; None for ``left``.
    X : array_like (n, d), memory map, dask array, iterator of blocks, or list of these
        Samples.
    weights : array_like, shape (n,), optional
        Not negative; in blocks as X.
    n_components : int, optional
        Number of components; all by default.
    which : {"smallest", "largest"}
        The end of the spectrum to begin at. Differential operators have compact inverses: only
        their smallest values can be estimated. For eigenvalues, smallest and largest are algebraic.
    tolerance : float
        Combinations of functions with a second moment below this fraction of the largest are left
        out.
    regularization : float
        ε >= 0, the paper's way against such combinations (its footnote 6): Φ + εI and Ψ + εI take
        the place of Φ and Ψ with nothing left out. Values shrink and functions are orthonormal in
        Φ + εI.
    block : int
        Number of samples per block.

    Returns
    -------
    Decomposition

    Raises
    ------
    ValueError
        Samples or weights are invalid, all functions vanish on the samples, or the form returns
        values that are not finite or of the wrong shape.

    Warns
    -----
    KmcWarning
        ``n_components`` exceeds the numerical rank: fewer are returned.

    Notes
    -----
    If the form annihilates constants (``form.annihilates_constants``), the constant and its
    eigenvalue 0 are left out: all functions have mean zero. Time is O(n p q) times the cost of the
    form, memory O(block (p + q) + p q).

    Examples
    --------
    The Laplacian for a normal distribution has the Hermite polynomials as eigenfunctions:

    >>> import numpy as np
    >>> from kmc.bases import Monomials, UserFunctions
    >>> from kmc.spectral import DifferentialOperator, DirichletForm, galerkin
    >>> nodes, w = np.polynomial.hermite_e.hermegauss(20)
    >>> found = galerkin(DirichletForm(), Monomials(4, 1), None, nodes[:, None], weights=w)
    >>> found.eigenvalues_.round(6)
    array([1., 2., 3., 4.])
    >>> abs(found.left.values([[2.0]])).round(6)  # 2 / √1!, (2² - 1) / √2!, ...
    array([[2.      , 2.12132 , 0.816497, 1.020621]])

    Derivation, <f, g'>, is not self-adjoint; it maps the Hermite polynomial of degree k to √k times
    that of degree k - 1:

    >>> k = np.arange(5)
    >>> powers = UserFunctions(
    ...     lambda x: x**k, lambda x: (k * x ** np.maximum(k - 1, 0))[:, :, None], size=5
    ... )
    >>> derivation = DifferentialOperator({((0,), (1,)): 1.0})
    >>> found = galerkin(
    ...     derivation, powers, None, nodes[:, None], weights=w, which="largest", n_components=4
    ... )
    >>> found.singular_values_.round(6)
    array([2.      , 1.732051, 1.414214, 1.      ])
    """
    operator = _form(form)
    same = right is None or right is left
    left = as_basis(left, "left", needs=("values",))
    right = left if same else as_basis(right, "right", needs=("values",))
    _check(n_components, which, tolerance, regularization)
    total, masses = _sums(operator, left, right, X, weights, block)
    centered = operator.annihilates_constants
    if regularization > 0:
        spaces = [_regularized(mass, centered, regularization) for _, mass in masses]
    else:
        spaces = [whitening(basis, mass, centered, tolerance) for basis, mass in masses]
    return _decomposed(operator, left, right, total, masses, spaces, n_components, which)


def _decomposed(operator, left, right, total, masses, spaces, n_components, which) -> Decomposition:
    centered = operator.annihilates_constants
    whitened = spaces[0].T @ total @ spaces[-1]
    count = _count(n_components, min(whitened.shape))
    ranks = (spaces[0].shape[1], spaces[-1].shape[1])
    if operator.symmetric and left is right:
        eigenvalues, vectors = eigh(0.5 * (whitened + whitened.T), driver="evr")
        order = (
            np.arange(count) if which == "smallest" else np.arange(len(eigenvalues))[::-1][:count]
        )
        modes = _combined(left, spaces[0] @ vectors[:, order], masses[0][1], centered)
        return Decomposition(np.abs(eigenvalues[order]), eigenvalues[order], modes, modes, ranks)
    a, values, b = linalg.svd(whitened, full_matrices=False, check_finite=False)
    order = np.arange(count) if which == "largest" else np.arange(len(values))[::-1][:count]
    one = _combined(left, spaces[0] @ a[:, order], masses[0][1], centered)
    other = _combined(right, spaces[-1] @ b[order].T, masses[-1][1], centered)
    return Decomposition(values[order], None, one, other, ranks)


def whitening(basis, forms, centered, tolerance) -> np.ndarray:
    """W (p, r) with Wᵀ Φ W = I.

    If the basis has a kernel, it is first made orthonormal in the kernel's space: nearly equal
    functions lose digits there, but more in Φ, which squares them.
    """
    raw = forms.get("mass") / forms.weight
    mass = forms.centered_mass() if centered else raw
    gram = basis.gram()
    try:
        if np.trace(mass) <= ROUNDING * np.trace(raw):
            raise linalg.LinAlgError("nothing but rounding")
        if gram is None:
            return eigen_whitening(mass, tolerance)
        first = eigen_whitening(gram, tolerance)
        return first @ eigen_whitening(first.T @ mass @ first, tolerance)
    except linalg.LinAlgError as error:
        raise ValueError(
            f"{basis!r}: all its functions are {'constant' if centered else 'zero'} over X"
        ) from error


def _regularized(forms, centered, epsilon) -> np.ndarray:
    """W (p, p) with Wᵀ (Φ + εI) W = I."""
    mass = forms.centered_mass() if centered else forms.get("mass") / forms.weight
    s, v = eigh(mass)
    return v / np.sqrt(np.maximum(s, 0.0) + epsilon)


@dataclass(frozen=True, eq=False)
class Combinations(Basis):
    """k combinations Σ_a coefficients_aj φ_a - offset_j of a basis.

    Attributes
    ----------
    basis : Basis
        A basis of p functions.
    coefficients : ndarray, shape (p, k)
    offset : ndarray, shape (k,)
        The means of the combinations if they were required to have mean zero, otherwise zero.
    """

    basis: Basis
    coefficients: np.ndarray
    offset: np.ndarray

    @property
    def size(self) -> int:
        """Number of functions k."""
        return self.coefficients.shape[1]

    def values(self, x: Any) -> np.ndarray:
        """(n, k) values at the rows of x (n, d)."""
        x = as_points(x, name="x")
        out = np.empty((len(x), self.size))
        for rows in general.slices(len(x), self.basis.size):
            out[rows] = self.basis.values(x[rows]) @ self.coefficients - self.offset
        return out

    def gradients(self, x: Any) -> np.ndarray:
        """(n, k, d) gradients."""
        return self._stacked("gradient", x)

    def laplacians(self, x: Any) -> np.ndarray:
        """(n, k) Laplacians."""
        return self._stacked("laplacian", x)

    def _stacked(self, name, x):
        x = as_points(x, name="x")
        functions = (Contraction(self.basis, column) for column in self.coefficients.T)
        return np.stack([getattr(function, name)(x) for function in functions], axis=1)


def _sums(form, left, right, X, weights, block) -> tuple[np.ndarray, list[tuple[Basis, Forms]]]:
    """E[H(φ, ψ, X)] (p, q), and the second moments of each basis, only one if they are the same."""
    bases = [left] if left is right else [left, right]
    total = np.zeros((left.size, right.size))
    masses: list[Forms] = []
    for part in blocks(X, block, weights):
        w = np.ones(len(part.x)) if part.weights is None else part.weights
        total += form.sum(left, right, part.x, w)
        found = [accumulate(basis, part.x, ("mass",), weights=w, block=block) for basis in bases]
        masses = [a + b for a, b in zip(masses, found, strict=True)] if masses else found
    if not masses:
        raise ValueError("X has no rows: expected samples")
    if not masses[0].weight > 0:
        raise ValueError("weights: expected some that are positive")
    if not np.all(np.isfinite(total)):
        raise ValueError(f"the sums of {form!r} are not finite over these samples")
    return total / masses[0].weight, list(zip(bases, masses, strict=True))


def _combined(basis, coefficients, forms, centered):
    offset = (
        forms.mean @ coefficients / forms.weight if centered else np.zeros(coefficients.shape[1])
    )
    return Combinations(basis, coefficients, offset)


def _count(n_components, rank):
    if n_components is not None and n_components > rank:
        warn(
            f"n_components={n_components}: the functions have numerical rank {rank} over X, so "
            f"there are {rank}"
        )
    return rank if n_components is None else int(min(n_components, rank))


def _form(form) -> Form:
    if isinstance(form, Form):
        return form
    if callable(form):
        return Bilinear(form)
    raise TypeError(
        f"form={form!r}: expected a form of kmc.spectral or a callable of (left, right, x, weights)"
    )


def _check(n_components, which, tolerance, regularization):
    if not isinstance(which, str) or which not in ("smallest", "largest"):
        raise ValueError(f"which={which!r}: expected 'smallest' or 'largest'")
    if n_components is not None and (not is_whole(n_components) or n_components < 1):
        raise ValueError(
            f"n_components={n_components!r}: expected None or a whole number of at least 1"
        )
    if not is_number(tolerance) or not 0 <= tolerance < 1:
        raise ValueError(f"tolerance={tolerance!r}: expected a number in [0, 1)")
    if not is_number(regularization) or not 0 <= regularization < np.inf:
        raise ValueError(f"regularization={regularization!r}: expected a number of at least 0")
