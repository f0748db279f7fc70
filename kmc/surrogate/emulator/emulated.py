"""A surrogate of the log-density by way of the outputs: they are regressed, and the rest is known.

Components of the outputs, in units of the data's standard errors, are regressed on the coordinates that they depend on,
all by one Gaussian process. The log-density that they imply has the derivatives c along the components, so that to the
second order its variance is σ² |c|² + k σ⁴ / 2 where the k components have the variance σ².

With a cheap simulator of the same outputs, its difference from the simulator is regressed first. Where the cheap one
was called, outputs are its own with the difference that is predicted, and the variances of both regressions add up, as
in Kennedy and O'Hagan (2000), Predicting the output from a complex computer code when fast approximations are
available, Biometrika 87.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kmc.surrogate.coordinates.transport import IDENTITY
from kmc.surrogate.coordinates.walls import NO_WALL
from kmc.surrogate.coordinates.whitening import Whitening
from kmc.surrogate.covariance import Coordinates, Hyperparameters, scaled_coordinates
from kmc.surrogate.emulator.jit_state import EmulatorJitState, log_densities, slopes_along_components
from kmc.surrogate.emulator.structure import FRESH, NORMAL, SMALLEST, Approximation, Data, Structure, information
from kmc.surrogate.known import constrained, no_splines
from kmc.surrogate.mass import deepest, full_depth, temperature_of
from kmc.surrogate.process import REACH, Process, Seen
from kmc.surrogate.regression import STARTS, Observations, Regression, condition, fit

TOLERANCE = 0.05
"""Error allowed in the components of points that are deeper than typical ones, relative to their distance from the data
in standard errors."""

TRUNCATED = 0.02
"""Root mean square of what is left out of the outputs, in units of their errors: about so many nats."""

_SEARCHED = 400  # most points of a search for hyperparameters
_CHEAP = 300  # most points of a cheap simulator in a regression


@dataclass(frozen=True, eq=False)
class Emulated(Process):
    """The density that emulated outputs imply; see :class:`kmc.surrogate.process.Process`."""

    jit_state: EmulatorJitState  # type: ignore[assignment]
    components: Components  # of the outputs, before data are compressed
    difference: Regression | None  # from a cheap simulator

    reaches_far: ClassVar[bool] = True

    def heights(self, x: np.ndarray) -> np.ndarray:
        """Return the log-density at the rows of x (n, d), see :class:`kmc.surrogate.process.Process`."""
        return self.log_density(x) - self.highest / self.temperature

    def standard_deviations(self, x: np.ndarray) -> np.ndarray:
        """Return the standard deviations of the log-density at the rows of x (n, d), (n,)."""
        inner = x[:, self.jit_state.inputs]
        sd = self.regression.standard_deviations(inner)
        if self.difference is not None:
            sd = np.hypot(sd, self.difference.standard_deviations(inner))
        slopes = slopes_along_components(self.jit_state, self.coordinates(x))[1]
        return np.sqrt(sd**2 * np.sum(slopes**2, axis=1) + 0.5 * slopes.shape[1] * sd**4)

    def covariances(self, x: np.ndarray) -> np.ndarray:
        """Return the covariances of the log-density at the rows of x (n, d), (n, n)."""
        inner = x[:, self.jit_state.inputs]
        joint = self.regression.conditional(inner).covariances()
        if self.difference is not None:
            joint = joint + self.difference.conditional(inner).covariances()
        slopes = slopes_along_components(self.jit_state, self.coordinates(x))[1]
        return joint * (slopes @ slopes.T) + 0.5 * slopes.shape[1] * joint**2

    def facts(self, draws: np.ndarray) -> dict[str, Any]:
        """Return facts for the results' attributes."""
        facts = {"surrogate_trend_sd": 0.0, "surrogate_metric_spread": 1.0, "surrogate_driver": None}
        return facts | {"surrogate_components": len(self.jit_state.constant)}


@dataclass(frozen=True)
class Emulator:
    """Regress the outputs of a simulator; see :class:`kmc.kernel_hmc.kinds.Kind`."""

    structure: Structure
    approximation: Approximation | None = None

    def first(self, seen: Seen, rng: np.random.Generator) -> Emulated:
        """Fit in units of the standard deviations of the points."""
        return self._fit(seen, scaled_coordinates(seen.points), STARTS[:2])

    def again(self, seen: Seen, last: Process, start: Hyperparameters, rng: np.random.Generator) -> Emulated:
        """Search for hyperparameters, from the last ones and ``start``, in coordinates in which draws are white."""
        self._call_at_draws(seen, rng)
        starts = last.regression.hyperparameters, start
        return self._fit(seen, _whitened(seen, last), starts, of_difference=(*_of_difference(last), start))

    def conditioned(self, seen: Seen, last: Process, rng: np.random.Generator) -> Emulated:
        """Fit with the last hyperparameters."""
        starts = (last.regression.hyperparameters,)
        return self._fit(seen, _whitened(seen, last), starts, of_difference=_of_difference(last), search=False)

    def beside(self, seen: Seen, other: Process, rng: np.random.Generator) -> Emulated:
        """Search for hyperparameters, in coordinates in which draws of another kind of process are white."""
        self._call_at_draws(seen, rng)
        return self._fit(seen, _whitened(seen, other), STARTS[:2])

    def _call_at_draws(self, seen, rng):
        if self.approximation is not None:
            self.approximation.at(rng.permutation(np.unique(seen.draws, axis=0))[:FRESH])

    def _fit(self, seen, coordinates, starts, *, of_difference=STARTS[:2], search=True):
        inputs, dim = self.structure.inputs, seen.points.shape[1]
        usable = np.isfinite(seen.values) & np.isfinite(seen.outputs).all(axis=1)
        x, values, eta = seen.points[usable], seen.values[usable], seen.outputs[usable]
        highest = float(values.max())
        temperature = temperature_of(values - highest, min(2 * len(inputs) + 4, len(values)), dim)
        depth = (highest - values) / temperature
        order = np.argsort(depth, kind="stable")
        count = max(int(np.sum(depth < deepest(dim))), min(2 * len(inputs) + 4, len(order)))
        rows = order[:count]
        x, eta, depth = x[rows], eta[rows], depth[rows]
        noise = _noise(depth, dim)
        information = self._information(x[0], eta[0]) / temperature
        own, difference = _marginal(coordinates, inputs), None
        if self.approximation is not None:
            outputs = self.approximation.at(x)
            both = np.isfinite(outputs).all(axis=1)
        if self.approximation is not None and both.any():
            gap = Observations(x[both], eta[both] - outputs[both], noise[both])
            *added, difference = self._approximated(gap, information, own, of_difference, search)
            places, outputs, errors = added
            more = (highest - log_densities(self.structure, places, outputs)) / temperature
            kept = np.flatnonzero(more < deepest(dim))
            kept = kept[np.argsort(more[kept], kind="stable")]
            kept = kept[np.unique(np.linspace(0, max(len(kept) - 1, 0), min(len(kept), _CHEAP)).astype(int))]
            x, eta = np.vstack([x, places[kept]]), np.vstack([eta, outputs[kept]])
            depth = np.append(depth, more[kept])
            noise = np.append(noise, np.hypot(_noise(more[kept], dim), errors[kept]))
        found = principal(eta, 1.0 / (1.0 + noise**2), information)
        known = Observations(x[:, inputs], found.values, noise)
        regression = _regression(known, own, starts, search)
        near = x[depth < 2.0 * full_depth(dim)]
        near = near if len(near) >= 2 * dim else x[: 2 * dim]
        reach = REACH * float(np.linalg.norm(coordinates.map(near), axis=1).max())
        return Emulated(
            transport=IDENTITY,
            whitening=Whitening.of(coordinates.center, coordinates.whitening.T),
            jit_state=self._state(coordinates, regression, found, temperature, reach),
            regression=regression,
            mean=regression.mean,
            highest=highest,
            temperature=temperature,
            reach=reach,
            wall=None,
            counting=usable,
            observed=None,
            known=no_splines(dim),
            components=found,
            difference=difference,
        )

    def _approximated(self, gap: Observations, information, own, starts, search):
        """Return outputs (m, n) where the cheap simulator was called, with their errors, and what corrects them."""
        assert self.approximation is not None and gap.noise is not None
        x, eta, inputs = self.approximation.points, self.approximation.outputs, self.structure.inputs
        found = principal(gap.values, 1.0 / (1.0 + gap.noise**2), information)
        difference = _regression(Observations(gap.points[:, inputs], found.values, gap.noise), own, starts, search)
        known = {row.tobytes() for row in gap.points}
        others = np.array([row.tobytes() not in known for row in x], bool)
        inner = x[others][:, inputs]
        eta = eta[others] + found.offset + difference.values(inner) @ found.basis.T
        return x[others], eta, difference.standard_deviations(inner), difference

    def _information(self, x, eta):
        """Return the Fisher information of the outputs (n,) at the best point x (d,)."""
        data, d = self.structure.data, len(x)
        theta, slopes = np.empty(d), np.empty(d)
        constrained(self.structure.parameters.transforms, x, theta, slopes)

        def squares(columns):
            return np.sum(np.where(columns >= 0, theta[columns] ** 2, 0.0), axis=1)

        variances = data.variances + squares(data.scales)
        relative = data.relative + squares(data.relative_scales)
        shapes = np.where(data.shape_columns >= 0, np.maximum(theta[data.shape_columns], SMALLEST), data.shapes)
        each = zip(data.kinds, eta, variances, relative, shapes, strict=True)
        return np.array([information(*one) for one in each])

    def _state(
        self, coordinates: Coordinates, regression: Regression, found: Components, temperature: float, reach: float
    ):
        mean, own = regression.mean, regression.coordinates
        p, inputs = len(own.center), self.structure.inputs
        i, j = np.triu_indices(p)
        both = np.where((i == j)[:, None], 1.0, 2.0)
        data, offset, basis = compressed(self.structure.data, found)
        symmetric = 0.5 * (mean.quadratic + mean.quadratic.transpose(1, 0, 2))
        return EmulatorJitState(
            origin=coordinates.center.copy(),
            back=np.ascontiguousarray(coordinates.inverse),
            inputs=inputs,
            center=own.center.copy(),
            whitening=np.ascontiguousarray(own.whitening),
            metric=np.ascontiguousarray(own.metric),
            constant=mean.constant.copy(),
            polynomial=np.ascontiguousarray(np.vstack([mean.linear, both * symmetric[i, j]]).T),
            sections=np.ascontiguousarray(mean.weights.T),
            centers=np.ascontiguousarray(mean.places.u.T),
            rate=5.0 / mean.length**2,
            matern=mean.matern,
            bent=mean.bent,
            spread=mean.places.spread,
            offset=offset,
            basis=np.ascontiguousarray(basis),
            parameters=self.structure.parameters,
            data=data,
            temperature=temperature,
            reach=reach,
            fall=len(coordinates.center) / reach**2,
            wall=NO_WALL,
        )


def _noise(depth, dim):
    """Return the error that is allowed in the components at points of these depths (n,)."""
    return TOLERANCE * np.sqrt(2.0 * np.maximum(depth - full_depth(dim), 0.0))


def _of_difference(last):
    """Return the hyperparameters of the difference from a cheap simulator, if the process has one."""
    difference = getattr(last, "difference", None)
    return STARTS[:1] if difference is None else (difference.hyperparameters,)


def _regression(known, coordinates, starts, search):
    """Condition on observations, with hyperparameters that are searched for from the starts, or the first of these."""
    if not search:
        return condition(known, coordinates, starts[0])
    n = len(known.values)
    some = np.unique(np.linspace(0, n - 1, min(n, _SEARCHED)).astype(int))
    fitted = fit(Observations(known.points[some], known.values[some], known.noise[some]), coordinates, starts)
    regression = condition(known, coordinates, fitted.hyperparameters)
    return replace(regression, negative_log_likelihood=fitted.negative_log_likelihood)


def _whitened(seen, last) -> Coordinates:
    """Return coordinates in which draws are white; of those that are stuck, the last coordinates know more."""
    distinct = np.unique(seen.draws, axis=0)
    dim = distinct.shape[1]
    old = last.whitening.inverse
    scatter = np.cov(distinct.T).reshape(dim, dim) * len(distinct) if len(distinct) > 1 else np.zeros((dim, dim))
    root = np.linalg.cholesky((scatter + dim * old @ old.T) / (len(distinct) + dim))
    return Coordinates(distinct.mean(axis=0), np.linalg.inv(root).T, np.eye(dim))


def _marginal(coordinates: Coordinates, inputs: np.ndarray) -> Coordinates:
    """Return such coordinates of the inputs alone."""
    covariance = (coordinates.inverse.T @ coordinates.inverse)[np.ix_(inputs, inputs)]
    root = np.linalg.cholesky(covariance)
    return Coordinates(coordinates.center[inputs], np.linalg.inv(root).T, np.eye(len(inputs)))


class Components(NamedTuple):
    """Outputs η = offset + basis a, with uncorrelated a whose unit is one standard error of the data.

    Outputs that do not matter to the likelihood, and directions in which they do not vary, are left out.
    """

    offset: np.ndarray  # (n,)
    basis: np.ndarray  # (n, c)
    values: np.ndarray  # (rows, c), a at the given points


def principal(eta: np.ndarray, weights: np.ndarray, information: np.ndarray) -> Components:
    """Return the components of outputs (rows, n).

    Parameters
    ----------
    eta : ndarray, shape (rows, n)
    weights : ndarray, shape (rows,)
        Of the points, by how much their values matter.
    information : ndarray, shape (n,)
        Fisher information of each output.

    References
    ----------
    Higdon, Gattiker, Williams and Rightley (2008), Computer model calibration using high-dimensional output, JASA 103.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.surrogate.emulator.emulated import principal
    >>> eta = np.outer([0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 0.0])
    >>> found = principal(eta, np.ones(4), np.ones(3))
    >>> found.values.shape, bool(np.allclose(found.offset + found.values @ found.basis.T, eta))
    ((4, 1), True)
    """
    share = weights / weights.sum()
    offset = share @ eta
    scale = np.sqrt(np.maximum(information, 1e-12 * information.max()))
    rows = (eta - offset) * scale
    _, sizes, directions = np.linalg.svd(np.sqrt(share)[:, None] * rows, full_matrices=False)
    left_out = np.append(np.cumsum(sizes[::-1] ** 2)[::-1], 0.0)  # by how many are kept
    count = max(int(np.argmax(left_out < TRUNCATED**2)), 1)
    return Components(offset, directions[:count].T / scale[:, None], rows @ directions[:count].T)


def compressed(data: Data, found: Components) -> tuple[Data, np.ndarray, np.ndarray]:
    """Return data, offset and basis of which the likelihood is the same function of the components, with fewer data.

    Of n normal data with one variance v, -n log(2πv)/2 - |y - η|²/2v depends on the k components by a quadratic
    function alone: k data with the same variance have it, with one more for the rest of the squares, which repeats the
    first term. Data with known variances that differ are brought to the same one.
    """
    kept, parts = np.ones(len(data.observed), bool), []
    unknown = np.any(data.scales >= 0, axis=1)
    simple = (data.kinds == NORMAL) & (data.relative == 0.0) & ~np.any(data.relative_scales >= 0, axis=1)
    keys = np.column_stack([data.scales, np.where(unknown, data.variances, 1.0)])
    for key in np.unique(keys[simple], axis=0):
        rows = np.flatnonzero(simple & np.all(keys == key, axis=1))
        scale = np.where(unknown[rows], 1.0, 1.0 / np.sqrt(np.maximum(data.variances[rows], 1e-300)))
        basis, misfit = scale[:, None] * found.basis[rows], scale * (data.observed[rows] - found.offset[rows])
        if len(rows) <= basis.shape[1] + 1:
            continue
        orthogonal, root = np.linalg.qr(basis)
        seen = orthogonal.T @ misfit
        size, first = len(root), rows[0]
        rest = np.sqrt(max(misfit @ misfit - seen @ seen, 0.0))
        repeats = np.append(np.zeros(size), len(rows) - size - 1.0)
        constants = np.append(np.zeros(size), data.constants[rows].sum() + np.log(scale).sum())
        some = data.at(np.full(size + 1, first))
        parts.append(
            (
                some._replace(
                    observed=np.append(seen, rest),
                    constants=constants,
                    variances=np.full(size + 1, data.variances[first] if unknown[first] else 1.0),
                    repeats=repeats,
                ),
                np.vstack([root, np.zeros(size)]),
            )
        )
        kept[rows] = False
    if not parts:
        return data, found.offset, found.basis
    rows = np.flatnonzero(kept)
    every = [data.at(rows), *(part for part, _ in parts)]
    joined = Data(*(np.ascontiguousarray(np.concatenate(columns)) for columns in zip(*every, strict=True)))
    offset = np.append(found.offset[rows], np.zeros(len(joined.observed) - len(rows)))
    return joined, offset, np.vstack([found.basis[rows], *(basis for _, basis in parts)])
