"""Noisy values: effects of noise on depths, on residuals and on the choice between fits.

A noisy value is the log of an unbiased estimate of the density: the log-density plus noise, whose mean is a constant if
its distribution is. A regression on such values is right up to that constant. It would be wrong to treat the highest
of them as the mode, or to require that a fit comes closer to values than their noise.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial import cKDTree

# "Tried" is docs/what-was-tried.md, noisy targets; the other was set by hand.
_EXPLAINED = 3.0  # sds of noise that explain the error of a value
_HIGHEST = 3  # the top is the third largest denoised value (tried)


def beyond_noise(sd: float, noise_sd: float) -> float:
    """The sd of residuals without the noise."""
    return float(np.sqrt(max(sd**2 - noise_sd**2, 0.0)))


def attainable_acceptance(noise_sd: float) -> float:
    """Acceptance of proposals from the target itself, with Gaussian noise: 2 Φ(-sd / sqrt(2)); 1 without noise.

    References
    ----------
    .. [1] Pitt, Silva, Giordani and Kohn (2012), "On some properties of Markov chain Monte Carlo simulation methods
       based on the particle filter", Journal of Econometrics 171.
    """
    return math.erfc(0.5 * noise_sd)


def settled(values: np.ndarray, predicted: np.ndarray, noise_sd: float) -> np.ndarray:
    """Values (n,) moved towards those of a fit, as far as noise explains the difference.

    A value within three sds becomes the fit's, so that depths do not depend on single estimates; a value further
    away keeps the rest of its distance, so that a wrong fit does not determine it.
    """
    apart = values - predicted
    return predicted + np.sign(apart) * np.maximum(np.abs(apart) - _EXPLAINED * noise_sd, 0.0)


def highest(values: np.ndarray) -> float:
    """The third largest of settled values (n,), so that one or two estimates that are far too high have no effect."""
    finite = np.sort(values[np.isfinite(values)])
    return float(finite[-min(_HIGHEST, len(finite))]) if len(finite) else -np.inf


def estimate_noise_sd(u: np.ndarray, *, inside: np.ndarray, left_out: np.ndarray, weights: np.ndarray) -> float:
    """The sd of the noise, from differences between the residuals of nearest neighbors.

    Residuals of the fit are too small and leave-one-out residuals too large, by factors whose product is one for least
    squares; the error of a fit is smooth, and mostly the same for neighbors (Rice 1984, Annals of Statistics 12).

    Parameters
    ----------
    u : ndarray, shape (n, d)
        Points, in the coordinates of the kernel.
        Residuals of the fit, and of fits without the point.
        Residuals of the fit, and with the point left out.
    weights : ndarray, shape (n,)
    """
    residuals = np.sign(inside) * np.sqrt(np.maximum(inside * left_out, 0.0))
    neighbor = cKDTree(u).query(u, k=2)[1][:, 1]
    pair_weights = np.minimum(weights, weights[neighbor])
    differences = residuals - residuals[neighbor]
    return float(np.sqrt(0.5 * pair_weights @ differences**2 / pair_weights.sum()))


def no_worse(residuals: np.ndarray, weights: np.ndarray, errors: float = 1.0) -> np.ndarray:
    """Which columns of residuals (n, k) have a weighted mean square near the smallest: within standard errors, (k,).

    The standard error is that of the difference from the best column: the noise of the values is the same in both, so
    much smaller differences are visible than in either mean square.
    """
    squares = residuals**2
    best = int(np.argmin(weights @ squares))
    differences = squares - squares[:, [best]]
    mean = weights @ differences
    spread = np.sqrt(weights**2 @ (differences - mean) ** 2)
    return mean <= errors * spread
