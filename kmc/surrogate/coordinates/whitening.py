"""Affine coordinates in which a target is roughly a standard normal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kmc.linalg import symmetric_power

_FLOOR = 1e-10  # smallest eigenvalue of the correlation; set by hand


@dataclass(frozen=True)
class Whitening:
    """z = matrix (x - origin)."""

    origin: np.ndarray
    matrix: np.ndarray
    inverse: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return whitened coordinates of the rows of x."""
        return (x - self.origin) @ self.matrix.T

    def back(self, z: np.ndarray) -> np.ndarray:
        """Return original coordinates of the rows of z."""
        return self.origin + z @ self.inverse.T

    @classmethod
    def of(cls, origin: np.ndarray, matrix: np.ndarray) -> Whitening:
        """Return the whitening with this origin and this matrix."""
        # SciPy's inverse warns of mere differences in units
        return cls(origin, matrix, np.linalg.inv(matrix))


def whiten_states(states: np.ndarray) -> Whitening:
    """Return the whitening by the mean and covariance of states (k, d).

    The covariance is shrunk a little towards its diagonal.
    """
    d = states.shape[1]
    origin = states.mean(axis=0)
    covariance = np.atleast_2d(np.cov(states.T))
    share = d / (len(states) + d)
    covariance = (1 - share) * covariance + share * np.diag(np.diag(covariance))
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    correlation = covariance / np.outer(scale, scale)
    root = symmetric_power(correlation, -0.5, floor=_FLOOR)
    return Whitening.of(origin, root / scale)
