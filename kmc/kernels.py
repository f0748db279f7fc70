"""Radial kernels k(x, y) = q(s), s = |x - y|^2, through their profile q and its derivatives in s.

Everything that an estimator needs of a radial kernel is q, q' and q'' at squared distances: the gradient of a section
is 2 q' r and its Laplacian is 4 q'' s + 2 d q', with r = x - y.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np


class RadialKernel(Protocol):
    """A positive-definite radial kernel."""

    def profile(self, s: np.ndarray) -> np.ndarray:
        """q(s) at squared distances of any shape."""

    def derivatives(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """q, q' and q'' at squared distances of any shape."""


@dataclass(frozen=True)
class Gaussian:
    r"""The Gaussian kernel :math:`k(x, y) = \exp(-|x - y|^2 / (2\,\mathrm{bandwidth}^2))`.

    Parameters
    ----------
    bandwidth : float
        Positive, in the units of x.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Gaussian
    >>> Gaussian(bandwidth=2.0).profile(np.array([0.0, 8.0])).round(4)
    array([1.    , 0.3679])
    """

    bandwidth: float = 1.0

    def __post_init__(self):
        if not (np.isfinite(self.bandwidth) and self.bandwidth > 0):
            raise ValueError(f"bandwidth={self.bandwidth!r}: expected a positive finite number")

    @property
    def rate(self) -> float:
        """The factor of s in the exponent, 1 / (2 bandwidth^2)."""
        return 0.5 / self.bandwidth**2

    def profile(self, s: np.ndarray) -> np.ndarray:
        """q(s) = exp(-rate s)."""
        return np.exp(-self.rate * s)

    def derivatives(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """q, q' = -rate q and q'' = rate^2 q."""
        q = self.profile(s)
        return q, -self.rate * q, self.rate**2 * q


def squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """|x_i - y_j|^2 for rows of x (n, d) and y (m, d), shape (n, m), never negative.

    Both are centred first, which keeps the digits of data far from the origin.
    """
    centre = y.mean(axis=0)
    x, y = x - centre, y - centre
    s = x @ (-2.0 * y.T)
    s += np.einsum("ij,ij->i", x, x)[:, None]
    s += np.einsum("ij,ij->i", y, y)
    return np.maximum(s, 0.0, out=s)
