"""A surrogate of the log-density by way of the outputs: they are regressed, and the rest is known.

Components of the outputs, in units of the data's standard errors, are regressed on the coordinates
that they depend on, all by one Gaussian process; or those of each group of outputs that depend on
the same coordinates, by one of their own. The log-density that they imply has the derivatives c
along the components, so that to the second order its variance is σ² |c|² + k σ⁴ / 2 where the k
components have the variance σ², summed over the groups.

With a cheap simulator of the same outputs, its difference from the simulator is regressed first.
Where the cheap one was called, outputs are its own with the difference that is predicted, and the
variances of both regressions add up, as in Kennedy and O'Hagan (2000), Predicting the output from a
complex computer code when fast approximations are available, Biometrika 87.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kmc.surrogate.coordinates.noncentered import NonCentered, closer_to_normal
from kmc.surrogate.coordinates.transport import IDENTITY, Transport
from kmc.surrogate.coordinates.walls import NO_WALL
from kmc.surrogate.coordinates.whitening import Whitening
from kmc.surrogate.covariance import (
    Coordinates,
    Hyperparameters,
    metric_of,
    narrowed,
    scaled_coordinates,
    whitened_again,
)
from kmc.surrogate.emulator.components import Components, compressed, principal
from kmc.surrogate.emulator.jit_state import (
    EmulatorJitState,
    log_densities,
    slopes_along_components,
)
from kmc.surrogate.emulator.jit_state import Group as JitGroup
from kmc.surrogate.emulator.structure import (
    FRESH,
    SMALLEST,
    Approximation,
    Group,
    Structure,
    information,
    joined,
)
from kmc.surrogate.jit_state import gradients
from kmc.surrogate.known import constrained, log_priors, no_splines
from kmc.surrogate.mass import deepest, full_depth, tempered_apart
from kmc.surrogate.mean import bump_gradients, bump_values
from kmc.surrogate.process import REACH, Process, Seen, near_points, representative
from kmc.surrogate.regression import SETTINGS, STARTS, Observations, Regression, condition, fit

TOLERANCE = 0.05
"""Error allowed in the components of points that are deeper than typical ones, relative to their
distance from the data in standard errors."""

_UNSEEN = 1e-4  # standard errors: kernels whose sum is smaller are left out
_SEARCHED = 400  # most points of a search for hyperparameters
# Of outputs, not nats. Products of inputs are as large as squares in simulators.
_SETTINGS = replace(SETTINGS, lower=(-6.0, *SETTINGS.lower[1:-1], SETTINGS.upper[-1]))
_CHEAP = 300  # most points of a cheap simulator in a regression


@dataclass(frozen=True, eq=False)
class OfGroup:
    """The regressions of a group of outputs."""

    group: Group
    components: Components  # of its outputs, before data are compressed
    regression: Regression
    difference: Regression | None  # from a cheap simulator

    def standard_deviations(self, x: np.ndarray) -> np.ndarray:
        """Return the standard deviations of the components at the rows of x (n, d), (n,)."""
        inner = x[:, self.group.inputs]
        sd = self.regression.standard_deviations(inner)
        return (
            sd
            if self.difference is None
            else np.hypot(sd, self.difference.standard_deviations(inner))
        )

    def covariances(self, x: np.ndarray) -> np.ndarray:
        """Return the covariances of the components at the rows of x (n, d), (n, n)."""
        inner = x[:, self.group.inputs]
        joint = self.regression.conditional(inner).covariances()
        return (
            joint
            if self.difference is None
            else joint + self.difference.conditional(inner).covariances()
        )


@dataclass(frozen=True, eq=False)
class Emulated(Process):
    """The density that emulated outputs imply; see :class:`kmc.surrogate.process.Process`."""

    jit_state: EmulatorJitState  # type: ignore[assignment]
    regressions: tuple[OfGroup, ...]  # ``regression`` is the one with the most noise
    white: Coordinates  # of x, in which outputs are regressed

    reaches_far: ClassVar[bool] = True

    def heights(self, x: np.ndarray) -> np.ndarray:
        """Return the log-density of u at the rows of x (n, d).

        See :class:`kmc.surrogate.process.Process`.
        """
        volume = self.transport.log_jacobian(x)
        return self.log_density(x) - volume - self.highest / self.temperature

    def kept(self, x: np.ndarray) -> np.ndarray:
        """Return the log prior density of u at the rows of x (n, d), (n,)."""
        state = self.jit_state
        return log_priors(state.parameters, state.noncentered, np.ascontiguousarray(x))[0]

    def standard_deviations(self, x: np.ndarray) -> np.ndarray:
        """Return the standard deviations of the log-density at the rows of x (n, d), (n,)."""
        variances = np.zeros(len(x))
        for own, slopes in self._slopes(x):
            sd = own.standard_deviations(x)
            variances += sd**2 * np.sum(slopes**2, axis=1) + 0.5 * slopes.shape[1] * sd**4
        return np.sqrt(variances)

    def covariances(self, x: np.ndarray) -> np.ndarray:
        """Return the covariances of the log-density at the rows of x (n, d), (n, n)."""
        covariances = np.zeros((len(x), len(x)))
        for own, slopes in self._slopes(x):
            joint = own.covariances(x)
            covariances += joint * (slopes @ slopes.T) + 0.5 * slopes.shape[1] * joint**2
        return covariances

    def _slopes(self, x):
        """Yield each group's regressions and log-density gradients (n, c) along its components."""
        slopes = slopes_along_components(self.jit_state, self.coordinates(x))[1]
        ends = np.cumsum([own.components.basis.shape[1] for own in self.regressions])
        yield from zip(self.regressions, np.split(slopes, ends[:-1], axis=1), strict=True)

    def facts(self, draws: np.ndarray) -> dict[str, Any]:
        """Return facts for the results' attributes."""
        facts = {
            "surrogate_trend_sd": 0.0,
            "surrogate_metric_spread": 1.0,
            "surrogate_driver": None,
        }
        return facts | {"surrogate_components": len(self.jit_state.constant)}


@dataclass(frozen=True)
class Emulator:
    """Regress the outputs of a simulator; see :class:`kmc.kernel_hmc.kinds.Kind`."""

    structure: Structure
    approximation: Approximation | None = None

    def first(self, seen: Seen, rng: np.random.Generator) -> Emulated:
        """Fit in units of the standard deviations of the draws.

        Where a hierarchy is declared, the coordinates are non-centered.
        """
        noncentered = self.structure.parameters.noncentered
        transport: Transport = noncentered if noncentered.size else IDENTITY
        return self._fit(
            seen,
            transport,
            scaled_coordinates(seen.draws),
            scaled_coordinates(transport(seen.draws)),
            [_Searches()] * len(self.structure.depends),
        )

    def again(
        self, seen: Seen, last: Process, start: Hyperparameters, rng: np.random.Generator
    ) -> Emulated:
        """Search for hyperparameters, from the last ones and ``start``.

        The search is in coordinates in which draws are white.
        """
        self._call_at_draws(seen, rng)
        return self._fit_again(seen, last, self._transport(seen, last), _last_searches(last, start))

    def conditioned(self, seen: Seen, last: Process, rng: np.random.Generator) -> Emulated:
        """Fit with the last hyperparameters."""
        return self._fit_again(seen, last, last.transport, _last_searches(last), search=False)

    def beside(self, seen: Seen, other: Process, rng: np.random.Generator) -> Emulated:
        """Search for hyperparameters.

        The search is in coordinates in which draws of another kind of process are white.
        """
        self._call_at_draws(seen, rng)
        searches = [_Searches()] * len(self.structure.depends)
        return self._fit_again(seen, other, self._transport(seen, other), searches)

    def _call_at_draws(self, seen, rng):
        if self.approximation is not None:
            self.approximation.at(rng.permutation(np.unique(seen.draws, axis=0))[:FRESH])

    def _transport(self, seen, last) -> Transport:
        whole = self.structure.parameters.noncentered
        if not whole.size:
            return IDENTITY
        return whole.only(closer_to_normal(whole, last.jit_state.noncentered, seen.draws))

    def _fit_again(self, seen, last, transport, searches, **options) -> Emulated:
        """Fit in coordinates in which draws are white."""
        old = scaled_coordinates(transport(seen.points))
        if transport == last.transport:
            old = Coordinates(last.whitening.origin, last.whitening.matrix.T, old.metric)
        return self._fit(
            seen,
            transport,
            whitened_again(seen.draws, last.white),
            whitened_again(transport(seen.draws), old),
            searches,
            **options,
        )

    def _fit(
        self,
        seen: Seen,
        transport: Transport,
        coordinates: Coordinates,
        white: Coordinates,
        searches: Sequence[_Searches],
        *,
        search: bool = True,
    ) -> Emulated:
        """Fit in coordinates of x, and sample in some of u that are white."""
        dim, enough = seen.points.shape[1], 2 * self.structure.most_inputs + 4
        assert seen.outputs is not None
        usable = np.isfinite(seen.values) & np.isfinite(seen.outputs).all(axis=1)
        x, values, eta = seen.points[usable], seen.values[usable], seen.outputs[usable]
        values = values - transport.log_jacobian(x)
        highest, known = float(values.max()), self._known(transport, x)
        temperature, heights, shift = tempered_apart(
            values - highest, known, min(enough, len(values)), dim
        )
        depth = -heights
        order = np.argsort(depth, kind="stable")
        count = max(int(np.sum(depth < deepest(dim))), min(enough, len(order)))
        rows = order[:count]
        most = SETTINGS.exact - (0 if self.approximation is None else _CHEAP)
        rows = rows[representative(-depth[rows], most)]
        data = _Regressed(x[rows], eta[rows], depth[rows])
        information = self._information(data.x[0], data.eta[0]) / temperature
        groups = self.structure.groups
        each = list(zip(groups, searches, strict=True))
        noises, differences = [_noise(data.depth, dim)] * len(groups), [None] * len(groups)
        if self.approximation is not None and (gap := self._gap(data)) is not None:
            places, outputs, errors, differences = self._approximated(
                gap, information, coordinates, each, search
            )
            found = log_densities(self.structure, places, outputs) - transport.log_jacobian(places)
            known = self._known(transport, places)
            more = shift - known - (found - highest - known) / temperature
            kept = _highest(more, dim)
            data = data.with_more(places[kept], outputs[kept], more[kept])
            noises = [
                np.append(noises[0], np.hypot(_noise(more[kept], dim), error[kept]))
                for error in errors
            ]
        parts = [
            OfGroup(
                group,
                *_regression(group, data, noise, information, coordinates, own.values, search),
                difference,
            )
            for (group, own), noise, difference in zip(each, noises, differences, strict=True)
        ]
        level = {"highest": highest, "temperature": temperature, "counting": usable}
        return self._sampled(parts, data, transport, coordinates, white, seen.draws, **level)

    def _sampled(
        self, parts, data, transport, coordinates, white, draws, *, temperature, **level
    ) -> Emulated:
        """Return the density that the regressions imply, in coordinates for chains."""
        dim = draws.shape[1]
        state = self._state(transport, white, parts, temperature, np.inf)
        white = narrowed(white, partial(gradients, state), transport(draws))
        near = transport(near_points(data.x, -data.depth))
        # where climbs end, all near points may be those of differences
        farthest = np.linalg.norm(white.map(near), axis=1).max()
        reach = REACH * max(float(farthest), np.sqrt(dim))
        regression = max(
            (part.regression for part in parts), key=lambda one: one.hyperparameters.noise
        )
        return Emulated(
            transport=transport,
            whitening=Whitening.of(white.center, white.whitening.T),
            jit_state=self._state(transport, white, parts, temperature, reach),
            regression=regression,
            mean=regression.mean,
            temperature=temperature,
            reach=reach,
            wall=None,
            observed=None,
            known=no_splines(dim),
            regressions=tuple(parts),
            white=coordinates,
            **level,
        )

    def _known(self, transport, x):
        """Return the log prior density (n,) of u at the rows of x (n, d)."""
        return log_priors(self.structure.parameters, _noncentered(transport, x), x)[0]

    def _gap(self, data) -> _Regressed | None:
        """Return the difference from the cheap simulator, where that has outputs."""
        assert self.approximation is not None
        outputs = self.approximation.at(data.x)
        both = np.isfinite(outputs).all(axis=1)
        if not both.any():
            return None
        return _Regressed(data.x[both], data.eta[both] - outputs[both], data.depth[both])

    def _approximated(self, gap: _Regressed, information, coordinates, each, search):
        """Return outputs (m, n) where the cheap simulator was called.

        Also return each group's errors, and what corrects the outputs.
        """
        assert self.approximation is not None
        x, eta = self.approximation.points, self.approximation.outputs
        known = {row.tobytes() for row in gap.x}
        others = np.array([row.tobytes() not in known for row in x], bool)
        x, eta = x[others], eta[others]
        errors, differences = [], []
        for group, own in each:
            noise = _noise(gap.depth, x.shape[1])
            found, difference = _regression(
                group, gap, noise, information, coordinates, own.difference, search
            )
            inner = x[:, group.inputs]
            eta[:, group.rows] = (
                eta[:, group.rows] + found.offset + difference.values(inner) @ found.basis.T
            )
            errors.append(difference.standard_deviations(inner))
            differences.append(difference)
        return x, eta, errors, differences

    def _information(self, x, eta):
        """Return the Fisher information of the outputs (n,) at the best point x (d,)."""
        data, d = self.structure.data, len(x)
        theta, slopes = np.empty(d), np.empty(d)
        constrained(self.structure.parameters.transforms, x, theta, slopes)

        def squares(columns):
            return np.sum(np.where(columns >= 0, theta[columns] ** 2, 0.0), axis=1)

        variances = data.variances + squares(data.scales)
        relative = data.relative + squares(data.relative_scales)
        shapes = np.where(
            data.shape_columns >= 0, np.maximum(theta[data.shape_columns], SMALLEST), data.shapes
        )
        each = zip(data.kinds, eta, variances, relative, shapes, strict=True)
        return np.array([information(*one) for one in each])

    def _state(
        self,
        transport: Transport,
        white: Coordinates,
        parts: Sequence[OfGroup],
        temperature: float,
        reach: float,
    ):
        reduced = [
            compressed(self.structure.data.at(part.group.rows), part.components) for part in parts
        ]
        return EmulatorJitState.of(
            [
                _jit_group(part, *outputs)
                for part, (_, *outputs) in zip(parts, reduced, strict=True)
            ],
            origin=white.center.copy(),
            back=np.ascontiguousarray(white.inverse),
            noncentered=_noncentered(transport, white.whitening),
            parameters=self.structure.parameters,
            data=joined([data for data, *_ in reduced]),
            temperature=temperature,
            reach=reach,
            fall=len(white.center) / reach**2,
            wall=NO_WALL,
        )


def _noncentered(transport, x):
    """Return which of the columns of x (n, d) are non-centered, (d,)."""
    return transport.depends if isinstance(transport, NonCentered) else np.zeros(x.shape[1], bool)


class _Search(NamedTuple):
    """Where a search for the hyperparameters of a regression begins."""

    starts: Sequence[Hyperparameters] = STARTS[:2]
    last: Regression | None = None

    def metrics(self, white: Coordinates, x: np.ndarray) -> list[Coordinates]:
        """Return coordinates z of inputs with the metrics that are compared, the last one first.

        Inputs are white in one, each has its own scale in another, and one stretches z where the
        last regression's bumps are steep at x (n, p).
        """
        if len(white.center) == 1:
            return [white]
        found = [white, _in_metric(white, np.diag(1.0 / np.linalg.norm(white.inverse, axis=0)))]
        if self.last is None:
            return found
        old = self.last.coordinates
        slopes = np.einsum("ij,njk->nki", white.inverse, bump_gradients(self.last.mean, old, x))
        stretched = replace(white, metric=metric_of(slopes.reshape(-1, len(white.center))))
        return [self.same(white), *found, stretched]

    def same(self, white: Coordinates) -> Coordinates:
        """Return these coordinates with the metric of the last regression."""
        if self.last is None:
            return white
        return _in_metric(white, self.last.coordinates.whitening @ self.last.coordinates.metric)


class _Searches(NamedTuple):
    """Searches for a group: for its outputs, and for their difference."""

    values: _Search = _Search()
    difference: _Search = _Search()


def _last_searches(last: Process, *more: Hyperparameters) -> list[_Searches]:
    """Return searches that begin with the last hyperparameters of each group, and some more."""
    assert isinstance(last, Emulated)
    found = []
    for part in last.regressions:
        both = (
            _Search() if own is None else _Search((own.hyperparameters, *more), own)
            for own in (part.regression, part.difference)
        )
        found.append(_Searches(*both))
    return found


class _Regressed(NamedTuple):
    """Outputs of all groups that are regressed."""

    x: np.ndarray  # (n, d)
    eta: np.ndarray  # (n, k)
    depth: np.ndarray  # (n,), of the log-density, at the temperature

    def with_more(self, *more: np.ndarray) -> _Regressed:
        """Return these and more."""
        return _Regressed(*(np.concatenate(both) for both in zip(self, more, strict=True)))


def _highest(depths, dim):
    """Return the indices of some of the points of a cheap simulator that are not too deep."""
    kept = np.flatnonzero(depths < deepest(dim))
    kept = kept[np.argsort(depths[kept], kind="stable")]
    some = np.linspace(0, max(len(kept) - 1, 0), min(len(kept), _CHEAP)).astype(int)
    return kept[np.unique(some)]


def _noise(depth, dim):
    """Return the error that is allowed in the components at points of these depths (n,)."""
    return TOLERANCE * np.sqrt(2.0 * np.maximum(depth - full_depth(dim), 0.0))


def _regression(
    group, data, noise, information, coordinates, own, search
) -> tuple[Components, Regression]:
    """Return the components of a group's outputs, and their regression.

    Its metric and hyperparameters are the likeliest of those that are searched for, or the last.
    """
    eta = np.ascontiguousarray(data.eta[:, group.rows])
    found = principal(eta, 1.0 / (1.0 + noise**2), information[group.rows])
    known = Observations(data.x[:, group.inputs], found.values, noise)
    white = _marginal(coordinates, group.inputs)
    if not search:
        return found, condition(known, own.same(white), own.starts[0])
    n = len(known.values)
    some = np.unique(np.linspace(0, n - 1, min(n, _SEARCHED)).astype(int))
    fewer = Observations(known.points[some], known.values[some], noise[some])
    fitted = min(
        (
            fit(fewer, each, own.starts, settings=_SETTINGS)
            for each in own.metrics(white, fewer.points)
        ),
        key=lambda one: one.negative_log_likelihood,
    )
    regression = condition(known, fitted.coordinates, fitted.hyperparameters)
    return found, replace(regression, negative_log_likelihood=fitted.negative_log_likelihood)


def _jit_group(part: OfGroup, offset: np.ndarray, basis: np.ndarray) -> JitGroup:
    """Return the arrays of a group, with the offset and the basis of its compressed data."""
    mean, own = part.regression.mean, part.regression.coordinates
    sections, centers = mean.weights.T, mean.places.u.T
    if np.max(np.abs(bump_values(mean, mean.places.z))) < _UNSEEN:
        sections, centers = np.zeros((len(sections), 1)), centers[:, :1]
    i, j = np.triu_indices(len(own.center))
    both = np.where((i == j)[:, None], 1.0, 2.0)
    symmetric = 0.5 * (mean.quadratic + mean.quadratic.transpose(1, 0, 2))
    return JitGroup(
        inputs=part.group.inputs,
        center=own.center,
        whitening=own.whitening,
        metric=own.metric,
        constant=mean.constant,
        polynomial=np.vstack([mean.linear, both * symmetric[i, j]]).T,
        sections=sections,
        centers=centers,
        rate=5.0 / mean.length**2,
        matern=mean.matern,
        bent=mean.bent,
        spread=mean.places.spread,
        offset=offset,
        basis=basis,
    )


def _marginal(coordinates: Coordinates, inputs: np.ndarray) -> Coordinates:
    """Return such coordinates of the inputs alone."""
    covariance = (coordinates.inverse.T @ coordinates.inverse)[np.ix_(inputs, inputs)]
    root = np.linalg.cholesky(covariance)
    return Coordinates(coordinates.center[inputs], np.linalg.inv(root).T, np.eye(len(inputs)))


def _in_metric(white: Coordinates, into: np.ndarray) -> Coordinates:
    """Return these coordinates with the metric that maps x to u by ``into`` (p, p), scaled."""
    metric = white.inverse @ into
    return replace(white, metric=metric / np.sqrt(np.mean(np.sum(metric**2, axis=0))))
