"""The attributes of a store's root: what its run was asked for, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from kmc._version import __version__
from kmc.run.store.columns import read_json, write_json

FORMAT = 2


class StoreError(ValueError):
    """A store that is no store of kmc, is damaged, or belongs to another run."""


@dataclass(frozen=True)
class Commit:
    """What of a store counts.

    Attributes
    ----------
    n_evaluations, n_draws : int
        Rows of the history and of the draws.
    n_warmup : list of int
        Sweeps of each replica's warm-up.
    crcs : dict
        For each table, the checksum of each column's rows.
    snapshots : list of dict
        Those that can be loaded, the newest first: name, size, crc.
    draws, max_evaluations : int or None
        What the run goes on to; :func:`kmc.extend` raises it.
    attrs : dict
        Of the result; with warnings when the run is finished.
    finished : bool
    seconds : float
        Of sampling, over all sessions.
    warmup_cut : int or None
        Evaluations after which warm-up was told to end, by the clock.
    at : str
        When.
    versions : dict
        Of the packages that made it.
    """

    n_evaluations: int
    n_draws: int
    n_warmup: list[int]
    draws: int | None
    max_evaluations: int | None
    crcs: dict[str, dict[str, int]] = field(default_factory=dict)
    snapshots: list[dict[str, Any]] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    finished: bool = False
    seconds: float = 0.0
    warmup_cut: int | None = None
    at: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    def with_changes(self, **changes: Any) -> Commit:
        """A later one."""
        return replace(self, at=datetime.now(UTC).isoformat(), versions=versions(), **changes)


def versions() -> dict[str, str]:
    """Of what decides which draws a seed gives."""
    from importlib.metadata import version

    return {"kmc": __version__, **{name: version(name) for name in ("numpy", "scipy", "numba")}}


def write_commit(path: Path, header: Mapping[str, Any], commit: Commit) -> None:
    """Replace the root's attributes in one step."""
    attributes = {"kmc": {"format": FORMAT, **header, "commit": asdict(commit)}}
    write_json(path / "zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": attributes})


def read_commit(path: Path) -> tuple[dict[str, Any], Commit]:
    """What the run was asked for, and the last commit.

    Raises
    ------
    FileNotFoundError
        There is nothing at that path.
    StoreError
        It is no store of kmc, or one that this version does not read.
    """
    if not path.exists():
        raise FileNotFoundError(f"store={str(path)!r}: there is no such file or directory")
    foreign = f"store={str(path)!r} is not a store of kmc: pass the path that was given to kmc.sample(store=...)"
    try:
        about = dict(read_json(path / "zarr.json")["attributes"]["kmc"])
        found = about.pop("format")
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(foreign) from None
    if found != FORMAT:
        raise StoreError(
            f"store={str(path)!r} has format {found!r}, and kmc {__version__} reads format {FORMAT}: "
            f"use the version that wrote it, kmc {_writer(about)}"
        )
    try:
        return about, Commit(**about.pop("commit"))
    except (KeyError, TypeError):
        raise StoreError(foreign) from None


def _writer(about):
    try:
        return about["commit"]["versions"]["kmc"]
    except (KeyError, TypeError):
        return "(unknown)"


def seed_of(header: dict[str, Any]) -> np.random.SeedSequence:
    """The seed of a store's run."""
    return np.random.SeedSequence(header["seed"]["entropy"], spawn_key=tuple(header["seed"]["spawn_key"]))
