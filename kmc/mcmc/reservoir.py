"""A random part of the history of the chains, of bounded size."""

from __future__ import annotations

import numpy as np


class Reservoir:
    """States of the chains, where the state number s stays with a probability that grows with s.

    With t states offered to a full reservoir of n, the next one replaces a random entry with probability
    min(1, 2 n / t). Entry number s is still present with probability (s / t)², so that over-dispersed starts are
    forgotten, and the reservoir changes ever more slowly.

    Parameters
    ----------
    dim, size : int
    rng : Generator
    """

    def __init__(self, dim: int, size: int, rng: np.random.Generator):
        self._x = np.empty((size, dim))
        self._rng = rng
        self._offered = 0

    def __len__(self) -> int:
        return min(self._offered, len(self._x))

    @property
    def x(self) -> np.ndarray:
        """(n, d), a view."""
        return self._x[: len(self)]

    def offer(self, x: np.ndarray) -> None:
        """Offer states (k, d)."""
        size = len(self._x)
        for row in x:
            if self._offered < size:
                self._x[self._offered] = row
            elif self._rng.random() * self._offered < 2 * size:
                self._x[self._rng.integers(size)] = row
            self._offered += 1
