"""Where nothing is writable, and a temporary folder that is safe against other users."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import kmc
from kmc import unwritable as module

PACKAGE = Path(kmc.__file__).parent
ONE = (
    "import numpy as np; from kmc.kernels.metric import squared_distances as s; "
    "print(s(np.eye(2), np.eye(2)))"
)
WORKERS = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from kmc.kernels.metric import squared_distances
if __name__ == "__main__":
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        print(sum(pool.map(len, [squared_distances.__name__] * 4)))
"""


@pytest.fixture
def closed(tmp_path):
    """The environment of a process that can write nowhere but in ``tmp_path / "tmp"``; also for
    root.
    """
    copy = shutil.copytree(
        PACKAGE, tmp_path / "lib" / "kmc", ignore=shutil.ignore_patterns("__pycache__")
    )
    for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()  # no folder can be made here
    (tmp_path / "file").touch()
    (tmp_path / "tmp").mkdir()
    own = {"PYTHONPATH": copy.parent, "TMPDIR": tmp_path / "tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"), tmp_path / "file")
    others = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    return {name: str(value) for name, value in {**others, **own, **nowhere}.items()}


def started(closed, *arguments, **others):
    command = [sys.executable, *arguments]
    return subprocess.Popen(
        command,
        env={**closed, **others},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the names of the folders")
def test_two_processes_share_a_private_folder_where_nothing_else_is_writable(closed, tmp_path):
    both = [started(closed, "-c", ONE) for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0 and out == "[[0. 2.]\n [2. 0.]]\n", err
        assert err.startswith("<string>:1: KmcWarning: ") and err.count("KmcWarning") == 1
        assert "set the environment variable NUMBA_CACHE_DIR to a writable folder that lasts" in err
    (folder,) = (tmp_path / "tmp").iterdir()
    assert (
        folder.name == f"kmc-numba-{os.geteuid()}" and stat.S_IMODE(folder.stat().st_mode) == 0o700
    )
    assert list(folder.rglob("*.nbi"))


@pytest.mark.skipif(os.name != "posix", reason="the names of the folders")
def test_workers_do_not_repeat_the_sentence(closed, tmp_path):
    (tmp_path / "script.py").write_text(WORKERS)
    process = started(closed, str(tmp_path / "script.py"))
    out, err = process.communicate(timeout=120)
    assert out == "68\n" and err.count("KmcWarning") == 1, err


def test_without_a_temporary_folder_nothing_is_cached(closed, tmp_path):
    code = f"""
import tempfile

def none():
    raise FileNotFoundError("No usable temporary directory")

tempfile.gettempdir = none
{ONE}
"""
    out, err = started(closed, "-c", code).communicate(timeout=120)
    assert out == "[[0. 2.]\n [2. 0.]]\n" and "compiled again in each process" in err
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.slow
def test_arviz_is_imported_without_its_cache_folder(closed):
    code = "from kmc.unwritable import import_arviz; print(import_arviz().summary.__name__)"
    out, err = started(closed, "-c", code).communicate(timeout=120)
    assert out == "summary\n", err


@pytest.mark.slow
def test_arviz_is_imported_without_a_temporary_folder(tmp_path):
    code = """
import tempfile

def none():
    raise FileNotFoundError("No usable temporary directory")

tempfile.gettempdir = none
from kmc.unwritable import import_arviz
print(import_arviz().summary.__name__)
"""
    environment = os.environ | dict.fromkeys(
        ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"), str(tmp_path)
    )
    out, err = started(environment, "-c", code).communicate(timeout=120)
    assert out == "summary\n", err


def test_arviz_says_nothing_about_its_next_version(tmp_path):
    """ArviZ 0.23 says it at the first import of a day, and keeps the date in the user's cache
    folder.

    Another thread may take out any filter of warnings in the middle of the import.
    """
    none = "import warnings; warnings.filterwarnings = lambda *_, **__: None"
    code = (
        f"{none}; from kmc.unwritable import import_arviz; print(import_arviz().summary.__name__)"
    )
    environment = os.environ | dict.fromkeys(
        ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"), str(tmp_path)
    )
    out, err = started(environment, "-W", "default", "-c", code).communicate(timeout=120)
    assert out == "summary\n" and "FutureWarning" not in err


@pytest.mark.skipif(os.name != "posix", reason="owners and modes")
@pytest.mark.parametrize("found", ["link", "open", "file", "foreign"])
def test_a_folder_that_is_not_private_is_not_used(tmp_path, monkeypatch, found):
    monkeypatch.setattr(module.tempfile, "gettempdir", lambda: str(tmp_path))
    name, other = tmp_path / f"kmc-numba-{os.geteuid()}", os.geteuid() + 1
    if found == "link":
        (tmp_path / "of_another_user").mkdir(0o700)
        name.symlink_to(tmp_path / "of_another_user")
    elif found == "open":
        name.mkdir()
        name.chmod(0o770)
    elif found == "file":
        name.touch()
    else:
        (tmp_path / f"kmc-numba-{other}").mkdir(0o700)
        monkeypatch.setattr(module.os, "geteuid", lambda: other)
    removed = []
    monkeypatch.setattr(module.atexit, "register", lambda *call: removed.append(call))
    monkeypatch.setattr(module.tempfile, "mkdtemp", lambda prefix: _made(tmp_path / f"{prefix}new"))
    folder = module.private_folder()
    assert folder == tmp_path / "kmc-numba-new"
    ((remove, *arguments),) = removed
    remove(*arguments)
    assert not folder.exists()


def _made(folder):
    folder.mkdir(0o700)
    return str(folder)


@pytest.mark.skipif(os.name != "posix", reason="owners and modes")
def test_the_folder_is_the_same_in_each_process(tmp_path, monkeypatch):
    monkeypatch.setattr(module.tempfile, "gettempdir", lambda: str(tmp_path))
    assert (
        module.private_folder() == module.private_folder() == tmp_path / f"kmc-numba-{os.geteuid()}"
    )
    assert [path.name for path in tmp_path.iterdir()] == [f"kmc-numba-{os.geteuid()}"]
