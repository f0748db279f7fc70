"""Trial functions for modes of the Langevin generator, forms summed over samples, and the modes.

With the forms P = Cov(φ, φ) and L = E <∇φ, ∇φ> of r functions that are orthonormal in a kernel's
space, the space of the modes is that of the top eigenvectors of M^-1/2 P M^-1/2, M = L + P + ε
tr(L)/r I (Pillaud-Vivien and Bach 2023, equation 11). In that space the eigenvalues are Ritz values
of L against P: 1/μ - 1 would be biased by ε.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import NamedTuple, Self

import numpy as np
from scipy import linalg

from kmc.arrays import as_array
from kmc.bases import Basis
from kmc.bases.base import Both
from kmc.forms import Forms, accumulate
from kmc.forms.stream import checked
from kmc.linalg import generalized_eigh
from kmc.selection import held_out
from kmc.source import Source

Field = Callable[[np.ndarray], np.ndarray]

FURTHER_START = 20
"""Functions beyond the modes from which those of a part of the samples are found."""


@dataclass(frozen=True, eq=False)
class TrialSpace(Basis):
    """A basis and a matrix W of combinations; forms are summed over the basis, then combined.

    Parameters
    ----------
    basis : Basis
        A basis of p functions.
    matrix : ndarray, shape (p, r)
        Columns orthonormal in the space in which the regularization is defined.
    score : callable, optional
        Points (n, d) to ∇log p (n, d). Then each function φ of the basis is accompanied by a second
        one, the generator L φ = -Δφ - <score, ∇φ>.
    normals : callable, optional
        Points (n, d) to unit normals (n, d), or to c orthonormal ones (n, d, c): the components of
        gradients along them do not count.
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
            raise ValueError(
                f"score(X) has shape {gradient.shape} for points of shape {x.shape}: expected the "
                f"same"
            )
        return np.hstack([phi, -self.basis.laplacians(x) - self.basis.directional(x, gradient)])

    def sum_dirichlet(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sum w <∇φ_a, ∇φ_b> over x, (p, p), of the tangential components if there are normals."""
        return self.basis.sum_dirichlet(x, weights) - self._across(x, weights)

    @property
    def sum_mass_and_dirichlet(self) -> Both | None:
        """Both forms from one evaluation, or None if the basis lacks it or there is a score."""
        together = self.basis.sum_mass_and_dirichlet
        if together is None or self.score is not None:
            return None

        def both(x, weights):
            total, scatter, dirichlet = together(x, weights)
            return (
                total,
                scatter,
                dirichlet - self._across(x, np.ones(len(x)) if weights is None else weights),
            )

        return both

    def combined(self, forms: Forms, matrix: np.ndarray | None = None) -> Forms:
        """Return the forms of the combinations φW, or of those by another matrix.

        With a score, those of L φ are included.
        """
        mean, scatter = forms.get("mean"), forms.get("mass_scatter")
        matrix = self.matrix if matrix is None else matrix
        p, r = matrix.shape
        parts = range(0, len(mean), p)
        both = np.empty((len(parts) * r, len(parts) * r))
        for i, row in enumerate(parts):
            for j, column in enumerate(parts):
                if j < i:
                    block = both[j * r : (j + 1) * r, i * r : (i + 1) * r].T
                else:
                    block = matrix.T @ (scatter[row : row + p, column : column + p] @ matrix)
                both[i * r : (i + 1) * r, j * r : (j + 1) * r] = block
        return Forms(
            weight=forms.weight,
            mean=np.concatenate([mean[start : start + p] @ matrix for start in parts]),
            mass_scatter=both,
            dirichlet=matrix.T @ (forms.get("dirichlet") @ matrix),
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
        dirichlet = _symmetric(forms.get("dirichlet") / forms.weight)
        return cls(_symmetric(mass[:r, :r]), dirichlet, cross, square)

    def within(self, a: np.ndarray) -> Pencil:
        """Return the forms of combinations of the functions, the columns of a (r, k)."""
        forms = (
            None if form is None else a.T @ form @ a
            for form in (self.mass, self.dirichlet, self.cross, self.square)
        )
        return Pencil(*forms)  # type: ignore[arg-type]

    def leading(self, count: int) -> Pencil:
        """Return the forms of the first ``count`` functions φ."""
        forms = (self.mass, self.dirichlet, self.cross, self.square)
        return Pencil(*(None if form is None else form[:count, :count] for form in forms))  # type: ignore[arg-type]

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
            f"normals(X) has shape {found.shape} for points of shape {x.shape}: expected the "
            f"same, or (n, d, c)"
        )
    found = found[:, :, None] if found.ndim == 2 else found
    products = np.einsum("ndc,nde->nce", found, found)
    if not np.all(np.abs(products - np.eye(found.shape[2])) < 1e-6):
        raise ValueError(
            "normals(X) are not orthonormal: expected orthogonal vectors of length one at each "
            "point"
        )
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
    return _top(pencil, _shift(pencil, regularization), count)


def _top(pencil: Pencil, shift: float, count: int) -> np.ndarray:
    """(r, count) top eigenvectors of P v = μ M v."""
    size = len(pencil.mass)
    try:
        return generalized_eigh(pencil.mass, _system(pencil, shift), min(count, size))[1]
    except linalg.LinAlgError:  # no function varies over these samples
        return np.eye(size)[:, : min(count, size)]


def _shift(pencil: Pencil, regularization: float) -> float:
    trace = np.trace(pencil.dirichlet)
    return max(regularization * trace / len(pencil.mass), 1e-14 * (trace + np.trace(pencil.mass)))


def _system(pencil: Pencil, shift: float) -> np.ndarray:
    """M = L + P + shift I of equation 11."""
    system = pencil.dirichlet + pencil.mass
    system[np.diag_indices(len(system))] += shift
    return system


class FoldSums(NamedTuple):
    """The forms of r trial functions, over all samples and over those of each fold."""

    whole: Pencil
    parts: list[Forms]  # of the trial functions; if ``many``, of the p functions of the basis
    held_out: list[int]  # numbers of the parts that judge modes of the others
    space: TrialSpace
    many: bool
    mean: np.ndarray  # (p,) of the basis
    unit: float  # of length, in the pencils

    def pencils(self, parts: list[Forms]) -> list[tuple[Pencil, Pencil]]:
        """Return the forms over all samples but a fold, and over that fold.

        They come from the forms of some functions by parts. Second moments of a fold are about the
        means of the others.
        """
        pairs = held_out([parts[k] for k in self.held_out], reduce(add, parts))
        return [
            (Pencil.of(rest).scaled(self.unit), Pencil.of(part, rest).scaled(self.unit))
            for rest, part in pairs
        ]

    def within(self, a: np.ndarray) -> list[Forms]:
        """Return the parts for combinations of many functions, the columns of a (r, k)."""
        matrix = self.space.matrix @ a
        return [self.space.combined(part, matrix) for part in self.parts]

    def products(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the products of both forms with the vectors of each fold (r, f k).

        The forms are those over all samples but the fold.
        """
        matrix, weight = self.space.matrix, sum(part.weight for part in self.parts)
        raw, own, rest = np.split(matrix @ vectors, len(self.held_out), axis=1), [], []
        for number, columns in zip(self.held_out, raw):
            part = self.parts[number]
            apart = part.get("mean") / part.weight - self.mean
            rest.append(np.full(columns.shape[1], weight - part.weight))
            spread = np.outer(part.weight * weight / rest[-1][0] * apart, apart @ columns)
            own.append(
                (
                    part.get("mass_scatter") @ columns + spread,
                    self.unit**2 * (part.get("dirichlet") @ columns),
                )
            )
        mass, energy = (matrix.T @ np.hstack(products) for products in zip(*own))
        others = np.concatenate(rest)
        return (
            (weight * (self.whole.mass @ vectors) - mass) / others,
            (weight * (self.whole.dirichlet @ vectors) - energy) / others,
        )


def fits(
    sums: FoldSums, regularization: float, count: int
) -> tuple[GeneratorModes, list[GeneratorModes], list[Pencil]]:
    """Fit ``count`` modes to all samples and, in a space of few dimensions, to all but each fold.

    Also return the forms over the folds in that space. It is the span of the leading functions of
    all samples and, for each fold, of a step of Davidson's method: M⁻¹ R with the residuals R = P
    v - μ M v, over the other samples, of their best combinations v of the leading functions. So the
    modes without a fold have errors of second order.
    """
    whole, shift = sums.whole, _shift(sums.whole, regularization)
    leading = _top(whole, shift, count + FURTHER_START)
    norm, found = leading.T @ leading, []
    for rest, _ in sums.pencils(sums.within(leading)):
        found.append(generalized_eigh(rest.mass, rest.dirichlet + rest.mass + shift * norm, count))
    values, vectors = (
        np.concatenate([mu for mu, _ in found]),
        leading @ np.hstack([best for _, best in found]),
    )
    mass, energy = sums.products(vectors)
    residuals = mass - (mass + energy + shift * vectors) * values
    steps = linalg.solve(_system(whole, shift), residuals, assume_a="pos", check_finite=False)
    steps /= np.maximum(np.linalg.norm(steps, axis=0), 1e-300)
    pairs = sums.pencils(sums.within(np.linalg.qr(np.hstack([leading, steps]))[0]))
    without = [ritz(rest, _top(rest, shift, count)) for rest, _ in pairs]
    return ritz(whole, leading[:, :count]), without, [part for _, part in pairs]


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


def energies(modes: GeneratorModes, part: Pencil) -> tuple[np.ndarray, np.ndarray]:
    """Return each mode's variance and energy E |∇f|² over other samples.

    Their ratio is its Rayleigh quotient.
    """
    return _quadratic(part.mass, modes.vectors), _quadratic(part.dirichlet, modes.vectors)


def refined(pencil: Pencil, space: np.ndarray, count: int) -> GeneratorModes:
    """Modes by the generator applied pointwise: Cov(φ, Lφ) v = λ Cov(φ, φ) v in a subspace (r, m).

    If a combination of φ is an eigenfunction, this finds it and its eigenvalue exactly, for any
    samples; a symmetrized form would not. The functions are made orthonormal in the order of their
    eigenvalues.
    """
    form = pencil.within(space)
    eigenvalues, vectors = linalg.eig(form.cross, form.mass, check_finite=False)
    order = np.argsort(eigenvalues.real, kind="stable")[:count]
    # of a pair, both
    chosen = np.where(eigenvalues.imag[order] < 0, vectors[:, order].imag, vectors[:, order].real)
    vectors = space @ chosen
    lower = linalg.cholesky(pencil.within(vectors).mass, lower=True, check_finite=False)
    return GeneratorModes(
        eigenvalues[order].real, linalg.solve_triangular(lower, vectors.T, lower=True).T
    )


def residuals(modes: GeneratorModes, part: Pencil) -> np.ndarray:
    """Each mode's E |L f - λ f|² / (λ² E f²) over other samples; NaN without a score."""
    if part.square is None:
        return np.full(len(modes.eigenvalues), np.nan)
    v, eigenvalues = modes.vectors, modes.eigenvalues
    mass = _quadratic(part.mass, v)
    residual = (
        _quadratic(part.square, v)
        - 2 * eigenvalues * _quadratic(part.cross, v)
        + eigenvalues**2 * mass
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return residual / (eigenvalues**2 * mass)


def penalized_modes(
    space: TrialSpace, source: Source, regularization: float, count: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Solve Σ ψ = μ (L + λ I) ψ with sums over the samples.

    See Pillaud-Vivien and Bach (2023), equation 17 and algorithm 1.

    Returns
    -------
    mu : ndarray, shape (k,)
        Descending; of the constant first.
    vectors : ndarray, shape (r, k)
        Coefficients of functions of unit variance.
    rank : int
        Number r of functions.
    """
    forms = space.combined(
        accumulate(space, source.x, ("mass", "dirichlet"), weights=source.weights)
    )
    mass, system, rank = forms.get("mass"), forms.get("dirichlet"), len(forms.get("dirichlet"))
    system[np.diag_indices(rank)] += regularization
    mu, vectors = generalized_eigh(mass, system, count)
    # rounding, of functions that vanish at the samples
    mu = np.maximum(mu, np.finfo(float).eps * mu[0])
    return mu, vectors * np.sqrt(forms.weight / mu), rank


def _symmetric(matrix):
    return 0.5 * (matrix + matrix.T)


def _quadratic(form, vectors):
    return np.einsum("rk,rk->k", vectors, form @ vectors)
