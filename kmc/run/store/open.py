"""Open a run's store: create a new one, or continue an existing one."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import reprlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kmc._names import install
from kmc.run.arguments import Request
from kmc.run.frozen import blocks_of
from kmc.run.given import Given
from kmc.run.results import data_of, described
from kmc.run.store import snapshot
from kmc.run.store.columns import make_group
from kmc.run.store.commit import Commit, read_commit, versions, write_commit
from kmc.run.store.evaluations import EVALUATIONS, read_given, write_given
from kmc.run.store.files import DATA, LOCK, Lock, StoreError, write_data
from kmc.run.store.old_names import is_old_adaptive_metropolis
from kmc.run.store.recorder import Recorder
from kmc.run.store.snapshot import needs_trust

GIVEN = "given"
"""The folder of the model and the sampler's options."""


def as_store(store: Any, resume: Any) -> Path | None:
    """The path of a store, or None.

    Raises
    ------
    TypeError, ValueError
        Not a path; ``resume`` without one.
    FileExistsError
        The path exists, and the run is not to be resumed.
    """
    if not isinstance(resume, (bool, np.bool_)):
        raise TypeError(f"resume={resume!r}: expected True or False")
    if store is None:
        if resume:
            raise ValueError("resume=True and store=None: give the path of the store to resume")
        return None
    path = as_path("store", store)
    if not resume and not _empty(path):
        if path.is_dir() and not (path / "zarr.json").exists():
            raise FileExistsError(f"store={str(path)!r} is a folder with other files: use another path")
        raise FileExistsError(
            f"store={str(path)!r} exists: pass resume=True to resume its run,"
            " read it with kmc.load, or use another path"
        )
    return path


def as_path(name: str, value: Any) -> Path:
    """A path; ImportError if zarr, which reads the store, is not installed."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name}={reprlib.repr(value)}: expected a path")
    if importlib.util.find_spec("zarr") is None:
        raise ImportError(f"{name}={value!r}: a store needs the package zarr: {install('zarr')}")
    return Path(value)


def stored_seed(path: Path | None) -> np.random.SeedSequence | None:
    """The seed of the run in a store; None if there is none."""
    if path is None or _empty(path):
        return None
    seed = read_commit(path)[0]["settings"]["seed"]
    return np.random.SeedSequence(seed["entropy"], spawn_key=tuple(seed["spawn_key"]))


def stored_given(path: Path | None) -> Given | None:
    """The evaluations that the run in a store was given as ``history``; None if there are none."""
    if path is None or _empty(path):
        return None
    found = read_given(path, read_commit(path)[0])
    return None if found is None else Given(*found)


def open_recorder(request: Request, path: Path, save_warmup: bool, save_surrogate: bool, trust: bool) -> Recorder:
    """The recorder of a run: into a new store, or into an existing one, whose run it continues.

    Raises
    ------
    StoreError
        It is not a kmc store, it is damaged, or it belongs to a different run.
    RuntimeError
        Another process is writing to it.
    """
    if not _empty(path):
        header, commit = read_commit(path)
        check_continuable(path, header, commit)
        check_settings(path, header["settings"], settings(request))
        return reopen(path, trust)
    path.mkdir(parents=True, exist_ok=True)
    with _closed_after_errors(Lock(path)) as lock:
        if not _empty(path):
            raise RuntimeError(f"store={str(path)!r}: another run has just begun there; use another path")
        return _created(request, path, save_warmup, save_surrogate, lock)


def reopen(path: Path, trust: bool, draws: int | None = None, max_evaluations: int | None = None) -> Recorder:
    """The recorder of a run that continues a store until it reaches its last limits.

    If it is finished, it continues for so many further draws or evaluations.
    """
    with _closed_after_errors(Lock(path)) as lock:
        header, commit = read_commit(path)
        check_continuable(path, header, commit)
        if not trust and commit.versions.get("kmc") == versions()["kmc"]:  # otherwise its snapshots are not used
            for made in commit.snapshots:
                _check_trust(path, needs_trust(made))
        if draws is not None or max_evaluations is not None:
            check_finished(path, commit)
            commit = replace(
                commit,
                finished=False,
                draws=None if draws is None else commit.n_draws + draws,
                max_evaluations=None if max_evaluations is None else commit.n_evaluations + max_evaluations,
            )
        return Recorder(path, header, commit, lock)


def check_finished(path: Path, commit: Commit) -> None:
    """StoreError if the run is not finished."""
    if not commit.finished:
        raise StoreError(
            f"path={str(path)!r}: its run is not finished; resume it by kmc.sample(..., store=path, resume=True)"
        )


def stored_model(path: Path, header: dict[str, Any], trust: bool) -> Any:
    """The model in a store, None if it cannot be loaded here; StoreError unless the store is trusted."""
    if header["model"] is not None and not trust:
        raise _untrusted(path, "the log-density", "target=..., or ")
    return snapshot.load_model(path / GIVEN, header["model"])


def stored_sampler(path: Path, header: dict[str, Any], trust: bool) -> Any:
    """The sampler's options in a store, None if they cannot be loaded here; StoreError if they need trust."""
    if not trust:
        _check_trust(path, needs_trust(header["sampler"]))
    return snapshot.load(path / GIVEN, header["sampler"])


def settings(request: Request) -> dict[str, Any]:
    """All settings that determine which draws a seed gives, and their names, in JSON form."""
    model = request.model
    options = described({"settings": request.sampler})["settings"]
    asked = {
        "dim": model.dim,
        "parameters": {name: [list(shape), list(model.dims[name])] for name, shape in _shapes(model).items()},
        "coords": {name: coordinates(labels)["values"] for name, labels in model.coords.items()},
        "noisy": model.noisy,
        "sampler": request.sampler.name,
        "settings of the sampler": re.sub(r" at 0x[0-9a-f]+", "", str(options)),
        "chains": request.chains,
        "independent_runs": request.independent_runs,
        "draws": request.draws,
        "warmup": request.warmup,
        "max_evaluations": request.max_evaluations,
        "history": None if request.history is None else [len(request.history.x), request.history.digest],
        "initial": None if request.initial is None else request.initial.tolist(),
        "seed": {"entropy": request.seed.entropy, "spawn_key": list(request.seed.spawn_key)},
    }
    return json.loads(json.dumps(asked, default=np.ndarray.tolist))


def check_settings(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """StoreError that names the first setting that differs."""
    for name, value in now.items():
        if before.get(name) != value:
            raise StoreError(
                f"store={str(path)!r} is of a run with {name}={_short(before.get(name))}, and this one has "
                f"{_short(value)}: resume it with the same arguments, or use another path"
            )


def check_continuable(path: Path, header: dict[str, Any], commit: Commit) -> None:
    """StoreError for a run whose algorithm this version does not have."""
    if is_old_adaptive_metropolis(header["settings"]):
        raise StoreError(
            f"store={str(path)!r} is of a run with the adaptive Metropolis of an earlier version, kmc "
            f"{commit.versions.get('kmc', '(unknown)')}, whose proposals this version does not make: kmc.load reads "
            "its draws; continue it with the version that wrote it, or begin a new run at another path"
        )


def coordinates(labels: Any) -> dict[str, Any]:
    """Labels of a dimension in JSON form; :func:`from_coordinates` converts them back."""
    labels = np.asarray(labels)
    kept = labels.astype(str) if labels.dtype.kind in "mM" else labels
    return {"dtype": "object" if labels.dtype == object else labels.dtype.str, "values": kept.tolist()}


def from_coordinates(record: dict[str, Any]) -> np.ndarray:
    """The labels (n,)."""
    return np.array(record["values"], dtype=record["dtype"])


@contextlib.contextmanager
def _closed_after_errors(lock: Lock) -> Iterator[Lock]:
    try:
        yield lock
    except BaseException:
        lock.close()
        raise


def _check_trust(path, pickled):
    """StoreError if classes are pickled in a store that the user does not trust."""
    if pickled:
        raise _untrusted(path, f"objects of the sampler that are not from kmc ({pickled})")


def _untrusted(path, what, instead=""):
    return StoreError(
        f"store={str(path)!r} holds {what} as a pickle, and a pickle can run any code when it is loaded: "
        f"pass {instead}trust=True if nobody else can have written to the store"
    )


def _created(request, path, save_warmup, save_surrogate, lock):
    model = request.model
    make_group(path / GIVEN)
    header = {
        "settings": settings(request),
        "named": model.named,
        "dims": {name: list(dims) for name, dims in model.dims.items()},
        "coords": {name: coordinates(labels) for name, labels in model.coords.items()},
        "data": write_data(path, data_of(request)),
        "evaluations": write_given(path, request.history),
        "variable_attrs": {name: dict(attrs) for name, attrs in model.variable_attrs.items()},
        "save_warmup": save_warmup,
        "save_surrogate": save_surrogate,
        "model": snapshot.dump_model(path / GIVEN / "model", model),
        "sampler": snapshot.dump(path / GIVEN / "sampler", request.sampler, foreign=True),
        "blocks": snapshot.dump(path / GIVEN / "blocks", blocks_of(model), foreign=False),
    }
    commit = Commit(0, 0, [0] * request.independent_runs, request.draws, request.max_evaluations).with_changes()
    write_commit(path, header, commit)  # last: this makes it a store
    return Recorder(path, header, commit, lock)


def _empty(path: Path) -> bool:
    """Whether the folder is empty, or holds only what a process left that died while it created the store."""
    if not path.exists():
        return True
    if not path.is_dir():
        return False
    made = {DATA, EVALUATIONS, "zarr.json"}
    return {entry.name for entry in path.iterdir()} <= {GIVEN, LOCK, DATA, EVALUATIONS} | {
        f".{n}.partial" for n in made
    }


def _shapes(model):
    return {name: value.shape[1:] for name, value in model.constrain(np.zeros((1, model.dim))).items()}


def _short(value):
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:197] + "..."
