"""Objects in a store: the state of a run between two sweeps, the sampler's options, and the model.

States and options are plain data (:mod:`kmc.run.store.plain`). Objects in them that are not from kmc, such as an
estimator of the user's, are pickled in a file of their own, and so is the model. Loading a pickle runs code: pickles
are loaded only from a store that the user trusts.
"""

from __future__ import annotations

import io
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from kmc.run.store import plain
from kmc.run.store.columns import get_bytes, put_bytes

Record = dict[str, Any]
"""What is needed to find an object again."""

LAYOUT = 7
"""Of the fields that states have. Raise it when they change within a version: a run with an older snapshot is continued
from its history instead."""


class ExactPickler(pickle.Pickler):
    """A pickler that keeps the strides of arrays: they determine the order of summation, and so the sums."""

    def reducer_override(self, thing: Any) -> Any:
        """Called by pickle for each object."""
        if type(thing) is not np.ndarray or thing.flags.c_contiguous or thing.flags.f_contiguous:
            return NotImplemented
        if min(thing.strides) < 0 or thing.dtype.hasobject:
            return NotImplemented
        return plain.with_strides, (np.ascontiguousarray(thing), thing.strides)


def pickled(content: Any) -> bytes:
    """Bytes of an object, for this version of kmc."""
    file = io.BytesIO()
    ExactPickler(file, protocol=5).dump(content)
    return file.getvalue()


def dump(folder: Path, content: Any, foreign: bool) -> Record | None:
    """Write a state or options to a new folder; None if that is impossible: a run can be resumed without it.

    ``foreign``: whether the content may hold objects that are not from kmc.
    """
    try:
        parts = plain.flatten(content)
        if parts.foreign and not foreign:
            return None
        pickles = pickled(parts.foreign) if parts.foreign else None
    except Exception:  # whatever a user's object raises
        return None
    record: Record = {
        "name": folder.name,
        "layout": LAYOUT,
        "structure": put_bytes(folder / "structure", parts.structure.encode()),
        "numbers": put_bytes(folder / "numbers", parts.numbers),
    }
    if pickles is not None:
        record["pickles"] = put_bytes(folder / "pickles", pickles)
        record["pickled"] = sorted({_name(thing) for thing in parts.foreign})
    return record


def load(folder: Path, record: Record | None) -> Any:
    """Read what :func:`dump` wrote; None if it is missing, damaged, or from different code.

    Its pickles are loaded: see :func:`needs_trust`.
    """
    if record is None:
        return None
    folder = folder / record["name"]
    try:
        foreign = pickle.loads(get_bytes(folder / "pickles", **record["pickles"])) if "pickles" in record else []
        structure, numbers = (get_bytes(folder / part, **record[part]) for part in ("structure", "numbers"))
        return plain.restore(plain.Plain(structure.decode(), numbers, foreign))
    except Exception:  # a missing class, or another version of it: a run can be resumed without it
        return None


def needs_trust(record: Record | None) -> str:
    """The names of the pickled classes in it; empty if there are none."""
    return ", ".join((record or {}).get("pickled", ()))


def dump_model(folder: Path, model: Any) -> Record | None:
    """Pickle a model, with the user's functions by value; None for one that cannot be pickled."""
    import cloudpickle

    try:
        content = cloudpickle.dumps(model, protocol=5)
    except Exception:  # whatever a user's object raises
        return None
    return {"name": folder.name, "pickles": put_bytes(folder, content)}


def load_model(folder: Path, record: Record | None) -> Any:
    """Read what :func:`dump_model` pickled; None if it is missing, damaged, or does not load here."""
    if record is None:
        return None
    try:
        return pickle.loads(get_bytes(folder / record["name"], **record["pickles"]))
    except Exception:  # a missing module, or another version of it
        return None


def remove_others(folder: Path, names: set[str]) -> None:
    """Remove all other folders."""
    for path in folder.iterdir() if folder.exists() else ():
        if path.is_dir() and path.name not in names:
            shutil.rmtree(path, ignore_errors=True)


def _name(thing: Any) -> str:
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}"
