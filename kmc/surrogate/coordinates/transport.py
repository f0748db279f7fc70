"""Coordinates in which a funnel is straight.

Heavy tails become light in those of :mod:`kmc.surrogate.coordinates.tails`, and bent ridges
straight in those of :mod:`kmc.surrogate.coordinates.bends`.

In a funnel one parameter sets the scale of others.

In hierarchical models the logarithm of a scale is often a parameter itself, the *driver*, and
others have a spread that is exponential in it, around a fixed center or around another parameter,
the *location*. No kernel with a single metric can represent the neck of such a funnel. Divided by
their scale, these parameters are close to Gaussian, and a surrogate of the density in such
coordinates gives one of the density itself: it is the non-centered parametrization of
Papaspiliopoulos, Roberts and Sköld (2007), "A general framework for the parametrization of
hierarchical models", Statistical Science 22, found from the evaluations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np
from scipy import linalg, optimize

from kmc.surrogate.coordinates.bends import Bend, bend_of
from kmc.surrogate.coordinates.tails import heavy_tails
from kmc.surrogate.covariance import terms_of
from kmc.surrogate.mass import bulk_depth
from kmc.threads import each_in_threads

# "Tried" is docs/what-was-tried.md, funnels; others were set by hand.
_LARGEST_LOG_SCALE = 10.0  # beyond it scales no longer change
_STEEPEST = 3.0  # slope of a first guess, in units of the driver's spread
_LEAST_DISTANCE = 1e-3  # from the middle, in spreads, in these guesses
_PASSES, _PASSES_MOVING = 3, 6  # of a guess, with fixed and moving centers
_CURVED = 0.5  # residual sd of the best quadratic, in nats, from which on funnels are searched
# largest part of this misfit left by a transport that is tried: each costs a search for
# hyperparameters
_GAIN = 0.4
# distance of a center from the mean of the states, in spreads; further out a funnel is a bend
# (tried)
_FURTHEST = 1.0
_START_INSIDE = 0.99  # fraction of it, within which the refinement starts
_WORTH = 1.1  # factor on the misfit allowed for rounded slopes and loadings (tried)
_STEPS_OF_SLOPE = 2.0  # slopes are rounded to multiples of 1 / 2 (tried: halves)
_DEPTH = 2.0  # times the bulk: deeper values are not used
_NEGLIGIBLE = 1e-4  # values with smaller weights are left out
_FALL, _POWER = 4.0, 4.0  # scale in nats, and power, of the decrease of weights below the edge
_MOST_POINTS = 600  # with which slopes are refined
_LARGEST_DIM = 12  # for refined slopes and bends, and for bends along two parameters
_MOST_DRIVERS = 3  # of funnels with moving centers, in many dimensions
_EVALUATIONS = 15  # of the least squares
_LEAST_SPARE = 1e-3  # smallest fraction of spare values in generalized cross-validation
# of a quadratic, in 54 dimensions and more: guesses are compared by fewer features
_MANY_TERMS = 1500
_VALUES_PER_TERM = 1.3  # values that a quadratic of so many terms is fitted to
_JITTER = 1e-9  # relative to the mean eigenvalue, in the normal equations


class Transport(Protocol):
    """A bijection u of R^d."""

    @property
    def driver(self) -> int | None:
        """The parameter that sets the scale of others."""

    @property
    def size(self) -> int:
        """Number of learned parameters."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the coordinates u of the rows of x (n, d)."""

    def back(self, u: np.ndarray) -> np.ndarray:
        """Return the rows of x that have the coordinates u (n, d)."""

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return log |du/dx| at the rows of x, shape (n,)."""


@dataclass(frozen=True)
class Identity:
    """u = x.

    With ``apart``, what is known of the log-density is left out of the regression, and added to it:
    see :mod:`kmc.surrogate.known`.
    """

    apart: bool = False

    driver: ClassVar[None] = None
    size: ClassVar[int] = 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the rows unchanged."""
        return x

    def back(self, u: np.ndarray) -> np.ndarray:
        """Return the rows unchanged."""
        return u

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return zeros (n,)."""
        return np.zeros(len(x))


IDENTITY = Identity()
APART = Identity(apart=True)


@dataclass(frozen=True, eq=False)
class Funnel:
    """u_i = c_i + (x_i - c_i - b_i (x_m - c_m)) exp(-a_i (x_j - origin)) with the driver j.

    The driver itself is u_j = x_j. The slopes a, the loadings b and the centers c are arrays (d,).
    The driver has slope and loading 0; the location m has loading 0. Without a location all
    loadings are 0.
    """

    driver: int
    origin: float
    centers: np.ndarray
    slopes: np.ndarray
    location: int = 0
    loadings: np.ndarray | float = 0.0

    @property
    def size(self) -> int:
        """Number of learned parameters."""
        return 2 * len(self.slopes) - 2 + int(np.count_nonzero(self.loadings))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the coordinates u of the rows of x (n, d)."""
        return self.centers + (x - self._middle(x)) * np.exp(-self._log_scales(x))

    def back(self, u: np.ndarray) -> np.ndarray:
        """Return the rows of x that have the coordinates u (n, d)."""
        deviations = (u - self.centers) * np.exp(self._log_scales(u))
        return self._middle(self.centers + deviations) + deviations

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return log |du/dx| at the rows of x, shape (n,)."""
        return -self._log_scales(x).sum(axis=1)

    def _middle(self, x: np.ndarray) -> np.ndarray:
        return (
            self.centers
            + (x[:, self.location] - self.centers[self.location])[:, None] * self.loadings
        )

    def _log_scales(self, x: np.ndarray) -> np.ndarray:
        furthest = _LARGEST_LOG_SCALE / max(np.abs(self.slopes).max(), 1e-300)
        return np.clip(x[:, self.driver] - self.origin, -furthest, furthest)[:, None] * self.slopes


def find_transports(x: np.ndarray, log_density: np.ndarray, states: np.ndarray) -> list[Transport]:
    """Return a funnel, heavy tails and a bend that may bring the log-density closer to a quadratic.

    There is none where it is one already. Each parameter in turn is tried as the driver of a
    funnel, first around a fixed center, then around another parameter. The slopes are first those
    of a regression of log |x_i - center_i| on the driver over the states, and those of the best
    driver are then refined by least squares on the values.

    Parameters
    ----------
    x : ndarray, shape (n, d)
    log_density : ndarray, shape (n,)
    states : ndarray, shape (k, d)
        Draws of the last surrogate.
    """
    dim = x.shape[1]
    plain = _Misfit.of(IDENTITY, x, log_density)
    if dim < 2 or plain.sd < _CURVED:
        return []
    found = _funnels(x, log_density, states)
    if not _is_wide(dim):
        tails = each_in_threads(
            lambda tail: _Misfit.of(tail, x, log_density),
            heavy_tails(plain.x, plain.log_density, plain.weights, states=states),
        )
        found += sorted(tails, key=lambda m: m.sd)[:1]
        found += _bends(x, log_density, states)
    return [m.transport for m in found if m.sd < _GAIN * plain.sd]


def _bends(x: np.ndarray, log_density: np.ndarray, states: np.ndarray) -> list[_Misfit]:
    """Return the bend of the states, refined to bring the log-density closest to a quadratic."""
    few = states.shape[1] <= _LARGEST_DIM
    bend, unit = bend_of(states, along_pairs=few), states.std(axis=0)
    if bend is None:
        return []
    guess = _Misfit.of(bend, x, log_density)
    if not few:
        return [guess]
    some = guess.some(_MOST_POINTS)

    def with_parameters(theta: np.ndarray) -> Bend:
        more, turn = np.split(theta, 2)
        return bend.bent(more * unit, turn / unit)

    solution = optimize.least_squares(
        lambda theta: _residuals(with_parameters(theta), *some[:2], weights=some[2]),
        np.zeros(2 * len(unit)),
        max_nfev=_EVALUATIONS,
    )
    refined = _Misfit.of(with_parameters(solution.x), x, log_density)
    return [min(guess, refined, key=lambda m: m.sd)]


def _funnels(x: np.ndarray, log_density: np.ndarray, states: np.ndarray) -> list[_Misfit]:
    """Return the funnel in whose coordinates the log-density is closest to a quadratic."""
    found: list[_Misfit] = []
    for around in (_fixed, _moving) if x.shape[1] > 2 else (_fixed,):
        guess = _best_guess(around(states), x, log_density)
        refined = _Misfit.of(_refined(guess, states), x, log_density)
        better = min(guess, refined, key=lambda m: m.sd)
        simple = _Misfit.of(_rounded(better.transport), x, log_density)
        found.append(simple if simple.sd < _WORTH * better.sd else better)
        if found[-1].sd < _CURVED:
            break
    return sorted(found, key=lambda m: m.sd)[:1]


def _best_guess(guesses: Iterator[Funnel], x: np.ndarray, log_density: np.ndarray) -> _Misfit:
    """Return the guess in whose coordinates the log-density is closest to a quadratic.

    In many dimensions guesses are compared by quadratics without products of two coordinates.
    """
    features = _squares if _is_wide(x.shape[1]) else _products
    funnels = list(guesses)
    sds = each_in_threads(
        lambda funnel: _Misfit.of(funnel, x, log_density, features=features).sd, funnels
    )
    best = min(range(len(funnels)), key=lambda i: sds[i])
    return _Misfit.of(funnels[best], x, log_density)


def _is_wide(dim: int) -> bool:
    return terms_of(dim) > _MANY_TERMS


def _some_of(rows: np.ndarray, dim: int) -> np.ndarray:
    """Return these indices, or in many dimensions as many, evenly spread, as a fit can afford."""
    most = int(_VALUES_PER_TERM * terms_of(dim))
    if not _is_wide(dim) or len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).round().astype(int)]


def _products(z: np.ndarray) -> np.ndarray:
    """Return the features (n, 1 + d + d (d + 1) / 2): 1, z_i and z_i z_j, i <= j."""
    n, d = z.shape
    out = np.empty((n, terms_of(d)))
    out[:, 0], out[:, 1 : 1 + d] = 1.0, z
    end = 1 + d
    for i in range(d):
        begin, end = end, end + d - i
        np.multiply(z[:, i : i + 1], z[:, i:], out=out[:, begin:end])
    return out


def _squares(z: np.ndarray) -> np.ndarray:
    """Return the features (n, 1 + 2 d): 1, z_i and z_i²."""
    return np.hstack([np.ones((len(z), 1)), z, z**2])


@dataclass(frozen=True)
class _Misfit:
    """Distance of the log-density from a quadratic in the coordinates of a transport."""

    transport: Transport
    x: np.ndarray  # relevant points there, with their values in x and weights
    log_density: np.ndarray
    weights: np.ndarray
    sd: float

    @classmethod
    def of(
        cls,
        transport: Transport,
        x: np.ndarray,
        log_density: np.ndarray,
        *,
        features: Callable[[np.ndarray], np.ndarray] = _products,
    ) -> _Misfit:
        """Return the distance from what the features span: all quadratics, or a part of them."""
        values = log_density - transport.log_jacobian(x)
        # 1 down to an edge, and then falling with the fourth power of the depth below it.
        below = np.maximum(values.max() - values - _DEPTH * bulk_depth(x.shape[1]), 0.0)
        weights = (1.0 + below / _FALL) ** -_POWER
        rows = _some_of(np.flatnonzero(weights > _NEGLIGIBLE), x.shape[1])
        x, log_density, weights = x[rows], log_density[rows], weights[rows] / weights[rows].sum()
        sd = float(
            np.linalg.norm(
                _residuals(transport, x, log_density, weights=weights, features=features)
            )
        )
        spare = 1.0 - (features(x[:1]).size + transport.size) * np.sum(weights**2)
        sd /= max(spare, _LEAST_SPARE)  # by generalized cross-validation
        return cls(transport, x, log_density, weights, sd)

    def some(self, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return about so many of the points, evenly spread, with their values and weights."""
        rows = slice(None, None, max(len(self.x) // most, 1))
        return self.x[rows], self.log_density[rows], self.weights[rows]


def _residuals(
    transport: Transport,
    x: np.ndarray,
    log_density: np.ndarray,
    *,
    weights: np.ndarray,
    features: Callable[[np.ndarray], np.ndarray] = _products,
) -> np.ndarray:
    """Return weighted residuals (n,) of least squares by features in a transport's coordinates."""
    u, values = transport(x), log_density - transport.log_jacobian(x)
    scale = u.std(axis=0)
    design = features((u - u.mean(axis=0)) / np.where(scale > 0, scale, 1.0))
    root = np.sqrt(weights)
    design, values = root[:, None] * design, root * values
    gram = design.T @ design
    gram[np.diag_indices_from(gram)] += _JITTER * np.trace(gram) / len(gram)
    return values - design @ linalg.solve(
        gram, design.T @ values, assume_a="pos", check_finite=False
    )


def _fixed(states: np.ndarray) -> Iterator[Funnel]:
    """Yield a funnel for each driver, around a fixed center."""
    for driver in np.flatnonzero(np.ptp(states, axis=0) > 0):
        yield _guess(states, int(driver), None)


def _moving(states: np.ndarray) -> Iterator[Funnel]:
    """Yield a funnel for each driver, around the location for which :func:`_size` is smallest.

    In many dimensions only a few drivers are tried.
    """
    moving = np.flatnonzero(np.ptp(states, axis=0) > 0)
    drivers = moving
    if _is_wide(states.shape[1]):  # d² guesses would take minutes
        sizes = [_size(_guess(states, int(driver), None), states) for driver in moving]
        drivers = moving[np.argsort(sizes)[:_MOST_DRIVERS]]
    for driver in drivers:
        others = [
            _guess(states, int(driver), int(location)) for location in moving if location != driver
        ]
        if others:
            yield min(others, key=lambda funnel: _size(funnel, states))


def _size(funnel: Funnel, states: np.ndarray) -> float:
    """Return the sum of the log standard deviations of the states in a funnel's coordinates."""
    return float(np.sum(np.log(funnel(states).std(axis=0) + 1e-300)))


def _guess(states: np.ndarray, driver: int, location: int | None) -> Funnel:
    """Return a funnel with slopes from a regression of log-distances from the center on the driver.

    The center is the mean of the states, most of whose weight is where the scale is small. A
    location, if there is one, also gets loadings.
    """
    spread = states.std(axis=0)
    origin = float(np.median(states[:, driver]))
    t = (states[:, driver] - origin) / spread[driver]
    deviations = t - t.mean()
    centers, loadings = np.median(states, axis=0), np.zeros(len(spread))
    middle = np.broadcast_to(centers, states.shape)
    for _ in range(_PASSES if location is None else _PASSES_MOVING):
        logs = np.log(np.maximum(np.abs(states - middle), _LEAST_DISTANCE * spread + 1e-300))
        slopes = np.clip(deviations @ logs / (deviations @ deviations), -_STEEPEST, _STEEPEST)
        slopes[driver] = 0.0
        weights = np.exp(-2.0 * t[:, None] * slopes)
        weights /= weights.sum(axis=0)
        centers = np.sum(weights * states, axis=0)
        middle = centers
        if location is not None:
            along = states[:, location, None] - np.sum(weights * states[:, location, None], axis=0)
            loadings = np.sum(weights * along * (states - centers), axis=0) / np.sum(
                weights * along**2, axis=0
            )
            loadings[[driver, location]] = 0.0
            middle = centers + along * loadings
    if location is None:
        return Funnel(driver, origin, centers, slopes / spread[driver])
    shifts = np.sum(weights * states[:, location, None], axis=0) - centers[location]
    return Funnel(
        driver, origin, centers - loadings * shifts, slopes / spread[driver], location, loadings
    )


def _rounded(funnel: Transport) -> Transport:
    """Return a funnel with slopes that are multiples of a half, and whole loadings.

    A log-scale has slope 1, the log of a variance 1/2, that of a precision -1/2, and a mean the
    loading 1. Deep in the neck, approximate values are not good enough.
    """
    assert isinstance(funnel, Funnel)
    return replace(
        funnel,
        slopes=np.round(_STEPS_OF_SLOPE * funnel.slopes) / _STEPS_OF_SLOPE,
        loadings=np.round(funnel.loadings),
    )


def _refined(guess: _Misfit, states: np.ndarray) -> Transport:
    """Return the funnel whose slopes, centers and loadings let a quadratic fit best.

    It is found by variable projection. In more than twelve dimensions it is the guess itself.
    """
    funnel, d = guess.transport, states.shape[1]
    assert isinstance(funnel, Funnel)
    if d > _LARGEST_DIM:
        return funnel
    x, log_density, weights = guess.some(_MOST_POINTS)
    unit = states.std(axis=0)
    unit = np.where(unit > 0, unit, 1.0)
    scaled = np.arange(d) != funnel.driver
    loaded = scaled & (np.arange(d) != funnel.location) & np.any(funnel.loadings)
    off = (states.mean(axis=0) - funnel.centers)[scaled] / unit[scaled] * (not np.any(loaded))
    sizes = np.cumsum([d - 1, d - 1])

    def with_parameters(theta: np.ndarray) -> Funnel:
        slopes, centers, loadings = np.zeros((3, d))
        slopes[scaled], centers[scaled], loadings[loaded] = np.split(theta, sizes)
        return replace(
            funnel,
            slopes=funnel.slopes + slopes / unit[funnel.driver],
            centers=funnel.centers + centers * unit,
            loadings=funnel.loadings + loadings * unit / unit[funnel.location],
        )

    inside, free = _START_INSIDE * _FURTHEST, np.full(d - 1 + loaded.sum(), np.inf)
    start = np.insert(np.zeros(len(free)), d - 1, np.clip(0.0, off - inside, off + inside))
    low = np.insert(-free, d - 1, off - _FURTHEST)
    high = np.insert(free, d - 1, off + _FURTHEST)
    solution = optimize.least_squares(
        lambda theta: _residuals(with_parameters(theta), x, log_density, weights=weights),
        start,
        bounds=(low, high),
        max_nfev=_EVALUATIONS,
    )
    return with_parameters(solution.x)
