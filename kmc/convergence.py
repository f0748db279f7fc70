"""Convergence of draws, by ArviZ's measures and by tests built on its effective sample sizes.

All functions take draws of shape (chains, draws, k). Those that return one number report the worst
of the k columns: ``inf`` says that a column never moved, NaN that there is nothing to compare.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import rankdata

from kmc.unwritable import import_arviz

LEAST_DRAWS = 10
LARGEST_RHAT = 1.05  # of chains that agree; set in benchmarks/warning_rates.py
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
    """Return the effective sample size (k,) of rank-normalized split chains (chains, draws, k).

    Geyer's initial monotone sequence, with the variance between chains, as in [1]_ and in ArviZ.

    References
    ----------
    .. [1] Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), "Rank-normalization, folding, and
       localization: an improved R-hat for assessing convergence of MCMC", Bayesian Analysis 16.
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
    """Return 1 + 2 Σ over lags of the correlation (k, n), while sums of neighbors are positive.

    The sums are made to decrease.
    """
    even, odd = correlation[:, :-4:2], correlation[:, 1:-3:2]
    positive = np.logical_and.accumulate(even + odd > 0, axis=1)
    descending = np.minimum.accumulate(np.where(positive, even + odd, 0.0), axis=1)
    # The even lag of the first excluded pair counts once if it is positive, or if it is out only
    # because draws end.
    end = 2 * positive.sum(axis=1)
    row = np.arange(len(end))
    last, after = correlation[row, end], correlation[row, end + 1]
    return 2.0 * descending.sum(axis=1) - 1.0 + np.where((last > 0) | (last + after > 0), last, 0.0)


def squared_error(series: np.ndarray) -> np.ndarray:
    """Estimate the variance of the mean of series (chains, n, k), shape (k,).

    The spectral density at zero by Geyer's initial monotone sequence. Covariances are about the
    mean of all chains, so that chains that differ by more than chance increase it.
    """
    chains, n, _ = series.shape
    centered = np.moveaxis(series - series.mean(axis=(0, 1)), 2, 0)
    length = next_fast_len(2 * n, real=True)
    spectrum = np.abs(rfft(centered, length)) ** 2
    covariance = irfft(spectrum.mean(axis=1), length)[:, :n] / n
    variance = covariance[:, 0]
    known = variance > 0
    correlation = np.where(
        known[:, None], covariance / np.where(known, variance, 1.0)[:, None], 0.0
    )
    correlation[:, 0] = 1.0
    time = np.maximum(correlation_time(correlation), 1.0 / np.log10(max(chains * n, 10)))
    return variance * time / (chains * n)


_PIECES = 5  # of each chain: its beginning is compared with its end
TAILS = (0.05, 0.95)
_MANY_CHAINS, _SHORT = 64, 100  # at least so many chains of fewer draws each: nested R-hat ...
_SUPERCHAINS = 16  # ... of so many groups


def worst_rhat(positions: np.ndarray) -> float:
    """Return the largest rank-normalized split R-hat, or nested R-hat of many short chains.

    Nested R-hat is for 64 or more chains with fewer than 100 draws each. A short chain says little
    about its own mean. So many of them are put into groups of chains that began near each other,
    and the groups are compared by the later half of the draws: they differ if chains do not forget
    their start.

    Infinite if a coordinate never moves in any chain; NaN if there is nothing to compare (one
    chain, or fewer than four draws).
    """
    chains, draws, _ = positions.shape
    if chains < 2 or draws < 4:
        return float("nan")
    if np.any(np.ptp(positions, axis=1).max(axis=0) == 0):
        return float("inf")
    if chains >= _MANY_CHAINS and draws < _SHORT:
        return float(max(_rhat_by_start(column) for column in np.moveaxis(positions, 2, 0)))
    rhat = _by_arviz("rhat", positions)
    return float("inf") if np.any(np.isnan(rhat)) else float(rhat.max())


def nested_rhat(values: np.ndarray, superchains: np.ndarray) -> np.ndarray:
    """Return the nested R-hat (k,) of values (chains, draws, k).

    ``superchains`` (chains,) labels the groups. The result is sqrt(1 + B / W): B is the variance of
    the groups' means, W the mean over groups of the variance of their chains' means plus the mean
    variance within their chains. Infinite if groups differ and nothing varies within them.
    """
    means, within = [], []
    for label in np.unique(superchains):
        group = values[superchains == label]
        own = group.mean(axis=1)
        means.append(own.mean(axis=0))
        between_chains = own.var(axis=0, ddof=1) if len(group) > 1 else 0.0
        within_chains = group.var(axis=1, ddof=1).mean(axis=0) if group.shape[1] > 1 else 0.0
        within.append(between_chains + within_chains)
    b, w = np.var(means, axis=0, ddof=1), np.mean(within, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(b > 0, np.sqrt(1.0 + b / w), 1.0)


def least_tail_ess(positions: np.ndarray) -> float:
    """Return the least effective sample size of the 5 % and 95 % quantiles.

    NaN for fewer than four draws.
    """
    if positions.shape[1] < 4:
        return float("nan")
    return float(_by_arviz("ess", positions, method="tail", prob=TAILS).min())


def width_error(positions: np.ndarray) -> float:
    """Return the largest relative standard error of the distance from the 5 % to the 95 % quantile.

    NaN if none is known. The error of a quantile is half the distance between the quantiles one
    standard error below and above in probability, as in ArviZ. For a Gaussian the result is 0.09
    with 100 effective draws, for a Cauchy density 0.31.
    """
    if positions.shape[1] < 4:
        return float("nan")
    columns = positions.reshape(-1, positions.shape[2])
    low, high = np.quantile(columns, TAILS, axis=0)
    squared = np.zeros(len(low))
    for p in TAILS:
        error = np.sqrt(p * (1 - p) / _by_arviz("ess", positions, method="quantile", prob=p))
        for j in np.flatnonzero(error <= 1):  # not where nothing moved
            squared[j] += (
                0.5
                * np.ptp(np.quantile(columns[:, j], np.clip([p - error[j], p + error[j]], 0, 1)))
            ) ** 2
    known = high > low
    return (
        float(np.max(np.sqrt(squared[known]) / (high - low)[known]))
        if np.any(known)
        else float("nan")
    )


def sd_error(positions: np.ndarray) -> float:
    """Return the largest relative standard error of a standard deviation; NaN if none is known.

    By the effective sample size of the squares. For a Gaussian it is 0.07 with 100 effective draws,
    for an exponential density 0.14.
    """
    if positions.shape[1] < 4:
        return float("nan")
    squares = (positions - positions.mean(axis=(0, 1))) ** 2
    variance = squares.mean(axis=(0, 1))
    known = variance > 0
    if not np.any(known):
        return float("nan")
    effective = _by_arviz("ess", squares[..., known], method="mean")
    return float(
        np.max(0.5 * np.sqrt(squares[..., known].var(axis=(0, 1)) / effective) / variance[known])
    )


def in_tails(positions: np.ndarray) -> np.ndarray:
    """Return whether each draw is in the lowest or in the highest 5 % of all, (chains, draws, 2 k).

    Ties are in: a chain that is stuck at a quantile stays visible.
    """
    low, high = np.quantile(positions, TAILS, axis=(0, 1))
    return np.concatenate([positions <= low, positions >= high], axis=2)


def drift(columns: np.ndarray) -> float:
    """Return log10 of the probability that fifths of stationary chains differ as much or more.

    The chains are equally long. Means over all chains are compared between the fifths. Their
    standard errors come from the effective sample size *within* pieces, which a drift from one to
    the next does not lower. Corrected for the number of columns (Bonferroni); at most 0.
    """
    pieces = _pieces(columns)
    m, draws, k = pieces.shape
    if draws < 10:
        return float("nan")
    times = np.array([_autocorrelation_time(pieces[:, :, j]) for j in range(k)])
    variance = pieces.var(axis=1).mean(axis=0) * times * _PIECES / (m * draws)
    means = pieces.reshape(-1, _PIECES, draws, k).mean(axis=(0, 2))
    return _log10_p(means, variance)


def disagreement(columns: np.ndarray, independent_runs: int) -> float:
    """Return log10 of the probability that independent runs differ in a mean as much or more.

    The runs are of one distribution, and the chains of a run are adjacent. Corrected for the number
    of columns (Bonferroni); at most 0.
    """
    draws = columns.shape[1]
    if independent_runs < 2 or draws < 10:
        return float("nan")
    groups = columns.astype(float).reshape(independent_runs, -1, draws, columns.shape[2])
    means = groups.mean(axis=(1, 2))
    sizes = np.array([_by_arviz("ess", group, method="mean") for group in groups])
    # The smallest counts: an independent run that never was in a tail has none of its own there.
    size = np.where(groups.var(axis=(1, 2)) > 0, sizes, np.inf).min(axis=0)
    return _log10_p(means, columns.var(axis=(0, 1)) / size)


def ess_and_rhat(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the bulk effective sample size and rank-normalized split R-hat, each (k,).

    They are of values (chains, draws, k). A single chain is split into two, as R-hat needs chains
    to compare. R-hat is infinite if chains differ and none of them moves; NaN if there are fewer
    than four draws of each, or if none of them differ.
    """
    if len(values) == 1:
        n = values.shape[1] // 2
        values = np.concatenate([values[:, :n], values[:, -n:]])
    ess, rhat = _by_arviz("ess", values), _by_arviz("rhat", values)
    apart = np.isnan(rhat) & (np.ptp(values, axis=(0, 1)) > 0) & (values.shape[1] >= 4)
    return ess, np.where(apart, np.inf, rhat)


def effective_sizes(values: np.ndarray) -> np.ndarray:
    """Return the effective sample sizes (k,) of the means of columns of values (chains, draws, k).

    At most the number of draws, so that antithetic chains are not credited with more; NaN for fewer
    than four draws, and the number of draws for constant columns.
    """
    chains, draws, _ = values.shape
    sizes = np.asarray(_by_arviz("ess", values, method="mean"), dtype=float)
    constant = np.ptp(values, axis=(0, 1)) == 0
    return np.where(constant, chains * draws, np.minimum(sizes, chains * draws))


def mean_errors(values: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return standard errors (k,) of the means of values (n, k) at draws.

    The draws have the shape (chains, draws), and the rows of values are in their order, chain after
    chain.
    """
    return values.std(axis=0, ddof=1) / np.sqrt(effective_sizes(values.reshape(*shape, -1)))


def autocorrelation_time(values: np.ndarray) -> float:
    """Return the longest autocorrelation time of the columns of values (chains, draws, k).

    In draws per independent draw. At least 1; 1 if there are too few draws.
    """
    sizes = effective_sizes(values)
    known = sizes[np.isfinite(sizes)]
    return float(max(values.shape[0] * values.shape[1] / known.min(), 1.0)) if len(known) else 1.0


def _rhat_by_start(column: np.ndarray) -> float:
    """Return nested R-hat of the later half of draws (chains, draws), grouped by the first draw."""
    order = np.argsort(column[:, 0], kind="stable")
    labels = np.empty(len(column), int)
    labels[order] = np.arange(len(column)) * _SUPERCHAINS // len(column)
    later = column[:, column.shape[1] // 2 :]
    return float(nested_rhat(later[:, :, None], labels)[0])


def _log10_p(means, variance):
    """Return log10 of the probability of such means (groups, k) if they are equal.

    The variance (k,) is that of each mean.
    """
    moved = variance > 0
    if not np.any(moved):
        return float("inf")
    means, variance = means[:, moved], variance[moved]
    square = np.sum((means - means.mean(axis=0)) ** 2, axis=0) / variance
    log_p = stats.chi2.logsf(square, len(means) - 1).min() / np.log(10)
    return float(min(log_p + np.log10(means.shape[1]), 0.0))


def _pieces(columns):
    """Split (chains, draws, k) into (_PIECES * chains, draws // _PIECES, k).

    If there is a rest, the first draws are left out.
    """
    chains, draws, k = columns.shape
    length = draws // _PIECES
    return columns[:, draws - _PIECES * length :].reshape(_PIECES * chains, length, k)


def _autocorrelation_time(pieces):
    """Return the autocorrelation time of pieces (m, n), by Geyer's initial monotone sequence.

    Autocovariances are about the pieces' own means, and averaged over pieces.

    At least 1/log10(n), as in Stan, so that antithetic chains are not credited with more.
    """
    n = pieces.shape[1]
    centered = pieces - pieces.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centered, 1 << (2 * n - 1).bit_length(), axis=1)) ** 2
    covariance = np.fft.irfft(spectrum.mean(axis=0))[:n]
    if covariance[0] <= 0:
        return 1.0
    correlation = covariance / covariance[0]
    pairs = np.minimum.accumulate(
        np.maximum(correlation[0 : n - n % 2 : 2] + correlation[1::2], 0.0)
    )
    return max(2.0 * pairs.sum() - 1.0, 1.0 / np.log10(n))


def _by_arviz(statistic: str, columns: np.ndarray, **options: Any) -> np.ndarray:
    """Return ArviZ's statistic of each column (k,)."""
    import xarray

    dataset = xarray.Dataset({"x": (("chain", "draw", "column"), columns)})
    with np.errstate(divide="ignore", invalid="ignore"):  # where some chains never move
        return getattr(import_arviz(), statistic)(dataset, **options)["x"].values
