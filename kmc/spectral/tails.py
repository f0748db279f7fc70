"""Whether a mode lives in a tail that is exponential or heavier.

If so, its eigenvalue depends on the number of samples.

The Langevin generator of a density with power-law tails has no gap, and with exponential tails it
has a continuous spectrum. Functions of finitely many samples have a gap all the same, and it falls,
slowly, as samples of the far tail come in. Such a mode grows exponentially along the tail: a few
samples have most of its variance. (A rare state has few samples, too, but at one level of the mode,
with nothing between it and the others.)
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from kmc.errors import warn
from kmc.kernels import squared_distances
from kmc.source import BLOCK

MOST_KURTOSIS = 4.8
"""Of a mode.

A normal distribution's has 3, a hyperbolic one's 5 to 25 at 500 samples and 8 to 55 at 2,000.
"""

MOST_KURTOSIS_ALONG = 3.8
"""The same of the distance along a mode, from level to level.

It is 3 for a normal distribution, in any dimension.
"""

MOST_ERRORS = 4.0
"""Standard errors √(24/n) by which the samples' kurtosis in the mode's direction may exceed 3."""

LEAST_GROWTH = 0.45
"""Power of the distance with which the score grows: 1 for a normal distribution, 0 in an
exponential tail; with the distances below, .25 to .3 for a hyperbolic distribution, .33 to .39 for
a Student-t with 5 degrees of freedom."""

MIDDLE, OUTER = (0.4, 0.6), (0.9, 1.0)
"""Quantiles of the distances between which the score grows."""

LEAST_SPREAD = 0.4
"""Variance of exceedances, in squares of their mean.

It is 1 in an exponential tail, .7 in a normal one, and less in a state.
"""

SHARES = (0.05, 0.1, 0.2)
"""Shares of the samples in the tail: the least spread counts."""

LEAST_CORRELATION = 0.5
"""Of a mode with its direction."""

LEAST_SAMPLES = 100


def is_heavy(x: np.ndarray, f: np.ndarray, squares: np.ndarray, weights: np.ndarray) -> bool:
    """Whether a mode grows along a tail that is about exponential, or heavier.

    Parameters
    ----------
    x : ndarray, shape (n, d)
        Samples.
    f, squares, weights : ndarray, shape (n,)
        The mode and |∇f|² at the samples.
    """
    if np.count_nonzero(weights) < LEAST_SAMPLES:
        return False
    if np.ptp(weights) > 0:
        drawn = _equal(weights)
        x, f, squares = x[drawn], f[drawn], squares[drawn]
    along = distance_along(f, squares)
    grows = kurtosis(f) > MOST_KURTOSIS or kurtosis(along) > MOST_KURTOSIS_ALONG
    if grows and _least_spread(along, f) > LEAST_SPREAD:
        return True
    direction = (x - x.mean(axis=0)) @ _direction(x, f)
    if abs(np.corrcoef(direction, f)[0, 1]) < LEAST_CORRELATION:
        return False
    excess = kurtosis(direction) - 3
    return (
        excess > MOST_ERRORS * np.sqrt(24 / len(f))
        and _least_spread(direction, direction) > LEAST_SPREAD
    )


def is_flat(x: np.ndarray, f: np.ndarray, score: np.ndarray, weights: np.ndarray) -> bool:
    """Return whether the score (n, d) at samples hardly grows in the direction of a mode.

    It tells what the tail is, from the score.
    """
    if np.count_nonzero(weights) < LEAST_SAMPLES:
        return False
    drawn = _equal(weights)
    x, f, score = x[drawn], f[drawn], score[drawn]
    along = _direction(x, f)
    distance = x @ along - np.median(x @ along)
    inward, order = -(score @ along) * np.sign(distance), np.argsort(np.abs(distance))
    middle, outer = (order[int(low * len(f)) : int(high * len(f))] for low, high in (MIDDLE, OUTER))
    if inward[middle].mean() <= 0 or inward[outer].mean() <= 0:
        return False
    growth = np.log(inward[outer].mean() / inward[middle].mean())
    return growth < LEAST_GROWTH * np.log(
        np.abs(distance[outer]).mean() / np.abs(distance[middle]).mean()
    )


def distance_along(f: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return ∫ df / E[|∇f| | f] up to each sample, shape (n,).

    For a function of one coordinate, it is the coordinate itself.
    """
    order, n = np.argsort(f, kind="stable"), len(f)
    steepness, half = np.sqrt(squares[order]), max(n // 50, 5)
    total = np.insert(np.cumsum(steepness), 0, 0.0)
    first, last = np.clip(np.arange(n) - half, 0, n), np.clip(np.arange(n) + half + 1, 0, n)
    mean = (total[last] - total[first]) / (last - first)
    between = np.maximum(0.5 * (mean[1:] + mean[:-1]), 1e-12 * max(mean.max(), 1e-300))
    out = np.empty(n)
    out[order] = np.insert(np.cumsum(np.diff(f[order]) / between), 0, 0.0)
    return out


def kurtosis(values: np.ndarray) -> float:
    """Fourth moment about the mean, in squares of the variance."""
    squares = (values - values.mean()) ** 2
    return float(np.mean(squares**2) / np.mean(squares) ** 2)


def _equal(weights: np.ndarray) -> np.ndarray:
    """Return the numbers of as many samples of equal weight, evenly spaced in cumulative weight."""
    return np.searchsorted(
        np.cumsum(weights) / weights.sum(), (np.arange(len(weights)) + 0.5) / len(weights)
    )


def _direction(x: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Return the unit vector along the covariance of the samples with a mode."""
    covariance = (x - x.mean(axis=0)).T @ (f - f.mean())
    return covariance / max(np.linalg.norm(covariance), 1e-300)


def _least_spread(values: np.ndarray, f: np.ndarray) -> float:
    """Least spread of exceedances on the side on which f has more of its variance."""
    deviation = f - f.mean()
    above = np.sum(deviation[deviation > 0] ** 2) > np.sum(deviation[deviation < 0] ** 2)
    outward = values if above else -values
    return min(_spread(outward, share) for share in SHARES)


def _spread(values: np.ndarray, share: float) -> float:
    """Variance over squared mean of what exceeds the quantile 1 - share."""
    beyond = values - np.quantile(values, 1 - share)
    beyond = beyond[beyond > 0]
    return float(beyond.var() / beyond.mean() ** 2) if len(beyond) else 0.0


# How far from the landmarks a fit knows its functions, and a warning beyond it.

FACTOR = 3.0
"""Distance to the nearest landmark beyond which a point is far.

It is relative to the largest distance of a sample of the fit.
"""

MOST = 5_000
"""Samples by which the largest distance is found."""


class Reach(NamedTuple):
    """Landmarks, and the distance from them beyond which points are far from the data."""

    centers: np.ndarray  # (m, d)
    most: float

    @classmethod
    def of(cls, centers: np.ndarray, x: np.ndarray, median: float) -> Self:
        """Find the distance by samples (n, d) of the fit; it is at least their median distance."""
        largest = float(_nearest(centers, x[:: -(-len(x) // MOST)]).max())
        return cls(centers, max(FACTOR * largest, median))

    def check(self, x: np.ndarray) -> None:
        """Warn of points (n, d) at which the functions are extrapolated by far."""
        beyond = np.count_nonzero(_nearest(self.centers, x) > self.most)
        if beyond:
            warn(
                f"{beyond} of {len(x)} points in X are farther than {self.most:.3g} from all "
                f"landmarks, and no sample "
                "of the fit is: the functions are not known there, and tend to constants"
            )


def _nearest(centers: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Distance to the nearest of the centers from each row of x, (n,)."""
    blocks = [
        squared_distances(x[start : start + BLOCK], centers).min(axis=1)
        for start in range(0, len(x), BLOCK)
    ]
    return np.sqrt(np.concatenate(blocks))
