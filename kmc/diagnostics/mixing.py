"""The number of independent draws, by ArviZ's measure."""

from __future__ import annotations

import numpy as np


def effective_sizes(values: np.ndarray) -> np.ndarray:
    """Effective sample size of the mean of each column of values (chains, draws, k), shape (k,).

    At most the number of draws, so that antithetic chains are not credited with more; NaN for fewer than four draws,
    and the number of draws for constant columns.
    """
    import arviz
    import xarray

    chains, draws, _ = values.shape
    dataset = xarray.Dataset({"x": (("chain", "draw", "column"), values)})
    with np.errstate(divide="ignore", invalid="ignore"):
        sizes = np.asarray(arviz.ess(dataset, method="mean")["x"].values, dtype=float)
    constant = np.ptp(values, axis=(0, 1)) == 0
    return np.where(constant, chains * draws, np.minimum(sizes, chains * draws))


def mean_errors(values: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Standard errors (k,) of the means of values (n, k) at draws of this shape (chains, draws), chain after chain."""
    return values.std(axis=0, ddof=1) / np.sqrt(effective_sizes(values.reshape(*shape, -1)))


def autocorrelation_time(values: np.ndarray) -> float:
    """The longest autocorrelation time, draws per independent draw, of the columns of values (chains, draws, k).

    At least 1; 1 if there are too few draws.
    """
    sizes = effective_sizes(values)
    known = sizes[np.isfinite(sizes)]
    return float(max(values.shape[0] * values.shape[1] / known.min(), 1.0)) if len(known) else 1.0
