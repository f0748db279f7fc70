"""The error of means of autocorrelated series."""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from kmc.run.ess import correlation_time


def squared_error(series: np.ndarray) -> np.ndarray:
    """The variance of the mean of series (chains, n, k), shape (k,).

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
