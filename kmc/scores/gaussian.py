"""The fitted Gaussian: the baseline that every score estimator has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kmc.bases.base_point import BasePoint
from kmc.estimator import check_vector, check_weights, values_of
from kmc.scores.base import ScoreEstimator
from kmc.scores.checks import check_samples
from kmc.scores.densities import Gaussian, gaussian_of_moments, point_parameters


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted moments of samples: they add, and so serve streams."""

    count: int
    weight: float  # Σ w
    mean: np.ndarray  # (d,)
    scatter: np.ndarray  # (d, d), Σ w (x - mean)(x - mean)ᵀ

    def __add__(self, other: Moments) -> Moments:
        """Moments of both sets of samples (Chan, Golub and LeVeque 1983, equation 2.1)."""
        weight = self.weight + other.weight
        apart = other.mean - self.mean
        scatter = self.scatter + other.scatter + (self.weight * other.weight / weight) * np.outer(apart, apart)
        return Moments(self.count + other.count, weight, self.mean + (other.weight / weight) * apart, scatter)


class GaussianScore(ScoreEstimator):
    """A Gaussian with the mean and the covariance of the samples.

    Maximum likelihood and score matching agree on it (Hyvärinen 2005, section 3.1). It has no parameters, and unlike
    those of the other estimators its log-density is normalised.

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

    def fit(self, X: Any, y: Any = None, weights: Any = None, *, values: Any = None) -> Self:
        """Fit to the rows of X.

        Parameters
        ----------
        X : array_like, shape (n, d)
        y, values : array_like, shape (n,), optional
            Log-density at the rows, under either name; checked and not used, because this baseline is what the samples
            alone say. A Gaussian that uses them is :class:`FiniteKEF` with monomials of degree two.
        weights : array_like, shape (n,), optional
            Not negative; only their ratios matter.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For points that are not finite, too few or in a plane, and other arguments that do not match them.
        """
        x = self._check_points(X, fitting=True, least=2)
        w = _raw_weights(values_of(y, values), weights, len(x))
        check_samples(x, self, w)
        return self._set(_moments(x, w))

    def partial_fit(self, X: Any, y: Any = None, weights: Any = None, *, values: Any = None) -> Self:
        """Add samples: the result is that of one ``fit`` to all of them, but for rounding.

        The first block must do for a ``fit``; later ones may have a single row. Weights are comparable across blocks,
        and a block without weights has ones.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, values_of(y, values), weights)
        x = self._check_points(X)
        return self._set(self._seen + _moments(x, _raw_weights(values_of(y, values), weights, len(x))))

    def point(self) -> BasePoint | None:
        """The fitted log-density for jitted loops, see :mod:`kmc.points`."""
        self._check_fitted()
        return point_parameters(self.density_)

    def _set(self, moments):
        self.density_ = gaussian_of_moments(moments.mean, moments.scatter / moments.weight, moments.count)
        self.mean_, self.covariance_ = self.density_.mean, self.density_.covariance
        self.n_samples_seen_, self._seen = moments.count, moments
        return self


def _raw_weights(values, weights, n):
    """Weights as they were given: those of other blocks are on the same scale."""
    if values is not None:
        check_vector(values, n, "values")
    return check_weights(weights, n) * (1.0 if weights is None else np.mean(weights))


def _moments(x, w):
    total = w.sum()
    mean = w @ x / total
    mean = mean + w @ (x - mean) / total  # the mean of numbers far from zero, to the last digit
    r = x - mean
    return Moments(len(x), float(total), mean, (w[:, None] * r).T @ r)
