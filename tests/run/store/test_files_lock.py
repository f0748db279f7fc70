"""One process at a time writes to a store, and may die at any time."""

import errno
import json
import os
import subprocess
import sys

import pytest

import kmc
from kmc.run.store import files
from kmc.run.store.files import Lock
from tests.run.store.runs import Interrupted, Stop, assert_same, log_density, settings

pytestmark = [
    pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning"),
    pytest.mark.skipif(sys.platform == "win32", reason="forks"),
]

HOLDER = """
import os, sys, time
from kmc.run.store.files import Lock
lock = Lock(__import__("pathlib").Path(sys.argv[1]))
child = os.fork()  # as the worker of a pool, which may outlive what started it
if child:
    print(child, flush=True)
time.sleep(100)
"""


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "run.zarr"
    with pytest.raises(kmc.EvaluationError):
        kmc.sample(Interrupted(150, Stop()), store=path, **settings("random-walk"))
    return path


def go_on(path):
    return kmc.sample(log_density, store=path, resume=True, **settings("random-walk"))


def test_another_process_is_refused_and_killed(store):
    """The store is free at once, even if a forked child of the dead process is alive."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store)], stdout=subprocess.PIPE, text=True
    ) as holder:
        child = int(holder.stdout.readline())
        try:
            whom = (
                rf"another run \(process {holder.pid} on .*, "
                r"since 20.*\) is writing to it; wait until"
            )
            for _ in range(2):
                with pytest.raises(RuntimeError, match=whom):
                    go_on(store)
            with pytest.raises(FileExistsError):
                kmc.sample(log_density, store=store, **settings("random-walk"))
            assert kmc.load(store).posterior.sizes["draw"] > 0
            holder.kill()
            holder.wait()
            os.kill(child, 0)  # it is alive
            result = go_on(store)
        finally:
            holder.kill()
            os.kill(child, 9)
    assert_same(result, kmc.sample(log_density, **settings("random-walk")))


def test_a_new_store_is_locked_while_it_is_made(tmp_path):
    path = tmp_path / "run.zarr"
    path.mkdir()
    held = Lock(path)
    for resume in (False, True):
        with pytest.raises(RuntimeError, match="another run of this process is writing to it"):
            kmc.sample(log_density, store=path, resume=resume, **settings("random-walk"))
    held.close()
    kmc.sample(log_density, store=path, **settings("random-walk"))


def test_what_a_lock_says(tmp_path):
    lock = Lock(tmp_path)
    assert json.loads((tmp_path / "lock").read_text())["process"] == os.getpid()
    lock.close()
    lock.close()
    Lock(tmp_path).close()


def test_it_is_released_after_a_refusal(store):
    with pytest.raises(ValueError, match="chains=2, and this one has 3"):
        kmc.sample(log_density, store=store, resume=True, **settings("random-walk", chains=3))
    go_on(store)
    Lock(store).close()


def test_a_finished_run_is_not_marked_so_by_two(tmp_path, monkeypatch):
    """Between its last sweep and the end of its store another process may take over."""
    path, held = tmp_path / "run.zarr", []
    run = kmc.iterate(
        log_density,
        store=path,
        **{k: v for k, v in settings("random-walk").items() if k != "progress"},
    )
    for _ in run:
        pass
    held = Lock(path)
    result = run.result()
    held.close()
    assert result.posterior.sizes["draw"] == 40 and "unfinished" in kmc.load(path).attrs
    assert_same(go_on(path), kmc.sample(log_density, **settings("random-walk")))
    assert "unfinished" not in kmc.load(path).attrs


@pytest.mark.filterwarnings("default::kmc.errors.KmcWarning")
def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def none(*args):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files.fcntl, "lockf", none)
    with pytest.warns(
        kmc.KmcWarning, match="its file system has no locks .No locks available.; make sure"
    ):
        Lock(tmp_path).close()
