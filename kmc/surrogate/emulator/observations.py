"""Log-likelihoods of single numbers, jitted, as functions of η: the output on the scale that suits its likelihood.

η is the output itself for normal and Student-t errors, its logarithm for log-normal errors and for counts, and the
logit of a probability. So outputs that have to be positive are positive wherever the emulator goes.
"""

from __future__ import annotations

import math

import numpy as np

from kmc.njit import njit

NORMAL, STUDENT_T, POISSON, NEGATIVE_BINOMIAL, BINOMIAL = range(5)
"""Log-normal data are normal data, of logarithms."""

LARGEST = 60.0  # of |η| for counts and probabilities
SMALLEST = 1e-300  # of variances and shapes: nothing is divided by zero
_STEP = 1e-4  # of differences of log Γ, relative


@njit()
def log_likelihood(kind, y, eta, variance, relative, shape, repeats):
    """Return the log-likelihood, and its derivatives along η, the two variances and the shape.

    The variance of normal and Student-t errors is ``variance`` + ``relative`` η²; the term of normal ones that has its
    logarithm is repeated ``repeats`` times more. Terms that depend on the data alone
    are left out.
    """
    if kind <= 1:
        total = max(variance + relative * eta * eta, SMALLEST)
        error = y - eta
        square = error * error / total
        if kind == 0:
            value = -0.5 * ((1.0 + repeats) * np.log(2.0 * np.pi * total) + square)
            along, along_total, along_shape = error / total, 0.5 * (square - 1.0 - repeats) / total, 0.0
        else:
            value = math.lgamma(0.5 * (shape + 1.0)) - math.lgamma(0.5 * shape)
            value -= 0.5 * np.log(np.pi * shape * total) + 0.5 * (shape + 1.0) * np.log1p(square / shape)
            weight = (shape + 1.0) / (shape + square)
            along, along_total = weight * error / total, 0.5 * (weight * square - 1.0) / total
            along_shape = 0.5 * (_digamma(0.5 * (shape + 1.0)) - _digamma(0.5 * shape) - 1.0 / shape)
            along_shape += 0.5 * (weight * square / shape - np.log1p(square / shape))
        return value, along + along_total * 2.0 * relative * eta, along_total, along_total * eta * eta, along_shape
    inside = abs(eta) < LARGEST
    eta = min(max(eta, -LARGEST), LARGEST)
    along_shape = 0.0
    if kind == 2:
        mean = np.exp(eta)
        value, along = y * eta - mean, y - mean
    elif kind == 3:
        mean = np.exp(eta)
        value = math.lgamma(y + shape) - math.lgamma(shape) - shape * np.log1p(mean / shape)
        value += y * (eta - np.log(mean + shape))
        along = shape * (y - mean) / (mean + shape)
        along_shape = _digamma(y + shape) - _digamma(shape) - np.log1p(mean / shape) + (mean - y) / (mean + shape)
    else:
        value = y * eta - shape * (max(eta, 0.0) + np.log1p(np.exp(-abs(eta))))
        along = y - shape / (1.0 + np.exp(-eta))
    return value, along if inside else 0.0, 0.0, 0.0, along_shape


@njit()
def information(kind, eta, variance, relative, shape):
    """Return the Fisher information of η: the expected curvature of the log-likelihood."""
    if kind <= 1:
        total = max(variance + relative * eta * eta, SMALLEST)
        known = 1.0 / total + 2.0 * (relative * eta / total) ** 2
        return known if kind == 0 else known * (shape + 1.0) / (shape + 3.0)
    eta = min(max(eta, -LARGEST), LARGEST)
    if kind == 4:
        share = 1.0 / (1.0 + np.exp(-eta))
        return shape * share * (1.0 - share)
    mean = np.exp(eta)
    return mean if kind == 2 else mean * shape / (mean + shape)


@njit()
def _digamma(x):
    step = _STEP * x
    return (math.lgamma(x + step) - math.lgamma(x - step)) / (2.0 * step)
