"""Real processes, few of them: each takes a second to start."""

import ctypes
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import kmc
from kmc.errors import EvaluationError
from kmc.model.evaluate import Evaluator, settled
from kmc.model.model import Model
from kmc.run.executors import ProcessExecutor
from tests.run.executors import models
from tests.run.executors.models import POINTS, gone, wait_until
from tests.run.executors.test_executors import sampled

ROOT = Path(kmc.__file__).parent.parent
SLOW = pytest.mark.slow


@pytest.mark.packages
def test_two_processes_give_the_same_draws():
    shift = 0.25
    here, there = (
        sampled(executor, target=lambda x: (models.quartic(x - shift)[0], {"pid": os.getpid()}))
        for executor in (None, ProcessExecutor(2))
    )
    np.testing.assert_array_equal(here.posterior["x"], there.posterior["x"])
    assert here.posterior.attrs["n_evaluations"] == there.posterior.attrs["n_evaluations"]
    used = set(there["blobs"]["pid"].values.ravel().tolist())
    assert os.getpid() not in used
    assert all(gone(pid) for pid in used)


def test_failures_travel_and_workers_keep_to_one_thread():
    def log_density(x):
        if x[0] == 0.4:
            raise models.UnpicklableError("this", "that")
        threads = [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]
        return 0.0, {"threads": max(threads), "pid": os.getpid()}

    model = Model(log_density, dim=2)
    with ProcessExecutor(1).open(model) as mapper:
        evaluate = Evaluator(model, mapper)
        outcomes = mapper(POINTS[:2])
        assert [int(outcome.blobs["threads"]) for outcome in outcomes] == [1, 1]
        with pytest.raises(
            EvaluationError, match=r"UnpicklableError: this and that, at x = \[0.4, 0.5\]"
        ) as caught:
            evaluate(POINTS)
        assert evaluate.n_evaluations == 6
        np.testing.assert_array_equal(caught.value.position, [0.4, 0.5])
        assert mapper(POINTS[:1])[0].value == 0.0  # the process continues
    assert gone(int(outcomes[0].blobs["pid"]))


@pytest.mark.slow
def test_a_process_that_dies_is_replaced_and_nothing_is_lost_or_doubled(tmp_path):
    model = Model(models.DyingOnce(tmp_path), dim=2)
    with ProcessExecutor(2).open(model) as mapper:
        evaluate = Evaluator(model, mapper)
        np.testing.assert_array_equal(evaluate(POINTS), POINTS[:, 0])
    assert evaluate.n_evaluations == 6
    assert len(list(tmp_path.iterdir())) == 7


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_segmentation_fault_and_an_abort_lose_nothing(tmp_path):
    import resource

    def log_density(x):
        for point, crash in ((0.2, lambda: ctypes.string_at(0)), (0.4, os.abort)):
            mark = tmp_path / str(point)
            if x[0] == point and not mark.exists():
                mark.touch()
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                crash()
        return float(x[0])

    with ProcessExecutor(1).open(Model(log_density, dim=2)) as mapper:
        assert [outcome.value for outcome in mapper(POINTS)] == POINTS[:, 0].tolist()
    assert len(list(tmp_path.iterdir())) == 2


def test_one_that_takes_too_long_is_rejected():
    """One by one and together; the process is replaced."""
    model = Model(models.slow, dim=2, on_error="reject")
    with ProcessExecutor(1, timeout=1.0).open(model) as mapper:
        outcomes = one_by_one(mapper, POINTS)
        found = [settled(model, outcomes[i]) for i in range(6)]
        assert [one.log_density for one in found] == [0.0, 0.0, -np.inf, 0.0, 0.0, 0.0]
        assert found[2].failure == "took longer than timeout=1 seconds"
        assert Evaluator(model, mapper)(POINTS[2:4]).tolist() == [-np.inf, 0.0]
        assert mapper.usage.n_timeouts == 2 and mapper.usage.count == 8
        assert mapper.usage.longest >= 1.0


@pytest.mark.slow
def test_one_that_ends_its_process_is_rejected():
    """Alone, and in a call of several points, of which the good ones are kept."""
    for vectorized in (False, True):
        kept, model = [], Model(models.dying, dim=2, vectorized=vectorized, on_error="reject")
        with ProcessExecutor(1).open(model) as mapper:
            values = Evaluator(model, mapper, lambda _, made, kept=kept: kept.extend(made))(
                POINTS[1:4]
            )
        assert values.tolist() == [0.0, -np.inf, 0.0]
        assert kept[1].failure == "ended its process 2 times, the last time with exit code 7"


@pytest.mark.slow
def test_one_that_takes_too_long_is_tried_again(tmp_path):
    model = Model(models.SlowOnce(tmp_path), dim=2, on_error="retry")
    with ProcessExecutor(1, timeout=1.0).open(model) as mapper:
        assert Evaluator(model, mapper)(POINTS[1:3]).tolist() == [0.2, 0.4]
        assert mapper.usage.n_timeouts == 1


def test_a_model_that_cannot_be_loaded_says_why(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def log_density(x):\n    return 0.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here

    model = Model(only_here.log_density, dim=2)
    executor = ProcessExecutor(1)
    payload_made_here = executor.open(model)
    with pytest.raises(
        EvaluationError, match="could not load the model, ModuleNotFoundError: .*only_here"
    ):
        (tmp_path / "only_here.py").unlink()
        with payload_made_here as mapper:
            mapper(POINTS)


SCRIPT = """
import os, signal, subprocess, sys, time
import kmc

def log_density(x):
    child = subprocess.Popen(["sleep", "60"])
    with open(os.path.join({folder!r}, str(os.getpid())), "w") as handle:
        handle.write(str(child.pid))
    time.sleep(60)
    return 0.0

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what was started in the background ignores it
    kmc.sample(log_density, dim=2, chains=2, draws=10, executor=2, progress=False, seed=0)
    print("returned")
"""  # noqa: E501


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("stop", [signal.SIGINT])
def test_ctrl_c_leaves_no_process(tmp_path, stop):
    run, _ = started(tmp_path, SCRIPT)
    folder = tmp_path / "pids"
    try:
        wait_until(lambda: len([path for path in folder.iterdir() if path.read_text()]) == 2)
        pids = [int(path.name) for path in folder.iterdir()] + [
            int(path.read_text()) for path in folder.iterdir()
        ]
        os.killpg(run.pid, stop)  # as from a terminal
        out, _ = run.communicate(timeout=60)
    finally:
        run.kill()
    assert "returned" in out
    wait_until(lambda: all(gone(pid) for pid in pids))


STARTING = """
import signal
import kmc

def log_density(x):
    return 0.0

signal.signal(signal.SIGINT, signal.default_int_handler)
kmc.sample(log_density, dim=2, chains=2, draws=10, executor=2, progress=False, seed=0)
print("returned")
"""

SLOW_START = """
import os, sys, time

if "--multiprocessing-fork" in sys.orig_argv:  # a worker
    open(os.path.join({folder!r}, str(os.getpid())), "w").close()
    time.sleep(30)
"""


def started(tmp_path, text, site=""):
    """A script that uses two workers, and the folder in which they leave their process ids; site:
    what Python runs.
    """
    folder = tmp_path / "pids"
    folder.mkdir()
    script = tmp_path / "script.py"
    script.write_text(text.format(folder=str(folder)))
    (tmp_path / "sitecustomize.py").write_text(site.format(folder=str(folder)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    pipe = subprocess.PIPE
    run = subprocess.Popen(
        [sys.executable, str(script)],
        env=environment,
        stdout=pipe,
        stderr=pipe,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: len(list(folder.iterdir())) == 2)
    return run, [int(path.name) for path in folder.iterdir()]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_while_workers_start(tmp_path):
    run, pids = started(tmp_path, STARTING, SLOW_START)
    os.killpg(run.pid, signal.SIGINT)  # as from a terminal
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0 and out == "returned\n"
    assert "Traceback" not in err and "Error" not in err, err
    wait_until(lambda: all(gone(pid) for pid in pids), 5)


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere workers look after they have started"
)
def test_workers_that_start_end_with_a_parent_that_is_killed(tmp_path):
    run, pids = started(tmp_path, STARTING, SLOW_START)
    run.kill()
    wait_until(lambda: all(gone(pid) for pid in pids), 5)
    run.communicate(timeout=60)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_busy_workers_and_their_processes_end_with_a_parent_that_is_killed(tmp_path):
    run, pids = started(tmp_path, SCRIPT)
    folder = tmp_path / "pids"
    wait_until(lambda: all(path.read_text() for path in folder.iterdir()))
    pids += [int(path.read_text()) for path in folder.iterdir()]
    run.kill()
    wait_until(lambda: all(gone(pid) for pid in pids), 5)
    assert run.communicate(timeout=60) == ("", "")


FORKED = """
import os, sys, time
import kmc

def log_density(x):
    return 0.0, {{"pid": os.getpid()}}

if __name__ == "__main__":
    with kmc.ProcessExecutor(2).open(kmc.Model(log_density, dim=1)) as mapper:
        while len(os.listdir({folder!r})) < 2:  # the second worker may start much later
            for outcome in mapper([[0.0], [0.5]]):
                open(os.path.join({folder!r}, str(int(outcome.blobs["pid"]))), "w").close()
        if not os.fork():
            time.sleep(30)
        time.sleep(30)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_idle_workers_end_with_a_parent_that_is_killed_although_a_fork_of_it_goes_on(tmp_path):
    run, pids = started(tmp_path, FORKED)
    time.sleep(0.5)
    run.kill()
    wait_until(lambda: all(gone(pid) for pid in pids), 5)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate(timeout=60)


WATCHED = """
import multiprocessing, os, subprocess, sys, time
from threading import Thread
from kmc.run.executors.processes import watch

reader, writer = multiprocessing.Pipe(duplex=False)
if os.fork():
    time.sleep(30)
writer.close()
parent = os.getppid()
os.setpgid(0, 0)
Thread(target=watch, args=(reader, parent), daemon=True).start()
child = subprocess.Popen(["sleep", "30"])
for pid in (os.getpid(), child.pid):
    open(os.path.join({folder!r}, str(pid)), "w").close()
time.sleep(30)
"""


@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_a_thread_watches_where_the_kernel_does_not(tmp_path):
    run, pids = started(tmp_path, WATCHED)
    run.kill()
    wait_until(lambda: all(gone(pid) for pid in pids), 5)
    run.communicate(timeout=60)


def test_workers_outlive_the_thread_that_started_them():
    """They end with the process: a run may be continued in another thread."""
    with ExitStack() as stack:
        executor = ProcessExecutor(1).open(Model(lambda x: float(x[0]), dim=2))
        mappers = []
        thread = threading.Thread(target=lambda: mappers.append(stack.enter_context(executor)))
        thread.start()
        thread.join()
        (mapper,) = mappers
        pid = mapper._workers[0].process.pid
        assert [outcome.value for outcome in mapper(POINTS)] == POINTS[:, 0].tolist()
        assert mapper._workers[0].process.pid == pid


@pytest.mark.slow
def test_a_daemonic_process_may_start_workers():
    """Such as that of a pool; both end with the pool."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pid = pool.apply(evaluated_in_a_process)
    assert pid != os.getpid()
    wait_until(lambda: gone(pid), 5)


def evaluated_in_a_process():
    assert multiprocessing.current_process().daemon
    with ProcessExecutor(1).open(Model(lambda x: (0.0, {"pid": os.getpid()}), dim=2)) as mapper:
        pid = int(mapper(POINTS[:1])[0].blobs["pid"])
        assert multiprocessing.current_process().daemon and pid != os.getpid()
        return pid


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_no_port_is_opened():
    """Pipes and pairs of sockets only."""
    before = listening([os.getpid()])
    with ProcessExecutor(1).open(Model(lambda x: (0.0, {"pid": os.getpid()}), dim=2)) as mapper:
        worker = int(mapper(POINTS[:1])[0].blobs["pid"])
        assert listening([os.getpid()]) == before and not listening([worker])
    with socket.create_server(("127.0.0.1", 0)):
        assert len(listening([os.getpid()]) - before) == 1


def listening(pids):
    """Sockets of processes that have an address on a network."""
    tables = [Path("/proc/net", name) for name in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6")]
    lines = [
        line.split()
        for table in tables
        if table.exists()
        for line in table.read_text().splitlines()[1:]
    ]
    inodes = {f"socket:[{line[9]}]" for line in lines}
    links = [link for pid in pids for link in Path(f"/proc/{pid}/fd").iterdir()]
    return {os.readlink(link) for link in links if os.path.lexists(link)} & inodes


UNGUARDED = """
import functools
import numpy as np
import kmc

scale = 2.0


@functools.cache
def power(k):
    return 1.0 if k == 0 else scale * power(k - 1)


class Point:
    def __init__(self, x):
        self.x = x

    def log_density(self):
        return -0.5 * float(self.x @ self.x) * power(2)


def log_density(x):
    return Point(x).log_density()


print("once")
settings = dict(dim=2, sampler="adaptive-metropolis", draws=20, progress=False, seed=0)
found, expected = (kmc.sample(log_density, executor=executor, **settings) for executor in (2, None))
print(np.array_equal(found.posterior["x"], expected.posterior["x"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "way", ["file", pytest.param("stdin", marks=SLOW), pytest.param("module", marks=SLOW)]
)
def test_a_script_needs_no_guard(tmp_path, way):
    (tmp_path / "script.py").write_text(UNGUARDED)
    command = {"file": [str(tmp_path / "script.py")], "stdin": ["-"], "module": ["-m", "script"]}[
        way
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command],
        env=environment,
        cwd=tmp_path,
        input=UNGUARDED,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("once\nTrue\n", "")


def one_by_one(mapper, points):
    for key, x in enumerate(points):
        mapper.submit(key, x)
    outcomes = {}
    while len(outcomes) < len(points):
        outcomes |= dict(mapper.ready())
    return outcomes


@pytest.mark.slow
def test_values_one_by_one():
    """A process that dies is replaced; one evaluation that is given up does not end the others."""
    with ProcessExecutor(2).open(Model(models.dying, dim=2)) as mapper:
        outcomes = one_by_one(mapper, POINTS)
        assert [outcomes[i].value for i in (0, 1, 3, 4, 5)] == [0.0] * 5
        with pytest.raises(
            EvaluationError, match=r"2 times, the last time with exit code 7.* at x = \[0.4, 0.5\]"
        ):
            outcomes[2].throw()
        assert [outcome.value for outcome in mapper(POINTS[:2])] == [0.0, 0.0]
