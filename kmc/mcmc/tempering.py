"""Tempered versions of a log-density, for warm-up: hot in the bulk, cold far outside so that hot chains come back."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np


class Tempering(NamedTuple):
    """The map v -> -β D for a depth D = top - v up to ``edge``, and -β edge - (D - edge) beyond it."""

    top: float
    beta: float
    edge: float


COLD = Tempering(top=0.0, beta=1.0, edge=np.inf)
"""The identity."""


@numba.njit(cache=True)
def tempered(tempering, value):
    """The tempered value and its slope in the value."""
    depth = tempering.top - value
    if depth <= tempering.edge:
        return -tempering.beta * depth, tempering.beta
    return -tempering.beta * tempering.edge - (depth - tempering.edge), 1.0


def ladder(dim: int, bulk_depth: float, size: int) -> np.ndarray:
    """Inverse temperatures (size,), geometric, from 1 down to where the bulk reaches as deep as ``bulk_depth``."""
    return np.geomspace(1.0, min(0.5 * dim / bulk_depth, 1.0), size)
