"""``kmc.load``: open the draws in a store, reading them on access."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray
from xarray.backends import BackendArray
from xarray.core import indexing

from kmc.errors import warn
from kmc.kernel_hmc.sampler import KernelHMC
from kmc.model.returned import group_of
from kmc.model.simulation import OUTPUTS
from kmc.run.frozen_surrogates import Frozen, unpacked
from kmc.run.history import EVALUATIONS
from kmc.run.results import Drawn, as_evaluations, holds_evaluations, laid_out
from kmc.run.store.columns import Column, Record, Rows
from kmc.run.store.commit import Commit, read_commit
from kmc.run.store.evaluations import stored_evaluations
from kmc.run.store.files import Damaged, Folder, StoreError, as_path
from kmc.run.store.parts import DATA, SURROGATE, from_coordinates, read_plain
from kmc.samplers.base import FURTHER_STATS, STATS


def load(path: str | os.PathLike[str]) -> Any:
    """Open the draws in the store of a running, finished or interrupted run.

    Parameters
    ----------
    path : str or path-like
        The path given to ``kmc.sample(store=...)``.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        As from :func:`kmc.sample`, up to the last commit. Variables are read from disk when they
        are used. While the run is not finished, there is an attribute "unfinished", no attribute
        "warnings", and the groups of the warm-up are included.

    Raises
    ------
    FileNotFoundError, ValueError
        There is no store at that path. Later, when a variable is read: its file is damaged; the
        message names the file, and other variables and earlier draws can be read.

    Notes
    -----
    No pickle is loaded, so that a store of unknown origin can be read safely. Rows are compared
    with their checksums when they are read. If ``zarr.json`` is damaged, a copy that is at most one
    commit older is read instead, with a :class:`kmc.KmcWarning`.

    Examples
    --------
    >>> import tempfile
    >>> import kmc
    >>> path = tempfile.mkdtemp() + "/run.zarr"
    >>> settings = {"dim": 2, "sampler": "random-walk", "draws": 50, "seed": 1, "progress": False}
    >>> idata = kmc.sample(lambda x: -0.5 * x @ x, store=path, **settings)
    >>> kmc.load(path).posterior["x"].equals(idata.posterior["x"])
    True
    """
    place = as_path("path", path)
    header, commit = read_commit(place)
    try:
        return _loaded(Folder(place), header, commit)
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError, MemoryError) as error:
        raise StoreError(f"path={str(place)!r} holds records that no run makes: {error}") from error
    except ValueError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"path={str(place)!r} holds records that no run makes: {error}") from error


def _loaded(folder: Folder, header: dict[str, Any], commit: Commit) -> Any:
    names = _Names(
        named=header["named"],
        dims=header["dims"],
        coords={name: from_coordinates(record) for name, record in header["coords"].items()},
        variable_attrs=header["variable_attrs"],
        shapes={
            name: tuple(shape) for name, (shape, _) in header["settings"]["parameters"].items()
        },
    )
    chains, dim = header["settings"]["chains"], header["settings"]["dim"]
    attrs, warmup = commit.attrs, None
    if not commit.finished:
        attrs = {
            **attrs,
            "unfinished": f"the run has not ended: these are its draws until {commit.at}",
        }
    if header["save_warmup"] or not commit.finished:
        phases = [
            _Phase(folder, f"warmup/{i}", commit.columns, n) for i, n in enumerate(commit.n_warmup)
        ]
        warmup = _drawn(phases, names, chains, dim)
    phase = _Phase(folder, "draws", commit.columns, commit.n_draws)
    draws = _drawn([phase], names, chains, dim)
    frozen = _surrogate(folder, commit, chains, dim)
    surrogate = None
    if frozen is not None:
        surrogate, densities = frozen
        draws = draws._replace(proposals=_proposals(phase, densities))
    learns = header["settings"]["sampler"] == KernelHMC.name and header["save_surrogate"]
    few = holds_evaluations(commit.n_draws * chains, attrs.get("n_evaluations", math.inf))
    further = _evaluations(folder, chains) if learns and few else {}
    return laid_out(names, draws, warmup, attrs, _data(folder, header["data"]), surrogate, further)


def lazily(parts: Sequence[Any], skips: Sequence[int], n: int) -> Any:
    """Join arrays (draw, chain, ...), read by slices of draws, into a lazy one (chain, draw, ...).

    It has n rows of each, after a number of skipped ones.
    """
    return indexing.LazilyIndexedArray(_SideBySide(parts, skips, n))


def computed(
    parts: Sequence[Any], skips: Sequence[int], n: int, function: Callable[[int, np.ndarray], Any]
) -> Any:
    """Make a lazy array (chain, draw) of ``function(chain, rows)``.

    The rows (n, d) are those of :func:`lazily`.
    """
    return indexing.LazilyIndexedArray(_Computed(_SideBySide(parts, skips, n), function))


def _data(folder: Folder, record: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return the data stored with the draws; none, with a warning, if their file is damaged."""
    if record is None:
        return {}
    try:
        found = read_plain(folder, DATA, record)
        for name, group in found.items():
            ours = ("posterior", "sample_stats", "proposals", "surrogate", EVALUATIONS)
            own = name in ours or not re.fullmatch(r"\w+", name)
            if own or any(type(array) is not np.ndarray for _, array in group.values()):
                raise Damaged(
                    f"{folder.path / DATA} has the group {name!r:.40}, which a model has not"
                )
            xarray.Dataset(group)
        return found
    except (Damaged, ValueError, TypeError, AttributeError) as error:
        _warn(folder, error, ", ".join(record["groups"]))
        return {}


def _evaluations(folder: Folder, chains: int) -> dict[str, Any]:
    """Return the group of all evaluations; none, with a warning, if their file is damaged."""
    try:
        _, x, values, blobs = stored_evaluations(folder.path)
    except StoreError as error:
        _warn(folder, error, EVALUATIONS)
        return {}
    values = np.where(values < np.inf, values, -np.inf)  # where the function failed, too
    outputs = {name: each for name, each in blobs.items() if group_of(name)[0] == OUTPUTS}
    return as_evaluations(x, values, outputs, chains)


def _surrogate(folder: Folder, commit: Commit, chains: int, dim: int) -> tuple[Any, Frozen] | None:
    """Return the frozen surrogates, as a group and rebuilt; None, with a warning, if damaged."""
    if (
        commit.surrogate is None
        or not commit.n_draws
        or "proposal" not in commit.columns["draws/trace"]
    ):
        return None
    try:
        content = folder.read_checked(SURROGATE, commit.surrogate["size"], commit.surrogate["crc"])
    except Damaged as error:
        _warn(folder, error, "proposals, surrogate")
        return None
    try:
        group, frozen = unpacked(content, chains)
        if frozen.densities[0].dim != dim:
            raise ValueError(
                f"a surrogate in {frozen.densities[0].dim} dimensions of a run in {dim}"
            )
    except Exception as error:  # forged bytes raise errors of any kind
        _warn(folder, f"{folder.path / SURROGATE} cannot be read: {error}", "proposals, surrogate")
        return None
    return group, frozen


def _warn(folder: Folder, error: Any, groups: str) -> None:
    warn(f"store={str(folder.path)!r} is damaged: {error}. Left out: {groups}")


def _proposals(phase: _Phase, frozen: Frozen) -> dict[str, Any]:
    points = [phase.array("trace", "proposal")]
    return {
        "x": lazily(points, [0], phase.n),
        "lp": lazily([phase.array("trace", "proposal_log_density")], [0], phase.n),
        "surrogate": computed(
            points, [0], phase.n, lambda chain, x: frozen.density(chain).log_density(x)
        ),
    }


class _Names(NamedTuple):
    """What a store records of a model."""

    named: bool
    dims: dict[str, list[str]]
    coords: dict[str, np.ndarray]
    variable_attrs: dict[str, dict[str, Any]]
    shapes: dict[str, tuple[int, ...]]


class _Phase(NamedTuple):
    """Tables of n rows: of all chains, or of the warm-up of one independent run."""

    folder: Folder
    name: str
    columns: dict[str, dict[str, Record]]
    n: int

    def names(self, kind: str) -> list[str]:
        return list(self.columns.get(f"{self.name}/{kind}", ()))

    def array(self, kind: str, name: str) -> Rows:
        table = f"{self.name}/{kind}"
        return Rows(Column(self.folder, table, name, self.columns[table][name]), self.n)


def _drawn(phases: Sequence[_Phase], names: _Names, chains: int, dim: int) -> Drawn:
    """Return lazy arrays of tables side by side; if lengths differ, the last rows that all have."""
    n = min(phase.n for phase in phases)

    def column(kind, name, dtype, shape=()):
        if not n:
            return np.empty((chains, 0, *shape), dtype)
        return lazily(
            [phase.array(kind, name) for phase in phases], [phase.n - n for phase in phases], n
        )

    further = (
        {name: FURTHER_STATS[name] for name in phases[0].names("trace") if name in FURTHER_STATS}
        if n
        else {}
    )
    positions = column("trace", "position", float, (dim,))
    variables = {"x": positions}
    if names.named:
        variables = {
            name: column("variables", name, float, shape) for name, shape in names.shapes.items()
        }
    return Drawn(
        positions=positions,
        variables=variables,
        blobs={name: column("blobs", name, float) for name in phases[0].names("blobs")}
        if n
        else {},
        stats={"lp": column("trace", "log_density", float)}
        | {name: column("trace", name, dtype) for name, dtype in STATS.items()}
        | {name: column("trace", name, dtype) for name, dtype in further.items()},
    )


class _Computed(BackendArray):
    def __init__(self, rows: _SideBySide, function: Callable[[int, np.ndarray], Any]):
        self._rows, self._function = rows, function
        self.shape, self.dtype = rows.shape[:2], np.dtype(float)

    def __getitem__(self, key: Any) -> np.ndarray:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.BASIC, self._read
        )

    def _read(self, key):
        chain, draw = key
        rows = self._rows._read((slice(None), slice(None), slice(None)))
        values = np.empty(self.shape)
        for i in np.atleast_1d(np.arange(self.shape[0])[chain]):
            values[i] = self._function(i, np.ascontiguousarray(rows[i]))
        return values[chain, draw]


class _SideBySide(BackendArray):
    def __init__(self, parts: Sequence[Any], skips: Sequence[int], n: int):
        self._parts, self._skips = parts, skips
        self.shape = (sum(part.shape[1] for part in parts), n, *parts[0].shape[2:])
        self.dtype = np.result_type(*(part.dtype for part in parts))

    def __getitem__(self, key: Any) -> np.ndarray:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.BASIC, self._read
        )

    def _read(self, key):
        """Return the elements at a key of whole numbers and slices.

        Rows are read whole, as they are in one chunk.
        """
        chain, draw, *others = key
        wanted = np.atleast_1d(np.arange(self.shape[1])[draw])
        first, end = (wanted.min(), wanted.max() + 1) if len(wanted) else (0, 0)
        rows = [
            part[skip + first : skip + end]
            for part, skip in zip(self._parts, self._skips, strict=True)
        ]
        found = np.concatenate(rows, axis=1).swapaxes(0, 1)[:, wanted - first]
        return found[(chain, slice(None) if isinstance(draw, slice) else 0, *others)]
