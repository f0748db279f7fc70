"""Files that are either the old ones or the new ones, whatever happens meanwhile; and one writer at a time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl


def replace(path: Path, content: bytes) -> None:
    """Write a file in one step, as seen by other processes and after the death of this one."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    os.replace(partial, path)


class Lock:
    """A folder that this process alone may write to, until it is closed; death closes it too. (Nothing on Windows.)

    Raises
    ------
    RuntimeError
        Another process has it.
    """

    def __init__(self, folder: Path):
        self._descriptor: int | None = None
        if sys.platform == "win32":
            return
        self._descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise RuntimeError(
                f"store={str(folder)!r}: another run is writing to it; wait until it has ended"
            ) from None
        except OSError:  # a file system that knows no locks
            self.close()

    def close(self) -> None:
        """Let others write; more than once is harmless."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()
