"""What is known of a model with a simulator, in arrays, for samplers that learn its outputs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln, logit

from kmc import likelihoods as of
from kmc.errors import KmcWarning
from kmc.model.depends import columns_of
from kmc.model.model import Model
from kmc.model.posterior import Posterior
from kmc.model.simulation import OUTPUTS, KnownParts
from kmc.model.space import Block
from kmc.model.transforms import LENGTH, STEEPNESS, Above, Below, Between, Identity, LogOdds
from kmc.surrogate.coordinates.noncentered import NonCentered
from kmc.surrogate.coordinates.transport import APART
from kmc.surrogate.emulator.jit_state import log_densities
from kmc.surrogate.emulator.structure import (
    BINOMIAL,
    NEGATIVE_BINOMIAL,
    NORMAL,
    POISSON,
    STUDENT_T,
    Approximation,
    Data,
    Parameters,
    Structure,
    joined,
)
from kmc.surrogate.known import ABOVE, BELOW, BETWEEN, IDENTITY, KnownPart, Splines, Transforms

_DRAWS = 2000  # of the prior, for the nodes of its splines
_QUANTILES, _BEYOND = 193, 24  # nodes between these draws, and on each side of them
_FEWER = 25, 12  # of a function of the user, which takes longer
_FAR = 10.0  # times their range: the last node beyond
_STEP = 1e-4  # of differences, relative to the distance of nodes
_SEPARATE = 1e-2  # nats: largest error of a sum of functions of one coordinate each
_SAME = 1e-3  # nats between a log-density and that of its structure

_KINDS: dict[type, int] = {
    of.Normal: NORMAL,
    of.LogNormal: NORMAL,
    of.StudentT: STUDENT_T,
    of.Poisson: POISSON,
    of.NegativeBinomial: NEGATIVE_BINOMIAL,
    of.Binomial: BINOMIAL,
    of.Bernoulli: BINOMIAL,
}
_LINKS: dict[type, Any] = {
    of.LogNormal: np.log,
    of.Poisson: np.log,
    of.NegativeBinomial: np.log,
    of.Binomial: logit,
    of.Bernoulli: logit,
}
_TRANSFORMS = {
    Identity: IDENTITY,
    Above: ABOVE,
    Below: BELOW,
    Between: BETWEEN,
    LogOdds: BETWEEN,
}


@dataclass(frozen=True)
class Structured:
    """The structure of a model, and what its simulator's outputs are in it."""

    structure: Structure
    likelihoods: Mapping[str, Any]
    approximation: Approximation | None = None

    def outputs(self, blobs: Sequence[Mapping[str, np.ndarray] | None]) -> np.ndarray:
        """Return η (k, n) of evaluations by their blobs; NaN where it is missing or infinite."""
        found = np.full((len(blobs), len(self.structure.data.observed)), np.nan)
        with np.errstate(all="ignore"):
            for row, each in zip(found, blobs, strict=True):
                if each is not None:
                    row[:] = np.concatenate(
                        [
                            _eta(one, each[f"{OUTPUTS}.{name}"])
                            for name, one in self.likelihoods.items()
                        ]
                    )
        found[~np.isfinite(found).all(axis=1)] = np.nan
        return found

    def holds(self, points: np.ndarray, values: np.ndarray, outputs: np.ndarray | None) -> bool:
        """Return whether log-densities (k,) at points (k, d) follow from these outputs (k, n)."""
        if outputs is None:
            return False
        known = np.isfinite(values) & np.isfinite(outputs).all(axis=1)
        found = log_densities(self.structure, points[known], outputs[known])
        return bool(
            known.any()
            and np.all(np.abs(found - values[known]) < _SAME * (1.0 + np.abs(values[known])))
        )


def structured(model: Model) -> Structured | None:
    """Return the structure of a model; None if it has none that the surrogate could use.

    The model needs a simulator whose outputs are kept, data that are neither censored nor seen
    through a function, likelihoods with scales that are functions of one coordinate, and a prior
    that is a product of functions of one coordinate each, or of one number given others that it
    names.
    """
    known = _known_parts(model)
    if known is None or model.noisy:
        return None
    parts = [
        part
        for likelihood in known.likelihoods.values()
        if (part := _data(likelihood, known)) is not None
    ]
    if len(parts) < len(known.likelihoods):
        return None
    parameters = _parameters(known, model)
    if parameters is None:
        return None
    sizes = {name: len(part.observed) for name, part in zip(known.likelihoods, parts, strict=True)}
    inputs, group, depends = _groups(known, sizes)
    if not len(inputs):
        return None
    found = Structured(
        Structure(inputs, parameters, joined(parts), group, depends), known.likelihoods
    )
    return (
        found
        if known.approximation is None
        else replace(found, approximation=_approximation(found, known))
    )


def _groups(
    known: KnownParts, sizes: Mapping[str, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs (k,), the groups of scalar outputs (n,), and what groups depend on (g, k)."""
    own = np.array([np.isin(known.inputs, known.depends.get(name, known.inputs)) for name in sizes])
    count = own.sum(axis=1)
    # Outputs are constant where all that they depend on is fixed: they are learned from any inputs.
    if count.any():
        own[count == 0] = own[np.argmin(np.where(count == 0, len(known.inputs) + 1, count))]
    different = list(dict.fromkeys(map(tuple, own.tolist())))
    group = np.repeat([different.index(tuple(one)) for one in own.tolist()], list(sizes.values()))
    inputs = np.any(own, axis=0)
    return known.inputs[inputs], group, np.ascontiguousarray(np.array(different)[:, inputs])


def _known_parts(model: Model) -> KnownParts | None:
    """Return what the log-density is of outputs kept with the draws; None if it is not known."""
    simulation, space = model.simulation, model.parameter_space
    if simulation is None or space is None:
        return model.space_extras.known_parts
    named = [space.blocks[name] for name in simulation.inputs if name in space.blocks]
    if not simulation.saves or not named:
        return None

    def approximated(x: np.ndarray) -> Mapping[str, np.ndarray]:
        return simulation.approximated(model.by_name(x), *model.args, **model.kwargs)

    return KnownParts(
        simulation.likelihoods,
        np.concatenate([np.arange(model.dim)[block.columns] for block in named]),
        space.blocks,
        space.fixed,
        model.log_added,
        space.initial_points,
        None if model.approximation is None else approximated,
        columns_of(simulation.depends, space),
    )


def _approximation(found: Structured, known: KnownParts) -> Approximation:
    """Return the cheap simulator, whose outputs are NaN where it fails."""
    cheap = known.approximation
    assert cheap is not None

    def outputs(x):
        rows, error = np.full((len(x), len(found.structure.data.observed)), np.nan), None
        for row, point in zip(rows, x, strict=True):
            try:
                row[:] = found.outputs([cheap(point)])[0]
            except Exception as raised:
                error = raised
        if error is not None and np.isnan(rows).all():
            sentence = (
                f"approximation failed at all of {len(x)} points, the last time with {error!r}"
            )
            warnings.warn(sentence, KmcWarning, stacklevel=2)
        return rows

    return Approximation(outputs)


def _eta(likelihood, output):
    return _LINKS.get(type(likelihood), np.asarray)(np.asarray(output, float)[~likelihood.missing])


def _data(likelihood: Any, known: KnownParts) -> Data | None:
    kind = _KINDS.get(type(likelihood))
    if kind is None or likelihood.observe is not None or likelihood.is_censored:
        return None
    seen = ~likelihood.missing
    y = np.asarray(likelihood.observed, float)[seen]
    n, terms = len(y), likelihood.terms
    shape = np.zeros(n)
    constants = np.zeros(n)
    if type(likelihood) is of.LogNormal:
        y = np.log(y)
        constants = -y
    if kind in (POISSON, NEGATIVE_BINOMIAL):
        constants = -gammaln(y + 1.0)
    if kind == BINOMIAL:
        shape = (
            np.ones(n)
            if type(likelihood) is of.Bernoulli
            else np.broadcast_to(likelihood.n, seen.shape)[seen]
        )
        constants = gammaln(shape + 1.0) - gammaln(y + 1.0) - gammaln(shape - y + 1.0)
    scales = _Terms(terms.get("scale", terms.get("sd", ())), seen, known)
    relative = _Terms(terms.get("relative", ()), seen, known)
    shapes = _Terms(terms.get("df", terms.get("dispersion", ())), seen, known)
    if not (scales.known and relative.known and shapes.known):
        return None
    return Data(
        np.full(n, kind),
        y,
        constants,
        scales.squares,
        scales.columns,
        relative.squares,
        relative.columns,
        shape + np.sqrt(shapes.squares),
        shapes.columns[:, 0] if shapes.columns.shape[1] else np.full(n, -1),
        np.zeros(n),
    )


class _Terms:
    """Terms of an argument for each number that is seen.

    They are the sum of the squares of constants, and the columns of others.
    """

    def __init__(self, terms, seen, parts):
        self.squares, columns, self.known = np.zeros(int(seen.sum())), [], True
        for term in terms:
            if isinstance(term, str) and term in parts.fixed:
                term = np.asarray(parts.fixed[term], float)
            if not isinstance(term, str):
                self.squares = self.squares + np.broadcast_to(term, seen.shape)[seen] ** 2
                continue
            block = parts.blocks[term]
            self.known = self.known and type(block.transform) in _TRANSFORMS
            if self.known:
                own = np.arange(block.columns.start, block.columns.stop).reshape(block.shape)
                columns.append(np.broadcast_to(own, seen.shape)[seen])
        self.columns = (
            np.array(columns, dtype=np.int64).reshape(len(columns), len(self.squares)).T.copy()
        )


def added(model: Model) -> KnownPart | None:
    """Return what the model adds to the user's likelihood: prior and log-Jacobian.

    The prior may be a `log_prior=` function. None if nothing is added, or if it is no sum of
    functions of one number each, not even in the coordinates of
    :class:`kmc.surrogate.coordinates.noncentered.NonCentered`.
    """
    space, function = (
        model.parameter_space,
        isinstance(model.log_density, Posterior) and model.log_density.log_prior,
    )
    blocks = {} if space is None else space.blocks
    plain = all(type(block.transform) is Identity for block in blocks.values())
    if not function and (space is None or (space.prior is None and plain)):
        return None
    noncentered = _noncentered(model, blocks, {} if space is None else space.fixed)
    if noncentered is None:
        return None
    draw = model.initial_points if function or space is None else space.initial_points
    draws = noncentered(_draws(draw, model.dim))
    if function:
        splines = _splines_of_function(model, noncentered, draws)
    else:
        splines = _splines(_apart(model.log_added, noncentered), draws)
    return (
        None if splines is None else KnownPart(noncentered if noncentered.size else APART, splines)
    )


def _splines_of_function(
    model: Model, noncentered: NonCentered, draws: np.ndarray
) -> Splines | None:
    """Return the splines of a user's prior function, from about 150 calls for each number."""

    def log_added(x):
        found = model.log_prior_apart(np.atleast_2d(x))
        assert found is not None  # there is such a function
        return found if x.ndim == 2 else found[0]

    try:
        return _splines(_apart(log_added, noncentered), draws, _FEWER)
    except Exception:  # whatever a function raises where the sampler would not call it
        return None


def _apart(log_added, transport):
    """Return the log-density of the coordinates u of a transport."""

    def found(u):
        x = transport.back(np.atleast_2d(u))
        values = log_added(x) - transport.log_jacobian(x)
        return values if u.ndim == 2 else values[0]

    return found


def _noncentered(
    model: Model, blocks: Mapping[str, Block], fixed: Mapping[str, Any]
) -> NonCentered | None:
    """Return coordinates of numbers with normal priors around others.

    The result is None if these are not known functions of one.
    """
    space, dim = model.parameter_space, model.dim
    around = {} if space is None or space.prior is None else space.prior.around
    means, sds, numbers = np.full(dim, -1), np.full(dim, -1), np.tile([0.0, 1.0], (dim, 1))
    for name, law in around.items():
        block = blocks[name]
        for i, (term, columns) in enumerate(((law.mean, means), (law.sd, sds))):
            if not isinstance(term, str) or term in fixed:
                number = fixed[term] if isinstance(term, str) else term
                numbers[block.columns, i] = np.broadcast_to(number, block.shape).ravel()
                continue
            parent = blocks[term]
            if type(parent.transform) not in _TRANSFORMS:
                return None
            own = np.arange(parent.columns.start, parent.columns.stop).reshape(parent.shape)
            columns[block.columns] = np.broadcast_to(own, block.shape).ravel()
    return NonCentered(_transforms(blocks, dim), means, sds, numbers)


def _transforms(blocks: Mapping[str, Block], dim: int) -> Transforms:
    """Return how each number depends on its coordinate; the identity if that is not known."""
    kinds = np.zeros(dim, np.int64)
    lower, upper, ends = np.zeros(dim), np.zeros(dim), np.zeros((dim, 2))
    for block in blocks.values():
        kinds[block.columns] = _TRANSFORMS.get(type(block.transform), IDENTITY)
        if isinstance(block.transform, Above | Between):
            lower[block.columns] = block.transform.lower
        if isinstance(block.transform, Below | Between):
            upper[block.columns] = block.transform.upper
        if type(block.transform) is Between:
            ends[block.columns] = STEEPNESS, LENGTH
    return Transforms(kinds, lower, upper, ends)


def _parameters(known: KnownParts, model: Model) -> Parameters | None:
    """Return what is known of the coordinates.

    It is None if the log-density of prior and Jacobian is no sum over these.
    """
    own = _noncentered(model, known.blocks, known.fixed)
    if own is None:
        return None
    draws = own(_draws(known.draw, model.dim))
    splines = _splines(_apart(known.log_added, own), draws)
    if splines is None:
        return None
    quantiles = np.ascontiguousarray(
        np.quantile(draws, np.linspace(0.0, 1.0, _QUANTILES), axis=0).T
    )
    return Parameters(own.transforms, own.means, own.sds, own.numbers, splines, quantiles)


def _draws(draw, dim):
    """Draw points from the prior, or about where start points are, for nodes."""
    rng = np.random.default_rng(0)
    draws = draw(rng, _DRAWS)
    return rng.uniform(-2.0, 2.0, (_DRAWS, dim)) if draws is None else draws


def _splines(log_added, draws, counts=(_QUANTILES, _BEYOND)) -> Splines | None:
    """Return functions of one coordinate each with sum ``log_added``, from draws (k, d), or None.

    ``counts`` are the numbers of nodes between the draws and on each side of them.
    """
    dim = draws.shape[1]
    middle = np.median(draws, axis=0)
    constant = float(log_added(middle))
    nodes = np.empty((dim, counts[0] + 2 * counts[1]))
    values, slopes = np.empty(nodes.shape), np.empty(nodes.shape)

    def along(i, u):
        points = np.repeat(middle[None], u.size, axis=0)
        points[:, i] = u.ravel()
        return (log_added(points) - constant).reshape(u.shape)

    with np.errstate(all="ignore"):
        for i in range(dim):
            nodes[i] = own = _nodes(draws[:, i], *counts)
            step = _STEP * np.minimum(
                np.diff(own, prepend=own[0] - 1.0), np.diff(own, append=own[-1] + 1.0)
            )
            values[i] = along(i, own)
            slopes[i] = (along(i, own + step) - along(i, own - step)) / (2.0 * step)
            # Where there is no density any more, the spline goes on as before.
            finite = np.flatnonzero(np.isfinite(values[i]) & np.isfinite(slopes[i]))
            if len(finite) < 2:
                return None
            nearest = finite[np.argmin(np.abs(np.arange(own.size)[:, None] - finite), axis=1)]
            values[i], slopes[i] = (
                values[i][nearest] + slopes[i][nearest] * (own - own[nearest]),
                slopes[i][nearest],
            )
    values[0] += constant
    found, some = Splines(nodes, values, slopes), draws[:_BEYOND]
    true = log_added(some)
    error = np.abs(found.values_and_gradients(some)[0] - true)
    return found if np.all(error < _SEPARATE * (1.0 + np.abs(true))) else None


def _nodes(draws, count, count_beyond):
    """Return quantiles of draws (n,), and nodes beyond them, increasing."""
    inside = np.unique(np.quantile(draws, np.linspace(0.0, 1.0, count)))
    inside = (
        inside if len(inside) == count else np.linspace(draws.min() - 1.0, draws.max() + 1.0, count)
    )
    beyond = _FAR * (inside[-1] - inside[0]) * np.geomspace(1e-3, 1.0, count_beyond)
    return np.concatenate([inside[0] - beyond[::-1], inside, inside[-1] + beyond])
