"""Combinations of the functions of a basis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.bases import Basis, Contraction, general
from kmc.estimator import as_points


@dataclass(frozen=True, eq=False)
class Combinations:
    """k combinations Σ_a coefficients_aj φ_a - offset_j of a basis; itself a :class:`kmc.bases.Basis`.

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
