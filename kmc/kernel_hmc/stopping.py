"""The end of learning: the last batches' predictions and values, and the worth of more learning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

MOST = 3.0
"""Nats: a proposal is lost by this error, and greater ones lose no more."""

_STEP = 1.02  # growth of the number of values by which the worth of learning is judged


class Prediction(NamedTuple):
    """Predicted and evaluated log-densities of one batch."""

    mean: np.ndarray  # (b,)
    value: np.ndarray  # (b,)
    sd: np.ndarray  # (b,), the Gaussian process's standard deviation
    # (b,), root of the density relative to typical draws, predicted or not, at most 1
    weight: np.ndarray


def calibration(predictions: Sequence[Prediction], least: int) -> float:
    """Return the ratio of the last batches' errors to standard deviations, as root mean squares.

    Values are weighted by the root of the density. As many of the last batches count as have
    weights that add up to at least ``least``; if those of all batches do not, the ratio is
    infinite. Batches are chosen where standard deviations are large; the ratio holds elsewhere,
    too.
    """
    error = expected = count = 0.0
    for batch in reversed(predictions):
        error += batch.weight @ np.clip(batch.value - batch.mean, -MOST, MOST) ** 2
        expected += batch.weight @ np.minimum(batch.sd, MOST) ** 2
        count += batch.weight.sum()
        if count >= least:
            return math.sqrt(error / expected)
    return math.inf


def unseen(values: int, dim: int) -> float:
    """Return the share of the posterior where the surrogate may be wrong.

    No error of a draw tells of it. Outside the box from the least to the largest of n draws in each
    dimension are at most 2 d / (n + 1) of a distribution. The evaluations are taken for such draws,
    and the surrogate is taken to be right in half of that.
    """
    return dim / (values + 1)


def is_learned(
    error: float, values: int, left: int, *, noise: float = 0.0, lost: float = 0.0
) -> bool:
    """Return whether more learning costs more effective draws than it gains, and there are some.

    A surrogate whose log-density has this error in nats, as a standard deviation, has its proposals
    accepted with probability a = erfc(error / 2), and independent proposals give a / (2 - a)
    effective draws each. The error of a smooth regression is taken to fall like 1 / ``values``, and
    so is the share of its draws that are lost; the noise of the values stays.

    Parameters
    ----------
    error : float
        Of the surrogate alone, without noise.
    values : int
        Number of values that the surrogate is learned from.
    left : int
        Evaluations left for learning and draws.
    noise : float
        Standard deviation of the values' noise in nats.
    lost : float
        Share of the draws that are lost: those of the surrogate behind walls, and those of the
        posterior in regions that the surrogate does not know.
    """
    more = (_STEP - 1.0) * values
    later, now = (_efficiency(math.hypot(error / by, noise), lost / by) for by in (_STEP, 1.0))
    return bool(error < MOST and (left - more) * later <= left * now)


def _efficiency(error, lost):
    accepted = (1.0 - lost) * math.erfc(error / 2.0)
    return accepted / (2.0 - accepted)
