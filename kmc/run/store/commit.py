"""The attributes of a store's root: the run's settings and its state at the last commit."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kmc._version import __version__
from kmc.errors import KmcWarning
from kmc.run.store.columns import Record, has_checksum, read_json, write_json
from kmc.run.store.files import Damaged, StoreError
from kmc.run.store.old_names import upgraded

FORMAT = 2

COPY = "commit.json"
"""A copy of ``zarr.json``, written after it."""


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
    snapshots : list of dict
        Records of the snapshots that can be loaded, the newest first.
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
    snapshots: list[dict[str, Any]] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    finished: bool = False
    seconds: float = 0.0
    warmup_cut: int | None = None
    ahead: dict[str, Any] | None = None
    at: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    def with_changes(self, **changes: Any) -> Commit:
        """A later commit, with these changes."""
        return replace(self, at=datetime.now(UTC).isoformat(), versions=versions(), **changes)


def versions() -> dict[str, str]:
    """Versions of the packages that determine which draws a seed gives."""
    from importlib.metadata import version

    return {"kmc": __version__, **{name: version(name) for name in ("numpy", "scipy", "numba")}}


def write_commit(path: Path, header: Mapping[str, Any], commit: Commit) -> None:
    """Replace the root's attributes in one step."""
    counts = {part.name: getattr(commit, part.name) for part in fields(commit)}
    attributes = {"kmc": {"format": FORMAT, **header, "commit": counts}}
    for name in ("zarr.json", COPY):
        write_json(path / name, {"zarr_format": 3, "node_type": "group", "attributes": attributes})


def read_commit(path: Path) -> tuple[dict[str, Any], Commit]:
    """The run's settings and the last commit.

    Raises
    ------
    FileNotFoundError
        There is nothing at that path.
    StoreError
        It is not a kmc store, or one of a format that this version does not read.
    """
    if not path.exists():
        raise FileNotFoundError(f"store={str(path)!r}: there is no such file or directory")
    about = _about(path)
    try:
        about["settings"] = upgraded(about["settings"])
        return about, Commit(**about.pop("commit"))
    except (KeyError, TypeError):
        raise _foreign(path) from None


def _about(path: Path) -> dict[str, Any]:
    """The root's attributes; if they are damaged, those of the copy."""
    try:
        return _of_this_format(path, read_json(path / "zarr.json"))
    except Damaged as error:
        if not (path / COPY).exists():
            raise _of_none(path) from None
        try:
            about = _of_this_format(path, read_json(path / COPY))
        except Damaged as second:
            raise StoreError(f"store={str(path)!r} is damaged: {error}; {second}") from None
        warnings.warn(
            f"store={str(path)!r} is damaged: {error}. Its copy {COPY} is intact, and is read instead",
            KmcWarning,
            stacklevel=4,
        )
        return about


def _of_this_format(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    try:
        about = dict(content["attributes"]["kmc"])
        found = about.pop("format")
    except (KeyError, TypeError, ValueError):
        raise _foreign(path) from None
    if found != FORMAT:
        raise _another_format(path, found, about)
    return about


def _of_none(path: Path) -> StoreError:
    """The error for a root without a checksum: a store of an old format, or not a kmc store."""
    try:
        content = json.loads((path / "zarr.json").read_text(encoding="utf-8"))
        about = content["attributes"]["kmc"]
        if not has_checksum(content) and about["format"] != FORMAT:
            return _another_format(path, about["format"], about)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return _foreign(path)


def _another_format(path, found, about):
    try:
        writer = about["commit"]["versions"]["kmc"]
    except (KeyError, TypeError):
        writer = "(unknown)"
    return StoreError(
        f"store={str(path)!r} has format {found!r}, and kmc {__version__} reads format {FORMAT}: "
        f"use the version that wrote it, kmc {writer}"
    )


def _foreign(path: Path) -> StoreError:
    remedy = "open a netCDF file by arviz.from_netcdf" if path.suffix == ".nc" else "kmc.sample(store=...) writes one"
    return StoreError(f"store={str(path)!r} is not a kmc store: {remedy}")
