"""Trial functions for the modes of the Langevin generator, the forms that are summed over samples, and the modes.

With the forms P = Cov(φ, φ) and L = E <∇φ, ∇φ> of r functions that are orthonormal in a kernel's space, the space of
the modes is that of the top eigenvectors of M^-1/2 P M^-1/2, M = L + P + ε tr(L)/r I (Pillaud-Vivien and Bach 2023,
equation 11). In that space the eigenvalues are Ritz values of L against P: 1/μ - 1 would be biased by ε.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy import linalg

from kmc.bases import Basis
from kmc.bases.base import Both
from kmc.checks import as_array
from kmc.forms import Forms
from kmc.forms.stream import checked
from kmc.linalg import generalized_eigh

Field = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class TrialSpace(Basis):
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
        return np.hstack([phi, -self.basis.laplacians(x) - self.basis.directional(x, gradient)])

    def sum_dirichlet(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sum over x of w <∇φ_a, ∇φ_b>, (p, p), of the tangential components if there are normals."""
        return self.basis.sum_dirichlet(x, weights) - self._across(x, weights)

    @property
    def sum_mass_and_dirichlet(self) -> Both | None:
        """Both forms from one evaluation, if the basis supports it and there is no score; otherwise None."""
        together = self.basis.sum_mass_and_dirichlet
        if together is None or self.score is not None:
            return None

        def both(x, weights):
            total, scatter, dirichlet = together(x, weights)
            return total, scatter, dirichlet - self._across(x, np.ones(len(x)) if weights is None else weights)

        return both

    def combined(self, forms: Forms) -> Forms:
        """Return the forms of the combinations φW; with a score, of L φW besides."""
        mean, scatter = forms.get("mean"), forms.get("mass_scatter")
        p, r = self.matrix.shape
        parts = range(0, len(mean), p)
        both = np.empty((len(parts) * r, len(parts) * r))
        for i, row in enumerate(parts):
            for j, column in enumerate(parts):
                if j < i:
                    block = both[j * r : (j + 1) * r, i * r : (i + 1) * r].T
                else:
                    block = self.matrix.T @ scatter[row : row + p, column : column + p] @ self.matrix
                both[i * r : (i + 1) * r, j * r : (j + 1) * r] = block
        return Forms(
            weight=forms.weight,
            mean=np.concatenate([mean[start : start + p] @ self.matrix for start in parts]),
            mass_scatter=both,
            dirichlet=self.matrix.T @ forms.get("dirichlet") @ self.matrix,
        )

    def _across(self, x, weights):
        """Return the component of the Dirichlet form along normals."""
        if self.normals is None:
            return 0.0
        total = np.zeros((self.basis.size, self.basis.size))
        for normal in np.moveaxis(orthonormal(self.normals, x), 2, 0):
            along = np.sqrt(weights)[:, None] * self.basis.directional(x, normal)
            total += along.T @ along
        return total


@dataclass(frozen=True, eq=False)
class Pencil:
    """Forms of r functions φ: covariances, and means of products of gradients."""

    mass: np.ndarray  # Cov(φ, φ)
    dirichlet: np.ndarray  # E <∇φ, ∇φ>
    cross: np.ndarray | None = None  # Cov(φ, L φ)
    square: np.ndarray | None = None  # Cov(L φ, L φ)

    @classmethod
    def of(cls, forms: Forms, about: Forms | None = None) -> Self:
        """Make one of the sums of r functions φ, or of φ and L φ, as means.

        Second moments are about the means of the samples of ``about``, if given.
        """
        mass, r = forms.centered_mass(), len(forms.get("dirichlet"))
        if about is not None:
            apart = forms.get("mean") / forms.weight - about.get("mean") / about.weight
            mass = mass + np.outer(apart, apart)
        cross = square = None
        if len(mass) > r:
            cross, square = mass[:r, r:], _symmetric(mass[r:, r:])
        return cls(_symmetric(mass[:r, :r]), _symmetric(forms.get("dirichlet") / forms.weight), cross, square)

    def within(self, a: np.ndarray) -> Pencil:
        """Return the forms of combinations of the functions, the columns of a (r, k)."""
        forms = (None if form is None else a.T @ form @ a for form in vars(self).values())
        return Pencil(*forms)  # type: ignore[arg-type]

    def scaled(self, unit: float) -> Pencil:
        """Return the forms in another unit of length."""
        cross = None if self.cross is None else self.cross * unit**2
        square = None if self.square is None else self.square * unit**4
        return Pencil(self.mass, self.dirichlet * unit**2, cross, square)


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


class GeneratorModes(NamedTuple):
    """Functions f_j = Σ vectors_aj φ_a of variance one, and their eigenvalues, ascending."""

    eigenvalues: np.ndarray  # (k,)
    vectors: np.ndarray  # (r, k)

    def first(self, count: int) -> GeneratorModes:
        """Return the ``count`` slowest modes."""
        return GeneratorModes(self.eigenvalues[:count], self.vectors[:, :count])


def subspace(pencil: Pencil, regularization: float, count: int) -> np.ndarray:
    """(r, count), the smoothest functions first; fewer if there are fewer functions."""
    size = len(pencil.mass)
    system = pencil.dirichlet + pencil.mass
    system[np.diag_indices(size)] += max(regularization * np.trace(pencil.dirichlet) / size, 1e-14 * np.trace(system))
    try:
        return generalized_eigh(pencil.mass, system, min(count, size))[1]
    except linalg.LinAlgError:  # no function varies over these samples
        return np.eye(size)[:, : min(count, size)]


def ritz(pencil: Pencil, space: np.ndarray) -> GeneratorModes:
    """Modes in a subspace (r, k), in the span of those functions that vary."""
    form = pencil.within(space)
    share, rotation = linalg.eigh(form.mass, check_finite=False)
    kept = share > 1e-10 * max(share[-1], 0.0)
    if not kept.any():
        return GeneratorModes(np.empty(0), np.empty((len(space), 0)))
    whiten = space @ (rotation[:, kept] / np.sqrt(share[kept]))
    eigenvalues, vectors = linalg.eigh(pencil.within(whiten).dirichlet, check_finite=False)
    return GeneratorModes(eigenvalues, whiten @ vectors)


def energies(modes: GeneratorModes, held_out: Pencil) -> tuple[np.ndarray, np.ndarray]:
    """Each mode's variance and energy E |∇f|² over other samples; their ratio is its Rayleigh quotient."""
    return _quadratic(held_out.mass, modes.vectors), _quadratic(held_out.dirichlet, modes.vectors)


def refined(pencil: Pencil, space: np.ndarray, count: int) -> GeneratorModes:
    """Modes by the generator applied pointwise: Cov(φ, Lφ) v = λ Cov(φ, φ) v in a subspace (r, m).

    If a combination of φ is an eigenfunction, this finds it and its eigenvalue exactly, for any samples; a
    symmetrized form would not. The functions are made orthonormal in the order of their eigenvalues.
    """
    form = pencil.within(space)
    eigenvalues, vectors = linalg.eig(form.cross, form.mass, check_finite=False)
    order = np.argsort(eigenvalues.real, kind="stable")[:count]
    chosen = np.where(eigenvalues.imag[order] < 0, vectors[:, order].imag, vectors[:, order].real)  # of a pair, both
    vectors = space @ chosen
    lower = linalg.cholesky(pencil.within(vectors).mass, lower=True, check_finite=False)
    return GeneratorModes(eigenvalues[order].real, linalg.solve_triangular(lower, vectors.T, lower=True).T)


def residuals(modes: GeneratorModes, held_out: Pencil) -> np.ndarray:
    """Each mode's E |L f - λ f|² / (λ² E f²) over other samples; NaN without a score."""
    if held_out.square is None:
        return np.full(len(modes.eigenvalues), np.nan)
    v, eigenvalues = modes.vectors, modes.eigenvalues
    mass = _quadratic(held_out.mass, v)
    residual = _quadratic(held_out.square, v) - 2 * eigenvalues * _quadratic(held_out.cross, v) + eigenvalues**2 * mass
    with np.errstate(divide="ignore", invalid="ignore"):
        return residual / (eigenvalues**2 * mass)


def _symmetric(matrix):
    return 0.5 * (matrix + matrix.T)


def _quadratic(form, vectors):
    return np.einsum("rk,rk->k", vectors, form @ vectors)
