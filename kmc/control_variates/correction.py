"""Expectations of the target: averages of its draws, minus control variates.

Control variates have a known mean under the surrogate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from kmc.control_variates.replicate import Transitions
from kmc.convergence import squared_error

_FOLDS = 10
_RIDGE = 1e-9  # relative to the mean square of the controls
FEW = 400
"""Draws: with fewer, neither coefficients by regression nor estimated errors are precise.

The coefficients were tried with small budgets.
"""
_MISSED = 3.0  # draws of a region that none of them found
_LEVEL, _QUANTILE = 0.975, 1.959964  # of a normal density


@dataclass(frozen=True)
class Corrected:
    """Corrected expectations of k functions.

    Attributes
    ----------
    mean, squared_error : ndarray, shape (k,)
    coefficients : ndarray, shape (k, m)
        Coefficients of the errors of the m means under the surrogate.
    disagreement : ndarray, shape (m,)
        Mean of each control variate of the surrogate in standard errors, without that of the
        surrogate's mean.
    control_error : ndarray, shape (m,)
        These standard errors.
    """

    mean: np.ndarray
    squared_error: np.ndarray
    coefficients: np.ndarray
    disagreement: np.ndarray
    control_error: np.ndarray


def corrected(
    pairs: Transitions,
    values: tuple[np.ndarray, np.ndarray],
    controls: tuple[np.ndarray, np.ndarray],
    sets: Sequence[Sequence[Sequence[int]]],
    covariance: np.ndarray | None = None,
) -> Corrected:
    """Estimate the expectations of k functions under the target.

    For each function the average of its draws F is corrected by β₀ (F - P) + Σ β_j S_j, where P is
    the average of the same function by the weights of the pairs and S_j that of a control variate:
    all of these differences have mean zero. β is the regression on them over other parts of the run
    (cross-fitting), so the result is unbiased. Of several sets of controls, including the empty
    one, each part of the run uses the one with the smallest error in the others: asymptotically
    that is never worse than the plain average.

    Few draws determine such coefficients badly. So with less than ``FEW`` of them another estimate
    is tried, m + P - S, where m is the function's mean under the surrogate, and S its average by
    the weights of the pairs for the surrogate: if the two densities are nearly equal, so are the
    weights, and it is m with hardly any error. For all errors see :func:`stated`.

    Parameters
    ----------
    pairs : Transitions
        Pairs of (chains, n) sweeps.
    values : (x, y), ndarrays, shape (chains, n, k)
        The functions at both ends.
    controls : (x, y), ndarrays, shape (chains, n, m)
        Quantities minus their means under the surrogate.
    sets : sequence
        For each function, the sets of controls to try, as their indices; the first of these is of
        the function itself.
    covariance : ndarray, shape (m, m), optional
        Covariance of the errors of the means under the surrogate. It shrinks the coefficients.
    """
    x, y = values
    plain = x.mean(axis=(0, 1))
    target = x - plain
    recycled = target - pairs.of_target(x - plain, y - plain)
    zero = pairs.of_surrogate(*controls)  # with mean zero
    n_controls = zero.shape[2]
    chains, n, k = target.shape
    folds = np.broadcast_to(np.arange(n) * _FOLDS // n, (chains, n))
    flat = zero.reshape(-1, n_controls)
    moved = pairs.of_target(*controls) - zero if chains * n < FEW else None
    if covariance is None:
        covariance = np.zeros((n_controls, n_controls))
    grams = _Grams(flat, folds.ravel(), covariance)
    missed = _of_missed(pairs, target)
    mean, error, coefficients = plain.copy(), np.empty(k), np.zeros((k, n_controls))
    for i in range(k):
        series, own = target[..., i].ravel(), recycled[..., i].ravel()
        tried, betas = [target[..., i]], [np.zeros(n_controls)]
        if moved is not None and sets[i]:
            j = sets[i][0][0]
            tried.append(moved[..., j] + x[0, 0, i] - controls[0][0, 0, j] - plain[i])
            betas.append(np.eye(n_controls)[j])
        for chosen in map(list, sets[i]):
            residual, beta = grams.residual(series, own, chosen)
            tried.append(residual.reshape(chains, n))
            betas.append(np.zeros(n_controls))
            betas[-1][chosen] = beta
        found, share = _smallest(
            np.stack(tried, axis=-1), np.array(betas), folds[0], covariance, missed[i]
        )
        coefficients[i] = share @ np.array(betas)
        mean[i] = plain[i] + found.mean()
        error[i] = float(stated(found)[0]) + float(coefficients[i] @ covariance @ coefficients[i])
        error[i] += (1.0 - share[0]) * missed[i]
    control_error = np.sqrt(squared_error(zero))
    scale = np.where(control_error > 0, control_error, 1.0)
    return Corrected(mean, error, coefficients, zero.mean(axis=(0, 1)) / scale, control_error)


def _smallest(
    tried: np.ndarray, betas: np.ndarray, folds: np.ndarray, covariance: np.ndarray, missed: float
) -> tuple[np.ndarray, np.ndarray]:
    """Choose for each fold the tried series (chains, n, c) with the least error in the other folds.

    Return the chosen parts as one series (chains, n, 1), and the share of the folds in which each
    was chosen, (c,). The fold itself does not choose, as the smallest of several estimated errors
    is too small. The first series is the plain one; ``missed`` is added to the squared errors of
    all others.
    """
    shared = np.einsum("ij,jk,ik->i", betas, covariance, betas)
    shared[1:] += missed
    found, chosen = np.empty_like(tried[..., :1]), []
    for fold in range(_FOLDS):
        others = folds != fold
        error = _widened(tried[:, others] if others.sum() > 1 else tried) + shared
        chosen.append(int(np.argmin(error)))
        found[:, folds == fold, 0] = tried[:, folds == fold, chosen[-1]]
    return found, np.bincount(chosen, minlength=len(betas)) / _FOLDS


def _of_missed(pairs: Transitions, target: np.ndarray) -> np.ndarray:
    """Return squared errors of corrected means (k,) by mass that the draws may have missed.

    Among n independent draws, a region with the probability 3 / n is missed with a probability of 5
    %. If log p/s is as far off there as it is at the draws, and a function (chains, n, k), minus
    its mean, as large as anywhere, then its mean under s is off by the product of the three. n is
    that of the function with the fewest effective draws.
    """
    variance = target.var(axis=(0, 1))
    moved = variance > 0.0
    if not np.any(moved):
        return np.zeros(len(variance))
    fewest = np.maximum(stated(target)[moved] / variance[moved], 1.0 / target[..., 0].size)  # 1 / n
    off = float(pairs.start[pairs.run].std())
    return (_MISSED / _QUANTILE * fewest.max() * off * np.abs(target).max(axis=(0, 1))) ** 2


def stated(series: np.ndarray) -> np.ndarray:
    """Return the stated squared errors of the means of series (chains, n, k), the larger of two.

    One estimate is from autocovariances, the other from the spread of the chains' own means. A few
    draws where the surrogate is far off decide on both; where they are in one chain only, the
    second sees it.
    """
    within = _widened(series)
    chains = len(series)
    if chains == 1:
        return within
    return np.maximum(within, series.mean(axis=1).var(axis=0, ddof=1) / chains)


def _widened(series: np.ndarray) -> np.ndarray:
    """Return squared errors by autocovariances, wider with few draws.

    An estimated variance is itself uncertain, the more so the heavier the tails: with n effective
    draws of kurtosis κ its degrees of freedom are 2 n / (κ - 1). The errors are widened by the
    ratio of the 97.5 % quantiles of the Student-t and the normal density, so that 1.96 of them are
    still an interval of 95 %.
    """
    error = squared_error(series)
    n = series.shape[0] * series.shape[1]
    if n >= FEW:
        return error
    off = (series - series.mean(axis=(0, 1))) ** 2
    variance = off.mean(axis=(0, 1))
    scale = np.where(variance > 0.0, variance, 1.0)
    effective = np.minimum(scale / np.where(error > 0.0, error, 1.0), n)
    excess = np.maximum(((off / scale) ** 2).mean(axis=(0, 1)) - 1.0, 1e-3)
    dof = np.maximum(2.0 * effective / excess, 1.0)
    return error * (stdtrit(dof, _LEVEL) / _QUANTILE) ** 2


class _Grams:
    """Regressions on subsets of the same columns (n, m), each with one more column.

    They leave out one fold at a time.
    """

    def __init__(self, columns: np.ndarray, folds: np.ndarray, covariance: np.ndarray):
        self._columns, self._covariance = columns, covariance
        self._rows = [folds == fold for fold in range(_FOLDS)]
        self._gram = np.array([columns[rows].T @ columns[rows] for rows in self._rows])

    def residual(
        self, series: np.ndarray, own: np.ndarray, chosen: list[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the residual of a series (n,), and the mean coefficients of the columns.

        The residual is the series less its regression on ``own`` and columns.
        """
        design = np.column_stack([own, self._columns[:, chosen]])
        m = design.shape[1]
        gram, moment = np.empty((_FOLDS, m, m)), np.empty((_FOLDS, m))
        gram[:, 1:, 1:] = self._gram[
            :, np.asarray(chosen, int)[:, None], np.asarray(chosen, int)[None]
        ]
        for fold, rows in enumerate(self._rows):
            gram[fold, 0] = gram[fold, :, 0] = design[rows].T @ own[rows]
            moment[fold] = design[rows].T @ series[rows]
        scale = np.sqrt(np.maximum(np.diag(gram.sum(axis=0)), 1e-300))
        shared = np.zeros((m, m))
        shared[1:, 1:] = self._covariance[np.ix_(chosen, chosen)]
        residual, betas = np.empty_like(series), np.empty((_FOLDS, m))
        for fold, rows in enumerate(self._rows):
            # The squared error of the mean is |residual|² / n², plus that of the known means:
            # minimize the sum.
            penalty = len(series) * (len(series) - np.sum(rows)) * shared
            rest = (gram.sum(axis=0) - gram[fold] + penalty) / np.outer(scale, scale)
            rest[np.diag_indices(m)] += _RIDGE
            betas[fold] = np.linalg.solve(rest, (moment.sum(axis=0) - moment[fold]) / scale) / scale
            residual[rows] = series[rows] - design[rows] @ betas[fold]
        return residual, betas[:, 1:].mean(axis=0)
