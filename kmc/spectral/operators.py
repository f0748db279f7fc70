"""Operators as bilinear forms: <f, Lg> = E[H(f, g, X)], equation 1 of Cabannes and Bach (2023).

A form sums H over samples for all pairs of functions of two bases; :func:`kmc.spectral.galerkin`
does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from kmc.bases import Basis, general
from kmc.checks import is_whole
from kmc.kernels import axes_of

Index = tuple[int, ...]


@runtime_checkable
class Form(Protocol):
    """A bilinear form."""

    @property
    def symmetric(self) -> bool:
        """Whether H(f, g, x) = H(g, f, x), so that the operator is self-adjoint."""

    @property
    def annihilates_constants(self) -> bool:
        """Whether H(f, g, x) = 0 when f or g is a constant."""

    def sum(self, left: Basis, right: Basis, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sum over the rows of x (n, d) of w H(φ_a, ψ_b, x), shape (p, q)."""


@dataclass(frozen=True)
class DirichletForm:
    """H = <∇f, ∇g>, equation 3: the Laplacian ∇*∇, which is the generator of Langevin dynamics."""

    symmetric = True
    annihilates_constants = True

    def sum(self, left: Basis, right: Basis, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sum in one fused pass if both bases are the same one and it supports that."""
        if left is right:
            return left.sum_dirichlet(x, weights)
        total = np.zeros((left.size, right.size))
        for rows in general.slices(len(x), (left.size + right.size) * x.shape[1]):
            weighted = weights[rows, None, None] * left.gradients(x[rows])
            total += np.einsum("npd,nqd->pq", weighted, right.gradients(x[rows]), optimize=True)
        return total


@dataclass(frozen=True)
class DifferentialOperator:
    r"""H = Σ c_{α,β} ∂^α f ∂^β g, equation 10.

    Parameters
    ----------
    coefficients : mapping
        From pairs (α, β) of multi-indices, each d whole numbers, to c: a finite number, or a
        callable from points (n, d) to (n,) for a variable coefficient. The bases must have the
        derivatives, see :meth:`kmc.bases.Basis.derivative`; kernel sections have them up to order
        four.

    Raises
    ------
    ValueError
        No coefficients, invalid indices or indices of different lengths, or numbers that are not
        finite.

    Examples
    --------
    The Laplacian in the plane, <∇f, ∇g>:

    >>> from kmc.spectral import DifferentialOperator
    >>> laplacian = DifferentialOperator({((1, 0), (1, 0)): 1.0, ((0, 1), (0, 1)): 1.0})
    >>> laplacian.symmetric, laplacian.annihilates_constants
    (True, True)
    >>> DifferentialOperator({((0,), (1,)): 1.0}).symmetric  # <f, ∂g>
    False
    """

    coefficients: Mapping[tuple[Index, Index], Any]
    _rows: dict[Index, list[tuple[Index, Any]]] = field(init=False, repr=False)

    def __post_init__(self):
        rows: dict[Index, list[tuple[Index, Any]]] = {}
        try:
            items = [
                (tuple(map(int, a)), tuple(map(int, b)), c)
                for (a, b), c in self.coefficients.items()
            ]
        except (TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"coefficients={self.coefficients!r}: expected a mapping from pairs of "
                f"multi-indices to numbers"
            ) from error
        if (
            len({len(index) for a, b, _ in items for index in (a, b)}) != 1
            or min(min(a + b) for a, b, _ in items) < 0
        ):
            raise ValueError(
                f"coefficients={self.coefficients!r}: expected multi-indices of one length, none "
                f"negative"
            )
        for a, b, c in items:
            if not callable(c) and not np.isfinite(c):
                raise ValueError(
                    f"coefficients[{a}, {b}]={c!r}: expected a finite number or a callable of "
                    f"points"
                )
            rows.setdefault(a, []).append((b, c))
        object.__setattr__(self, "_rows", rows)

    @property
    def symmetric(self) -> bool:
        """Whether c_{α,β} = c_{β,α}."""
        return all(
            c == self.coefficients.get((b, a), 0.0) for (a, b), c in self.coefficients.items()
        )

    @property
    def annihilates_constants(self) -> bool:
        """Whether there is no index of zeros."""
        return all(any(a) and any(b) for a, b in self.coefficients)

    def sum(self, left: Basis, right: Basis, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """One matrix product for each α."""
        derived = {b: _derivative(right, x, b) for row in self._rows.values() for b, _ in row}
        total = np.zeros((left.size, right.size))
        for a, row in self._rows.items():
            inner = sum((self._at(a, b, c, x) * weights)[:, None] * derived[b] for b, c in row)
            total += _derivative(left, x, a).T @ inner
        return total

    def _at(self, a, b, c, x):
        if not callable(c):
            return np.full(len(x), float(c))
        return _answer(f"coefficients[{a}, {b}]", c(x), (len(x),))


@dataclass(frozen=True)
class TangentProp:
    """H = E[<∇f, U> <∇g, U> | X], equation 19: the energy of change along tangents U.

    See Simard and others (1991).

    Parameters
    ----------
    tangents : callable or array_like, shape (k, d)
        From points (n, d) to k vectors at each, (n, k, d), or one, (n, d); the form is the mean
        over the k. An array gives the same k vectors at every point. Random U are drawn anew at
        every call.

    Examples
    --------
    On a circle, along the circle: m² for the Fourier mode of order m.

    >>> import numpy as np
    >>> from kmc.bases import Monomials
    >>> from kmc.spectral import TangentProp, galerkin
    >>> angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> form = TangentProp(lambda x: x[:, ::-1] * [-1, 1])
    >>> galerkin(form, Monomials(3, 2), None, X).eigenvalues_.round(6)
    array([1., 1., 4., 4., 9., 9.])
    """

    tangents: Any
    symmetric = True
    annihilates_constants = True

    def sum(self, left: Basis, right: Basis, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """One matrix product for each tangent."""
        vectors = self.vectors(x)
        total = np.zeros((left.size, right.size))
        for along in np.moveaxis(vectors, 1, 0):
            one = left.directional(x, along)
            other = one if left is right else right.directional(x, along)
            total += (one * weights[:, None]).T @ other
        return total / vectors.shape[1]

    def vectors(self, x: np.ndarray) -> np.ndarray:
        """Return the tangents (n, k, d) at the rows of x (n, d)."""
        vectors = np.asarray(
            self.tangents(x) if callable(self.tangents) else self.tangents, dtype=float
        )
        if not callable(self.tangents):
            vectors = np.broadcast_to(vectors, (len(x), *vectors.shape))
        elif vectors.ndim == 2:
            vectors = vectors[:, None, :]
        shape = (len(x), vectors.shape[1] if vectors.ndim == 3 else 1, x.shape[1])
        return _answer("tangents", vectors, shape)


@dataclass(frozen=True)
class AugmentationPairs:
    """H = E[(f(ξ) - f(ξ')) (g(ξ) - g(ξ')) | X], equation 20.

    Here ξ and ξ' are two random augmentations of X.

    Parameters
    ----------
    augment : callable
        From points (n, d) to an augmentation of each, (n, d), drawn anew at every call.
    n_pairs : int
        Number of pairs for each point.
    """

    augment: Callable[[np.ndarray], Any]
    n_pairs: int = 1
    symmetric = True
    annihilates_constants = True

    def __post_init__(self):
        if not callable(self.augment):
            raise TypeError(
                f"augment={self.augment!r}: expected a callable from points (n, d) to points (n, d)"
            )
        if not is_whole(self.n_pairs) or self.n_pairs < 1:
            raise ValueError(f"n_pairs={self.n_pairs!r}: expected a whole number of at least 1")

    def sum(self, left: Basis, right: Basis, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """One matrix product for each pair."""
        total = np.zeros((left.size, right.size))
        for first, second in self.pairs(x):
            one = left.values(first) - left.values(second)
            other = one if left is right else right.values(first) - right.values(second)
            total += (one * weights[:, None]).T @ other
        return total / self.n_pairs

    def pairs(self, x: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Two augmentations (n, d) of the rows of x (n, d), ``n_pairs`` times."""
        for _ in range(self.n_pairs):
            yield (
                _answer("augment", self.augment(x), x.shape),
                _answer("augment", self.augment(x), x.shape),
            )


@dataclass(frozen=True)
class Bilinear:
    """Any bilinear form H, summed by a user's function.

    Parameters
    ----------
    function : callable
        ``function(left, right, x, weights)`` returns the sum over the rows of x (n, d) of w H(φ_a,
        ψ_b, x), shape (p, q), for bases ``left`` of p functions and ``right`` of q
        (:class:`kmc.bases.Basis`).
    symmetric, annihilates_constants : bool
        As in :class:`Form`.

    Examples
    --------
    A shift, <f, Lg> = E[f(X) g(X - 1)]:

    >>> from kmc.spectral import Bilinear
    >>> shift = Bilinear(
    ...     lambda left, right, x, w: (w[:, None] * left.values(x)).T @ right.values(x - 1)
    ... )
    """

    function: Callable[[Basis, Basis, np.ndarray, np.ndarray], Any]
    symmetric: bool = False
    annihilates_constants: bool = False

    def __post_init__(self):
        if not callable(self.function):
            raise TypeError(
                f"function={self.function!r}: expected a callable of (left, right, x, weights)"
            )

    def sum(self, left: Basis, right: Basis, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the function's result, checked to be finite numbers of shape (p, q)."""
        return _answer("function", self.function(left, right, x, weights), (left.size, right.size))


def _derivative(basis: Basis, x: np.ndarray, index: Index) -> np.ndarray:
    axes_of(index, x.shape[1])  # an error if it is none
    return basis.derivative(x, index)


def _answer(name: str, value: Any, shape: Sequence[int]) -> np.ndarray:
    """Return the result of a user's callable, checked to be finite numbers of that shape."""
    out = np.asarray(value, dtype=float)
    if out.shape != tuple(shape):
        raise ValueError(f"{name} gave shape {out.shape}: expected {tuple(shape)}")
    if not np.all(np.isfinite(out)):
        raise ValueError(f"{name} gave NaN or infinity: expected finite numbers")
    return out
