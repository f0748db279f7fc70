"""Finished draws as ArviZ holds them: InferenceData before ArviZ 1, an xarray DataTree from there on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from kmc._version import __version__
from kmc.mcmc.base import MOVES
from kmc.run.trace import Trace
from kmc.targets.model import Model

_INT64 = np.iinfo(np.int64)


def to_arviz(
    model: Model, trace: Trace, warmup_trace: Trace | None = None, attrs: Mapping[str, Any] | None = None
) -> Any:
    """Lay out draws and their statistics in ArviZ's schema.

    Parameters
    ----------
    model : Model
        What the draws are called, and how they are constrained; the unconstrained vectors of a model with names go to
        the group ``unconstrained_posterior``, as the variable ``x``.
    trace : Trace
        The draws after warm-up; there may be none.
    warmup_trace : Trace, optional
        The sweeps of warm-up, for the groups ``warmup_posterior`` and ``warmup_sample_stats``.
    attrs : mapping, optional
        Facts about the run, kept on the root and on the posterior group. Numbers and strings stay what they are;
        a bool becomes 0 or 1; an integer beyond 64 bits becomes its decimal digits; dicts, lists, arrays and
        dataclasses become JSON; None is left out, so that ``attrs.get(name)`` still gives None.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        The first with ArviZ < 1, the second with ArviZ >= 1.
    """
    about = {
        "inference_library": "kmc",
        "inference_library_version": __version__,
        "created_at": datetime.now(UTC).isoformat(),
        **_storable(attrs or {}),
    }
    groups = {"posterior": _posterior(model, trace).assign_attrs(about), "sample_stats": _sample_stats(trace)}
    groups["sample_stats"] = groups["sample_stats"].drop_vars("inverse_temperature")
    if warmup_trace is not None:
        groups["warmup_posterior"] = _posterior(model, warmup_trace)
        groups["warmup_sample_stats"] = _sample_stats(warmup_trace)
    if model.named:
        groups["unconstrained_posterior"] = _unconstrained(trace)
    return _container(groups, about)


# xarray and ArviZ take longer to import than the rest of kmc together: they wait until there is something to show.


def _container(groups: dict[str, Any], attrs: dict[str, Any]) -> Any:
    if int(version("arviz").split(".")[0]) < 1:
        import arviz

        return arviz.InferenceData(attrs=attrs, **groups)
    import xarray

    tree = xarray.DataTree.from_dict(groups)
    tree.attrs = dict(attrs)
    return tree


def _posterior(model: Model, trace: Trace) -> Any:
    chains, draws, dim = trace.positions.shape
    values = model.constrain(trace.positions.reshape(-1, dim))
    variables = {
        name: (("chain", "draw", *model.dims[name]), value.reshape(chains, draws, *value.shape[1:]))
        for name, value in values.items()
    }
    return _dataset(trace, variables | _blobs(trace), model.coords)


def _unconstrained(trace: Trace) -> Any:
    positions = trace.positions.copy()
    return _dataset(trace, {"x": (("chain", "draw", "x_dim_0"), positions)}, {"x_dim_0": np.arange(positions.shape[2])})


def _blobs(trace: Trace) -> dict[str, Any]:
    """What the log-density computed besides, as variables."""
    return {
        name: (("chain", "draw", *(f"{name}_dim_{i}" for i in range(column.ndim - 2))), column.copy())
        for name, column in trace.blobs.items()
    }


def _sample_stats(trace: Trace) -> Any:
    columns = {"lp": trace.log_density, **trace.stats}
    dataset = _dataset(trace, {name: (("chain", "draw"), column.copy()) for name, column in columns.items()})
    # The manner of the CF conventions for a variable whose values stand for words.
    dataset["move"].attrs = {"flag_values": np.arange(len(MOVES), dtype=np.int8), "flag_meanings": " ".join(MOVES)}
    return dataset


def _dataset(trace: Trace, variables: dict[str, Any], coords: Mapping[str, Any] | None = None) -> Any:
    import xarray

    chains, draws, _ = trace.positions.shape
    return xarray.Dataset(variables, {"chain": np.arange(chains), "draw": np.arange(draws), **(coords or {})})


def _storable(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _attribute(value) for name, value in attrs.items() if value is not None}


def _attribute(value: Any) -> int | float | str:
    """What netCDF can hold as an attribute: a 64-bit number or a string."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int):  # and bool
        return int(value) if _INT64.min <= value <= _INT64.max else str(value)
    if isinstance(value, (float, str)):
        return value
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    """The JSON form of what the json module does not know."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return repr(value)
