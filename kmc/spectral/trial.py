"""Trial functions for the modes of the Langevin generator, and the forms that are summed over samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.bases import Basis, general
from kmc.checks import as_array
from kmc.forms import Forms
from kmc.forms.stream import checked

Field = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class TrialSpace:
    """A basis and a matrix W of combinations; forms are summed over the basis and combined at the end.

    Parameters
    ----------
    basis : Basis
        A basis of p functions.
    matrix : ndarray, shape (p, r)
        Columns orthonormal in the space in which the regularization is defined.
    score : callable, optional
        Points (n, d) to ∇log p (n, d). Then each function φ of the basis is accompanied by a second one, the generator
        L φ = -Δφ - <score, ∇φ>.
    normals : callable, optional
        Points (n, d) to unit normals (n, d), or to c orthonormal ones (n, d, c): the components of gradients along
        them do not count.
    """

    basis: Basis
    matrix: np.ndarray
    score: Field | None = None
    normals: Field | None = None

    @property
    def size(self) -> int:
        """Number of functions in the sums: p, or 2 p with a score."""
        return self.basis.size * (1 if self.score is None else 2)

    def values(self, x: np.ndarray) -> np.ndarray:
        """(n, p) values φ, or (n, 2 p) values φ and L φ."""
        phi = self.basis.values(x)
        if self.score is None:
            return phi
        gradient = checked(self.score(x), "score(X)")
        if gradient.shape != x.shape:
            raise ValueError(f"score(X) has shape {gradient.shape} for points of shape {x.shape}: expected the same")
        return np.hstack([phi, -self.basis.laplacians(x) - general.directional(self.basis, x, gradient)])

    def sum_dirichlet(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sum over x of w <∇φ_a, ∇φ_b>, (p, p), of the tangential components if there are normals."""
        fused = getattr(self.basis, "sum_dirichlet", None)
        total = general.sum_dirichlet(self.basis, x, weights) if fused is None else fused(x, weights)
        return total - self._across(x, weights)

    @property
    def sum_mass_and_dirichlet(self) -> Any:
        """Both forms from one evaluation, if the basis supports it and there is no score; otherwise None."""
        together = getattr(self.basis, "sum_mass_and_dirichlet", None)
        if together is None or self.score is not None:
            return None

        def both(x, weights):
            total, scatter, dirichlet = together(x, weights)
            return total, scatter, dirichlet - self._across(x, np.ones(len(x)) if weights is None else weights)

        return both

    def pencil(self, forms: Forms, about: Forms | None = None) -> Pencil:
        """The forms of the combinations, as means; second moments about the means of other samples, if given."""
        w, p, mass = self.matrix, self.basis.size, forms.centered_mass()
        if about is not None:
            apart = forms.get("mean") / forms.weight - about.get("mean") / about.weight
            mass = mass + np.outer(apart, apart)
        cross = square = None
        if self.score is not None:
            cross, square = w.T @ mass[:p, p:] @ w, _symmetric(w.T @ mass[p:, p:] @ w)
        dirichlet = _symmetric(w.T @ (forms.get("dirichlet") / forms.weight) @ w)
        return Pencil(_symmetric(w.T @ mass[:p, :p] @ w), dirichlet, cross, square)

    def _across(self, x, weights):
        """The component of the Dirichlet form along normals."""
        if self.normals is None:
            return 0.0
        total = np.zeros((self.basis.size, self.basis.size))
        for normal in np.moveaxis(orthonormal(self.normals, x), 2, 0):
            along = np.sqrt(weights)[:, None] * general.directional(self.basis, x, normal)
            total += along.T @ along
        return total


@dataclass(frozen=True, eq=False)
class Pencil:
    """Forms of r functions φ: covariances, and means of products of gradients."""

    mass: np.ndarray  # Cov(φ, φ)
    dirichlet: np.ndarray  # E <∇φ, ∇φ>
    cross: np.ndarray | None = None  # Cov(φ, L φ)
    square: np.ndarray | None = None  # Cov(L φ, L φ)

    def within(self, a: np.ndarray) -> Pencil:
        """The forms of combinations of the functions, the columns of a (r, k)."""
        forms = (None if form is None else a.T @ form @ a for form in vars(self).values())
        return Pencil(*forms)  # type: ignore[arg-type]

    def scaled(self, unit: float) -> Pencil:
        """The forms in another unit of length."""
        cross = None if self.cross is None else self.cross * unit**2
        square = None if self.square is None else self.square * unit**4
        return Pencil(self.mass, self.dirichlet * unit**2, cross, square)


def _symmetric(matrix):
    return 0.5 * (matrix + matrix.T)


def orthonormal(normals: Field, x: np.ndarray) -> np.ndarray:
    """(n, d, c) normals at points (n, d), checked."""
    found = as_array("normals(X)", normals(x))
    if found.shape[:2] != x.shape or found.ndim not in (2, 3):
        raise ValueError(
            f"normals(X) has shape {found.shape} for points of shape {x.shape}: expected the same, or (n, d, c)"
        )
    found = found[:, :, None] if found.ndim == 2 else found
    products = np.einsum("ndc,nde->nce", found, found)
    if not np.all(np.abs(products - np.eye(found.shape[2])) < 1e-6):
        raise ValueError("normals(X) are not orthonormal: expected orthogonal vectors of length one at each point")
    return found
