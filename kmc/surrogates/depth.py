"""Depth below the highest log-density seen, which determines how much a value matters."""

from __future__ import annotations

import numpy as np

# "Tried" is docs/what-was-tried.md; the others were set by hand.
NEGLIGIBLE = 1e-4  # values with smaller weights are left out
_FALL, _POWER = 4.0, 4.0  # scale in nats, and power, of the decrease of weights below the edge
_DEEPEST = 2.0  # times the bulk: the deepest edge
_OF_STATES = 0.95  # quantile of the states' depths: the edge
_LOW, _BELOW = 0.01, 3.0  # quantile of levels, and times its distance from the median: the floor


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


def floor_of(levels: np.ndarray) -> float:
    """The log-density below which hardly any draw lies, from those of draws (n,).

    Three times as far below the median as the 1 % quantile: of normal distributions and Student's t
    at most one draw in 70,000 lies lower.
    """
    low, median = np.quantile(levels, [_LOW, 0.5])
    return float(median - _BELOW * (median - low))
