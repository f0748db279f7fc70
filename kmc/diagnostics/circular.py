"""Means and spreads of draws on a circle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np


class Circle(NamedTuple):
    """A range of values with a period."""

    low: float
    period: float

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Circle | None:
        """The circle of a variable of the results, from its attributes; None for other variables."""
        return cls(float(attrs["low"]), float(attrs["period"])) if attrs.get("circular") else None

    def mean(self, values: np.ndarray) -> float:
        """The direction of the mean of unit vectors, in [low, low + period)."""
        return float(self.wrapped(np.angle(self._resultant(values)) * self.period / (2.0 * np.pi)))

    def sd(self, values: np.ndarray) -> float:
        """Sqrt(-2 log R) as a length, where R is the length of the mean of unit vectors: the sd, if that is small.

        See Mardia and Jupp (2000), "Directional statistics", section 2.3.
        """
        length = min(float(np.abs(self._resultant(values))), 1.0)
        with np.errstate(divide="ignore"):
            return float(np.sqrt(-2.0 * np.log(length))) * self.period / (2.0 * np.pi)

    def wrapped(self, values: Any) -> np.ndarray:
        """Values in [low, low + period)."""
        wrapped = self.low + np.mod(np.asarray(values) - self.low, self.period)
        return np.where(wrapped < self.low + self.period, wrapped, self.low)

    def around(self, values: np.ndarray, center: float) -> np.ndarray:
        """Values within half a period of a center; some may be outside [low, low + period)."""
        return center + np.mod(values - center + 0.5 * self.period, self.period) - 0.5 * self.period

    def _resultant(self, values):
        return np.mean(np.exp(2j * np.pi / self.period * np.asarray(values)))
