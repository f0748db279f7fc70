"""Monomials in centered and scaled coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any, Self

import numpy as np
from scipy.special import perm

from kmc.arrays import as_array
from kmc.bases.base import Basis
from kmc.checks import is_whole


@dataclass(frozen=True, eq=False)
class Monomials(Basis):
    r"""All monomials :math:`\prod_i z_i^{e_i}` of total degree 1 to ``degree``.

    Here z = (x - center) / scale. They are ordered by degree, and within a degree lexicographically
    with z_0 first: for two variables z0, z1, z0², z0 z1, z1², ... The constant is left out: no form
    that kmc solves for depends on it. There is no Gram matrix.

    Parameters
    ----------
    degree : int
        At least 1.
    dim : int
        Number of variables d.
    center, scale : float or array_like, shape (d,)
        Data should be of order one in z, or the forms are ill-conditioned: :meth:`about` uses mean
        and standard deviation. The scale is positive.

    Attributes
    ----------
    exponents : ndarray of int, shape (p, d)
        The e_i; p = (d + degree)! / (d! degree!) - 1.

    Raises
    ------
    ValueError
        The degree or dimension is below 1, the center is not finite, or the scale is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.bases import Monomials
    >>> basis = Monomials(2, 2)
    >>> basis.exponents.tolist()
    [[1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    >>> basis.values(np.array([[2.0, 3.0]]))
    array([[2., 3., 4., 6., 9.]])

    Notes
    -----
    A derivative of a monomial is a multiple of a monomial of lower degree, so all forms are sums
    over the mass form of the monomials up to degree - 1: no array of gradients is needed.
    """

    degree: int
    dim: int
    center: Any = 0.0
    scale: Any = 1.0
    exponents: np.ndarray = field(init=False, repr=False)
    # (1 + p,) index of the monomial without its last variable
    _parents: np.ndarray = field(init=False, repr=False)
    _variables: np.ndarray = field(init=False, repr=False)  # (1 + p,) that variable
    # for ∂_i: index of the lower monomial and factor, both (p, d)
    _first: tuple = field(init=False, repr=False)
    _second: tuple = field(init=False, repr=False)  # for ∂_i²
    _along: list = field(init=False, repr=False)  # those of _first that are not zero, see _not_zero
    _twice: list = field(init=False, repr=False)  # those of _second

    def __post_init__(self):
        for name in ("degree", "dim"):
            value = getattr(self, name)
            if not is_whole(value) or value < 1:
                raise ValueError(f"{name}={value!r}: expected a whole number of at least 1")
        center, scale = self._vector("center"), self._vector("scale")
        if not np.all(np.isfinite(center)):
            raise ValueError(f"center={self.center!r}: expected finite numbers")
        if not np.all(np.isfinite(scale) & (scale > 0)):
            raise ValueError(f"scale={self.scale!r}: expected positive finite numbers")
        tables = _tables(int(self.degree), int(self.dim))
        exponents, parents, variables, lower, twice_lower = tables
        e = exponents[1:]
        derived = {
            "center": center,
            "scale": scale,
            "exponents": e,
            "_parents": parents,
            "_variables": variables,
            "_first": (lower, e / scale),
            "_second": (twice_lower, e * (e - 1) / scale**2),
        }
        derived["_along"], derived["_twice"] = (
            _not_zero(*derived["_first"]),
            _not_zero(*derived["_second"]),
        )
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @classmethod
    def about(cls, x: np.ndarray, degree: int) -> Self:
        """Return monomials centered and scaled by the mean and standard deviation of x (n, d).

        A constant column is not scaled.
        """
        center, scale = x.mean(axis=0), x.std(axis=0)
        return cls(degree, x.shape[1], center, np.where(scale > 1e-12 * np.abs(center), scale, 1.0))

    @property
    def size(self) -> int:
        """Number of monomials p."""
        return len(self.exponents)

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return the (n, p) values."""
        return self._powers(x, 1 + self.size)[1:].T

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """Return the (n, p, d) gradients: e_i z^(e - δ_i) / scale_i."""
        index, factor = self._first
        return self._lower(x).T[:, index] * factor

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """Return the (n, p) Laplacians: the sum over i of e_i (e_i - 1) z^(e - 2δ_i) / scale_i²."""
        lower = self._lower(x)
        out = np.zeros((self.size, len(x)))
        for _, index, factor in self._twice:
            out += lower[index] * factor[:, None]
        return out.T

    def directional(self, x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return the (n, p) derivatives <∇φ_a, v> at each point, with v from ``vectors`` (n, d)."""
        lower, vectors = self._lower(x), np.ascontiguousarray(vectors.T)
        out = np.zeros((self.size, len(x)))
        for variable, index, factor in self._along:
            out += lower[index] * factor[:, None] * vectors[variable]
        return out.T

    def derivative(self, x: np.ndarray, index: Sequence[int]) -> np.ndarray:
        """Return the derivatives ∂^α of the functions, (n, p).

        They are falling factorials of the exponents times z^(e - α), over scale^α.
        """
        alpha = np.asarray(index)
        rest = self.exponents - alpha
        place = {tuple(e): a for a, e in enumerate(self.exponents.tolist(), start=1)} | {
            (0,) * self.dim: 0
        }
        source = [place.get(tuple(e), 0) for e in rest.tolist()]
        # zero where e < α
        factor = perm(self.exponents, alpha).prod(axis=1) / np.prod(self.scale**alpha)
        return self._powers(x, 1 + self.size)[source].T * factor

    def sum_dirichlet(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sum over x of w <∇φ_a, ∇φ_b>, (p, p).

        Products of derivatives are in the mass of lower monomials.
        """
        index, factor = self._first
        lower = self._lower(x)
        mass = (lower * weights) @ lower.T
        total = np.zeros((self.size, self.size))
        for i in range(self.dim):
            total += np.outer(factor[:, i], factor[:, i]) * mass[np.ix_(index[:, i], index[:, i])]
        return total

    def sum_linear(
        self, x: np.ndarray, weights: np.ndarray, base_gradient: np.ndarray | None = None
    ) -> np.ndarray:
        """Sum over x of w (Δφ_a + <∇φ_a, g>), (p,), with g = ∇log q0 at the rows of x."""
        lower = self._lower(x)
        index, factor = self._second
        total = np.sum((lower @ weights)[index] * factor, axis=1)
        if base_gradient is not None:
            index, factor = self._first
            along = lower @ (weights[:, None] * base_gradient)  # (lower, d)
            total += np.sum(along[index, np.arange(self.dim)] * factor, axis=1)
        return total

    def contract_values(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the combination with coefficients (p,) at the rows of x, shape (n,)."""
        return coefficients @ self._powers(x, 1 + self.size)[1:]

    def contract_gradients(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the gradients of the combination, shape (n, d)."""
        return (self._gradient_coefficients(coefficients) @ self._lower(x)).T

    def contract_laplacians(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the Laplacians of the combination, shape (n,)."""
        index, factor = self._second
        lower = self._lower(x)
        return (
            np.bincount(index.ravel(), (factor * coefficients[:, None]).ravel(), len(lower)) @ lower
        )

    def _gradient_coefficients(self, coefficients):
        """Return ∂_i Σ_a coefficients_a φ_a, (d, q), in the constant and the lower monomials."""
        index, factor = self._first
        return np.stack(
            [
                np.bincount(index[:, i], factor[:, i] * coefficients, self._count_lower())
                for i in range(self.dim)
            ]
        )

    def _vector(self, name):
        given = as_array(name, getattr(self, name))
        if given.shape not in ((), (self.dim,)):
            raise ValueError(
                f"{name}={getattr(self, name)!r}: expected a number or {self.dim} of them"
            )
        return np.array(np.broadcast_to(given, self.dim))

    def _count_lower(self):
        return 1 + int(np.count_nonzero(self.exponents.sum(axis=1) < self.degree))

    def _lower(self, x):
        return self._powers(x, self._count_lower())

    def _powers(self, x, count):
        """Return the constant and the first monomials, shape (count, n).

        Each is an earlier one times a variable.
        """
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(f"x has shape {x.shape}: expected (n, {self.dim})")
        z = ((x - self.center) / self.scale).T
        out = np.empty((count, len(x)))
        out[0] = 1.0
        for a in range(1, count):
            np.multiply(out[self._parents[a]], z[self._variables[a]], out=out[a])
        return out


def _tables(degree, dim):
    """Return the exponents, the constant first, and the indices of the lower monomials of each.

    An index is 0 if there is none.
    """
    rows = [()] + [
        c for k in range(1, degree + 1) for c in combinations_with_replacement(range(dim), k)
    ]
    place = {row: a for a, row in enumerate(rows)}
    exponents = np.array([[row.count(i) for i in range(dim)] for row in rows])
    parents = np.array([place[row[:-1]] for row in rows])
    variables = np.array([row[-1] if row else 0 for row in rows])
    lower = np.array([[place.get(_without(row, i, 1), 0) for i in range(dim)] for row in rows[1:]])
    twice_lower = np.array(
        [[place.get(_without(row, i, 2), 0) for i in range(dim)] for row in rows[1:]]
    )
    return exponents, parents, variables, lower, twice_lower


def _not_zero(index, factor):
    """Return the entries of each row of ``factor`` (p, d) that are not zero.

    They are returned as (variable, index, factor), (p,) each: the first of every row, then the
    second, and so on, as many as a monomial has variables, which are few. Rows that have fewer are
    filled with zeros.
    """
    first = np.argsort(factor == 0.0, axis=1, kind="stable")
    most = int(np.count_nonzero(factor, axis=1).max())
    rows = np.arange(len(factor))
    return [(first[:, k], index[rows, first[:, k]], factor[rows, first[:, k]]) for k in range(most)]


def _without(row, i, times):
    """Return the row without ``times`` copies of i, or None if it has fewer."""
    if row.count(i) < times:
        return None
    out = list(row)
    for _ in range(times):
        out.remove(i)
    return tuple(out)
