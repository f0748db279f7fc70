"""Two Gaussians fitted to log-densities: they tell a narrow mode inside a wide one, where there is no gap to see."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares

from kmc.surrogates import Surrogate
from kmc.surrogates.fit import GOOD_FIT
from kmc.surrogates.trend import quadratic_features, symmetric

# Set by hand.
_KNOWN_DEPTH = 40.0  # nats below the edge of the surrogate: deeper values are ignored
_MOST_VALUES = 6000
_FEWEST_PER_TERM = 3  # values per coefficient of both, for a fit that says something
_EXPLAINED, _EXPLAINED_AT_MOST = 0.1, 0.1  # largest error, relative to the surrogate's and in nats (tried: narrow)
_NEGLIGIBLE = 7.0  # log of the ratio of their masses: a lighter one is ignored
_QUANTILES = 0.1, 0.25, 0.5, 0.75, 0.9  # first guesses: values above this quantile belong to one Gaussian
_VALUES_PER_TERM = 1.5  # fewest values of a Gaussian, per term of its quadratic
_ITERATIONS = 50  # of dividing the values between the two
_RIDGE, _TINY = 1e-12, 1e-300  # relative to the mean squares of the terms, and for a term that is zero everywhere
_PROMISING = 1.0  # nats of error before the last step: near a border, the higher of two is .7 nats below their sum
_STEPS = 30  # of least squares on all values together


class TwoGaussians(NamedTuple):
    """log(exp q₁ + exp q₂) with q(z) = top - (z - center)ᵀ precision (z - center) / 2."""

    tops: np.ndarray  # (2,)
    centers: np.ndarray  # (2, d)
    precisions: np.ndarray  # (2, d, d), positive definite
    error_sd: float  # root mean square of the residuals

    @property
    def log_masses(self) -> np.ndarray:
        """Log-masses (2,) relative to (2 pi)^(d/2)."""
        return self.tops - 0.5 * np.linalg.slogdet(self.precisions)[1]


def two_gaussians_instead(
    surrogate: Surrogate, x: np.ndarray, values: np.ndarray, *, rng: np.random.Generator
) -> TwoGaussians | None:
    """Two Gaussians, in the coordinates of a poor surrogate, that explain values (n,) at points x (n, d) far better.

    None if the surrogate is not poor, or if they do not.
    """
    if surrogate.error_sd < GOOD_FIT:
        return None
    near = values > values.max() - surrogate.edge - _KNOWN_DEPTH
    _, rows = np.unique(x[near], axis=0, return_index=True)
    rows = np.flatnonzero(near)[rng.permutation(rows)[:_MOST_VALUES]]
    dim = x.shape[1]
    if len(rows) < _FEWEST_PER_TERM * (dim + 1) * (dim + 2):
        return None
    pair = fit_two_gaussians(surrogate.coordinates(x[rows]), values[rows])
    enough = min(_EXPLAINED * surrogate.error_sd, _EXPLAINED_AT_MOST)
    good = pair is not None and pair.error_sd < enough and abs(np.diff(pair.log_masses)[0]) < _NEGLIGIBLE
    return pair if good else None


def fit_two_gaussians(z: np.ndarray, values: np.ndarray) -> TwoGaussians | None:
    """The sum of two Gaussians whose log is nearest to the values (n,) at points z (n, d); None if there is none.

    First the values are divided between two quadratics, each point belonging to the higher one, and then all
    coefficients are fitted together.
    """
    features = quadratic_features(z)
    starts = [_divided(features, values, values > np.quantile(values, q)) for q in _QUANTILES]
    found = [start for start in starts if start is not None]
    best = min(found, key=lambda theta: _error_sd(features, values, theta), default=None)
    if best is None or _error_sd(features, values, best) > _PROMISING:
        return None
    return _polished(features, values, best)


def _divided(features: np.ndarray, values: np.ndarray, first: np.ndarray) -> np.ndarray | None:
    """Two quadratics (2, size), each fitted where it is the higher one; at first one has the given points (n,)."""
    size = features.shape[1]
    for _ in range(_ITERATIONS):
        if min(first.sum(), (~first).sum()) < _VALUES_PER_TERM * size:
            return None
        theta = np.array([_least_squares(features[rows], values[rows]) for rows in (first, ~first)])
        before, first = first, features @ theta[0] > features @ theta[1]
        if np.array_equal(before, first):
            break
    return theta


def _least_squares(features: np.ndarray, values: np.ndarray) -> np.ndarray:
    scale = np.sqrt(np.mean(features**2, axis=0)) + _TINY
    scaled = features / scale
    gram = scaled.T @ scaled
    gram[np.diag_indices_from(gram)] += _RIDGE * len(features)
    return np.linalg.solve(gram, scaled.T @ values) / scale


def _error_sd(features: np.ndarray, values: np.ndarray, theta: np.ndarray) -> float:
    return float(np.sqrt(np.mean((np.logaddexp(features @ theta[0], features @ theta[1]) - values) ** 2)))


def _polished(features: np.ndarray, values: np.ndarray, theta: np.ndarray) -> TwoGaussians | None:
    """All coefficients fitted together, from the given ones (2, size)."""
    size = features.shape[1]

    def residuals(theta: np.ndarray) -> np.ndarray:
        return np.logaddexp(features @ theta[:size], features @ theta[size:]) - values

    def jacobian(theta: np.ndarray) -> np.ndarray:
        ones, others = features @ theta[:size], features @ theta[size:]
        share = np.exp(ones - np.logaddexp(ones, others))[:, None]
        return np.hstack([share * features, (1.0 - share) * features])

    best = least_squares(residuals, theta.ravel(), jacobian, method="lm", x_scale="jac", max_nfev=_STEPS)
    first = features @ best.x[:size] > features @ best.x[size:]
    if min(first.sum(), (~first).sum()) < _VALUES_PER_TERM * size:
        return None
    return _of(best.x.reshape(2, size), float(np.sqrt(np.mean(best.fun**2))))


def _of(theta: np.ndarray, error_sd: float) -> TwoGaussians | None:
    """From the coefficients (2, size); None if one of them is not a Gaussian."""
    if not np.all(np.isfinite(theta)):
        return None
    dim = int((np.sqrt(8 * theta.shape[1] + 1) - 3) / 2)  # size = (dim + 1) (dim + 2) / 2
    linear = theta[:, 1 : 1 + dim]
    precisions = np.array([-2.0 * symmetric(row[1 + dim :], dim) for row in theta])
    if np.linalg.eigvalsh(precisions).min() <= 0:
        return None
    centers = np.linalg.solve(precisions, linear[..., None])[..., 0]
    return TwoGaussians(theta[:, 0] + 0.5 * np.sum(linear * centers, axis=1), centers, precisions, error_sd)
