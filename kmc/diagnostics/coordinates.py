"""Coordinates that do not depend on the scale, the tails and the linear correlations of parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg, special, stats

SMALLEST_VARIANCE = 1e-8
"""Relative variance of a combination of normal scores: below it, one parameter is a function of others."""


class Coordinates(NamedTuple):
    """Normal scores of parameters, and uncorrelated combinations of them."""

    scores: np.ndarray  # (chains, draws, d), NaN in the columns of constants
    white: np.ndarray  # (chains, draws, r), uncorrelated, of variance one


def coordinates(values: np.ndarray) -> Coordinates:
    """Draws (chains, draws, d), rank-normalized as for R-hat, and then whitened.

    A mode is slow in every parametrization, so the choice of one should not hide it.

    Raises
    ------
    ValueError
        All columns are constant.
    """
    chains, draws, d = values.shape
    flat = values.reshape(-1, d)
    moving = np.ptp(flat, axis=0) > 0
    if not np.any(moving):
        raise ValueError("data: no parameter moves in any chain, so there are no modes")
    ranks = stats.rankdata(flat[:, moving], axis=0)
    normal = special.ndtri((ranks - 0.375) / (len(flat) + 0.25))
    scores = np.full(flat.shape, np.nan)
    scores[:, moving] = normal
    s, v = linalg.eigh(np.atleast_2d(np.cov(normal, rowvar=False)))
    kept = s > SMALLEST_VARIANCE * s[-1]
    white = (normal - normal.mean(axis=0)) @ (v[:, kept] / np.sqrt(s[kept]))
    return Coordinates(scores.reshape(values.shape), white.reshape(chains, draws, -1))
