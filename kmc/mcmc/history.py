"""The pooled history: what a surrogate is fitted to, and where each value comes from."""

from __future__ import annotations

import numpy as np

EVALUATED, GIVEN, ASSUMED = 0, 1, 2
"""Sources of a value: evaluated by this run, given by the caller, or made up.

Only the first can be the value of a state.
"""


class History:
    """Points and their values, in order, in arrays that double.

    Parameters
    ----------
    dim : int
    with_gradients : bool
        Whether gradients are kept for some of the points.
    """

    def __init__(self, dim: int, *, with_gradients: bool = False):
        self._x = np.empty((256, dim))
        self._log_density = np.empty(256)
        self._source = np.empty(256, np.int8)
        self._gradients = np.empty((256, dim)) if with_gradients else None
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def extend(
        self,
        x: np.ndarray,
        log_density: np.ndarray,
        gradients: np.ndarray | None = None,
        *,
        source: int = EVALUATED,
    ) -> None:
        """Append points (k, d), values (k,) and gradients (k, d), with rows of NaN where they are not known."""
        end = self._size + len(x)
        while end > len(self._x):
            self._x = np.concatenate([self._x, np.empty_like(self._x)])
            self._log_density = np.concatenate([self._log_density, np.empty_like(self._log_density)])
            self._source = np.concatenate([self._source, np.empty_like(self._source)])
            if self._gradients is not None:
                self._gradients = np.concatenate([self._gradients, np.empty_like(self._gradients)])
        self._x[self._size : end] = x
        self._log_density[self._size : end] = log_density
        self._source[self._size : end] = source
        if self._gradients is not None:
            self._gradients[self._size : end] = np.nan if gradients is None else gradients
        self._size = end

    @property
    def x(self) -> np.ndarray:
        """(n, d), a view."""
        return self._x[: self._size]

    @property
    def log_density(self) -> np.ndarray:
        """(n,), a view."""
        return self._log_density[: self._size]

    @property
    def evaluated(self) -> np.ndarray:
        """Which values this run has evaluated, (n,): only these may be values of states."""
        return self._source[: self._size] == EVALUATED

    @property
    def gradients(self) -> np.ndarray | None:
        """(n, d), a view, with rows of NaN where they are not known; None if none are kept."""
        return None if self._gradients is None else self._gradients[: self._size]
