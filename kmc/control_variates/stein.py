"""Control variates for draws from a surrogate: functions whose mean under it is exactly zero.

For any smooth φ that does not grow too fast, Δφ + <∇φ, ∇log s> has mean zero under s (Stein's identity), and the
gradient of the surrogate is known. With polynomials of degree two as φ, the means and variances of a Gaussian are exact
from a few draws (Mira, Solgi and Imparato 2013, "Zero variance Markov chain Monte Carlo for Bayesian estimators",
Statistics and Computing 23). Kernel sections reduce the error for other densities (Oates, Girolami and Chopin 2017,
"Control functionals for Monte Carlo integration", Journal of the Royal Statistical Society B 79).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from kmc.bases import Basis, KernelSections, Monomials
from kmc.kernels import Gaussian, median_distance
from kmc.surrogate.coordinates.tails import HeavyTails
from kmc.surrogate.density import Component
from kmc.surrogate.jit_state import gradients

# Tried (docs/what-was-tried.md, expectations): with polynomials of higher degree, errors are larger than stated.
_DEGREE = 2  # of the polynomials
_SECTIONS = 300
_WIDTHS = 0.35, 1.0  # of the sections, in median distances between draws
_FOR_WIDTHS = 1000  # draws


class SteinControls:
    """Functions with mean zero under a smooth density.

    Parameters
    ----------
    slopes : callable
        The gradient of the log-density at the rows of z (n, d): (n, d).
    z : ndarray, shape (n, d)
        Draws of about this density, for coordinates, widths and centers. Means over these same draws would be biased,
        as a section is large at its own center.
    rng : Generator
    most : int, optional
        Largest number of functions; the polynomials are used in any case.
    """

    def __init__(
        self,
        slopes: Callable[[np.ndarray], np.ndarray],
        z: np.ndarray,
        rng: np.random.Generator,
        *,
        most: int | None = None,
    ):
        self._slopes = slopes
        d = z.shape[1]
        self._mean = z.mean(axis=0)
        self._factor = np.linalg.cholesky(np.atleast_2d(np.cov(z.T)) + 1e-12 * np.eye(d))
        self._inverse = np.linalg.inv(self._factor)
        white = self._white(rng.permutation(z)[:_FOR_WIDTHS])
        unit = median_distance(white)
        self._bases: list[Basis] = [Monomials(_DEGREE, d)]
        room = _SECTIONS if most is None else max(min(_SECTIONS, most - self.size), 0)
        sections = min(room, len(white)) // len(_WIDTHS)
        for i, width in enumerate(_WIDTHS):
            centers = white[i * sections : (i + 1) * sections]
            if sections:
                self._bases.append(KernelSections(Gaussian(width * unit), centers))

    @classmethod
    def of(cls, component: Component, z: np.ndarray, rng: np.random.Generator) -> SteinControls | None:
        """Make the controls of a surrogate from other draws in its coordinates; None for a wall or heavy tails.

        At a wall the density is too steep for them to be of use. In heavy tails, draws that were not made matter, and
        errors would be larger than stated (tried).
        """
        return cls(partial(gradients, component.jit_state), z, rng) if cls.suits(component) else None

    @staticmethod
    def suits(component: Component) -> bool:
        """Whether a surrogate has neither a wall nor heavy tails."""
        return not component.jit_state.wall.bias.size and not isinstance(component.transport, HeavyTails)

    @property
    def size(self) -> int:
        """Number of functions m."""
        return sum(basis.size for basis in self._bases)

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """Evaluate the functions at points z (..., d): (..., m)."""
        rows = np.ascontiguousarray(z.reshape(-1, z.shape[-1]))
        white, slopes = self._white(rows), self._slopes(rows) @ self._factor
        values = [basis.laplacians(white) + basis.directional(white, slopes) for basis in self._bases]
        return np.concatenate(values, axis=1).reshape(*z.shape[:-1], -1)

    def _white(self, z):
        return (z - self._mean) @ self._inverse.T
