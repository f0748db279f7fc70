"""Atomic replacement of files, and a lock that allows one writer at a time."""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import sys
import threading
import warnings
import zlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kmc.errors import KmcWarning

if sys.platform == "win32":
    import msvcrt
else:
    import errno
    import fcntl

LOCK = "lock"
"""The name of the file that is locked."""

_LOCKED_BYTE = 2**30  # far beyond the file's content: on Windows nobody can read a locked byte
DATA = "data.npz"


class StoreError(ValueError):
    """A store that is not a kmc store, is damaged, or belongs to another run."""


class Damaged(StoreError):
    """Written bytes are missing or changed; the message names the file."""


def replace(path: Path, content: bytes) -> None:
    """Write a file in one step, as seen by other processes and after the death of this one."""
    partial = path.with_name(f".{path.name}.partial")
    with _naming(partial), partial.open("wb") as file:
        write(file, content)
    os.replace(partial, path)


def write_at(path: Path, size: int, offset: int, content: bytes) -> None:
    """Write into a file of that size; it is created if it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    with _naming(path), path.open("r+b") as file:
        file.truncate(size)
        file.seek(offset)
        write(file, content)


def write(file: Any, content: bytes) -> None:
    """Write bytes; everything that a store writes goes through here."""
    file.write(content)


class Lock:
    """Makes a folder writable by this process alone, until it is closed.

    A file in the folder gets a POSIX lock: it ends with the process, however the process dies, and forked processes do
    not inherit it. On a network file system it works between machines if the server supports locks, as NFS with its
    lock daemon and NFS 4 do.

    Raises
    ------
    RuntimeError
        Another process, or another run of this process, holds the lock.
    OSError
        The folder cannot be written to.

    Warns
    -----
    KmcWarning
        The file system has no locks, so the folder is not protected.
    """

    _guard = threading.RLock()
    _held: ClassVar[dict[tuple[int, int], int]] = {}
    """Locked folders by device and number, with the process that holds them: POSIX locks do not separate runs of one
    process."""

    def __init__(self, folder: Path):
        self._descriptor: int | None = None
        self._folder = folder
        status = os.stat(folder)
        self._key = status.st_dev, status.st_ino
        with self._guard:
            if self._held.get(self._key) == os.getpid():
                raise self._busy("another run of this process")
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                _lock(descriptor)
            except BlockingIOError:
                owner = _owner(descriptor)
                os.close(descriptor)
                raise self._busy(f"another run{owner}") from None
            except OSError as error:
                warnings.warn(
                    f"store={str(folder)!r}: its file system has no locks ({error.strerror}); make sure that no other "
                    "process writes to the store",
                    KmcWarning,
                    stacklevel=2,
                )
            self._held[self._key], self._descriptor = os.getpid(), descriptor
        about = {"process": os.getpid(), "host": platform.node(), "since": datetime.now(UTC).isoformat("T", "seconds")}
        with contextlib.suppress(OSError):  # it only tells other processes who holds the lock
            os.truncate(descriptor, 0)
            os.write(descriptor, json.dumps(about).encode())

    def _busy(self, who: str) -> RuntimeError:
        return RuntimeError(
            f"store={str(self._folder)!r}: {who} is writing to it; wait until it has ended, or use another path"
        )

    def close(self) -> None:
        """Release the lock; repeated calls are harmless."""
        if self._descriptor is not None:
            with self._guard:
                os.close(self._descriptor)
                self._descriptor = None
                if self._held.get(self._key) == os.getpid():
                    del self._held[self._key]

    def __del__(self) -> None:
        self.close()


def write_data(folder: Path, data: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Write arrays by group and name; return the record that :func:`read_data` needs, empty if there are no arrays.

    It holds the dimensions of each array, and a checksum of the file.
    """
    arrays = {f"{group}/{name}": array for group, named in data.items() for name, (_, array) in named.items()}
    if not arrays:
        return {}
    dims = {group: {name: list(dims) for name, (dims, _) in named.items()} for group, named in data.items()}
    return {"dims": dims, "crc": write_arrays(folder / DATA, arrays)}


def read_data(folder: Path, record: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Read them by group and name, dimensions and array; Damaged if the file differs from what was written."""
    if not record:
        return {}
    arrays = read_arrays(folder / DATA, record["crc"])
    return {
        group: {name: (tuple(of), arrays[f"{group}/{name}"]) for name, of in named.items()}
        for group, named in record["dims"].items()
    }


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> int:
    """Write a file of arrays in one step; return its checksum."""
    file = io.BytesIO()
    np.savez(file, **{name: _plain(array) for name, array in arrays.items()})
    replace(path, file.getvalue())
    return zlib.crc32(file.getvalue())


def read_arrays(path: Path, crc: int) -> dict[str, np.ndarray]:
    """The arrays in a file, by name; Damaged if it differs from what was written."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    if zlib.crc32(content) != crc:
        raise Damaged(f"{path} does not hold what was written: its checksum differs")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the file's name to errors of writing, which lack it."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def _lock(descriptor: int) -> None:
    """Lock the file; BlockingIOError if another process holds the lock, another OSError if there are no locks."""
    if sys.platform == "win32":
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError from error
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise BlockingIOError from error
        raise


def _owner(descriptor: int) -> str:
    try:
        about = json.loads(os.read(descriptor, 1000))
        return f" (process {about['process']} on {about['host']}, since {about['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _plain(array):
    """An array without Python objects, which NumPy would pickle."""
    array = np.asarray(array)
    return array.astype(str) if array.dtype == object else array
