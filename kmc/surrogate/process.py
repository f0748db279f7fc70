"""A fit of the regression, as a density that chains can sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kmc.surrogate.coordinates.noncentered import NonCentered, closer_to_normal
from kmc.surrogate.coordinates.search import find_transports
from kmc.surrogate.coordinates.transport import IDENTITY, Identity, Transport
from kmc.surrogate.coordinates.walls import NO_WALL, Wall, learn_wall
from kmc.surrogate.coordinates.whitening import Whitening
from kmc.surrogate.covariance import (
    Coordinates,
    Hyperparameters,
    metric_of,
    narrowed,
    scaled_coordinates,
    terms_of,
    whitened_again,
    whitened_coordinates,
)
from kmc.surrogate.density import InCoordinates
from kmc.surrogate.jit_state import SurrogateJitState, gradients, without_bumps
from kmc.surrogate.known import (
    Hierarchy,
    KnownPart,
    Splines,
    log_priors,
    no_hierarchy,
    no_splines,
)
from kmc.surrogate.mass import (
    DENSITY,
    by_depth,
    deepest,
    full_depth,
    temperature_of,
    tempered_apart,
    without_known,
    without_spurious_mass,
)
from kmc.surrogate.mean import Mean, bump_gradients, bump_values, mean_values
from kmc.surrogate.regression import (
    SCALED,
    SCALES_WORTH,
    SETTINGS,
    STARTS,
    Observations,
    Regression,
    best_change,
    condition,
    fit,
)

REACH = 2.5
"""The bound falls outside the ball of the points that are not deep, so many times as large:
polynomials of degree four rise somewhere beyond them, with no doubt of their own.
"""

SEARCHED = (250, 1000)
"""Most points of a search for hyperparameters, half of them the highest and the others of all
depths: without deep ones, the likelihood prefers functions that rise where there are no data. They
are 1.2 times the coefficients of a quadratic, within these bounds: as long as a quadratic can have
all values, the likelihood does not know it.
"""

COUNTED = 0.3
"""Share of the coefficients of a quadratic: so many values, and d + 2 more, count fully at any
temperature.
"""

PRIOR = 0.5
"""Curvature of the prior mean in nats per squared standard deviation of the draws: where nothing is
known, the density falls like a normal 1.4 times as wide.
"""

_FLAT = 1e-3  # nats per squared standard deviation: such a curvature has no center
_DIFFERENCE = 1e-5  # standard deviations: step of the differences of a transport
_BETTER_THAN_CHANCE = 0.7  # factor on the loss of a wall that says nothing
_WITHOUT = 10.0  # nats below the lowest value: points without density where no wall describes them
# nats: where bumps are smaller at all values, chains do without them and are faster
_NEGLIGIBLE = 0.01


@dataclass(frozen=True, eq=False)
class Process(InCoordinates):
    """A Gaussian process of the log-density, tempered as long as hardly any value counts.

    The regression is one of what is not known of (log-density of u - highest) / temperature, u the
    transported coordinates; the state for jitted loops is that of log-density / temperature,
    bounded, in z. With a hierarchical prior the regression is one of x, the temperature does not
    divide the prior, and u are coordinates for chains.
    """

    transport: Transport  # from x to u
    whitening: Whitening  # from u to z
    jit_state: SurrogateJitState
    regression: Regression
    mean: Mean  # of the regression, without spurious mass
    highest: float  # value of the density of u
    temperature: float  # 1 as soon as enough values count
    reach: float  # radius of the ball in z outside of which the density falls
    wall: Wall | None
    counting: np.ndarray  # (n,), which values count
    observed: Observations | None  # by which hyperparameters were searched
    known: Splines  # the part of the log-density that the mean is without, at the temperature

    reaches_far: ClassVar[bool] = False
    """Whether it shows from far points where the density rises."""

    def forecast(self, x: np.ndarray) -> np.ndarray:
        """Return the log-density at the rows of x (n, d) as it would be at temperature 1, (n,)."""
        kept = self.transport.log_jacobian(x) + self.kept(x)
        return self.temperature * (self.log_density(x) - kept) + kept

    def kept(self, x: np.ndarray) -> np.ndarray:
        """Return the part of the log-density of u that the temperature does not divide.

        Its shape is (n,), for the rows of x (n, d).
        """
        if not self.is_hierarchical:
            return np.zeros(len(x))
        return _log_prior(self.jit_state.hierarchy, x)[0]

    @property
    def is_hierarchical(self) -> bool:
        """Return whether there is a hierarchical prior apart from the regression."""
        return self.jit_state.hierarchy.center.size > 0

    def regressed_at(self, x: np.ndarray) -> np.ndarray:
        """Return the coordinates of the regression at the rows of x (n, d)."""
        return x if self.is_hierarchical else self.transport(x)

    def heights(self, x: np.ndarray) -> np.ndarray:
        """Return the mean at the rows of x (n, d), minus the highest value, at the temperature."""
        at = self.regressed_at(x)
        known = self.kept(x) if self.is_hierarchical else self.known.values_and_gradients(at)[0]
        return mean_values(self.mean, self.regression.coordinates, at)[:, 0] + known

    def standard_deviations(self, x: np.ndarray) -> np.ndarray:
        """Return the standard deviations of the log-density at the rows of x (n, d), (n,).

        They are divided by the temperature.
        """
        return self.regression.standard_deviations(self.regressed_at(x))

    def covariances(self, x: np.ndarray) -> np.ndarray:
        """Return covariances of the log-density at rows of x (n, d), in the same units, (n, n)."""
        return self.regression.conditional(self.regressed_at(x)).covariances()

    def beyond(self, x: np.ndarray) -> np.ndarray:
        """Return which rows of x (n, d) are outside the ball, (n,)."""
        return np.linalg.norm(self.coordinates(x), axis=1) > self.reach

    def unsure(self, x: np.ndarray) -> np.ndarray:
        """Return the variances of whether there is a density at the rows of x (n, d), (n,)."""
        if self.wall is None:
            return np.zeros(len(x))
        chance = np.exp(self.wall.regions.log_chance(self.wall.whitening(self.transport(x))))
        return chance * (1.0 - chance)

    def facts(self, draws: np.ndarray) -> dict[str, Any]:
        """Return facts for the results' attributes; ``draws`` (n, d) are of the density."""
        coordinates = self.regression.coordinates
        bumps = bump_values(self.mean, coordinates.map(self.regressed_at(draws)))
        facts = {
            "surrogate_trend_sd": self.temperature * float(np.std(bumps)),
            "surrogate_metric_spread": float(np.linalg.cond(coordinates.metric) ** 2),
            "surrogate_driver": self.transport.driver,
        }
        if self.wall is None:
            return facts
        return facts | self.wall.facts(bent=not isinstance(self.transport, Identity))


class Seen(NamedTuple):
    """What a fit is made of: all evaluations, and what is known of the density."""

    points: np.ndarray  # (n, d)
    values: np.ndarray  # (n,), -inf without density
    draws: np.ndarray  # (k, d), of the last surrogate, or the first points
    gradients: np.ndarray  # (n, d), rows of NaN where they are not known
    noisy: bool = False  # whether the values have noise
    outputs: np.ndarray | None = None  # (n, k), of the simulator, NaN where they are not known
    known: KnownPart | None = None  # of the log-density


def first_fit(seen: Seen, rng: np.random.Generator) -> Process:
    """Fit in units of the standard deviations of the points.

    If a hierarchy is declared, chains are in non-centered coordinates.
    """
    transport = _declared(seen) or IDENTITY
    return _fit(seen, transport, scaled_coordinates(seen.points), STARTS, rng)


def fit_to_draws(seen: Seen, rng: np.random.Generator, transport: Transport = IDENTITY) -> Process:
    """Fit in coordinates in which the transported draws are white, or x with a hierarchy."""
    if (whole := _declared(seen)) is not None:
        return _fit(seen, whole, whitened_coordinates(seen.draws), STARTS, rng)
    return _fit(seen, transport, whitened_coordinates(transport(seen.draws)), STARTS, rng)


def fit_again(
    seen: Seen, last: Process, start: Hyperparameters, rng: np.random.Generator
) -> Process:
    """Search for hyperparameters, coordinates, a metric, a transport and scales.

    It begins with those of the last fit and with ``start``. The quadratic's prior is isotropic, so
    that in coordinates far from white even a quadratic log-density looks bent: coordinates are
    chosen by likelihood.
    """
    coordinates = learned_coordinates(last, seen)
    starts = (last.regression.hyperparameters, start)
    plain = replace(coordinates, metric=np.eye(len(coordinates.center)))
    now = last.transport
    if (whole := _declared(seen)) is not None:
        flags = last.jit_state.hierarchy.noncentered
        now = whole.only(closer_to_normal(whole, flags, seen.draws))
    fits = [_fit(seen, now, coordinates, starts, rng)]
    counting = fits[0].counting  # likelihoods of other values cannot be compared
    if not np.allclose(coordinates.metric, plain.metric):
        fits.append(_fit(seen, now, plain, starts, rng, counting=counting))
    # Draws of a wrong fit are white in wrong coordinates; the better half of the points knows the
    # shape, too.
    order, dim = np.argsort(-seen.values, kind="stable"), seen.points.shape[1]
    best = seen.points[order[: max(len(order) // 2, 2 * dim)]]
    white = replace(whitened_coordinates(last.regressed_at(best)), scales=coordinates.scales)
    fits.append(_fit(seen, now, white, starts, rng, counting=counting))
    for transport in _others(seen, last.transport):
        white = whitened_coordinates(transport(seen.draws))
        # of the same points u
        if isinstance(transport, Identity) and isinstance(last.transport, Identity):
            white = min(fits, key=_loss).regression.coordinates
        fits.append(_fit(seen, transport, white, starts, rng, counting=counting))
    # The transports are compared when each has the scales that suit it: a funnel may be a scale
    # that is not yet found.
    each: list[Process] = []
    for one in sorted(fits, key=_loss):
        if all(one.transport != other.transport for other in each):
            each.append(one)
    return min(
        (_with_scales(seen, one, (*starts, SCALED), rng, counting) for one in each), key=_loss
    )


def _others(seen, last) -> list[Transport]:
    """Return transports other than the last one; none where the user has declared a hierarchy."""
    if _declared(seen) is not None:
        return []
    finite = np.isfinite(seen.values)
    found = find_transports(seen.points[finite], seen.values[finite], seen.draws)
    known = [] if seen.known is None else [seen.known.transport]
    return [transport for transport in (*found, IDENTITY, *known) if transport != last]


def _declared(seen) -> NonCentered | None:
    """Return the non-centered coordinates of a declared hierarchy, if there is one."""
    known = None if seen.known is None else seen.known.transport
    return known if isinstance(known, NonCentered) else None


def _with_scales(seen, found, starts, rng, counting) -> Process:
    """Return a fit with scales added or taken away, as long as the likelihood grows."""
    while True:
        changed = best_change(found.observed, found.regression.coordinates)
        other = _fit(seen, found.transport, changed, starts, rng, counting=counting)
        if not _loss(other) < _loss(found) - SCALES_WORTH:
            return found
        found = other


def _loss(fit):
    return fit.regression.negative_log_likelihood


def fit_widely(seen: Seen, rng: np.random.Generator, last: Process | None = None) -> Process:
    """Fit at the temperature at which more values count than a quadratic has coefficients.

    It is wrong in detail, but shows from afar where the density rises: the fit of :func:`fit_again`
    knows only a few values on the flank of a needle. Its mean may rise without bound.
    Hyperparameters are searched for from those of the last such fit.
    """
    dim = seen.points.shape[1]
    counted = terms_of(dim) + dim
    best = seen.points[np.argsort(-seen.values, kind="stable")[:counted]]
    # Without detail, a nearly quadratic function or a bent one.
    starts = STARTS[::2] if last is None else (last.regression.hyperparameters,)
    first = _fit(seen, IDENTITY, whitened_coordinates(best), starts, rng, counted=counted)
    scaled = scaled_coordinates(best)
    fits = [
        first,
        _fit(seen, IDENTITY, scaled, starts, rng, counted=counted, counting=first.counting),
    ]
    return min(fits, key=_loss)


def condition_again(seen: Seen, last: Process, rng: np.random.Generator) -> Process:
    """Fit with the last hyperparameters, in coordinates learned from the draws."""
    coordinates, theta = learned_coordinates(last, seen), last.regression.hyperparameters
    return _fit(seen, last.transport, coordinates, (theta,), rng, last)


def _fit(
    seen, transport, coordinates, starts, rng, last=None, *, counted=None, counting=None
) -> Process:
    """Fit in given coordinates, at the temperature at which so many values count (see ``COUNTED``).

    With a last fit its hyperparameters are kept, and the regions of its wall.

    Deeper values than a limit say "below it", and nothing else: they count, as this limit, where
    the mean would be higher, or where ``counting`` (n,) says so. With ``counted``, spurious mass is
    left.
    """
    data = _data_of(seen, transport, coordinates, rng, last, counted)
    dim, hierarchical = data.u.shape[1], data.hierarchy.center.size > 0
    counts = data.near
    if counting is not None:
        counts = counts | counting[data.rows] & data.relevant
    theta, likelihood = starts[0], np.nan
    if last is not None:
        theta = _shifted(theta, np.log(last.temperature / data.temperature))
    searched = None
    searches = 0 if last is not None else 2 if counting is None else 1
    while True:
        # Search for hyperparameters, by representative values.
        if searches:
            some = np.flatnonzero(counts)
            most = int(np.clip(1.2 * terms_of(dim), *SEARCHED) / data.rows_each)
            some = some[representative(data.depths[some], most)]
            searched = data.observed(some)
            found = _searched(searched, coordinates, starts, seen.noisy)
            theta, searches = found.hyperparameters, searches - 1
            likelihood = found.negative_log_likelihood

        # Condition on all values that count.
        some = np.flatnonzero(counts)
        # more would make it inexact; noisy ones are averaged
        if len(some) > SETTINGS.exact and not seen.noisy:
            some = some[representative(data.depths[some], SETTINGS.exact)]
        regression = condition(data.observed(some), coordinates, theta)
        curvature = DENSITY.curvature if counted is None else np.inf
        mean = without_spurious_mass(regression, data.prior, data.bending, curvature)

        # Deep values count, too, where the mean is higher than the limit.
        heights = mean_values(mean, coordinates, data.u)[:, 0] + data.added
        high = ~counts & (data.relevant | hierarchical) & (heights > -deepest(dim))
        if not high.any():
            break
        counts = counts | high
    # Values that are left out have been predicted, as far as their noise allows.
    if counting is not None:
        likelihood += np.log(data.noise[counting[data.rows] & ~data.near & ~data.relevant]).sum()
    regression = replace(regression, negative_log_likelihood=likelihood)
    return _as_process(transport, coordinates, data, regression, mean, counts, searched, seen.draws)


class _Data(NamedTuple):
    """Data in given coordinates, at a temperature: n points in front of the wall, or all."""

    rows: np.ndarray  # of all evaluations, which of them these are, bool
    u: np.ndarray  # (n, d), or x with a hierarchical prior
    depths: np.ndarray  # (n,), log-densities of u at the temperature, minus the highest one
    # (n,), these without what is known, limited, plus half the prior mean's quadratic
    limited: np.ndarray
    slopes: np.ndarray  # (n, d), gradients of these along u, rows of NaN where they are not known
    noise: np.ndarray  # (n,)
    near: np.ndarray  # (n,), which are not deeper than the limit
    relevant: np.ndarray  # (n,), where what is known is not deep alone
    added: np.ndarray  # (n,), what is known
    rows_each: float  # of the regression, for a point: more than 1 with gradients
    prior: np.ndarray  # (d, d), precision of the prior mean in z
    bending: np.ndarray  # (d, d), half the curvature in z of what is known
    splines: Splines
    hierarchy: Hierarchy
    wall: Wall | None
    highest: float  # log-density of u
    level: float  # this at the temperature
    temperature: float

    def observed(self, some: np.ndarray) -> Observations:
        """Return the observations at some indices, with the gradients of the highest points."""
        given = some[np.isfinite(self.slopes[some]).all(axis=1)]
        most = max(SETTINGS.exact - len(some), 0) // self.u.shape[1]
        given = given[np.argsort(-self.depths[given], kind="stable")[:most]]
        values = self.u[some], self.limited[some], self.noise[some]
        if not len(given):
            return Observations(*values)
        return Observations(*values, self.u[given], self.slopes[given], self.noise[given])


def _data_of(seen, transport, coordinates, rng, last, counted) -> _Data:
    """Return what is regressed of all evaluations, at the temperature at which so many count."""
    values = seen.values - transport.log_jacobian(seen.points)
    u, draws = transport(seen.points), transport(seen.draws)
    dim = u.shape[1]

    # Points behind a wall are left out. Without one, those of zero density are low.
    finite = np.isfinite(values)
    wall, rows = _wall_and_rows(u, values, draws, rng, last)
    u, values, finite, given = u[rows], values[rows], finite[rows], seen.gradients[rows]
    highest = float(values[finite].max())
    depths = np.where(finite, values, values[finite].min() - _WITHOUT) - highest

    # What is known of the log-density is taken off, at the temperature.
    splines, hierarchy, shift = no_splines(dim), no_hierarchy(), 0.0
    rows_each = 1.0 + dim * np.mean(np.isfinite(given).all(axis=1))
    most = counted or dim + 2 + int(COUNTED * terms_of(dim) / rows_each)
    if isinstance(transport, NonCentered):
        u, draws = seen.points[rows], seen.draws
        hierarchy = _hierarchy(seen.known, transport, coordinates)
        added, _ = _log_prior(hierarchy, u)
        temperature, depths, shift = tempered_apart(depths, added, most, dim)
        slopes = (given - _log_prior(hierarchy, u, np.zeros(dim, bool))[1]) / temperature
        # What is declared bounds the mass: the likelihood may be flat.
        prior, bending = np.zeros((dim, dim)), DENSITY.curvature * np.eye(dim)
    else:
        temperature = temperature_of(depths, most, dim)
        depths = depths / temperature
        if seen.known is not None and transport == seen.known.transport:
            splines = seen.known.splines.divided(temperature)
        added, along = splines.values_and_gradients(u)
        slopes = _slopes_along_u(given, transport, seen.points[rows]) / temperature - along
        prior = _prior_precision(coordinates.map(draws))
        bending = _bending(splines, draws, coordinates)
    near = depths > -deepest(dim)
    limited, relevant = without_known(depths, added, finite, near, -deepest(dim))

    # The prior mean is taken off, too.
    z = coordinates.map(u)
    limited = limited + 0.5 * np.sum(z @ prior * z, axis=1)
    slopes = slopes + z @ prior @ coordinates.whitening.T
    return _Data(
        rows=rows,
        u=u,
        depths=depths,
        limited=limited,
        slopes=slopes,
        noise=by_depth(depths, dim)[1],
        near=near,
        relevant=relevant,
        added=added,
        rows_each=rows_each,
        prior=prior,
        bending=bending,
        splines=splines,
        hierarchy=hierarchy,
        wall=wall,
        highest=highest,
        level=highest / temperature + shift,
        temperature=temperature,
    )


def _as_process(transport, coordinates, data, regression, mean, counts, searched, draws) -> Process:
    """Return the density of a regression whose mean is without spurious mass.

    Its data are those that ``counts`` (n,) names.
    """
    dim, near = data.u.shape[1], near_points(data.u, data.depths)
    reach = REACH * float(np.linalg.norm(coordinates.map(near), axis=1).max())
    whitening = Whitening.of(coordinates.center, coordinates.whitening.T)
    ceiling = DENSITY.cap[0] + DENSITY.cap[1] * dim
    if data.hierarchy.center.size:  # of the likelihood alone
        ceiling += float(data.limited[data.near].max())
    state = _jit_state(mean, data.level, ceiling, reach)
    bumps = bump_values(mean, coordinates.map(data.u[counts]))
    if np.abs(bumps).max() < _NEGLIGIBLE:
        state = without_bumps(state)
    state = state._replace(
        origin=whitening.origin,
        back=whitening.inverse.T.copy(),
        known=data.splines,
        hierarchy=data.hierarchy,
    )
    if data.hierarchy.center.size:  # chains have coordinates of their own
        old = whitened_coordinates(transport(near))
        white = whitened_again(transport(draws), old)
        state = state._replace(origin=white.center.copy(), back=white.inverse.copy())
        white = narrowed(white, partial(gradients, state), transport(draws))
        whitening = Whitening.of(white.center, white.whitening.T)
        state = state._replace(origin=white.center.copy(), back=white.inverse.copy())
        reach = REACH * float(np.linalg.norm(white.map(transport(near)), axis=1).max())
    if data.wall is not None:
        state = state._replace(wall=data.wall.state(whitening))
    counting = np.zeros(len(data.rows), bool)
    counting[data.rows] = counts
    return Process(
        transport=transport,
        whitening=whitening,
        jit_state=state,
        regression=regression,
        mean=mean,
        highest=data.highest,
        temperature=data.temperature,
        reach=reach,
        wall=data.wall,
        counting=counting,
        observed=searched,
        known=data.splines,
    )


def _wall_and_rows(u, values, draws, rng, last):
    """Return a wall, or None, and which points (n,) are regressed.

    They are those in front of the wall, or all, as low values.
    """
    finite = np.isfinite(values)
    wall = learn_wall(u, values, draws, rng=rng, last=last.wall if last is not None else None)
    if (wall is None and np.mean(finite) < 0.5) or (
        wall is not None and wall.loss > _BETTER_THAN_CHANCE * np.log(2.0)
    ):
        return None, np.full(len(u), True)
    return wall, finite


def _hierarchy(known, transport, coordinates) -> Hierarchy:
    """Return the prior, for chains in these coordinates and a regression in others."""
    whole, splines = known.transport, known.splines
    return Hierarchy(
        whole.transforms,
        whole.means,
        whole.sds,
        whole.numbers,
        splines,
        transport.depends,
        coordinates.center.copy(),
        np.ascontiguousarray(coordinates.whitening),
    )


def _log_prior(hierarchy, x, noncentered=None):
    """Return the prior density (n,) of u at the rows of x (n, d), and its gradients along x."""
    flags = hierarchy.noncentered if noncentered is None else noncentered
    return log_priors(hierarchy, flags, np.ascontiguousarray(x))


def _prior_precision(draws):
    """Return the precision (d, d) of the prior mean in z.

    Draws (n, d) on a curved ridge are wider than the unit of z, in which their quadratic is white.
    """
    spread, axes = np.linalg.eigh(np.cov(draws.T).reshape(draws.shape[1], -1))
    return PRIOR * (axes / np.maximum(spread, 1.0)) @ axes.T


def _bending(splines, draws, coordinates):
    """Return half the splines' mean curvature (d, d) in z at draws (n, d), where it is downward."""
    size = np.maximum(np.ptp(draws, axis=0), np.finfo(float).tiny)
    ends = [
        splines.values_and_gradients(draws + sign * _DIFFERENCE * size)[1] for sign in (1.0, -1.0)
    ]
    curvatures = np.mean(ends[0] - ends[1], axis=0) / (2.0 * _DIFFERENCE * size)
    return 0.5 * (coordinates.inverse * np.minimum(curvatures, 0.0)) @ coordinates.inverse.T


def _searched(observations, coordinates, starts, noisy):
    """Return the regression with the best hyperparameters.

    Noise that is known to be there is not sought from none, nor called bumps that are shorter than
    z's unit.
    """
    if not noisy:
        return fit(observations, coordinates, starts)
    starts = [start._replace(noise=max(start.noise, 0.0)) for start in starts]
    lower = Hyperparameters(*SETTINGS.lower)._replace(length=0.0)
    return fit(observations, coordinates, starts, settings=replace(SETTINGS, lower=lower))


def learned_coordinates(last: Process, seen: Seen) -> Coordinates:
    """Return coordinates of u in which draws are white, narrower where the quadratic is.

    In the common eigenbasis of both, the larger precision counts: draws that are stuck are narrow,
    and so is a quadratic that is known better than sampled. The metric stretches z where the bumps
    have steep gradients.
    """
    draws = last.regressed_at(seen.draws)
    dim = draws.shape[1]
    old = last.regression.coordinates
    # Draws that are stuck are few, and say nothing about some directions: the last coordinates
    # count as d more.
    distinct = np.unique(draws, axis=0)
    scatter = np.cov(draws.T).reshape(dim, dim) * len(distinct)
    covariance = (scatter + dim * old.inverse.T @ old.inverse) / (len(distinct) + dim)
    bending = _bending(last.known, draws, old)
    precision = -2.0 * old.whitening @ (last.mean.quadratic[:, :, 0] + bending) @ old.whitening.T
    root = np.linalg.cholesky(covariance)
    ratios, vectors = np.linalg.eigh(root.T @ precision @ root)
    root = root @ vectors / np.sqrt(np.clip(ratios, 1.0, 1e6))
    whitening = np.linalg.inv(root).T

    slopes = bump_gradients(last.mean, old, draws[::8])[:, :, 0] @ root
    return Coordinates(draws.mean(axis=0), whitening, metric_of(slopes), old.scales)


def _slopes_along_u(gradients, transport, x):
    """Return gradients along u of the density of u, from those along x (n, d) of that of x.

    They include rows of NaN.
    """
    found = np.full(gradients.shape, np.nan)
    rows = np.flatnonzero(np.isfinite(gradients).all(axis=1))
    if isinstance(transport, Identity) or not len(rows):
        found[rows] = gradients[rows]
        return found
    x, dim = x[rows], x.shape[1]
    step = _DIFFERENCE * x.std(axis=0)
    jacobians, volumes = np.empty((len(x), dim, dim)), np.empty((len(x), dim))
    for j in range(dim):
        shift = step[j] * np.eye(dim)[j]
        jacobians[:, :, j] = (transport(x + shift) - transport(x - shift)) / (2.0 * step[j])
        volumes[:, j] = (transport.log_jacobian(x + shift) - transport.log_jacobian(x - shift)) / (
            2.0 * step[j]
        )
    along_x = gradients[rows] - volumes
    found[rows] = np.linalg.solve(jacobians.transpose(0, 2, 1), along_x[:, :, None])[:, :, 0]
    return found


def representative(values, most):
    """Return the indices of at most so many values.

    Half of them are the highest, and the others are of all depths.
    """
    order, half = np.argsort(-values, kind="stable"), most // 2
    if len(order) <= most:
        return order
    others = np.linspace(half, len(order) - 1, most - half).astype(int)
    return order[np.append(np.arange(half), others)]


def _jit_state(mean, highest, ceiling, reach):
    """Return the state for jitted loops in z, bounded by ``ceiling`` nats above the highest value.

    Beyond ``reach``, the bound falls so slowly that chains go where a posterior goes on, and count
    as lost there.
    """
    linear = mean.linear[:, 0]
    precision = -2.0 * mean.quadratic[:, :, 0]
    curvatures, axes = np.linalg.eigh(precision)
    curved = np.abs(curvatures) > _FLAT
    along = axes.T @ linear
    location = axes[:, curved] @ (along[curved] / curvatures[curved])
    places, m, dim = mean.places, mean.places.values, len(linear)
    u, features, slopes = places.u, places.features, mean.matern * mean.slopes[:, :, 0]
    return SurrogateJitState(
        constant=float(mean.constant[0] + 0.5 * linear @ location + highest),
        slope=axes[:, ~curved] @ along[~curved],
        location=location,
        precision=np.ascontiguousarray(precision),
        metric=np.ascontiguousarray(places.metric.T),
        rates=np.ascontiguousarray(places.rates),
        centers=np.ascontiguousarray(u[:m].T),
        bent_centers=np.ascontiguousarray(features[:m].T),
        coefficients=mean.matern * mean.weights[:, 0],
        ends=np.ascontiguousarray(u[m:]),
        slopes=np.ascontiguousarray(slopes @ places.metric),
        bent_ends=np.ascontiguousarray(features[m:]),
        bent_slopes=np.ascontiguousarray(np.einsum("kpi,ki->kp", places.jacobians(), slopes)),
        rate=5.0 / mean.length**2,
        both=mean.bent / mean.matern,
        spread=places.spread,
        ceiling=float(highest + ceiling),
        reach=reach,
        fall=dim / reach**2,
        origin=np.zeros(dim),
        back=np.zeros((dim, dim)),
        known=no_splines(dim),
        hierarchy=no_hierarchy(),
        wall=NO_WALL,
    )


def _shifted(theta, shift):
    """Return hyperparameters in units of another temperature."""
    return Hyperparameters(
        *(
            value if name in ("length", "products") else value + shift
            for name, value in theta._asdict().items()
        )
    )


def near_points(u: np.ndarray, depths: np.ndarray) -> np.ndarray:
    """Return the points (n, d) that are not deep, or the best ones, by their depths (n,).

    What lies between them is known.
    """
    dim = u.shape[1]
    near = u[depths > -2.0 * full_depth(dim)]
    return near if len(near) >= 2 * dim else u[np.argsort(-depths, kind="stable")[: 2 * dim]]
