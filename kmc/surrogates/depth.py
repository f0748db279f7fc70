"""Depth below the highest log-density seen, which determines how much a value matters."""

from __future__ import annotations

import numpy as np

# "Tried" is docs/what-was-tried.md; the others were set by hand.
NEGLIGIBLE = 1e-4  # values with smaller weights are left out
_FALL, _POWER = 4.0, 4.0  # scale in nats, and power, of the decrease of weights below the edge
_DEEPEST = 2.0  # times the bulk: the deepest edge
_OF_STATES = 0.95  # quantile of the states' depths: the edge


def bulk_depth(dim: int) -> float:
    """Depth below the mode within which practically all of a Gaussian's draws lie: d/2 + 2 sqrt(d) + 3."""
    return dim / 2 + 2 * np.sqrt(dim) + 3


def depth_weights(depth: np.ndarray, edge: float) -> np.ndarray:
    """Full weight down to the edge, then decreasing with the fourth power of depth."""
    return (1.0 + np.maximum(depth - edge, 0.0) / _FALL) ** -_POWER


def edge_of(depths: np.ndarray, dim: int) -> float:
    """The depth to which values have full weight: the bulk of a Gaussian, or deeper if recent draws (n,) were."""
    bulk = bulk_depth(dim)
    if not len(depths):
        return bulk
    return float(max(np.quantile(np.minimum(depths, _DEEPEST * bulk), _OF_STATES), bulk))  # some depths may be infinite
