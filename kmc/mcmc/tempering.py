"""Tempered versions of a log-density, for warm-up: hot in the bulk, cold far outside so that hot chains come back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.njit import njit


class Tempering(NamedTuple):
    """The map v -> -β D for a depth D = top - v up to ``edge``, and -β edge - (D - edge) beyond it."""

    top: float
    beta: float
    edge: float


COLD = Tempering(top=0.0, beta=1.0, edge=np.inf)
"""The identity."""


@njit()
def tempered(tempering, value):
    """The tempered value and its slope in the value."""
    depth = tempering.top - value
    if depth <= tempering.edge:
        return -tempering.beta * depth, tempering.beta
    return -tempering.beta * tempering.edge - (depth - tempering.edge), 1.0


def ladder(dim: int, bulk_depth: float, size: int) -> np.ndarray:
    """Inverse temperatures (size,), geometric, from 1 to the one at which the bulk reaches down to ``bulk_depth``."""
    return np.geomspace(1.0, min(0.5 * dim / bulk_depth, 1.0), size)


def flattened(inverse_temperature: float) -> Tempering:
    """A power of the whole density."""
    return Tempering(0.0, inverse_temperature, np.inf)


def flattest(dim: int) -> float:
    """The smallest power at which surrogates are used: 1 / (1 + 2 / sqrt(d))."""
    return 1.0 / (1.0 + 2.0 / np.sqrt(dim))
