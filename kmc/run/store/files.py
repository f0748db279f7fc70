"""A store's files: read and written without trust in what is there, locked while a process writes.

Whoever can write to a store's folder may have put anything into it. Paths are made of this
package's constants and of quoted names; a link is never followed; only regular files are opened;
and a file is read only if it has the size that was recorded for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import reprlib
import stat
import sys
import threading
import warnings
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, ClassVar
from urllib.parse import quote

from kmc.errors import KmcWarning

if sys.platform == "win32":
    import msvcrt
else:
    import errno
    import fcntl

ROOT = "zarr.json"
"""The file at the root, whose content says what is in the store."""

LOCK = "lock"
"""The name of the file that is locked."""

PRIVATE = 0o600
"""Permissions of a file that its owner alone can read."""

_LOCKED_BYTE = 2**30  # far beyond the file's content: on Windows nobody can read a locked byte
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_LARGEST_JSON = 2**28  # bytes; a store of 10 TB has a smaller one
_LONGEST_NAME = 200  # bytes of a quoted name; file systems allow 255
_CHECKSUM = "kmc_checksum"


class StoreError(ValueError):
    """A store that is not a kmc store, is damaged, or belongs to another run."""


class Damaged(StoreError):
    """Written bytes are missing or changed; the message names the file."""


class Folder:
    """The folder of a store.

    Names of files are relative to it, with slashes between their parts.

    Parameters
    ----------
    path : Path
        It may be a link: that is the user's own choice. Nothing in it may be one.
    """

    def __init__(self, path: Path):
        self.path = path

    def find(self, name: str) -> Path:
        """Return the path of a file or folder, which need not exist.

        Raises
        ------
        StoreError
            It, or a folder between the store and it, is a link, a device or a pipe.
        """
        path = self.path
        for part in name.split("/"):
            path = path / part
            try:
                mode = os.lstat(path).st_mode
            except (FileNotFoundError, NotADirectoryError):
                break
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                what = "a link" if stat.S_ISLNK(mode) else "neither a file nor a folder"
                raise StoreError(
                    f"{path} is {what}, which a store never holds: nothing was read or written "
                    f"there"
                )
        return self.path / name

    def exists(self, name: str) -> bool:
        """Tell whether there is such a file or folder."""
        return self.find(name).exists()

    def read(self, name: str, size: int | None = None) -> bytes:
        """Return the bytes of a file, which must have this size; without one, of a small file.

        Raises
        ------
        Damaged
            It is missing, not a regular file, or of another size.
        """
        path = self.find(name)
        try:
            with os.fdopen(os.open(path, os.O_RDONLY | _FLAGS), "rb") as file:
                found = _regular(file, path).st_size
                if size is None and found > _LARGEST_JSON:
                    raise Damaged(
                        f"{path} has {found} bytes, and a store's at most {_LARGEST_JSON}"
                    )
                if size is not None and found != size:
                    raise Damaged(f"{path} has {found} bytes instead of {size}")
                return file.read(found)
        except (OSError, MemoryError) as error:
            raise Damaged(
                f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"
            ) from error

    def read_checked(self, name: str, size: int, crc: int) -> bytes:
        """Return the bytes of a file if they have this size and checksum, or raise Damaged."""
        content = self.read(name, size)
        if zlib.crc32(content) != crc:
            raise Damaged(
                f"{self.path / name} does not hold what was written: its checksum differs"
            )
        return content

    def write_at(self, name: str, size: int, offset: int, content: bytes) -> None:
        """Write into a file of that size; it is created if it does not exist."""
        path = self.find(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            _naming(path),
            os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o666), "r+b") as file,
        ):
            if _regular(file, path).st_nlink > 1:
                raise StoreError(
                    f"{path} has several hard links, and writing would change them all: copy the "
                    f"store"
                )
            file.truncate(size)
            file.seek(offset)
            write(file, content)

    def replace(self, name: str, content: bytes, mode: int = 0o666) -> None:
        """Write a file in one step, as seen by other processes and after the death of this one."""
        path = self.find(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        partial.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS
        with _naming(partial), os.fdopen(os.open(partial, flags, mode), "wb") as file:
            write(file, content)
        os.replace(partial, path)

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        self.find(name).unlink(missing_ok=True)

    def read_json(self, name: str) -> dict[str, Any]:
        """Return what :meth:`write_json` wrote, or raise Damaged."""
        path = self.path / name
        text = self.read(name)
        try:
            content = json.loads(text)
            checksum = content["attributes"].pop(_CHECKSUM)
            same = checksum == _checksum(content)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Damaged(
                f"{path} does not hold what was written: {type(error).__name__}: {error}"
            ) from error
        if not same:
            raise Damaged(f"{path} does not hold what was written: its checksum differs")
        return content

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Replace a JSON file; a checksum is added to its attributes."""
        attributes = {**content["attributes"], _CHECKSUM: _checksum(content)}
        self.replace(name, json.dumps({**content, "attributes": attributes}).encode())


def quoted(name: str) -> str:
    """Return a file name for any text: a user's name of a variable.

    Examples
    --------
    >>> quoted("theta[0]"), quoted("../x"), quoted("..")
    ('theta[0]', '..%2Fx', '%2E%2E')
    """
    text = quote(name.encode("utf-8", "surrogatepass"), safe=" !#$&'()+,;=@[]^`{}~")
    if not text.strip("."):
        text = text.replace(".", "%2E") or "%"
    if len(text) > _LONGEST_NAME:
        text = f"{text[:_LONGEST_NAME]}~{zlib.crc32(text.encode()):08x}"
    return text


def write(file: BinaryIO, content: bytes) -> None:
    """Write bytes; everything that a store writes goes through here."""
    file.write(content)


class Lock:
    """Makes a folder writable by this process alone, until it is closed.

    A file in the folder gets a POSIX lock: it ends with the process, however the process dies, and
    forked processes do not inherit it. On a network file system it works between machines if the
    server supports locks, as NFS with its lock daemon and NFS 4 do.

    Raises
    ------
    RuntimeError
        Another process, or another run of this process, holds the lock.
    OSError
        The folder cannot be written to.
    StoreError
        The file to be locked is a link, a device or a pipe.

    Warns
    -----
    KmcWarning
        The file system has no locks, so the folder is not protected.
    """

    _guard = threading.RLock()
    _held: ClassVar[dict[tuple[int, int], int]] = {}
    """Locked folders by device and number, with the process that holds them.

    POSIX locks do not separate runs of one process.
    """

    def __init__(self, folder: Path):
        self._descriptor: int | None = None
        self._folder = folder
        status = os.stat(folder)
        self._key = status.st_dev, status.st_ino
        with self._guard:
            if self._held.get(self._key) == os.getpid():
                raise self._busy("another run of this process")
            descriptor = os.open(Folder(folder).find(LOCK), os.O_RDWR | os.O_CREAT | _FLAGS, 0o666)
            try:
                _lock(descriptor)
            except BlockingIOError:
                owner = _owner(descriptor)
                os.close(descriptor)
                raise self._busy(f"another run{owner}") from None
            except OSError as error:
                warnings.warn(
                    f"store={str(folder)!r}: its file system has no locks ({error.strerror}); "
                    "make sure that no other process writes to the store",
                    KmcWarning,
                    stacklevel=2,
                )
            self._held[self._key], self._descriptor = os.getpid(), descriptor
        about = {
            "process": os.getpid(),
            "host": platform.node(),
            "since": datetime.now(UTC).isoformat("T", "seconds"),
        }
        with contextlib.suppress(OSError):  # it only tells other processes who holds the lock
            os.truncate(descriptor, 0)
            os.write(descriptor, json.dumps(about).encode())

    def _busy(self, who: str) -> RuntimeError:
        return RuntimeError(
            f"store={str(self._folder)!r}: {who} is writing to it; wait until it has ended, or "
            f"use another path"
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


def as_path(name: str, value: Any) -> Path:
    """Return a path that the system can have."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name}={reprlib.repr(value)}: expected a path")
    path = Path(value)
    try:
        os.lstat(path / ROOT)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    except (OSError, ValueError) as error:  # too long, or with characters that no path has
        raise ValueError(
            f"{name}={reprlib.repr(str(path))}: expected a path that the system can have: {error}"
        ) from None
    return path


def _regular(file: BinaryIO, path: Path) -> os.stat_result:
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise Damaged(f"{path} is not a file")
    return status


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the file's name to errors of writing, which lack it."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def _checksum(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def _lock(descriptor: int) -> None:
    """Lock the file; BlockingIOError if another process holds the lock.

    Another OSError means that there are no locks.
    """
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
    """Return who holds the lock, as far as the file tells; its content may be anything."""
    try:
        about = json.loads(os.read(descriptor, 1000))
        said = f" (process {int(about['process'])} on {about['host']}, since {about['since']})"
        return "".join(letter for letter in said if letter.isprintable())
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
