"""Lay out finished draws for ArviZ: InferenceData (ArviZ < 1) or an xarray DataTree (>= 1)."""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, NamedTuple, Protocol

import numpy as np

from kmc._version import __version__
from kmc.convergence import ENOUGH_DRAWS
from kmc.model.model import Model
from kmc.model.returned import GROUPS, LOG_LIKELIHOOD, group_of
from kmc.model.simulation import OUTPUTS
from kmc.run.arguments import RunRequest
from kmc.run.frozen_surrogates import Frozen, as_group, blocks_of, flattened, unflattened
from kmc.run.history import EVALUATIONS
from kmc.run.trace import Trace
from kmc.samplers.base import MOVES
from kmc.seeds import Stream, substream
from kmc.surrogate.density import Density
from kmc.unwritable import import_arviz

_INT64 = np.iinfo(np.int64)
# evaluations of a run whose surrogate may be in doubt: a result holds them all
_LEARNED_AGAIN = 1000
N_DRAWS = 500


def to_arviz(
    model: Model,
    trace: Trace,
    warmup_trace: Trace | None = None,
    attrs: Mapping[str, Any] | None = None,
    data: Mapping[str, Mapping[str, Any]] | None = None,
    densities: Sequence[Density | None] = (),
    further: Mapping[str, Any] | None = None,
) -> Any:
    """Lay out draws and their statistics in ArviZ's schema.

    Parameters
    ----------
    model : Model
        Gives names and constraints of the draws; the unconstrained vectors of a model with names go
        to the group ``unconstrained_posterior``, as the variable ``x``. Further outputs of its
        function go to the groups ``log_likelihood`` and ``blobs``.
    trace : Trace
        The draws after warm-up; possibly none.
    warmup_trace : Trace, optional
        The sweeps of warm-up, for the groups ``warmup_posterior``, ``warmup_sample_stats``, ...
    attrs : mapping, optional
        Facts about the run, for the root and the posterior group. Numbers and strings are kept
        unchanged; a bool becomes 0 or 1; an integer beyond 64 bits becomes its decimal digits;
        dicts, lists, arrays and dataclasses become JSON; None is left out, so that
        ``attrs.get(name)`` still gives None.
    data : mapping, optional
        By group and name, dimensions and arrays that are stored with the draws; by default the
        model's.
    densities : sequence of Density
        The frozen surrogate of each independent run. If all have one, there are groups
        ``surrogate`` and ``proposals``.
    further : mapping of str to Dataset, optional
        Further groups.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        InferenceData with ArviZ < 1, DataTree with ArviZ >= 1.
    """
    warmup = None if warmup_trace is None else drawn(model, warmup_trace)
    draws = drawn(model, trace)
    surrogate, parts, chains = None, flattened(densities, blocks_of(model)), len(draws.positions)
    if parts is not None:
        surrogate = as_group(parts, chains)
        draws = draws._replace(
            proposals=with_surrogate(trace.proposals, unflattened(parts, chains))
        )
    data = model.data if data is None else data
    return laid_out(model, draws, warmup, described(attrs or {}), data, surrogate, further)


class Drawn(NamedTuple):
    """The draws of a phase; arrays (chain, draw, ...), in memory or in a store."""

    positions: Any  # unconstrained vectors
    variables: dict[str, Any]  # by the user's names
    blobs: dict[str, Any]
    stats: dict[str, Any]
    proposals: Mapping[str, Any] | None = None


class Names(Protocol):
    """Names of the draws: a :class:`kmc.Model`, or what a store keeps of one."""

    @property
    def dims(self) -> Mapping[str, Sequence[str]]:
        """Dimensions of each variable, without chain and draw."""

    @property
    def coords(self) -> Mapping[str, Any]:
        """Labels of each dimension."""

    @property
    def named(self) -> bool:
        """Whether draws have names."""

    @property
    def variable_attrs(self) -> Mapping[str, Mapping[str, Any]]:
        """Attributes of each variable."""


def drawn(model: Model, trace: Trace) -> Drawn:
    """Copy the draws of a trace, with the parameters by name."""
    positions = trace.positions.copy()
    chains, draws, dim = positions.shape
    values = model.constrain(positions.reshape(-1, dim))
    return Drawn(
        positions=positions,
        variables={
            name: np.reshape(value, (chains, draws, *value.shape[1:]))
            for name, value in values.items()
        },
        blobs={name: column.copy() for name, column in trace.blobs.items()},
        stats={
            name: column.copy() for name, column in {"lp": trace.log_density, **trace.stats}.items()
        },
    )


def described(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a result, in a form that netCDF can hold."""
    return {
        "inference_library": "kmc",
        "inference_library_version": __version__,
        "created_at": datetime.now(UTC).isoformat(),
        **{name: _attribute(value) for name, value in attrs.items() if value is not None},
    }


def laid_out(
    names: Names,
    draws: Drawn,
    warmup: Drawn | None,
    attrs: dict[str, Any],
    data: Mapping[str, Mapping[str, Any]],
    surrogate: Any = None,
    further: Mapping[str, Any] | None = None,
) -> Any:
    """Lay out draws in ArviZ's schema, with attributes at the root and at the posterior group."""
    # of a sampler from outside the package, or ours
    moves = json.loads(attrs["moves"]) if "moves" in attrs else MOVES
    groups = {
        "posterior": _posterior(names, draws).assign_attrs(attrs),
        "sample_stats": _sample_stats(draws, moves),
    }
    groups |= _blobs(names, draws, data)
    if warmup is not None:
        groups["warmup_posterior"] = _posterior(names, warmup)
        groups["warmup_sample_stats"] = _sample_stats(warmup, moves)
        groups |= {
            f"warmup_{group}": dataset for group, dataset in _blobs(names, warmup, data).items()
        }
    if names.named:
        groups["unconstrained_posterior"] = labeled(
            {"x": (("chain", "draw", "x_dim_0"), draws.positions)}
        )
    if surrogate is not None and draws.proposals:
        groups["proposals"], groups["surrogate"] = _proposals(draws, moves), surrogate
    for name, variables in data.items():
        groups[name] = with_attrs(labeled(variables, names.coords), names.variable_attrs)
    return container({**groups, **(further or {})}, attrs)


# xarray and ArviZ take longer to import than the rest of kmc together: import them only when there
# is a result.


def container(groups: dict[str, Any], attrs: dict[str, Any]) -> Any:
    """Put datasets by group into the container of the installed ArviZ."""
    if int(version("arviz").split(".")[0]) < 1:
        arviz = import_arviz()
        # old versions warn about groups that are not in their schema
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", ".* group is not defined in the InferenceData scheme", UserWarning
            )
            return arviz.InferenceData(attrs=attrs, **groups)
    import xarray

    tree = xarray.DataTree.from_dict(groups)
    tree.attrs = dict(attrs)
    return tree


def with_attrs(dataset: Any, attrs: Mapping[str, Mapping[str, Any]]) -> Any:
    """Add attributes to the variables of a dataset, and return it."""
    for name, own in attrs.items():
        if name in dataset:
            dataset[name].attrs.update(own)
    return dataset


def with_surrogate(proposals: Mapping[str, np.ndarray], frozen: Frozen) -> dict[str, np.ndarray]:
    """Return proposals with log s at each, "surrogate" (chains, draws)."""
    values = np.empty_like(proposals["lp"])
    for chain, points in enumerate(proposals["x"]):
        values[chain] = frozen.density(chain).log_density(points) if len(points) else 0.0
    return {**{name: column.copy() for name, column in proposals.items()}, "surrogate": values}


def holds_evaluations(n_draws: int, n_evaluations: int) -> bool:
    """Return whether a result has all evaluations of its run, as they may be learned from again."""
    return n_draws < ENOUGH_DRAWS or n_evaluations <= _LEARNED_AGAIN


def as_evaluations(
    x: np.ndarray, values: np.ndarray, outputs: Mapping[str, np.ndarray], chains: int
) -> dict[str, Any]:
    """Return the group of evaluations at unconstrained points x (n, d), each once and sorted.

    The evaluations include log-Jacobians. They are shared out to the chains, with NaN at the end,
    so that results can be joined along these. ``outputs`` are those of a simulator (n, ...), as
    blobs by name; or, under the name "outputs", all of them as they are learned (n, k): on the
    scales of their likelihoods, NaN where they are not known.
    """
    # A chain that did not move has proposed its state; proposals of a continued result may not be
    # known.
    _, first = np.unique(x, axis=0, return_index=True)
    rows = first[~np.isnan(values[first]) & np.isfinite(x[first]).all(axis=1)]
    each = -(-len(rows) // chains)

    def shared(array):
        found = np.full((chains * each, *array.shape[1:]), np.nan)
        found[: len(rows)] = array[rows]
        return found.reshape(chains, each, *array.shape[1:])

    dims = ("chain", "evaluation")
    group: dict[str, Any] = {"x": ((*dims, "x_dim_0"), shared(x)), "lp": (dims, shared(values))}
    for name, one in outputs.items():
        own = ["output"] if name == OUTPUTS else [f"{name}_dim_{i}" for i in range(one.ndim - 1)]
        group[name] = ((*dims, *own), shared(one))
    return {EVALUATIONS: labeled(group)}


def learned_evaluations(
    learned_from: Sequence[tuple[np.ndarray, np.ndarray]],
    left_out: Sequence[tuple[np.ndarray, np.ndarray]],
    outputs: Sequence[np.ndarray | None],
    proposals: Sequence[Mapping[str, np.ndarray]],
    chains: int,
) -> dict[str, Any]:
    """Group the evaluations that independent runs learned from or left out, and their proposals.

    ``learned_from`` and ``left_out`` have points (n, d) and values (n,) of each run, ``outputs``
    (n, k) those of a simulator where it learned from, which are kept if all runs have them, and
    ``proposals`` "x" (chains, draws, d) and "lp" (chains, draws), or nothing.
    """
    dim = learned_from[0][0].shape[1]
    proposed = [(each["x"].reshape(-1, dim), each["lp"].ravel()) for each in proposals if each]
    found = [*learned_from, *left_out, *proposed]
    x, values = map(np.concatenate, zip(*found, strict=True))
    known = {}
    own = [each for each in outputs if each is not None]
    if len(own) == len(learned_from):  # those of other points are not learned from
        learned = np.vstack(own)
        known = {
            OUTPUTS: np.pad(learned, ((0, len(x) - len(learned)), (0, 0)), constant_values=np.nan)
        }
    return as_evaluations(x, values, known, chains)


def data_of(request: RunRequest) -> dict[str, Mapping[str, Any]]:
    """Return what is stored with the draws: data and draws of the prior.

    They are dimensions and arrays by group and name.
    """
    model = request.model
    if model.prior is None:
        return dict(model.data)
    draws = model.prior_draws(np.random.default_rng(substream(request.seed, Stream.PRIOR)), N_DRAWS)
    prior = {
        name: (("chain", "draw", *model.dims[name]), values[None]) for name, values in draws.items()
    }
    return {**model.data, "prior": prior}


def _posterior(names: Names, draws: Drawn) -> Any:
    variables = {
        name: (("chain", "draw", *names.dims[name]), values)
        for name, values in draws.variables.items()
    }
    return with_attrs(labeled(variables, names.coords), names.variable_attrs)


def _blobs(names: Names, draws: Drawn, data: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the groups of further outputs of the log-density.

    The group has emcee's name for them, as ArviZ's schema has none: the summaries and plots of
    ArviZ use the posterior by default, and blobs are not parameters. Log-likelihoods, outputs of a
    simulator and simulated data have groups of their own, with the dimensions of the data.
    """
    groups: dict[str, dict[str, Any]] = {}
    for name, values in draws.blobs.items():
        group, variable = group_of(name)
        own = tuple(f"{variable}_dim_{i}" for i in range(len(values.shape) - 2))
        if group in GROUPS and variable in data.get("observed_data", ()):
            dims, observed = data["observed_data"][variable]
            if values.shape[2:] == np.shape(observed):
                own = tuple(dims)
            elif group == LOG_LIKELIHOOD:  # without those of missing data
                own = (f"{variable}_observed",)
        groups.setdefault(group, {})[variable] = (("chain", "draw", *own), values)
    return {group: labeled(variables, names.coords) for group, variables in groups.items()}


def _proposals(draws: Drawn, moves: Sequence[str]) -> Any:
    dims = ("chain", "draw", "x_dim_0")
    columns = {
        name: (dims[: len(column.shape)], column)
        for name, column in (draws.proposals or {}).items()
    }
    stats = {name: (dims[:2], draws.stats[name]) for name in ("accepted", "move")}
    dataset = labeled({**columns, **stats})
    dataset["move"].attrs = _flags(moves)
    return dataset


def _sample_stats(draws: Drawn, moves: Sequence[str]) -> Any:
    dims = ("chain", "draw", "temperature")
    dataset = labeled(
        {name: (dims[: len(column.shape)], column) for name, column in draws.stats.items()}
    )
    dataset["move"].attrs = _flags(moves)
    return dataset


def labeled(variables: Mapping[str, Any], coords: Mapping[str, Any] | None = None) -> Any:
    """Return variables with labels along each dimension: those in ``coords``, or 0, 1, ..."""
    import xarray

    dataset = xarray.Dataset(variables)
    labels: dict[Any, Any] = {name: np.arange(size) for name, size in dataset.sizes.items()}
    labels.update((name, given) for name, given in (coords or {}).items() if name in labels)
    return dataset.assign_coords(labels)


def _attribute(value: Any) -> int | float | str:
    """Convert a value to what netCDF can hold as an attribute: a 64-bit number or a string."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int):  # and bool
        return int(value) if _INT64.min <= value <= _INT64.max else str(value)
    if isinstance(value, (float, str)):
        return value
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    """Return a form that JSON can hold, for an object that the json module does not know."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return repr(value)


def _flags(words: Sequence[str]) -> dict[str, Any]:
    """Return attributes of a variable whose integers stand for words, as in the CF conventions."""
    return {"flag_values": np.arange(len(words), dtype=np.int8), "flag_meanings": " ".join(words)}
