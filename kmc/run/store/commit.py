"""The attributes of a store's root: the run's settings and its state at the last commit.

They are checked when they are read: afterwards the rest of the package relies on their types, on
what they say of each other, and on sizes that the files can hold.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from kmc._version import __version__
from kmc.errors import KmcWarning
from kmc.run.store.columns import Record, sizes
from kmc.run.store.files import ROOT, Damaged, Folder, StoreError, quoted
from kmc.samplers.base import STATS

FORMAT = 5

COPY = "commit.json"
"""The copy of the file at the root, which is written after it."""

SNAPSHOTS = "snapshot-0", "snapshot-1"
AHEAD = "ahead-0", "ahead-1"
"""Files that are replaced in turn: one is valid while the other one is written."""

_MOST = 10**6  # chains, or parameters
_MOST_NUMBERS = 10**8  # of all chains in one draw
_UNCHECKED_BYTES = 2**26  # of a column that the files need not be seen to hold
_LARGEST_LABELS = 2**26  # characters of the labels of a dimension


@dataclass(frozen=True)
class Commit:
    """What is valid in a store.

    Attributes
    ----------
    n_evaluations, n_draws : int
        Rows of the history and of the draws.
    n_warmup : list of int
        Sweeps of warm-up of each independent run.
    columns : dict
        For each table, the records of its columns.
    snapshot : dict or None
        Record of the snapshot.
    surrogate : dict or None
        Record of the frozen surrogates.
    draws, max_evaluations : int or None
        Where the run ends; :func:`kmc.extend` raises it.
    attrs : dict
        Attributes of the result; with warnings when the run is finished.
    finished : bool
    seconds : float
        Time of sampling, over all sessions.
    warmup_cut : int or None
        Evaluations after which warm-up was told to end, by the clock.
    ahead : dict or None
        Record of the evaluations beyond the last whole sweep.
    at : str
        Time of the commit.
    versions : dict
        Versions of the packages that made it.
    """

    n_evaluations: int
    n_draws: int
    n_warmup: list[int]
    draws: int | None
    max_evaluations: int | None
    columns: dict[str, dict[str, Record]] = field(default_factory=dict)
    snapshot: dict[str, Any] | None = None
    surrogate: dict[str, Any] | None = None
    attrs: dict[str, Any] = field(default_factory=dict)
    finished: bool = False
    seconds: float = 0.0
    warmup_cut: int | None = None
    ahead: dict[str, Any] | None = None
    at: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    def with_changes(self, **changes: Any) -> Commit:
        """Return a later commit, with these changes."""
        return replace(self, at=datetime.now(UTC).isoformat(), versions=versions(), **changes)


def versions() -> dict[str, str]:
    """Return the versions of the packages that determine which draws a seed gives."""
    from importlib.metadata import version

    return {"kmc": __version__, **{name: version(name) for name in ("numpy", "scipy", "numba")}}


def write_commit(folder: Folder, header: Mapping[str, Any], commit: Commit) -> None:
    """Replace the root's attributes in one step."""
    counts = {part.name: getattr(commit, part.name) for part in fields(commit)}
    attributes = {"kmc": {"format": FORMAT, **header, "commit": counts}}
    for name in (ROOT, COPY):
        folder.write_json(name, {"zarr_format": 3, "node_type": "group", "attributes": attributes})


def read_commit(path: Path) -> tuple[dict[str, Any], Commit]:
    """Return the run's settings and the last commit.

    Raises
    ------
    FileNotFoundError
        There is nothing at that path.
    StoreError
        It is not a kmc store, one of a format that this version does not read, or one with records
        that no run makes.
    """
    if not path.exists():
        raise FileNotFoundError(f"store={str(path)!r}: there is no such file or directory")
    folder = Folder(path)
    try:
        about = _read(folder, ROOT)
    except Damaged as error:
        if not folder.exists(COPY):
            raise _foreign(path) from None
        try:
            about = _read(folder, COPY)
        except Damaged as second:
            raise StoreError(f"store={str(path)!r} is damaged: {error}; {second}") from None
        warnings.warn(
            f"store={str(path)!r} is damaged: {error}. Its copy {COPY} is intact, and is read "
            f"instead",
            KmcWarning,
            stacklevel=3,
        )
    return about


def _read(folder: Folder, name: str) -> tuple[dict[str, Any], Commit]:
    """Return the attributes in a file of the root, after all checks."""
    path, content = folder.path / name, folder.read_json(name)
    try:
        about = dict(content["attributes"]["kmc"])
        found = about.pop("format")
    except (KeyError, TypeError, ValueError):
        raise _foreign(folder.path) from None
    if found != FORMAT:
        raise _another_format(folder.path, found, about)
    try:
        commit = _checked(about.pop("commit", None), _COMMIT, "commit")
        header = _checked(about, _HEADER, "the header")
        _check_settings(header)
        _check_columns(folder, header["settings"], header["named"], commit)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise StoreError(f"{path} holds records that no run makes: {error}") from None
    return header, Commit(**commit)


def _another_format(path, found, about):
    try:
        writer = str(about["commit"]["versions"]["kmc"])[:40]
    except (KeyError, TypeError):
        writer = "(unknown)"
    return StoreError(
        f"store={str(path)!r} has format {str(found)[:40]}, and kmc {__version__} reads format "
        f"{FORMAT}: use the version that wrote it, kmc {writer}"
    )


def _foreign(path: Path) -> StoreError:
    remedy = (
        "open a netCDF file by arviz.from_netcdf"
        if path.suffix == ".nc"
        else "kmc.sample(store=...) writes one"
    )
    return StoreError(f"store={str(path)!r} is not a kmc store: {remedy}")


# Checks of types. A check is a function of a value; a mapping of names to checks is one of a
# record.

Check = Callable[[Any], bool]


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**62


def _positive(value: Any) -> bool:
    return _count(value) and value > 0


def _flag(value: Any) -> bool:
    return type(value) is bool


def _text(value: Any) -> bool:
    return type(value) is str


def _number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e12


def _anything(value: Any) -> bool:
    return True


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list_of(check: Check) -> Check:
    return lambda value: type(value) is list and all(map(check, value))


def _dict_of(check: Check) -> Check:
    return lambda value: type(value) is dict and all(map(check, value.values()))


def _record_of(checks: Mapping[str, Check]) -> Check:
    return lambda value: (
        type(value) is dict and all(check(value.get(name)) for name, check in checks.items())
    )


def _one_of(names: tuple[str, ...]) -> Check:
    return lambda value: value in names


def _parameter(value: Any) -> bool:
    """Check a shape and the names of its dimensions."""
    return (
        type(value) is list
        and len(value) == 2
        and _list_of(_count)(value[0])
        and _list_of(_text)(value[1])
    )


def _entropy(value: Any) -> bool:
    return (type(value) is int and value >= 0) or _list_of(_count)(value)


def _spawn_key(value: Any) -> bool:
    return _list_of(_count)(value) and all(key < 2**32 for key in value)


def _dtype(value: Any) -> bool:
    """Check the name of a type of numbers."""
    return (
        type(value) is str and re.fullmatch(r"bool|(u?int|float|complex)\d{1,3}", value) is not None
    )


def _attribute(value: Any) -> bool:
    return type(value) in (float, str) or (type(value) is int and -(2**63) <= value < 2**63)


def _attribute_or_list(value: Any) -> bool:
    return _attribute(value) or _list_of(_attribute)(value)


def _label(value: Any) -> bool:
    return value is None or type(value) is bool or _attribute(value)


def _time(value: Any) -> bool:
    return type(value) is str and datetime.fromisoformat(value).tzinfo is not None


def _attrs(value: Any) -> bool:
    """Check the attributes of a result: numbers and text, of which some is JSON."""
    lists = ("warnings", "warning_codes", "moves")
    return _dict_of(_attribute)(value) and all(
        _list_of(_text)(json.loads(value[name])) for name in lists if name in value
    )


_PART = {"size": _count, "crc": _count}
_PICKLE = _record_of(_PART)
_COLUMN = {
    "dtype": _dtype,
    "shape": _list_of(_count),
    "dims": _list_of(_text),
    "crcs": _list_of(_count),
}
_COMMIT: dict[str, Check] = {
    "n_evaluations": _count,
    "n_draws": _count,
    "n_warmup": _list_of(_count),
    "draws": _optional(_count),
    "max_evaluations": _optional(_count),
    "columns": _dict_of(_dict_of(_record_of(_COLUMN))),
    "snapshot": _optional(_record_of({**_PART, "name": _one_of(SNAPSHOTS), "signature": _text})),
    "surrogate": _optional(_record_of(_PART)),
    "attrs": _attrs,
    "finished": _flag,
    "seconds": _number,
    "warmup_cut": _optional(_count),
    "ahead": _optional(_record_of({**_PART, "name": _one_of(AHEAD)})),
    "at": _time,
    "versions": _dict_of(_text),
}
_SETTINGS: dict[str, Check] = {
    "dim": _positive,
    "parameters": _dict_of(_parameter),
    "coords": _anything,
    "noisy": _flag,
    "sampler": _text,
    "settings of the sampler": _text,
    "chains": _positive,
    "independent_runs": _positive,
    "draws": _optional(_positive),
    "warmup": _optional(_count),
    "max_evaluations": _optional(_positive),
    "history": _anything,
    "initial": _anything,
    "seed": _record_of({"entropy": _entropy, "spawn_key": _spawn_key}),
}
_HEADER: dict[str, Check] = {
    "settings": _record_of(_SETTINGS),
    "named": _flag,
    "dims": _dict_of(_list_of(_text)),
    "coords": _dict_of(_record_of({"dtype": _text, "values": _list_of(_label)})),
    "data": _optional(_record_of({**_PART, "groups": _list_of(_text)})),
    "evaluations": _optional(_record_of(_PART)),
    "variable_attrs": _dict_of(_dict_of(_attribute_or_list)),
    "save_warmup": _flag,
    "save_surrogate": _flag,
    "model": _optional(_PICKLE),
    "sampler": _optional(
        _record_of({**_PART, "pickle": _optional(_PICKLE), "foreign": _optional(_list_of(_text))})
    ),
}


def _checked(value: Any, checks: Mapping[str, Check], what: str) -> dict[str, Any]:
    """Return a record if it has exactly these entries; ValueError names the first that is wrong."""
    if type(value) is not dict or set(value) != set(checks):
        raise ValueError(f"{what} has other entries than {', '.join(checks)}")
    for name, check in checks.items():
        if isinstance(value[name], dict) and name == "settings":
            _checked(value[name], _SETTINGS, name)
        if not check(value[name]):
            raise ValueError(f"{name} = {json.dumps(value[name])[:80]}")
    return value


def _need(condition: Any, what: str) -> None:
    if not condition:
        raise ValueError(what)


def _check_settings(header: dict[str, Any]) -> None:
    """Check sizes that the memory of results depends on, and what the header says of itself."""
    settings = header["settings"]
    dim, chains, runs = settings["dim"], settings["chains"], settings["independent_runs"]
    _need(
        max(dim, chains) <= _MOST and dim * chains <= _MOST_NUMBERS,
        f"{chains} chains of {dim} parameters",
    )
    _need(runs <= chains and chains % runs == 0, f"{runs} independent runs of {chains} chains")
    total = sum(math.prod(shape) for shape, _ in settings["parameters"].values())
    _need(total * chains <= _MOST_NUMBERS, f"{total} numbers in a draw of each of {chains} chains")
    for name, (shape, dims) in settings["parameters"].items():
        _need(
            len(shape) == len(dims),
            f"the parameter {name!r} of shape {shape} with the dimensions {dims}",
        )
    same = {name: dims for name, (_, dims) in settings["parameters"].items()}
    _need(header["dims"] == same, "dimensions of parameters that differ from those of the settings")
    for name, labels in header["coords"].items():
        longest = max((len(label) for label in labels["values"] if type(label) is str), default=0)
        _need(
            longest * len(labels["values"]) <= _LARGEST_LABELS,
            f"labels of {name!r} with {longest} characters",
        )


def _check_columns(
    folder: Folder, settings: dict[str, Any], named: bool, commit: dict[str, Any]
) -> None:
    """Check that all tables have the columns and rows that a run's results are made of."""
    runs, n_warmup = settings["independent_runs"], commit["n_warmup"]
    _need(len(n_warmup) == runs, f"the warm-up of {len(n_warmup)} independent runs of {runs}")
    tables = _tables(settings, named, commit["n_evaluations"], [commit["n_draws"], *n_warmup])
    _need(
        set(commit["columns"]) <= set(tables),
        f"a table among {sorted(set(commit['columns']) - set(tables))[:3]}",
    )
    for table, (n, first, columns) in tables.items():
        found = commit["columns"].get(table, {})
        missing = sorted(
            name for name, (_, _, needed) in columns.items() if needed and name not in found
        )
        _need(not (n and missing), f"{table} without {missing[:3]}")
        _need(n or not found, f"columns of {table}, which has no rows")
        for name, record in found.items():
            place, shape, dtype = f"{table}/{name}", record["shape"], record["dtype"]
            expected = columns.get(name, (shape, dtype, False))
            _need(
                shape[: len(first)] == first and shape == expected[0],
                f"{place} with rows of shape {shape}",
            )
            _need(math.prod(shape) <= _MOST_NUMBERS, f"{place} with rows of shape {shape}")
            _need(
                dtype == (expected[1] or dtype) and np.dtype(dtype).itemsize <= 32,
                f"{place} of type {dtype}",
            )
            _need(
                len(record["dims"]) == 1 + len(shape),
                f"{place} with the dimensions {record['dims']}",
            )
            row_bytes, rows = sizes(record)
            _need(
                len(record["crcs"]) == -(-n // rows),
                f"{len(record['crcs'])} chunks of {place}, which has {n} rows",
            )
            if n * row_bytes > _UNCHECKED_BYTES:
                held = _bytes_held(folder, table, name, record)
                _need(
                    held >= n * row_bytes / 2, f"{n} rows of {place}, whose files have {held} bytes"
                )


def _tables(
    settings: dict[str, Any], named: bool, n_evaluations: int, n_sweeps: list[int]
) -> dict[str, Any]:
    """Return, for each table, its rows, the beginning of their shapes, and its columns by name.

    Of a column the shape of a row, the type (None for any) and whether it has to be there.
    """
    chains, runs, dim = settings["chains"], settings["independent_runs"], settings["dim"]
    history = {
        "point": ([dim], "float64", True),
        "value": ([], "float64", True),
        "failed": ([], "bool", True),
    }
    tables: dict[str, Any] = {
        "history": (n_evaluations, [], history),
        "history/blobs": (n_evaluations, [], {}),
    }
    for i, n in enumerate(n_sweeps):
        phase, own = (f"warmup/{i - 1}", chains // runs) if i else ("draws", chains)
        trace = {name: ([own], np.dtype(dtype).name, True) for name, dtype in STATS.items()}
        trace |= {
            "position": ([own, dim], "float64", True),
            "log_density": ([own], "float64", True),
        }
        trace |= {
            "proposal": ([own, dim], "float64", False),
            "proposal_log_density": ([own], "float64", False),
        }
        variables = {
            name: ([own, *shape], None, True)
            for name, (shape, _) in settings["parameters"].items()
            if named
        }
        tables[f"{phase}/trace"] = n, [own], trace
        tables[f"{phase}/variables"] = n, [own], variables
        tables[f"{phase}/blobs"] = n, [own], {}
    return tables


def _bytes_held(folder: Folder, table: str, name: str, record: Record) -> int:
    """Return the number of bytes in the files of a column, as far as they exist."""
    place, held = folder.find(f"{table}/{quoted(name)}/c"), 0
    for chunk in range(len(record["crcs"])):
        with contextlib.suppress(OSError):
            held += place.joinpath(str(chunk), *["0"] * len(record["shape"])).lstat().st_size
    return held
