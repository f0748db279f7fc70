"""Evaluations one by one through whatever accepts a task and calls back when it has ended."""

from __future__ import annotations

from collections.abc import Callable
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
"""Begin a task at points (1, d); its answer, or the exception that it ended with, goes to the callable."""


class Futures:
    """See :class:`kmc.targets.evaluate.Stream`.

    Parameters
    ----------
    made : Package
    send : callable
    failed : callable
        ``failed(error, x)`` makes an outcome of the exception with which a task at x (1, d) ended, or raises an error.
    """

    def __init__(self, made: Package, send: Send, failed: Callable[[BaseException, np.ndarray], Failure]):
        self._made, self._send, self._failed = made, send, failed
        self._ended: SimpleQueue[tuple[int, np.ndarray, Any]] = SimpleQueue()
        self.usage = Usage(1)

    def note(self, answer: Answer) -> None:
        """Count an answer in the usage of the workers."""
        self.usage.note(answer.seconds, len(answer.outcomes))
        self.usage.n_timeouts += answer.n_timeouts

    def submit(self, key: int, x: np.ndarray) -> None:
        """Send a task."""
        self._begin(self._made.known, key, x[None].copy())

    def ready(self) -> list[tuple[int, Evaluation | Failure]]:
        """Wait for the next answer, and take all that are there."""
        answers: list[tuple[int, Evaluation | Failure]] = []
        while not answers:
            for key, x, answer in self._all_ended():
                if answer is None:  # the worker does not have the model
                    self._begin(self._made.whole, key, x)
                else:
                    answers.append((key, self._outcome(answer, x)))
        return answers

    def abandon(self) -> None:
        """Answers that still come go to a queue that nobody reads."""
        self._ended = SimpleQueue()

    def _begin(self, task: Task, key: int, x: np.ndarray) -> None:
        ended = self._ended
        try:
            self._send(task, x, lambda answer: ended.put((key, x, answer)))
        except Exception as error:  # a pool that is broken or closed
            self._failed(error, x).throw()

    def _all_ended(self) -> list[tuple[int, np.ndarray, Any]]:
        found = [self._ended.get()]
        try:
            while True:
                found.append(self._ended.get_nowait())
        except Empty:
            return found

    def _outcome(self, answer: Any, x: np.ndarray) -> Evaluation | Failure:
        if isinstance(answer, BaseException):
            return self._failed(answer, x)
        if not isinstance(answer, Answer):
            what = f"something other than the function's results: {answer!r}"
            raise EvaluationError(f"the executor returned {what}", position=x[0])
        self.note(answer)
        return answer.outcomes[0]


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
