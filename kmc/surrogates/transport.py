"""Coordinates in which a funnel is straight: other parameters in units of a scale that one of them sets.

In hierarchical models the logarithm of a scale is often a parameter itself, the *driver*, and others have a spread that
is exponential in it. No kernel with one metric follows the neck of such a funnel. Divided by their scale, these
parameters are close to Gaussian, and a surrogate of the density in such coordinates is one of the density itself: it is
the non-centred parametrisation of Papaspiliopoulos, Roberts and Sköld (2007), "A general framework for the
parametrization of hierarchical models", Statistical Science 22, found from the evaluations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np
from scipy import linalg, optimize

from kmc.surrogates.depth import NEGLIGIBLE, bulk_depth, depth_weights
from kmc.surrogates.noise import beyond_noise, highest
from kmc.surrogates.trend import quadratic_features

_LARGEST_LOG_SCALE = 10.0  # beyond it scales no longer change
_STEEPEST = 3.0  # slope of a first guess, in units of the driver's spread
_CURVED = 0.5  # nats by which the best quadratic misses the log-density, at which to look for a funnel
_GAIN = 0.4  # the part of this misfit that a transport must leave at most
_LOSS = 0.7  # the part above which it is given up
_CHANGE = 0.8  # what a new one must leave at most of the misfit of the one in use
_FURTHEST = 1.0  # of a centre from the mean of the states, in spreads: further out a funnel is a bend
_MOST_POINTS = 600  # that slopes are refined with
_LARGEST_DIM = 12  # in which they are


class Transport(Protocol):
    """A bijection u of R^d."""

    @property
    def driver(self) -> int | None:
        """The parameter that sets the scale of others."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The coordinates u of the rows of x (n, d)."""

    def back(self, u: np.ndarray) -> np.ndarray:
        """The rows of x that have the coordinates u (n, d)."""

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """log |du/dx| at the rows of x, shape (n,)."""


@dataclass(frozen=True)
class Identity:
    """u = x."""

    driver: ClassVar[None] = None

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The rows as they are."""
        return x

    def back(self, u: np.ndarray) -> np.ndarray:
        """The rows as they are."""
        return u

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """Zeros (n,)."""
        return np.zeros(len(x))


IDENTITY = Identity()


@dataclass(frozen=True, eq=False)
class Funnel:
    """u_j = x_j for the driver j, u_i = centre_i + (x_i - centre_i) exp(-slope_i (x_j - origin)) for the others."""

    driver: int
    origin: float
    centres: np.ndarray  # (d,)
    slopes: np.ndarray  # (d,), 0 for the driver

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The coordinates u of the rows of x (n, d)."""
        return self.centres + (x - self.centres) * np.exp(-self._log_scales(x))

    def back(self, u: np.ndarray) -> np.ndarray:
        """The rows of x that have the coordinates u (n, d)."""
        return self.centres + (u - self.centres) * np.exp(self._log_scales(u))

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """log |du/dx| at the rows of x, shape (n,)."""
        return -self._log_scales(x).sum(axis=1)

    def _log_scales(self, x):
        furthest = _LARGEST_LOG_SCALE / max(np.abs(self.slopes).max(), 1e-300)
        return np.clip(x[:, self.driver] - self.origin, -furthest, furthest)[:, None] * self.slopes


def find_transport(
    x: np.ndarray,
    log_density: np.ndarray,
    states: np.ndarray,
    current: Transport,
    noise_sd: float = 0.0,
    noisy: bool = False,
) -> Transport:
    """The current transport, or a funnel in whose coordinates the log-density is much closer to a quadratic.

    Each parameter in turn is taken for the driver. The slopes are first those of a regression of log |x_i - centre_i|
    on it over the states, and those of the best driver are then refined by least squares on the values.

    Parameters
    ----------
    x : ndarray, shape (n, d)
    log_density : ndarray, shape (n,)
    states : ndarray, shape (k, d)
        States of the chains nearest to the target.
    current : Transport
    noise_sd : float
        Of the values, as far as it is known.
    noisy : bool
        Whether the highest values may be luck.
    """
    if x.shape[1] < 2:
        return current
    plain = _Misfit.of(IDENTITY, x, log_density, noise_sd, noisy)
    if plain.sd < _CURVED:
        return current
    now = plain if isinstance(current, Identity) else _Misfit.of(current, x, log_density, noise_sd, noisy)
    if now.sd > _LOSS * plain.sd:
        now = plain
    guesses = [_Misfit.of(funnel, x, log_density, noise_sd, noisy) for funnel in _guesses(states)]
    guess = min([now, *guesses], key=lambda m: m.sd)
    if isinstance(guess.transport, Identity):
        return guess.transport
    found = _Misfit.of(_refined(guess, states), x, log_density, noise_sd, noisy)
    best = min(guess, found, key=lambda m: m.sd)
    return best.transport if best.sd < min(_CHANGE * now.sd, _GAIN * plain.sd) else now.transport


@dataclass(frozen=True)
class _Misfit:
    """How far the log-density is from a quadratic in the coordinates of a transport."""

    transport: Transport
    x: np.ndarray  # what counts there, and its values in x and its weights
    log_density: np.ndarray
    weights: np.ndarray
    sd: float

    @classmethod
    def of(cls, transport, x, log_density, noise_sd, noisy):
        values = log_density - transport.log_jacobian(x)
        top = highest(values) if noisy else values.max()
        weights = depth_weights(top - values, 2.0 * bulk_depth(x.shape[1]))
        rows = weights > NEGLIGIBLE
        x, log_density, weights = x[rows], log_density[rows], weights[rows] / weights[rows].sum()
        sd = float(np.linalg.norm(_residuals(transport, x, log_density, weights)))
        spare = 1.0 - quadratic_features(x[:1]).size * np.sum(weights**2)  # generalised cross-validation
        sd = beyond_noise(sd / max(spare, 1e-3), noise_sd)
        return cls(transport, x, log_density, weights, sd)


def _residuals(transport, x, log_density, weights):
    """Of the weighted least-squares quadratic in the coordinates of a transport, weighted (n,)."""
    u, values = transport(x), log_density - transport.log_jacobian(x)
    scale = u.std(axis=0)
    features = quadratic_features((u - u.mean(axis=0)) / np.where(scale > 0, scale, 1.0))
    root = np.sqrt(weights)
    features, values = root[:, None] * features, root * values
    gram = features.T @ features
    gram[np.diag_indices_from(gram)] += 1e-9 * np.trace(gram) / len(gram)
    return values - features @ linalg.solve(gram, features.T @ values, assume_a="pos", check_finite=False)


def _guesses(states: np.ndarray) -> Iterator[Funnel]:
    """A funnel for each driver, by regression of log-distances from the centre on it."""
    spread = states.std(axis=0)
    for driver in np.flatnonzero(spread > 0):
        origin = float(np.median(states[:, driver]))
        t = (states[:, driver] - origin) / spread[driver]
        centres = np.median(states, axis=0)
        for _ in range(3):
            distances = np.abs(states - centres)
            logs = np.log(np.maximum(distances, 1e-3 * spread + 1e-300))
            deviations = t - t.mean()
            slopes = np.clip(deviations @ logs / (deviations @ deviations), -_STEEPEST, _STEEPEST)
            slopes[driver] = 0.0
            weights = np.exp(-2.0 * t[:, None] * slopes)
            centres = np.sum(weights * states, axis=0) / weights.sum(axis=0)
        yield Funnel(int(driver), origin, centres, slopes / spread[driver])


def _refined(guess: _Misfit, states: np.ndarray) -> Transport:
    """The funnel with slopes and centres for which a quadratic fits best (variable projection)."""
    funnel, d = guess.transport, states.shape[1]
    assert isinstance(funnel, Funnel)
    if d > _LARGEST_DIM:
        return funnel
    rows = slice(None, None, max(len(guess.x) // _MOST_POINTS, 1))
    x, log_density, weights = guess.x[rows], guess.log_density[rows], guess.weights[rows]
    others = np.arange(d) != funnel.driver
    unit = states.std(axis=0)
    width = np.where(unit > 0, unit, 1.0)[others]

    def with_parameters(theta):
        slopes, centres = funnel.slopes.copy(), funnel.centres.copy()
        slopes[others] += theta[: d - 1] / unit[funnel.driver]
        centres[others] += theta[d - 1 :] * width
        return replace(funnel, slopes=slopes, centres=centres)

    middle = ((states.mean(axis=0) - funnel.centres)[others]) / width
    solution = optimize.least_squares(
        lambda theta: _residuals(with_parameters(theta), x, log_density, weights),
        np.concatenate([np.zeros(d - 1), np.clip(0.0, middle - 0.99 * _FURTHEST, middle + 0.99 * _FURTHEST)]),
        bounds=(
            np.concatenate([np.full(d - 1, -np.inf), middle - _FURTHEST]),
            np.concatenate([np.full(d - 1, np.inf), middle + _FURTHEST]),
        ),
        max_nfev=15,
    )
    return with_parameters(solution.x)
