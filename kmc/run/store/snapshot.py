"""Pickled bytes in a store: the state of a run between two sweeps, and the objects that it was given."""

from __future__ import annotations

import io
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kmc.run.store.columns import get_bytes, put_bytes


class ExactPickler(pickle.Pickler):
    """A pickler that keeps the strides of arrays: they decide in which order numbers are added, and so their sum."""

    def reducer_override(self, thing: Any) -> Any:
        """Called by pickle for each object."""
        if type(thing) is not np.ndarray or thing.flags.c_contiguous or thing.flags.f_contiguous:
            return NotImplemented
        if min(thing.strides) < 0 or thing.dtype.hasobject:
            return NotImplemented
        return _with_strides, (np.ascontiguousarray(thing), thing.strides)


def _with_strides(values: np.ndarray, strides: tuple[int, ...]) -> np.ndarray:
    extent = sum((n - 1) * step for n, step in zip(values.shape, strides, strict=True)) + values.itemsize
    array: np.ndarray = np.ndarray(values.shape, values.dtype, np.zeros(extent, np.uint8), strides=strides)
    array[...] = values
    return array


def pickled(content: Any) -> bytes:
    """For this version of kmc."""
    file = io.BytesIO()
    ExactPickler(file, protocol=5).dump(content)
    return file.getvalue()


def cloudpickled(content: Any) -> bytes:
    """For another session, with the user's functions by value."""
    import cloudpickle

    return cloudpickle.dumps(content, protocol=5)


def dump(folder: Path, content: Any, pickled: Callable[[Any], bytes] = pickled) -> dict[str, Any] | None:
    """Write to a new array, and return the record by which it is found again; None for what cannot be pickled."""
    try:
        content = pickled(content)
    except Exception:  # whatever a user's object raises: a run can be continued without
        return None
    return {"name": folder.name, **put_bytes(folder, content)}


def load(folder: Path, record: dict[str, Any] | None) -> Any:
    """What was pickled; None if it is not there, is damaged, or does not load here."""
    if record is None:
        return None
    try:
        return pickle.loads(get_bytes(folder / record["name"], record["size"], record["crc"]))
    except Exception:  # a class that is gone, or another version of it: a run can be continued without
        return None


def remove_others(folder: Path, names: set[str]) -> None:
    """Remove all arrays but those."""
    for path in folder.iterdir() if folder.exists() else ():
        if path.is_dir() and path.name not in names:
            shutil.rmtree(path, ignore_errors=True)
