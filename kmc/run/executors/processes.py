"""Evaluate in worker processes of this machine, which end with their parent, however it ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from threading import Thread

import numpy as np
from threadpoolctl import threadpool_limits

from kmc.checks import check_count
from kmc.errors import EvaluationError
from kmc.interrupts import children_uninterrupted, uninterrupted
from kmc.model.evaluate import Evaluation, Mapper, evaluate_block
from kmc.model.model import Model
from kmc.model.returned import Failure, failed_call
from kmc.run.executors.base import (
    Outcomes,
    Usage,
    blocks,
    check_timeout,
    packed,
    too_late,
    unpacked,
)

_NAME = "kmc-worker"
_TRIES = 2  # of an evaluation whose process dies
_PATIENCE = 2.0  # seconds for an idle process to end
_starting = threading.Lock()

_LOOK = 1.0  # seconds between looks at the parent


@dataclass(frozen=True)
class ProcessExecutor:
    """Evaluations in processes of this machine.

    Parameters
    ----------
    workers : int
        Number of processes. Each starts clean ("spawn"), imports what it needs and uses one BLAS
        thread.
    timeout : float, optional
        Seconds that one call of the log-density may take. The process of a call that takes longer
        is ended and replaced, and ``kmc.Model(on_error=...)`` says what becomes of the call.

    Notes
    -----
    If a process dies, it is replaced and its evaluation is repeated once. If that process dies too,
    the call has failed, and ``kmc.Model(on_error=...)`` says what becomes of it: by default the run
    ends with an EvaluationError that holds the parameters and the draws so far. However the run
    ends, no process is left, including processes that the log-density had started in a busy worker.
    This holds also where this process is killed: on Linux the kernel then ends the others at once,
    and elsewhere they do so within a second.

    The function is sent to the processes with what it uses of the script, which they do not run: a
    guard ``if __name__ == "__main__":`` is not needed. Settings that a script makes in other
    packages, such as the precision of JAX, belong in the function, in a module that it imports, or
    in the environment.

    Examples
    --------
    >>> import kmc
    >>> kmc.sample(  # doctest: +SKIP
    ...     log_density, dim=5, executor=kmc.ProcessExecutor(4, timeout=60)
    ... )
    """

    workers: int
    timeout: float | None = None

    def __post_init__(self):
        check_count(self, "workers", 1)
        check_timeout(self)

    @contextmanager
    def open(self, model: Model) -> Iterator[Mapper]:
        """Start the processes, and end them afterwards."""
        pool = Pool(model, self)
        try:
            pool.start()
            yield pool
        finally:
            pool.close()


@dataclass(eq=False)
class _Job:
    points: np.ndarray
    key: int | None = None  # of a job that is returned one by one
    tries: int = 0
    outcomes: Outcomes | None = None
    failure: Failure | None = None  # why the pool gave it up


@contextmanager
def _alone() -> Iterator[None]:
    """Provide a context to start processes that do not import the script, even from a daemonic one.

    multiprocessing would import ``__main__`` by its file or name, and start nothing in a daemonic
    process, whose children could outlive it; those of kmc cannot, see
    :func:`kmc.run.executors.processes.killed_with`.
    """
    main, process = (
        vars(sys.modules["__main__"]),
        vars(multiprocessing.current_process())["_config"],
    )
    with _starting:
        places = [(main, "__file__"), (main, "__spec__"), (process, "daemon")]
        hidden = [(place, name, place[name]) for place, name in places if name in place]
        try:
            for place, name, _ in hidden:
                place[name] = None
            yield
        finally:
            for place, name, value in hidden:
                place[name] = value


class _Worker:
    """A process and our end of its pipe."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        lifeline, self._lifeline = context.Pipe(duplex=False)  # nothing is ever written
        with children_uninterrupted(), _alone():
            self.process = context.Process(
                target=serve, args=(theirs, lifeline), name=_NAME, daemon=False
            )
            self.process.start()
        assert self.process.pid is not None
        killed_with(lifeline, self.process.pid)
        theirs.close()
        lifeline.close()
        self.greeted = False
        self.job: _Job | None = None
        self.began, self.deadline = 0.0, float("inf")

    def give(self, job: _Job, timeout: float | None) -> None:
        self.job = job
        self.began = time.monotonic()
        self.deadline = float("inf") if timeout is None else self.began + timeout
        self.connection.send(job.points)

    def kill(self) -> None:
        """End it and all processes that it has started."""
        self.connection.close()
        if self.process.is_alive() and self.process.pid is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            # no process groups on this system, or not created yet
            except (AttributeError, OSError):
                self.process.kill()
        self.process.join()


class Pool:
    """A mapper, and a stream, that gives points to whichever process is free."""

    def __init__(self, model: Model, options: ProcessExecutor):
        self._model, self._size, self._timeout = model, options.workers, options.timeout
        self.usage = Usage(options.workers)
        self._payload = packed(model)
        self._workers: list[_Worker] = []
        self._jobs: deque[_Job] = deque()  # not begun
        self._ended: list[_Job] = []  # of those that are returned one by one
        self._latest: np.ndarray | None = None  # a point that was asked for
        # for a run that is never finished
        self._at_exit = Finalize(None, self.close, exitpriority=0)

    def start(self) -> None:
        """Start the processes, without waiting for them."""
        for _ in range(self._size):
            self._add_worker()

    def __call__(self, points: np.ndarray) -> Outcomes:
        jobs = [
            _Job(part)
            for part in blocks(points, self._size if self._model.vectorized else len(points))
        ]
        self._jobs.extend(jobs)
        self._latest = points[0]
        while any(job.outcomes is None for job in jobs):
            self._work()
            for job in jobs:
                if job.failure is not None and self._model.on_error == "raise":
                    job.failure.throw()  # without waiting for the others
        return [outcome for job in jobs for outcome in job.outcomes or ()]

    def submit(self, key: int, x: np.ndarray) -> None:
        """Begin the evaluation at x (d,), without waiting for it."""
        self._jobs.append(_Job(x[None].copy(), key))
        self._latest = x
        self._hand_out()

    def ready(self) -> list[tuple[int, Evaluation | Failure]]:
        """Wait until some evaluations have ended, and return their keys and results."""
        while not self._ended:
            self._work()
        ended, self._ended = self._ended, []
        return [(job.key, job.outcomes[0]) for job in ended if job.key is not None and job.outcomes]

    def abandon(self) -> None:
        """Forget all that were submitted and have not been returned."""
        self._jobs.clear()
        self._ended.clear()

    def _work(self) -> None:
        """Give jobs to free processes, and wait until something has happened."""
        self._hand_out()
        for worker in self._heard():
            try:
                message = worker.connection.recv()
            except (EOFError, OSError):
                self._replace_dead(worker)
                continue
            if not worker.greeted:
                if message is not None:
                    raise EvaluationError(message, position=self._latest)
                worker.greeted = True
            elif worker.job is not None:
                self.usage.note(time.monotonic() - worker.began, worker.job.points)
                self._end(worker.job, message)
                worker.job = None
        self._check_time()

    def _end(self, job: _Job, outcomes: Outcomes) -> None:
        job.outcomes = outcomes
        if job.key is not None:
            self._ended.append(job)

    def _give_up(self, job: _Job, error: EvaluationError) -> None:
        job.failure = Failure(error)
        self._end(job, [job.failure] * len(job.points))

    def _hand_out(self) -> None:
        for worker in list(self._workers):
            if self._jobs and worker.greeted and worker.job is None:
                job = self._jobs.popleft()
                try:
                    worker.give(job, self._timeout)
                except OSError:  # it died while idle
                    worker.job = None
                    self._jobs.appendleft(job)
                    self._replace_dead(worker)

    def _heard(self) -> list[_Worker]:
        """Return the workers that have sent something, or are dead."""
        waited_for = [
            worker for worker in self._workers if worker.job is not None or not worker.greeted
        ]
        limit = min(
            (worker.deadline for worker in waited_for if worker.job is not None),
            default=float("inf"),
        )
        handles = {handle: w for w in waited_for for handle in (w.connection, w.process.sentinel)}
        seconds = None if limit == float("inf") else max(0.0, limit - time.monotonic())
        return list(dict.fromkeys(handles[handle] for handle in wait(list(handles), seconds)))  # type: ignore[index]

    def _check_time(self) -> None:
        now = time.monotonic()
        for worker in list(self._workers):
            job = worker.job
            if job is not None and now > worker.deadline and not worker.connection.poll():
                self._replace(worker)
                self._end_late(job)

    def _end_late(self, job: _Job) -> None:
        assert self._timeout is not None
        self.usage.n_timeouts += 1
        self.usage.note(self._timeout, job.points)
        self._give_up(job, too_late(self._model, job.points, self._timeout))

    def _replace_dead(self, worker: _Worker) -> None:
        """Replace a dead process, and repeat its job once."""
        worker.process.join(_PATIENCE)
        code, job = worker.process.exitcode, worker.job
        if not worker.greeted:
            worker.kill()
            what = f"a worker process ended with exit code {code} before it was ready"
            raise EvaluationError(f"{what}: see its output on standard error") from None
        self._replace(worker)
        if job is None:
            return
        job.tries += 1
        if job.tries < _TRIES:
            self._jobs.appendleft(job)
            return
        x = job.points if self._model.vectorized else job.points[0]
        died = f"ended its process {_TRIES} times, the last time with exit code {code}"
        remedy = "look for a crash in compiled code, or for lack of memory"
        self._give_up(job, failed_call(self._model, x, f"log_density {died}", remedy, reason=died))

    def _replace(self, worker: _Worker) -> None:
        worker.kill()
        self._workers.remove(worker)
        self._add_worker()

    def _add_worker(self) -> None:
        with uninterrupted():  # none is started and then forgotten
            worker = _Worker()
            self._workers.append(worker)
        with suppress(OSError):  # it has died already
            worker.connection.send_bytes(self._payload)

    def close(self) -> None:
        """End all processes: busy ones at once, the others by closing their pipes."""
        self._at_exit.cancel()
        idle = [worker for worker in self._workers if worker.greeted and worker.job is None]
        for worker in idle:
            worker.connection.close()
        for worker in idle:
            worker.process.join(_PATIENCE)
        for worker in self._workers:
            worker.kill()
        self._workers.clear()


def serve(connection: Connection, lifeline: Connection) -> None:
    """Receive a model, send None or a sentence that says what is wrong, then answer requests.

    The process leaves the terminal's process group, where Ctrl-C would reach it, for a group of its
    own, in which it can be ended together with whatever the user's function has started.
    ``lifeline`` closes when the parent ends, and then the group is killed.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None and parent.pid is not None
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "setpgid"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        os.setpgid(0, 0)
    if not killed_with(lifeline, -os.getpid()):
        Thread(target=watch, args=(lifeline, parent.pid), daemon=True).start()
    if wait([lifeline], 0):  # the parent has ended already
        return
    for library in ("OMP", "OPENBLAS", "MKL"):  # for libraries that are loaded later
        os.environ[f"{library}_NUM_THREADS"] = "1"
    try:
        model = unpacked(connection.recv_bytes())
        connection.send(None)
        with threadpool_limits(1):
            while True:
                while not connection.poll(_LOOK):
                    if os.getppid() != parent.pid:  # while a fork of it keeps the pipes open
                        return
                connection.send(evaluate_block(model, connection.recv()))
    except EvaluationError as error:
        connection.send(str(error))
    except (EOFError, OSError):  # the parent has closed the connection
        return


def killed_with(lifeline: Connection, process: int) -> bool:
    """Ask the kernel to kill a process, or a group if negative, when a pipe's writing end closes.

    Only Linux can do so, and not in every sandbox; the result tells whether it will. It needs no
    cooperation of the process, which may still be starting, or busy in compiled code. (A
    parent-death signal, ``PR_SET_PDEATHSIG``, would be sent when the thread ends that has started
    the process, and can only be asked for by the process itself.)
    """
    if sys.platform != "linux":
        return False
    import fcntl

    descriptor = lifeline.fileno()
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, process)
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    except OSError:
        return False
    return True


def watch(lifeline: Connection, parent: int) -> None:
    """End this process and its group once the parent has ended."""
    while not wait([lifeline], _LOOK) and os.getppid() == parent:
        pass
    if hasattr(os, "killpg"):
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)
