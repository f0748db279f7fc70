"""How well the eigenvalues of accepted modes are known.

Four relative errors add up in squares: the jackknife's, with half of the difference between Ritz values and held-out
quotients; that of an energy to which few samples contribute, as those between two wells; the change with the bandwidth;
and the energy by which functions of a mode stay below the mode (:mod:`kmc.spectral.along`). The first is small where
all functions are too smooth; one of the others is large then.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from kmc.spectral.along import least_quotient

MOST_ERROR = 0.33
"""Relative standard error of an eigenvalue above which there is a warning: some of these are off by a factor of 1.5.

Of 311 fits to samples of 18 densities with eigenvalues within that factor, 24 % are above it, nearly all of them with
500 samples of narrow wells; of 78 wrong ones all are.
"""

LEAST_SAMPLES = 100
"""Samples by which the shape of a mode can be judged."""


class Uncertainty(NamedTuple):
    """Relative standard errors by cause, each (k,)."""

    between_samples: np.ndarray
    few_samples: np.ndarray
    bandwidth: np.ndarray
    shape: np.ndarray

    @classmethod
    def of(
        cls,
        between: np.ndarray,
        change: np.ndarray,
        modes: np.ndarray,
        squares: np.ndarray,
        weights: np.ndarray,
        represented: float = 1.0,
    ) -> Self:
        """Judge k modes by their values and |∇f|² at samples.

        Parameters
        ----------
        between : ndarray, shape (k,)
            Relative errors between samples.
        change : ndarray, shape (k,)
            Of the logarithms of the eigenvalues, to the next bandwidth.
        modes, squares : ndarray, shape (n, k)
        weights : ndarray, shape (n,)
        represented : float
            Samples of the fit for each of these.
        """
        weighted = weights[:, None] * squares
        shares = np.ones(modes.shape[1])
        if np.count_nonzero(weights) >= LEAST_SAMPLES:
            for k, (f, square) in enumerate(zip(modes.T, squares.T)):
                shares[k] = least_quotient(f, square, weights, modes[:, :k])
        few = np.sqrt(np.sum(weighted**2, axis=0) / represented) / np.maximum(np.sum(weighted, axis=0), 1e-300)
        return cls(between, few, 2 * change, -np.log(np.maximum(shares, 1e-3)))

    def total(self) -> np.ndarray:
        """(k,)."""
        return np.sqrt(sum(np.square(part) for part in self))

    def sentence(self, eigenvalues: np.ndarray) -> str:
        """A warning of those known badly, with the main cause for the worst; empty if there are none."""
        errors = self.total()
        badly = np.flatnonzero(errors > MOST_ERROR)
        if not len(badly):
            return ""
        k = badly[np.argmax(errors[badly])]
        causes = (
            "it differs between parts of the samples: use more",
            f"its energy is that of about {1 / self.few_samples[k] ** 2:.0f} samples: use more",
            "it depends on the bandwidth: use more samples and functions (n_basis)",
            f"a function of this mode alone has {eigenvalues[k] * np.exp(-self.shape[k]):.4g}, as the basis cannot "
            "represent a step: use more samples and functions (n_basis)",
        )
        cause = causes[int(np.argmax([part[k] for part in self]))]
        others = ", ".join(str(other) for other in badly if other != k)
        value = f"eigenvalue {k} is uncertain: {eigenvalues[k]:.4g}, with a relative standard error of {errors[k]:.2g}"
        return f"{value}; {cause}" + (f". Others that are uncertain: {others}" if others else "")
