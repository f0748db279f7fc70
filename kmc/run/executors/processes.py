"""Evaluations in worker processes of this machine."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait

import numpy as np

from kmc.checks import check_count
from kmc.errors import EvaluationError
from kmc.run.executors.task import Outcomes, blocks, check_timeout, packed, serve, too_late
from kmc.targets.evaluate import Mapper
from kmc.targets.model import Model
from kmc.targets.returned import failed_value

_NAME = "kmc-worker"
_UNGUARDED = 78  # exit code of a worker that tried to start workers itself
_TRIES = 2  # of an evaluation whose process dies
_PATIENCE = 2.0  # seconds for an idle process to end


@dataclass(frozen=True)
class ProcessExecutor:
    """Evaluations in processes of this machine.

    Parameters
    ----------
    workers : int
        Number of processes. Each starts clean ("spawn"), imports what it needs and uses one BLAS thread.
    timeout : float, optional
        Seconds that one call of the log-density may take. A call that takes longer ends the run with an
        :class:`kmc.EvaluationError` that holds its parameters, and its process is ended.

    Notes
    -----
    If a process dies, it is replaced and its evaluation is repeated once. If that process dies too, the run ends with
    an EvaluationError that holds the parameters and the draws so far. However the run ends, no process is left,
    including processes that the log-density had started in a busy worker.

    A script that uses processes must be guarded by ``if __name__ == "__main__":``, because each process imports the
    script.

    Examples
    --------
    >>> import kmc
    >>> kmc.sample(log_density, dim=5, executor=kmc.ProcessExecutor(4, timeout=60))  # doctest: +SKIP
    """

    workers: int
    timeout: float | None = None

    def __post_init__(self):
        check_count(self, "workers", 1)
        check_timeout(self)

    @contextmanager
    def open(self, model: Model) -> Iterator[Mapper]:
        """Start the processes, and end them afterwards."""
        leave_worker()
        pool = _Pool(model, self.workers, self.timeout)
        atexit.register(pool.close)  # for a run that is never finished
        try:
            pool.start()
            yield pool
        finally:
            atexit.unregister(pool.close)
            pool.close()


def leave_worker() -> None:
    """End this process silently if it is a worker that imports an unguarded script: the parent reports it once."""
    current = multiprocessing.current_process()
    if current.name == _NAME and getattr(current, "_inheriting", False):  # the same check as in multiprocessing
        os._exit(_UNGUARDED)


@dataclass(eq=False)
class _Job:
    index: int
    points: np.ndarray
    tries: int = 0


class _Worker:
    """A process and our end of its pipe."""

    def __init__(self, payload: bytes):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, payload), name=_NAME)
        self.process.start()
        theirs.close()
        self.greeted = False
        self.job: _Job | None = None
        self.deadline = float("inf")

    def give(self, job: _Job, timeout: float | None) -> None:
        self.job = job
        self.deadline = float("inf") if timeout is None else time.monotonic() + timeout
        self.connection.send(job.points)

    def kill(self) -> None:
        """End it and all processes that it has started."""
        self.connection.close()
        if self.process.is_alive() and self.process.pid is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except (AttributeError, OSError):  # no process groups on this system, or not created yet
                self.process.kill()
        self.process.join()


class _Pool:
    """A mapper that gives points to whichever process is free."""

    def __init__(self, model: Model, size: int, timeout: float | None):
        self._model, self._size, self._timeout = model, size, timeout
        self._payload = packed(model)
        self._workers: list[_Worker] = []

    def start(self) -> None:
        for _ in range(self._size):
            self._workers.append(_Worker(self._payload))

    def __call__(self, points: np.ndarray) -> Outcomes:
        parts = blocks(points, self._size if self._model.vectorized else len(points))
        jobs = deque(_Job(i, part) for i, part in enumerate(parts))
        answers: dict[int, Outcomes] = {}
        while len(answers) < len(parts):
            self._hand_out(jobs)
            for worker in self._heard():
                try:
                    message = worker.connection.recv()
                except (EOFError, OSError):
                    self._replace(worker, jobs)
                    continue
                if not worker.greeted:
                    if message is not None:
                        raise EvaluationError(message, position=points[0])
                    worker.greeted = True
                elif worker.job is not None:
                    answers[worker.job.index] = message
                    worker.job = None
            self._check_time()
        return [outcome for i in range(len(parts)) for outcome in answers[i]]

    def _hand_out(self, jobs: deque[_Job]) -> None:
        for worker in list(self._workers):
            if jobs and worker.greeted and worker.job is None:
                job = jobs.popleft()
                try:
                    worker.give(job, self._timeout)
                except OSError:  # it died while idle
                    worker.job = None
                    jobs.appendleft(job)
                    self._replace(worker, jobs)

    def _heard(self) -> list[_Worker]:
        """Workers that have sent something, or are dead."""
        waited_for = [worker for worker in self._workers if worker.job is not None or not worker.greeted]
        limit = min((worker.deadline for worker in waited_for if worker.job is not None), default=float("inf"))
        handles = {handle: w for w in waited_for for handle in (w.connection, w.process.sentinel)}
        seconds = None if limit == float("inf") else max(0.0, limit - time.monotonic())
        return list(dict.fromkeys(handles[handle] for handle in wait(list(handles), seconds)))  # type: ignore[index]

    def _check_time(self) -> None:
        now = time.monotonic()
        for worker in self._workers:
            if worker.job is not None and now > worker.deadline and not worker.connection.poll():
                assert self._timeout is not None
                raise too_late(self._model, worker.job.points, self._timeout)

    def _replace(self, worker: _Worker, jobs: deque[_Job]) -> None:
        """Replace a dead process, and repeat its job once."""
        worker.process.join(_PATIENCE)
        code, job = worker.process.exitcode, worker.job
        worker.kill()
        if code == _UNGUARDED and not worker.greeted:
            raise EvaluationError(
                f"executor={self._size}: each worker process imports the script, so put its code under "
                'if __name__ == "__main__":'
            ) from None
        if not worker.greeted:
            raise EvaluationError(
                f"a worker process ended with exit code {code} before it was ready, see its output on standard "
                'error; a script that uses processes must put its code under if __name__ == "__main__":'
            ) from None
        if job is not None:
            job.tries += 1
            if job.tries == _TRIES:
                x = job.points if self._model.vectorized else job.points[0]
                what = f"log_density ended its process {_TRIES} times, the last time with exit code {code}"
                raise failed_value(
                    self._model, x, what, "look for a crash in compiled code, or for lack of memory"
                ) from None
            jobs.appendleft(job)
        self._workers[self._workers.index(worker)] = _Worker(self._payload)

    def close(self) -> None:
        """End all processes: busy ones at once, the others by closing their pipes."""
        idle = [worker for worker in self._workers if worker.greeted and worker.job is None]
        for worker in idle:
            worker.connection.close()
        for worker in idle:
            worker.process.join(_PATIENCE)
        for worker in self._workers:
            worker.kill()
        self._workers.clear()
