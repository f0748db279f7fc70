"""Files that are either the old ones or the new ones, whatever happens meanwhile; and one writer at a time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]


def replace(path: Path, content: bytes) -> None:
    """Write a file in one step, as seen by other processes and after the death of this one."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    os.replace(partial, path)


def lock(path: Path) -> Any:
    """Hold a folder for this process until the returned file is closed; death closes it too.

    Raises
    ------
    RuntimeError
        Another process holds it.
    """
    file = open(path / ".lock", "ab")  # noqa: SIM115
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise RuntimeError(f"store={str(path)!r}: another run is writing to it; wait until it has ended") from None
    return file
