"""The simulator in a PyMC model: black-box Ops, and the observed variables that depend on their outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kmc import likelihoods as of
from kmc.model.simulation import KnownParts
from kmc.model.space import Block

_KNOWN = "pytensor", "pymc"  # packages whose Ops are no black boxes
_SOLVERS = "pymc.ode"  # but those of this module are
_TRIED = 3  # points at which arguments of distributions are compared with variables
_GRID = 0.01 * np.sinh(np.linspace(-14.0, 14.0, 801))  # around the initial point, for quantiles of the prior
_QUICK = "FAST_COMPILE"  # for functions that are called a few thousand times, and never with a black box


class Simulator(NamedTuple):
    """What the log-density of a PyMC model is of the outputs of its black boxes."""

    known: KnownParts
    outputs: Mapping[str, Any]  # graphs of the outputs, by observed variable


def find_simulator(
    model: Any,
    start: np.ndarray,
    columns: Mapping[Any, slice],
    blocks: Mapping[str, Block],
    data: Mapping[str, np.ndarray],
    compiled: Callable[..., Any],
) -> Simulator | None:
    """Return the simulator in a model; None if it has none, or if something that depends on it is not known.

    Parameters
    ----------
    model : pymc.Model
    start : ndarray, shape (d,)
        Its initial point.
    columns : mapping of variable to slice
        Of each value variable in the vector.
    blocks : mapping of str to Block
        Free variables that are a known function of numbers of the vector, by name.
    data : mapping of str to ndarray
        Of the observed variables, by name.
    compiled : callable
        Makes a function of the vector, with PyTensor's mode, of a list of graphs of value variables.
    """
    import pytensor.tensor as pt

    simulated = [variable for variable in model.observed_RVs if _has_black_box([variable])]
    if not simulated:
        return None
    others = [variable for variable in (*model.basic_RVs, *model.potentials) if variable not in simulated]
    found = {variable.name: _parts(variable) for variable in simulated}
    parts = {name: part for name, part in found.items() if part is not None and name in data}
    added = model.logp(vars=others)
    if len(parts) < len(found) or _has_black_box([added]):
        return None
    outputs: dict[str, Any] = {}
    arguments: dict[tuple[str, str], Any] = {}
    for name, (_, output, terms) in parts.items():
        outputs[name], *own = model.replace_rvs_by_values([output, *terms.values()])
        arguments |= {(name, argument): graph for argument, graph in zip(terms, own, strict=True)}
    if _has_black_box(arguments.values()):
        return None
    known_terms = _as_terms(arguments, start, blocks, compiled)
    if known_terms is None:
        return None
    likelihoods = {}
    for name, (likelihood, _, _) in parts.items():
        own = {argument: term for (variable, argument), term in known_terms.items() if variable == name}
        try:
            likelihoods[name] = likelihood(data[name], **own)
        except (TypeError, ValueError):  # data that have no density, or none that is known
            return None
    needed = set(_ancestors(outputs.values()))
    inputs = [np.arange(start.size)[columns[value]] for value in model.value_vars if value in needed]
    if not inputs:
        return None
    log_added = LogAdded(compiled([added], mode=_QUICK, rows=True))
    known = KnownParts(likelihoods, np.concatenate(inputs), blocks, {}, log_added, PriorDraws(log_added, start))
    return Simulator(known, {name: pt.broadcast_to(graph, data[name].shape) for name, graph in outputs.items()})


class LogAdded:
    """The log-density without that of the simulated data, at one vector or at vectors (n, d)."""

    def __init__(self, function: Callable[[np.ndarray], Sequence[Any]]):
        self._function = function

    def __call__(self, points: np.ndarray) -> Any:
        """Return it, a float or (n,)."""
        (found,) = self._function(np.atleast_2d(points))
        return np.broadcast_to(found, len(points)) if points.ndim == 2 else float(found[0])


class PriorDraws:
    """Draws of each number of the vector from the prior, by its quantiles where all others are at the start."""

    def __init__(self, log_added: LogAdded, start: np.ndarray):
        self._log_added, self._start = log_added, start

    def __call__(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw vectors (n, d)."""
        found = np.empty((n, len(self._start)))
        for i, center in enumerate(self._start):
            points = np.repeat(self._start[None], len(_GRID), axis=0)
            points[:, i] = center + _GRID
            heights = np.nan_to_num(self._log_added(points), nan=-np.inf)
            density = np.exp(heights - heights.max())
            mass = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(_GRID)))
            found[:, i] = center + np.interp(rng.random(n), mass / mass[-1], _GRID)
        return found


def _has_black_box(graphs: Iterable[Any]) -> bool:
    """Return whether the graphs need an Op that neither PyTensor nor PyMC has defined, or that solves an ODE."""
    from pytensor.compile.ops import FromFunctionOp

    for variable in _ancestors(graphs):
        if variable.owner is None:
            continue
        op = getattr(variable.owner.op, "core_op", variable.owner.op)
        module = type(op).__module__
        if isinstance(op, FromFunctionOp) or module.startswith(_SOLVERS) or module.split(".")[0] not in _KNOWN:
            return True
    return False


def _ancestors(graphs: Iterable[Any]) -> Iterable[Any]:
    try:
        from pytensor.graph.traversal import ancestors
    except ImportError:  # before PyTensor 2.32
        from pytensor.graph.basic import ancestors
    return ancestors(list(graphs))


def _parts(variable: Any) -> tuple[Any, Any, dict[str, Any]] | None:
    """Return the likelihood of an observed variable, the graph of the output it is of, and those of its arguments."""
    import pytensor.tensor as pt
    from pytensor.tensor.random import basic

    op = variable.owner.op
    if not hasattr(op, "dist_params"):
        return None
    given = op.dist_params(variable.owner)
    match op:
        case basic.NormalRV():
            return of.Normal, given[0], {"sd": given[1]}
        case basic.LogNormalRV():
            return of.LogNormal, pt.exp(given[0]), {"sd": given[1]}
        case basic.StudentTRV():
            return of.StudentT, given[1], {"df": given[0], "scale": given[2]}
        case basic.PoissonRV():
            return of.Poisson, given[0], {}
        case basic.NegBinomialRV():
            return of.NegativeBinomial, given[0] * (1.0 - given[1]) / given[1], {"dispersion": given[0]}
        case basic.BinomialRV():
            return of.Binomial, given[1], {"n": given[0]}
        case basic.BernoulliRV():
            return of.Bernoulli, given[0], {}
    return None


def _as_terms(arguments, start, blocks, compiled) -> dict[tuple[str, str], Any] | None:
    """Return each argument as numbers, or as the name of the variable that it is; None if one is something else."""
    if not arguments:
        return {}
    points = start + np.random.default_rng(0).uniform(-1.0, 1.0, (_TRIED, len(start)))
    found: dict[tuple[str, str], Any] = {}
    columns = compiled(list(arguments.values()), mode=_QUICK, rows=True)(points)
    for (key, graph), values in zip(arguments.items(), columns, strict=True):
        if values.ndim == graph.ndim:  # it does not depend on the vector
            found[key] = values
            continue
        names = [name for name, block in blocks.items() if _is_same(block.constrained(points), values)]
        if not names:
            return None
        found[key] = names[0]
    return found


def _is_same(own: np.ndarray, values: np.ndarray) -> bool:
    """Return whether arguments (n, ...) are the values of a variable (n, ...), if these are broadcast."""
    own = own.reshape(len(own), *[1] * (values.ndim - own.ndim), *own.shape[1:])
    try:
        return np.allclose(own, values, rtol=1e-12, atol=0.0)
    except ValueError:  # other shapes
        return False
