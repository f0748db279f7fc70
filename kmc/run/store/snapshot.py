"""Pickled bytes in a store: the state of a run between two sweeps, and the objects that it was given."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kmc.run.store.columns import get_bytes, put_bytes


def pickled(content: Any) -> bytes:
    """In the manner of the standard library."""
    return pickle.dumps(content, protocol=5)


def cloudpickled(content: Any) -> bytes:
    """With functions by value, if cloudpickle is there."""
    try:
        import cloudpickle
    except ImportError:
        return pickled(content)
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
