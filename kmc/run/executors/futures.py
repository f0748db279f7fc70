"""Evaluations one by one through whatever accepts a task and calls back when it has ended.

A task evaluates one point, or several if they are cheap: a mapper that knows the cost of a task says how many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from multiprocessing.pool import Pool
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from kmc.errors import EvaluationError
from kmc.run.executors.task import Answer, Package, Task
from kmc.run.executors.usage import Usage
from kmc.targets.evaluate import Evaluation
from kmc.targets.returned import Failure

Send = Callable[[Task, np.ndarray, Callable[[Any], None]], Any]
"""Begin a task at points (k, d); its answer, or the exception that it ended with, goes to the callable."""


class Futures:
    """See :class:`kmc.targets.evaluate.Stream`.

    Parameters
    ----------
    made : Package
    send : callable
    failed : callable
        ``failed(error, x)`` makes an outcome of the exception with which a task at x (k, d) ended, or raises an error.
    """

    def __init__(self, made: Package, send: Send, failed: Callable[[BaseException, np.ndarray], Failure]):
        self._made, self._send, self._failed = made, send, failed
        self._ended: SimpleQueue[tuple[Sequence[int], np.ndarray, Any]] = SimpleQueue()
        self._unsent: list[tuple[int, np.ndarray]] = []
        self.usage = Usage(1)

    def note(self, answer: Answer, points: np.ndarray) -> None:
        """Count the answer at points (k, d) in the usage of the workers."""
        self.usage.note(answer.seconds, points[: len(answer.outcomes)])
        self.usage.n_timeouts += answer.n_timeouts

    def points_per_task(self) -> int:
        """Points that a task should have: one, unless a task costs more than an evaluation."""
        return 1

    def idle(self) -> int:
        """Workers that have nothing to do; only asked if a task should have several points."""
        return 1

    def submit(self, key: int, x: np.ndarray) -> None:
        """Send a task now, or with further points as soon as answers are waited for."""
        self._unsent.append((key, x.copy()))
        if self.points_per_task() <= 1:
            self._send_all()

    def ready(self) -> list[tuple[int, Evaluation | Failure]]:
        """Wait for the next answer, and take all that are there."""
        self._send_all()
        answers: list[tuple[int, Evaluation | Failure]] = []
        while not answers:
            for keys, points, answer in self._all_ended():
                if answer is None:  # the worker does not have the model
                    self._begin(self._made.whole, keys, points)
                else:
                    answers += zip(keys, self._outcomes(answer, points), strict=True)
        return answers

    def abandon(self) -> None:
        """Answers that still come go to a queue that nobody reads."""
        self._ended, self._unsent = SimpleQueue(), []

    def _send_all(self) -> None:
        """Send what was submitted, in tasks of as many points, but none to spare if workers are idle."""
        count, most = len(self._unsent), self.points_per_task()
        if not count:
            return
        n_tasks = count if most <= 1 else max(-(-count // most), min(self.idle(), count))
        for part in np.array_split(np.arange(count), n_tasks):
            keys, points = zip(*(self._unsent[i] for i in part), strict=True)
            self._begin(self._made.known, keys, np.array(points))
        self._unsent = []

    def _begin(self, task: Task, keys: Sequence[int], points: np.ndarray) -> None:
        ended = self._ended
        try:
            self._send(task, points, lambda answer: ended.put((keys, points, answer)))
        except Exception as error:  # a pool that is broken or closed
            self._failed(error, points).throw()

    def _all_ended(self) -> list[tuple[Sequence[int], np.ndarray, Any]]:
        found = [self._ended.get()]
        try:
            while True:
                found.append(self._ended.get_nowait())
        except Empty:
            return found

    def _outcomes(self, answer: Any, points: np.ndarray) -> list[Evaluation | Failure]:
        """Return one for each point."""
        if isinstance(answer, BaseException):
            return [self._failed(answer, points)] * len(points)
        if not isinstance(answer, Answer):
            what = f"something other than the function's results: {answer!r}"
            raise EvaluationError(f"the executor returned {what}", position=points[0])
        self.note(answer, points)
        return answer.outcomes


def sender(pool: Any) -> Send | None:
    """How to send tasks to a pool of :mod:`concurrent.futures` or :mod:`multiprocessing`; None for other pools."""
    if isinstance(pool, Executor) and type(pool).submit is not Executor.submit:
        return lambda task, x, ended: when_done(pool.submit(task, x), ended)
    if isinstance(pool, Pool):
        return lambda task, x, ended: pool.apply_async(task, (x,), callback=ended, error_callback=ended)
    return None


def when_done(future: Future[Any], ended: Callable[[Any], None]) -> None:
    """Pass the result or the exception of a future on, unless it is cancelled."""

    def pass_on(done: Future[Any]) -> None:
        if not done.cancelled():
            ended(done.exception() or done.result())

    future.add_done_callback(pass_on)
