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

    def derivatives(self, s: np.ndarray, order: int = 2) -> tuple[np.ndarray, ...]:
        """q, q', ... up to that order (at most 4) at squared distances of any shape."""


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

    def derivatives(self, s: np.ndarray, order: int = 2) -> tuple[np.ndarray, ...]:
        """q and its derivatives (-rate)^k q."""
        q = self.profile(s)
        return tuple((-self.rate) ** k * q for k in range(order + 1))
