"""What chains have evaluated or visited, in arrays that double."""

from __future__ import annotations

import numpy as np


class History:
    """Points and their values, in order.

    Parameters
    ----------
    dim : int
    """

    def __init__(self, dim: int):
        self._x = np.empty((256, dim))
        self._log_density = np.empty(256)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def extend(self, x: np.ndarray, log_density: np.ndarray) -> None:
        """Append points (k, d) and values (k,)."""
        end = self._size + len(x)
        while end > len(self._x):
            self._x = np.concatenate([self._x, np.empty_like(self._x)])
            self._log_density = np.concatenate([self._log_density, np.empty_like(self._log_density)])
        self._x[self._size : end] = x
        self._log_density[self._size : end] = log_density
        self._size = end

    @property
    def x(self) -> np.ndarray:
        """(n, d), a view."""
        return self._x[: self._size]

    @property
    def log_density(self) -> np.ndarray:
        """(n,), a view."""
        return self._log_density[: self._size]
