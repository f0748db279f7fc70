"""Equations 17 and 18 of Cabannes and Bach (2023), one sample and one pair of samples at a time.

The functions are (1, f), with the constant 1 fixed: rows of f are the values at a sample.
"""

from __future__ import annotations

import numpy as np


def with_constant(f):
    """(n, 1 + p)."""
    return np.array([[1.0, *row] for row in f])


def covariance_form(f):
    """The first line of equation 17: ‖E[f(X) f(X)ᵀ] - I‖²."""
    f = with_constant(f)
    moments = sum(np.outer(row, row) for row in f) / len(f)
    return np.linalg.norm(moments - np.eye(f.shape[1]), "fro") ** 2


def contrastive_form(f, other):
    """The second line: E[(f(X)ᵀ f(X'))²] - 2 E|f(X)|² + p, with X' from another batch."""
    f, other = with_constant(f), with_constant(other)
    products = np.mean([(a @ b) ** 2 for a in f for b in other])
    squares = 0.5 * (np.mean([a @ a for a in f]) + np.mean([b @ b for b in other]))
    return products - 2.0 * squares + f.shape[1]


def equation_18(energies, cutoffs, regularizer):
    """2 Σ E(f_j) / μ_j + R(f)."""
    return (
        2.0 * sum(energy / cutoff for energy, cutoff in zip(energies, cutoffs, strict=True))
        + regularizer
    )
