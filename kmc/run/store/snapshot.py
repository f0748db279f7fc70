"""Pickled bytes in a store: the state of a run between two sweeps, and the objects that it was given."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

from kmc.run.store.columns import Damaged, get_bytes, put_bytes


def dump(folder: Path, content: Any) -> dict[str, Any] | None:
    """Pickle to a new array; None if that cannot be done. The record that is returned finds it again."""
    try:
        pickled = pickle.dumps(content, protocol=5)
    except Exception:  # whatever a user's object raises: the run can be continued without
        return None
    return {"name": folder.name, **put_bytes(folder, pickled)}


def load(folder: Path, record: dict[str, Any] | None) -> Any:
    """What was pickled; None if it is not there, is damaged, or does not load here."""
    if record is None:
        return None
    try:
        return pickle.loads(get_bytes(folder / record["name"], record["size"], record["crc"]))
    except Damaged:
        return None
    except Exception:  # a class that is gone or has changed: the run can be continued without
        return None


def remove_others(folder: Path, names: set[str]) -> None:
    """Remove all snapshots but those."""
    for path in folder.iterdir() if folder.exists() else ():
        if path.is_dir() and path.name not in names:
            shutil.rmtree(path, ignore_errors=True)
