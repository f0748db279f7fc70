"""The fitted Gaussian: a baseline for every score estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.bases.base_jit_state import BaseJitState
from kmc.scores.base import ScoreEstimator
from kmc.scores.base_fits import gaussian_of_moments
from kmc.scores.densities import Gaussian, jit_parameters
from kmc.scores.sums import Samples


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted moments of samples; they can be added, for streams."""

    count: int
    weight: float  # Σ w
    mean: np.ndarray  # (d,)
    scatter: np.ndarray  # (d, d), Σ w (x - mean)(x - mean)ᵀ

    def __add__(self, other: Moments) -> Moments:
        """Return the moments of both sample sets (Chan, Golub and LeVeque 1983, equation 2.1)."""
        weight = self.weight + other.weight
        apart = other.mean - self.mean
        scatter = (
            self.scatter
            + other.scatter
            + (self.weight * other.weight / weight) * np.outer(apart, apart)
        )
        return Moments(
            self.count + other.count, weight, self.mean + (other.weight / weight) * apart, scatter
        )


class GaussianScore(ScoreEstimator):
    """A Gaussian with the mean and the covariance of the samples.

    Maximum likelihood and score matching give the same fit (Hyvärinen 2005, section 3.1). It has no
    parameters, and unlike that of the other estimators its log-density is normalized. Only the
    moments of a stream are kept: ``partial_fit`` gives the result of one ``fit`` to all samples, up
    to rounding.

    Attributes
    ----------
    density_ : Gaussian
    mean_ : ndarray, shape (d,)
    covariance_ : ndarray, shape (d, d)
    n_features_in_, n_samples_seen_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.scores import GaussianScore
    >>> baseline = GaussianScore().fit([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0], [2.0, 1.0]])
    >>> baseline.gradient([[1.0, 1.0]])
    array([[-0., -2.]])
    >>> baseline.objective([[1.0, 1.0]])
    -3.0
    """

    density_: Gaussian

    def _fit(self, samples: Samples) -> None:
        self._set(_moments(samples.x, samples.weights))

    def _extend(self, block: Samples) -> None:
        self._set(self._seen + _moments(block.x, block.weights))

    def hessian(self, X: Any) -> np.ndarray:
        """Return the second derivatives (n, d, d) of the log-density at the rows of X (n, d)."""
        return self.density_.hessian(self._check_points(X))

    def jit_state(self) -> BaseJitState | None:
        """Return the fitted log-density for jitted loops, see :mod:`kmc.jitted`."""
        self._check_fitted()
        return jit_parameters(self.density_)

    def _set(self, moments):
        self.density_ = gaussian_of_moments(
            moments.mean, moments.scatter / moments.weight, moments.count
        )
        self.mean_, self.covariance_ = self.density_.mean, self.density_.covariance
        self._seen = moments


def _moments(x, w):
    total = w.sum()
    mean = w @ x / total
    # corrects the rounding of the mean of numbers far from zero
    mean = mean + w @ (x - mean) / total
    r = x - mean
    return Moments(len(x), float(total), mean, (w[:, None] * r).T @ r)
