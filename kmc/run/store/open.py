"""Open a run's store: create a new one, or continue an existing one."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kmc.checks import as_flag
from kmc.pickles import Untrusted
from kmc.run.arguments import RunRequest
from kmc.run.history import Given
from kmc.run.results import data_of, described
from kmc.run.store.base import NullRecorder, RunRecorder, Store
from kmc.run.store.commit import Commit, read_commit, write_commit
from kmc.run.store.evaluations import GIVEN, read_given, write_given
from kmc.run.store.files import LOCK, ROOT, Folder, Lock, StoreError, as_path
from kmc.run.store.parts import (
    DATA,
    coordinates,
    read_model,
    read_options,
    write_model,
    write_options,
    write_plain,
)
from kmc.run.store.recorder import Recorder

MODEL, OPTIONS = "model.pickle", "sampler"
"""Files of the data stored with the draws, the model, and the sampler's options."""


def as_store(store: Any, resume: Any, trust: Any) -> Path | Store | None:
    """Return the path of a store, a backend from outside the package, or None.

    Raises
    ------
    TypeError, ValueError
        Not a path; ``resume`` without one; ``trust`` without ``resume``.
    FileExistsError
        The path exists, and the run is not to be resumed.
    """
    resume = as_flag("resume", resume)
    if as_flag("trust", trust) and not resume:
        raise ValueError(
            "trust=True and resume=False: only a run that is resumed has anything to trust; leave "
            "trust out"
        )
    if isinstance(store, Store):
        return store
    if store is None:
        if resume:
            raise ValueError("resume=True and store=None: give the path of the store to resume")
        return None
    path = as_path("store", store)
    if not resume and not _empty(path):
        if path.is_dir() and not (path / ROOT).exists():
            raise FileExistsError(
                f"store={str(path)!r} is a folder with other files: use another path"
            )
        raise FileExistsError(
            f"store={str(path)!r} exists: pass resume=True to resume its run,"
            " read it with kmc.load, or use another path"
        )
    return path


def stored_seed(path: Path | Store | None) -> np.random.SeedSequence | None:
    """Return the seed of the run in a store; None if there is none."""
    if not isinstance(path, Path) or _empty(path):
        return None
    return seed_of(read_commit(path)[0]["settings"])


def stored_given(path: Path | Store | None) -> Given | None:
    """Return the evaluations that a stored run was given as ``history``; None if there are none."""
    if not isinstance(path, Path) or _empty(path):
        return None
    found = read_given(Folder(path), read_commit(path)[0])
    return None if found is None else Given(*found)


Limits = tuple[int | None, int | None]
"""Draws and evaluations at which a run ends; None: no limit."""


def opened(
    request: RunRequest, store: Path | Store | None, *, save_warmup: bool, trust: bool
) -> tuple[RunRequest, RunRecorder]:
    """Return the recorder of a run, into a new store or into an existing one.

    It continues the run of an existing store to its limits. With the recorder comes the request;
    its limits are those with which the run in the store was begun, if none of its own is lower.
    Warm-up was planned with them, so that a run with larger limits has the same first draws.

    Raises
    ------
    StoreError
        It is not a kmc store, it is damaged, or it belongs to a different run.
    RuntimeError
        Another process is writing to it.
    """
    if store is None:
        return request, NullRecorder()
    if not isinstance(store, Path):
        return request, store.recorder(request)
    if not _empty(store):
        asked = read_commit(store)[0]["settings"]
        before, limits = (
            (asked["draws"], asked["max_evaluations"]),
            (request.draws, request.max_evaluations),
        )
        if all(
            new is None or (old is not None and new >= old)
            for old, new in zip(before, limits, strict=True)
        ):
            request = replace(request, draws=before[0], max_evaluations=before[1])
        check_settings(f"store={str(store)!r}", asked, settings(request))
        unchanged = limits == (request.draws, request.max_evaluations)
        return request, reopen(store, trust, limits=None if unchanged else limits)
    store.mkdir(parents=True, exist_ok=True)
    with _closed_after_errors(Lock(store)) as lock:
        if not _empty(store):
            raise RuntimeError(
                f"store={str(store)!r}: another run has just begun there; use another path"
            )
        return request, _created(request, store, save_warmup, lock)


def reopen(
    path: Path,
    trust: bool,
    draws: int | None = None,
    max_evaluations: int | None = None,
    limits: Limits | None = None,
) -> Recorder:
    """Return the recorder that continues the run of a store to its last limits, or new ``limits``.

    If it is finished, it continues for so many further draws or evaluations.
    """
    with _closed_after_errors(Lock(path)) as lock:
        header, commit = read_commit(path)
        if draws is not None or max_evaluations is not None:
            check_finished(path, commit)
            commit = replace(
                commit,
                finished=False,
                draws=None if draws is None else commit.n_draws + draws,
                max_evaluations=None
                if max_evaluations is None
                else commit.n_evaluations + max_evaluations,
            )
        if limits is not None:
            commit = replace(commit, finished=False, draws=limits[0], max_evaluations=limits[1])
        return Recorder(Folder(path), header, commit, lock, trust)


def check_finished(path: Path, commit: Commit) -> None:
    """Raise a StoreError if the run is not finished."""
    if not commit.finished:
        raise StoreError(
            f"result={str(path)!r}: its run is not finished; resume it by kmc.sample(..., "
            f"store=path, resume=True)"
        )


def stored_model(path: Path, header: dict[str, Any], trust: bool) -> Any:
    """Return the model in a store, None if it cannot be loaded here.

    There is a StoreError unless the store is trusted.
    """
    if header["model"] is None:
        return None
    try:
        return read_model(Folder(path), MODEL, header["model"], trust)
    except Untrusted:
        raise _untrusted(path, "the log-density", "target=..., or ") from None


def stored_sampler(path: Path, header: dict[str, Any], trust: bool) -> Any:
    """Return the sampler's options in a store, None if they cannot be loaded here.

    There is a StoreError if they need trust.
    """
    if header["sampler"] is None:
        return None
    try:
        return read_options(Folder(path), OPTIONS, header["sampler"], trust)
    except Untrusted:
        foreign = ", ".join(header["sampler"]["foreign"] or ())
        raise _untrusted(
            path, f"objects of the sampler that are not from kmc ({foreign})"
        ) from None


def settings(request: RunRequest) -> dict[str, Any]:
    """Return all settings that determine the draws of a seed, and their names, in JSON form."""
    model = request.model
    options = described({"settings": request.sampler})["settings"]
    asked = {
        "dim": model.dim,
        "parameters": {
            name: [list(shape), list(model.dims[name])] for name, shape in _shapes(model).items()
        },
        "coords": {name: coordinates(labels)["values"] for name, labels in model.coords.items()},
        "noisy": model.noisy,
        "sampler": request.sampler.name,
        "settings of the sampler": re.sub(r" at 0x[0-9a-f]+", "", str(options)),
        "chains": request.chains,
        "independent_runs": request.independent_runs,
        "draws": request.draws,
        "warmup": request.warmup,
        "max_evaluations": request.max_evaluations,
        "history": None
        if request.history is None
        else [len(request.history.x), request.history.digest],
        "initial": None if request.initial is None else request.initial.tolist(),
        "seed": {"entropy": request.seed.entropy, "spawn_key": list(request.seed.spawn_key)},
    }
    return json.loads(json.dumps(asked, default=np.ndarray.tolist))


def seed_of(settings: dict[str, Any]) -> np.random.SeedSequence:
    """Return the seed of a run with these settings."""
    seed = settings["seed"]
    return np.random.SeedSequence(seed["entropy"], spawn_key=tuple(seed["spawn_key"]))


def check_settings(what: str, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise a StoreError that names the first setting that differs."""
    for name, value in now.items():
        if before.get(name) != value:
            raise StoreError(
                f"{what} is of a run with {name}={_short(before.get(name))}, and this one has "
                f"{_short(value)}: resume it with the same arguments, or use another path"
            )


@contextlib.contextmanager
def _closed_after_errors(lock: Lock) -> Iterator[Lock]:
    try:
        yield lock
    except BaseException:
        lock.close()
        raise


def _untrusted(path, what, instead=""):
    return StoreError(
        f"store={str(path)!r} holds {what} as a pickle, and a pickle can run any code when it is "
        f"loaded: pass {instead}trust=True if nobody else can have written to the store"
    )


def _created(request, path, save_warmup, lock):
    model, folder = request.model, Folder(path)
    pickled = write_model(folder, MODEL, model)
    if pickled is not None:  # it may hold data that others are not to see
        path.chmod(0o700)
    header = {
        "settings": settings(request),
        "named": model.named,
        "dims": {name: list(dims) for name, dims in model.dims.items()},
        "coords": {name: coordinates(labels) for name, labels in model.coords.items()},
        "data": _write_data(folder, data_of(request)),
        "evaluations": write_given(folder, request.history),
        "variable_attrs": {name: dict(attrs) for name, attrs in model.variable_attrs.items()},
        "save_warmup": save_warmup,
        "save_surrogate": request.save_surrogate,
        "model": pickled,
        "sampler": write_options(folder, OPTIONS, request.sampler),
    }
    commit = Commit(
        0, 0, [0] * request.independent_runs, request.draws, request.max_evaluations
    ).with_changes()
    write_commit(folder, header, commit)  # last: this makes it a store
    return Recorder(folder, header, commit, lock, trust=True)


def _write_data(folder, data):
    """Write arrays by group and name, with dimensions; return the record, None without arrays."""
    groups = {
        group: {
            name: (tuple(dims), _without_objects(array)) for name, (dims, array) in named.items()
        }
        for group, named in data.items()
    }
    return (
        {**write_plain(folder, DATA, groups), "groups": list(groups)}
        if any(groups.values())
        else None
    )


def _without_objects(array):
    array = np.asarray(array)
    return array.astype(str) if array.dtype == object else array


def _empty(path: Path) -> bool:
    """Tell whether the folder is empty but for what a process left that died creating the store."""
    if not path.exists():
        return True
    if not path.is_dir():
        return False
    made = {MODEL, DATA, GIVEN, OPTIONS, f"{OPTIONS}.pickle"}
    partial = {f".{name}.partial" for name in (*made, ROOT)}
    return {entry.name for entry in path.iterdir()} <= {LOCK, *made, *partial}


def _shapes(model):
    return {
        name: value.shape[1:] for name, value in model.constrain(np.zeros((1, model.dim))).items()
    }


def _short(value):
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:197] + "..."
