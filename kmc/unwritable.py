"""Where site-packages and the home folder are not writable: containers, batch nodes, services."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def private_folder() -> Path:
    """Return a folder under the temporary directory to which only this user can write.

    All processes of the user share it. If something else has its name, such as a link or a folder
    of another user, the process gets a new folder, which is removed when it ends.
    """
    parent = Path(tempfile.gettempdir())
    if not hasattr(os, "geteuid"):  # Windows, where the temporary directory is the user's own
        return parent / "kmc-numba"
    folder = parent / f"kmc-numba-{os.geteuid()}"
    with suppress(FileExistsError):
        folder.mkdir(0o700)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077:
        return folder
    folder = Path(tempfile.mkdtemp(prefix="kmc-numba-"))
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # and not a fork of it
        shutil.rmtree(folder, ignore_errors=True)


def import_arviz() -> Any:
    """Return ArviZ, without the message of its versions 0.22 and 0.23 about version 1.

    These two keep the date of the message in a cache folder and cannot be imported where there is
    none: they get a folder with today's date. A filter of warnings would not do, since compilation
    in another thread takes it out.
    """
    if "arviz" not in sys.modules and find_spec("platformdirs"):
        import platformdirs

        usual = platformdirs.user_cache_dir
        with suppress(OSError):  # nowhere to write: the user's own folder may do
            folder = private_folder()
            folder.mkdir(parents=True, exist_ok=True)
            own = folder / f"daily_warning.{os.getpid()}"
            own.write_text(date.today().isoformat())
            own.replace(folder / "daily_warning")  # another process may be reading it
            platformdirs.user_cache_dir = lambda *_, **__: str(folder)  # type: ignore[assignment]
        try:
            import arviz
        finally:
            platformdirs.user_cache_dir = usual
    import arviz

    return arviz
