"""Modes of the Langevin generator in a finite space: a symmetric eigenproblem, and its performance on held-out samples.

With the forms P = Cov(φ, φ) and L = E <∇φ, ∇φ> of r functions that are orthonormal in a kernel's space, the space of
the modes is that of the top eigenvectors of M^-1/2 P M^-1/2, M = L + P + ε tr(L)/r I (Pillaud-Vivien and Bach 2023,
equation 11). In that space the eigenvalues are Ritz values of L against P: 1/μ - 1 would be biased by ε.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from kmc.linalg import generalized_eigh
from kmc.spectral.trial import Pencil

LEAST_MASS = 0.02
"""Held-out fraction of a mode's variance below which the mode is an artifact of the samples that it was fitted to."""


class GeneratorModes(NamedTuple):
    """Functions f_j = Σ vectors_aj φ_a of variance one, and their eigenvalues, ascending."""

    eigenvalues: np.ndarray  # (k,)
    vectors: np.ndarray  # (r, k)


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


def quotient(modes: GeneratorModes, held_out: Pencil) -> tuple[bool, np.ndarray, np.ndarray]:
    """Whether held-out samples support all modes, and each mode's variance and energy there."""
    mass = _quadratic(held_out.mass, modes.vectors)
    energy = _quadratic(held_out.dirichlet, modes.vectors)
    return bool(np.all((mass > LEAST_MASS) & (energy > 0) & (modes.eigenvalues > 0))), mass, energy


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


def residuals(modes: GeneratorModes, held_out: Pencil) -> tuple[np.ndarray, np.ndarray]:
    """Whether other samples support each mode, and its E |L f - λ f|² / (λ² E f²) there, at most one."""
    v, eigenvalues = modes.vectors, modes.eigenvalues
    mass = _quadratic(held_out.mass, v)
    residual = _quadratic(held_out.square, v) - 2 * eigenvalues * _quadratic(held_out.cross, v) + eigenvalues**2 * mass
    known = (mass > LEAST_MASS) & (eigenvalues > 0)
    return known, np.minimum(np.where(known, residual / np.where(known, eigenvalues**2 * mass, 1.0), 1.0), 1.0)


def _quadratic(form, vectors):
    return np.einsum("rk,rk->k", vectors, form @ vectors)
