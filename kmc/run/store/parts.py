"""Objects in a store's files: plain data, signed snapshots, and pickles of a user's own objects.

Options, data and frozen surrogates are plain data (:mod:`kmc.run.store.plain`), which anybody may
read. A snapshot of the samplers is plain data, too; but numbers in it are indices of compiled
loops, which do not check them. So snapshots are signed with a key that is kept outside the store
and that only this user can read: one from elsewhere is not used, unless the user trusts the store,
and the run is repeated from its history instead.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from kmc.pickles import Untrusted, load_pickle
from kmc.run.store.files import PRIVATE, Damaged, Folder
from kmc.run.store.plain import Plain, flatten, restore

Record = dict[str, Any]

DATA, SURROGATE = "data", "surrogate"
"""Files of the data that are stored with the draws, and of the frozen surrogates."""
"""What is needed to read a file again: "name", "size" and "crc", and what else its kind needs."""

_KEY_BYTES = 32


def write_bytes(folder: Folder, name: str, content: bytes, mode: int = 0o666) -> Record:
    """Write a file in one step and return its record."""
    folder.replace(name, content, mode)
    return {"name": name, "size": len(content), "crc": zlib.crc32(content)}


def write_plain(folder: Folder, name: str, content: Any) -> Record:
    """Write an object as plain data and return its record.

    Raises
    ------
    NotPlain
        It holds something that is not plain.
    """
    return write_bytes(folder, name, flatten(content).packed())


def read_plain(folder: Folder, name: str, record: Record, foreign: Sequence[Any] = ()) -> Any:
    """Return what :func:`write_plain` wrote; the caller knows the name, the record may be forged.

    Raises
    ------
    Damaged
        It is missing, changed, or not plain data of this version.
    """
    content = folder.read_checked(name, record["size"], record["crc"])
    try:
        return restore(Plain.unpacked(content, foreign), check=True)
    except Exception as error:  # forged bytes raise errors of any kind
        raise Damaged(
            f"{folder.path / name} cannot be read: {type(error).__name__}: {error}"
        ) from error


def write_snapshot(folder: Folder, name: str, content: Any, context: str) -> Record | None:
    """Write and sign a snapshot; None for a state that is not plain data.

    ``context`` is text of the store on which the meaning of the snapshot depends: it is signed,
    too.
    """
    try:
        parts = flatten(content)
    except TypeError:  # of a sampler from outside the package
        return None
    if parts.foreign:
        return None
    packed = parts.packed()
    return {**write_bytes(folder, name, packed), "signature": signature(packed, context)}


def read_snapshot(folder: Folder, name: str, record: Record, context: str, trust: bool) -> Any:
    """Return a snapshot; None if it cannot be used.

    It cannot if it is missing, damaged, of other code, or neither signed by this user nor trusted.
    """
    try:
        content = folder.read_checked(name, record["size"], record["crc"])
        if not (trust or hmac.compare_digest(signature(content, context), record["signature"])):
            return None
        return restore(Plain.unpacked(content))
    except Exception:  # the run is repeated from its history
        return None


def write_model(folder: Folder, name: str, model: Any) -> Record | None:
    """Pickle a model, with the user's functions by value; None for one that cannot be pickled."""
    return _write_pickle(folder, name, model)


def read_model(folder: Folder, name: str, record: Record, trust: bool) -> Any:
    """Return the model that was pickled; None if it does not load here.

    Raises
    ------
    Untrusted
        ``trust`` is False; nothing was loaded.
    Damaged
        The file is missing or changed.
    """
    content = folder.read_checked(name, record["size"], record["crc"])
    try:
        return load_pickle(content, trust=trust)
    except Untrusted:
        raise
    except Exception:  # a missing module, or another version of it
        return None


def write_options(folder: Folder, name: str, sampler: Any) -> Record | None:
    """Write a sampler's options; objects that are not from kmc are pickled in a file of their own.

    None if that is impossible: the run can be resumed with the options that the user passes.
    """
    try:
        parts = flatten(sampler)
    except TypeError:
        return None
    record = write_bytes(folder, name, parts.packed())
    if not parts.foreign:
        return record
    pickled = _write_pickle(folder, f"{name}.pickle", parts.foreign)
    foreign = sorted({_class_name(thing) for thing in parts.foreign})
    return None if pickled is None else {**record, "pickle": pickled, "foreign": foreign}


def read_options(folder: Folder, name: str, record: Record, trust: bool) -> Any:
    """Return a sampler's options; None if its pickled objects do not load here.

    Raises
    ------
    Untrusted
        There are pickled objects and ``trust`` is False; nothing was loaded.
    Damaged
        A file is missing or changed.
    """
    foreign = (
        ()
        if "pickle" not in record
        else read_model(folder, f"{name}.pickle", record["pickle"], trust)
    )
    return None if foreign is None else read_plain(folder, name, record, foreign)


def coordinates(labels: Any) -> dict[str, Any]:
    """Return labels of a dimension in JSON form; :func:`from_coordinates` converts them back."""
    labels = np.asarray(labels)
    kept = labels.astype(str) if labels.dtype.kind in "mM" else labels
    return {
        "dtype": "object" if labels.dtype == object else labels.dtype.str,
        "values": kept.tolist(),
    }


def from_coordinates(record: Record) -> np.ndarray:
    """Return the labels (n,)."""
    dtype = np.dtype(record["dtype"])
    if dtype.kind not in "OUbiufmM":
        raise ValueError(f"labels of type {dtype}")
    return np.array(record["values"], dtype=str if dtype.kind == "U" else dtype)


def _write_pickle(folder, name, content):
    import cloudpickle

    try:
        pickled = cloudpickle.dumps(content, protocol=5)
    except Exception:  # whatever a user's object raises
        return None
    return write_bytes(folder, name, pickled, PRIVATE)


def signature(content: bytes, context: str) -> str:
    """Sign bytes, and the text on which their meaning depends, with the key of this user."""
    return hmac.new(_key(), context.encode() + b"\0" + content, "sha256").hexdigest()


@lru_cache(maxsize=1)
def _key() -> bytes:
    """Return this user's key, made when first needed; one of this process if none can be kept."""
    home = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    path = Path(os.path.expanduser(home)) / "kmc" / "key"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            Folder(path.parent).replace(path.name, secrets.token_bytes(_KEY_BYTES), PRIVATE)
        status = os.stat(path)
        mine = os.name == "nt" or (
            status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o077
        )
        key = path.read_bytes()
        if mine and len(key) == _KEY_BYTES:
            return key
    except (OSError, ValueError):
        pass
    return secrets.token_bytes(_KEY_BYTES)


def _class_name(thing: Any) -> str:
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}"
