"""Depth below the highest log-density seen, which determines how much a value matters."""

from __future__ import annotations

import numpy as np

# Set by hand.
NEGLIGIBLE = 1e-4  # values with smaller weights are left out
_FALL, _POWER = 4.0, 4.0  # scale in nats, and power, of the decrease of weights below the edge
_LOW, _BELOW = 0.01, 3.0  # quantile of levels, and times its distance from the median: the floor


def bulk_depth(dim: int) -> float:
    """Return the depth below the mode within which practically all of a Gaussian's draws lie: d/2 + 2 sqrt(d) + 3."""
    return dim / 2 + 2 * np.sqrt(dim) + 3


def depth_weights(depth: np.ndarray, edge: float) -> np.ndarray:
    """Return weights that are 1 down to the edge, and then fall with the fourth power of the depth below it."""
    return (1.0 + np.maximum(depth - edge, 0.0) / _FALL) ** -_POWER


def floor_of(levels: np.ndarray) -> float:
    """Return the log-density below which hardly any draw lies, from those of draws (n,).

    Three times as far below the median as the 1 % quantile: of normal distributions and Student's t
    at most one draw in 70,000 lies lower.
    """
    low, median = np.quantile(levels, [_LOW, 0.5])
    return float(median - _BELOW * (median - low))
