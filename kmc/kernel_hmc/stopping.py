"""The end of learning: predictions of the last batches against their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

MOST = 3.0
"""Nats: a proposal is lost by this error, and greater ones lose no more."""


class Prediction(NamedTuple):
    """Compare predicted and evaluated log-densities of one batch."""

    mean: np.ndarray  # (b,)
    value: np.ndarray  # (b,)
    weight: np.ndarray  # (b,), root of the density relative to typical draws, predicted or not, at most 1


def prediction_error(predictions: Sequence[Prediction], least: int) -> float:
    """Return the root mean square error in nats of the last batches, weighted by density; at least
    ``least`` values.

    Infinite if there are fewer.
    """
    errors, weights = np.empty(0), np.empty(0)
    for batch in reversed(predictions):
        error = np.clip(batch.value - batch.mean, -MOST, MOST)
        errors, weights = np.append(errors, error), np.append(weights, batch.weight)
        if weights.sum() >= least:
            return float(np.sqrt(np.average(errors**2, weights=weights)))
    return float("inf")
