"""Effective sample sizes and errors of means of arrays of draws, fast enough to be computed during a run."""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import rankdata

LEAST_DRAWS = 10
ENOUGH_DRAWS = 100
"""With fewer effective draws, stated errors are rough."""

_NUMBERS = 1 << 16  # size of a batch of parameters: temporary arrays take ten times as much memory


def worst_bulk_ess(positions: np.ndarray) -> float:
    """Return the smallest bulk effective sample size of draws (chains, draws, k).

    NaN for fewer than ten draws a chain, and if a parameter never moved in any chain.
    """
    if positions.shape[1] < LEAST_DRAWS or np.any(np.ptp(positions, axis=1).max(axis=0) == 0):
        return float("nan")
    few = max(1, _NUMBERS // (positions.shape[0] * positions.shape[1]))
    parts = np.split(positions, range(few, positions.shape[2], few), axis=2)
    return float(min(bulk_ess(part).min() for part in parts))


def bulk_ess(positions: np.ndarray) -> np.ndarray:
    """Effective sample size of rank-normalized split chains, from draws (chains, draws, k): shape (k,).

    Geyer's initial monotone sequence, with the variance between chains, as in [1]_ and in ArviZ.

    References
    ----------
    .. [1] Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), "Rank-normalization, folding, and localization: an
       improved R-hat for assessing convergence of MCMC", Bayesian Analysis 16.
    """
    n = positions.shape[1] // 2
    halves = np.concatenate([positions[:, :n], positions[:, positions.shape[1] - n :]])
    m, _, k = halves.shape
    ranks = rankdata(halves.transpose(2, 0, 1).reshape(k, m * n), axis=1)
    scores = ndtri((ranks - 0.375) / (m * n + 0.25)).reshape(k, m, n)
    means = scores.mean(axis=2)
    spectrum = np.abs(rfft(scores - means[..., None], next_fast_len(2 * n, real=True))) ** 2
    covariance = irfft(spectrum.mean(axis=1), next_fast_len(2 * n, real=True))[:, :n] / n
    within = covariance[:, :1] * n / (n - 1)
    total = covariance[:, :1] + means.var(axis=1, ddof=1)[:, None]
    correlation = 1.0 - (within - covariance) / total
    correlation[:, 0] = 1.0
    time = np.maximum(correlation_time(correlation), 1.0 / np.log10(m * n))
    return m * n / time


def correlation_time(correlation: np.ndarray) -> np.ndarray:
    """1 + 2 Σ over lags of the correlation (k, n), while sums of neighbors are positive, and made to decrease."""
    even, odd = correlation[:, :-4:2], correlation[:, 1:-3:2]
    positive = np.logical_and.accumulate(even + odd > 0, axis=1)
    descending = np.minimum.accumulate(np.where(positive, even + odd, 0.0), axis=1)
    # The even lag of the first excluded pair counts once if it is positive, or if it is out only because draws end.
    end = 2 * positive.sum(axis=1)
    row = np.arange(len(end))
    last, after = correlation[row, end], correlation[row, end + 1]
    return 2.0 * descending.sum(axis=1) - 1.0 + np.where((last > 0) | (last + after > 0), last, 0.0)


def squared_error(series: np.ndarray) -> np.ndarray:
    """Estimate the variance of the mean of series (chains, n, k), shape (k,).

    The spectral density at zero by Geyer's initial monotone sequence. Covariances are about the mean of all chains, so
    that chains that differ by more than chance increase it.
    """
    chains, n, _ = series.shape
    centered = np.moveaxis(series - series.mean(axis=(0, 1)), 2, 0)
    length = next_fast_len(2 * n, real=True)
    spectrum = np.abs(rfft(centered, length)) ** 2
    covariance = irfft(spectrum.mean(axis=1), length)[:, :n] / n
    variance = covariance[:, 0]
    known = variance > 0
    correlation = np.where(known[:, None], covariance / np.where(known, variance, 1.0)[:, None], 0.0)
    correlation[:, 0] = 1.0
    time = np.maximum(correlation_time(correlation), 1.0 / np.log10(max(chains * n, 10)))
    return variance * time / (chains * n)
