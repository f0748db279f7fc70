"""Funnels: coordinates in which they are straight.

In a funnel one parameter sets the scale of others. In hierarchical models the logarithm of a scale
is often a parameter itself, the *driver*, and others have a spread that is exponential in it,
around a fixed center or around another parameter, the *location*. No kernel with a single metric
can represent the neck of such a funnel. Divided by their scale, these parameters are close to
Gaussian, and a surrogate of the density in such coordinates gives one of the density itself: it is
the non-centered parametrization of Papaspiliopoulos, Roberts and Sköld (2007), "A general framework
for the parametrization of hierarchical models", Statistical Science 22, found from the evaluations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize

from kmc.surrogate.coordinates.transport import (
    CURVED,
    EVALUATIONS,
    LARGEST_DIM,
    Misfit,
    Transport,
    is_wide,
    products,
    residuals,
    squares,
)
from kmc.threads import each_in_threads

# "Tried" is docs/what-was-tried.md, funnels; others were set by hand.
_LARGEST_LOG_SCALE = 10.0  # beyond it scales no longer change
_STEEPEST = 3.0  # slope of a first guess, in units of the driver's spread
_LEAST_DISTANCE = 1e-3  # from the middle, in spreads, in these guesses
_PASSES, _PASSES_MOVING = 3, 6  # of a guess, with fixed and moving centers
# distance of a center from the mean of the states, in spreads; further out a funnel is a bend
# (tried)
_FURTHEST = 1.0
_START_INSIDE = 0.99  # fraction of it, within which the refinement starts
_WORTH = 1.1  # factor on the misfit allowed for rounded slopes, and for a hierarchy (tried)
_STEPS_OF_SLOPE = 2.0  # slopes are rounded to multiples of 1 / 2 (tried: halves)
_SLOPES = 0.5, 1.0  # of a group: the driver is the log of its variance, or of its scale
_MOST_DRIVERS = 3  # of funnels with moving centers, in many dimensions


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
        """Number of learned parameters; the funnel of a hierarchy has none."""
        if self._is_hierarchy():
            return 0
        return 2 * len(self.slopes) - 2 + int(np.count_nonzero(self.loadings))

    def _is_hierarchy(self) -> bool:
        group, center = np.equal(self.loadings, 1.0), self.centers[self.location]
        return bool(
            np.array_equal(group, self.loadings)
            and np.any(group)
            and not np.any(self.slopes[~group])
            and np.all(self.centers[group] == center)
        )

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


def funnels(x: np.ndarray, log_density: np.ndarray, states: np.ndarray) -> list[Misfit]:
    """Return the funnel in whose coordinates the log-density is closest to a quadratic.

    Each parameter in turn is tried as the driver, first around a fixed center, then around another
    parameter. The slopes are first those of a regression of log |x_i - center_i| on the driver over
    the states, and those of the best driver are then refined by least squares on the values. Before
    it are the funnels of hierarchies with the driver and the location that were found; if one of
    them is as close, they are all.
    """
    found: list[Misfit] = []
    hierarchies: list[Misfit] = []
    for around in (_fixed, _moving) if x.shape[1] > 2 else (_fixed,):
        guess = _best_guess(around(states), x, log_density)
        refined = Misfit.of(_refined(guess, states), x, log_density)
        better = min(guess, refined, key=_sd)
        if around is _moving:
            hierarchies = _hierarchies(better.transport, x, log_density)
        else:
            rounded = _rounded(better.transport, x, log_density)
            better = rounded if rounded.sd < _WORTH * better.sd else better
        found.append(better)
        if better.sd < CURVED:
            break
    best = min(found, key=_sd)
    return hierarchies + [best] * all(best.sd < each.sd / _WORTH for each in hierarchies)


def _best_guess(guesses: Iterator[Funnel], x: np.ndarray, log_density: np.ndarray) -> Misfit:
    """Return the guess in whose coordinates the log-density is closest to a quadratic.

    In many dimensions guesses are compared by quadratics without products of two coordinates.
    """
    features = squares if is_wide(x.shape[1]) else products
    tried = list(guesses)
    sds = each_in_threads(
        lambda funnel: Misfit.of(funnel, x, log_density, features=features).sd, tried
    )
    best = min(range(len(tried)), key=lambda i: sds[i])
    return Misfit.of(tried[best], x, log_density)


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
    if is_wide(states.shape[1]):  # d² guesses would take minutes
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


def _rounded(funnel: Transport, x: np.ndarray, log_density: np.ndarray) -> Misfit:
    """Return the funnel with slopes that are multiples of a half.

    A log-scale has slope 1, the log of a variance 1/2, that of a precision -1/2. Deep in the neck,
    approximate values are not good enough.
    """
    assert isinstance(funnel, Funnel)
    return Misfit.of(replace(funnel, slopes=_halves(funnel.slopes)), x, log_density)


def _halves(slopes):
    return np.round(_STEPS_OF_SLOPE * slopes) / _STEPS_OF_SLOPE


def _hierarchies(funnel: Transport, x: np.ndarray, log_density: np.ndarray) -> list[Misfit]:
    """Return funnels of hierarchies: a group of parameters around a mean, on one scale.

    All have the loading 1, no center of their own, and the slope 1 or 1/2. If most parameters are
    in the group, it may be all, for slopes that were fitted to few values miss some.
    """
    assert isinstance(funnel, Funnel)
    others = ~np.isin(np.arange(len(funnel.slopes)), [funnel.driver, funnel.location])
    group = (np.round(funnel.loadings) != 0) & (_halves(funnel.slopes) != 0)
    if not group.any():
        return []
    middle = np.median(funnel.slopes[group])
    slopes = np.copysign(_SLOPES, middle)
    tried = []
    if group.sum() < others.sum():
        tried.append((group, min(slopes, key=lambda slope: abs(slope - middle))))
    if group.sum() > others.sum() / 2:
        tried += [(others, slope) for slope in slopes]
    return [
        Misfit.of(
            replace(
                funnel,
                slopes=slope * each,
                loadings=each.astype(float),
                centers=np.where(each, funnel.centers[funnel.location], funnel.centers),
            ),
            x,
            log_density,
        )
        for each, slope in tried
    ]


def _sd(misfit):
    return misfit.sd


def _refined(guess: Misfit, states: np.ndarray) -> Transport:
    """Return the funnel whose slopes, centers and loadings let a quadratic fit best.

    It is found by variable projection. In more than twelve dimensions it is the guess itself.
    """
    funnel, d = guess.transport, states.shape[1]
    assert isinstance(funnel, Funnel)
    if d > LARGEST_DIM:
        return funnel
    x, log_density, weights = guess.some()
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
        lambda theta: residuals(with_parameters(theta), x, log_density, weights=weights),
        start,
        bounds=(low, high),
        max_nfev=EVALUATIONS,
    )
    return with_parameters(solution.x)
