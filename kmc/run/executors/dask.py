"""Evaluations on the workers of a dask cluster."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np

from kmc.errors import EvaluationError
from kmc.model.evaluate import Evaluation, Mapper
from kmc.model.model import Model
from kmc.model.returned import Failure, failed_value
from kmc.run.executors.base import Outcomes, blocks, check_timeout
from kmc.run.executors.maps import Answer, Futures, Package, Task, package

_NAME = "kmc-evaluate"
_ATTEMPTS = 5  # the first one may find that the worker does not have the model
# a task costs dask a millisecond or more: cheaper evaluations share a task ...
_TASK_SECONDS = 0.005
_MOST_POINTS = 1000  # ... of at most so many
_REMEDY = (
    'check the scheduler, its workers and their logs; on_error="reject" protects workers from '
    "calls that die"
)
_LOOK_SECONDS = 2.0  # between looks at the number of workers


@dataclass(frozen=True)
class DaskExecutor:
    """Evaluations on the workers of a dask cluster.

    Parameters
    ----------
    client : dask.distributed.Client
        Started and closed by the caller. kmc must be installed on the workers.
    timeout : float, optional
        Seconds that one call of the log-density may take. ``kmc.Model(on_error=...)`` says what
        becomes of a call that takes longer.

    Notes
    -----
    One task evaluates one point, or several if they are cheap: the cost is measured during the run.
    The cluster may grow and shrink, by hand or with ``cluster.adapt()``, and workers may be
    retired. The scheduler repeats the tasks of a worker that dies, as often as it allows
    (``distributed.scheduler.allowed-failures``, 3 by default), before the run ends with an error.
    With a time limit, and with ``kmc.Model(on_error=...)`` other than "raise", each thread of a
    worker evaluates in a process of its own: a call that takes too long or ends its process costs
    no worker. Dask's workers start with one BLAS thread each, which its configuration can change.

    Examples
    --------
    >>> from dask.distributed import Client  # doctest: +SKIP
    >>> kmc.sample(  # doctest: +SKIP
    ...     log_density, dim=5, executor=kmc.DaskExecutor(Client(), timeout=60)
    ... )
    """

    client: Any
    timeout: float | None = None

    def __post_init__(self):
        if not callable(getattr(self.client, "submit", None)) or not callable(
            getattr(self.client, "gather", None)
        ):
            raise TypeError(
                f"client={self.client!r}: expected a dask.distributed.Client, such as "
                f"Client(cluster)"
            )
        if getattr(self.client, "asynchronous", False):
            raise TypeError(
                f"client={self.client!r}: expected a Client that was made without asynchronous=True"
            )
        check_timeout(self)

    @contextmanager
    def open(self, model: Model) -> Iterator[Mapper]:
        """Send points as tasks."""
        # The scheduler keeps statistics per task name, and starts anew when all tasks of that name
        # are gone. A task that stays for the whole run keeps it at one record instead of one for
        # every few sweeps.
        anchor = self.client.submit(int, key=f"{_NAME}-{uuid4().hex}")
        with package(model, self.timeout, isolated=model.on_error != "raise") as made:
            yield _DaskMapper(self.client, made, self)
        del anchor


class _DaskMapper(Futures):
    def __init__(self, client: Any, made: Package, options: DaskExecutor):
        super().__init__(made, self._send_task, self._failed_task)
        self._client = client
        self._looked = -math.inf
        self._look()
        self._under_way: set[Any] = set()
        self._price = math.inf  # seconds per evaluation, a moving average

    def __call__(self, points: np.ndarray) -> Outcomes:
        parts = blocks(points, self._count(len(points)))
        answers: dict[int, Answer] = {}
        for attempt in range(_ATTEMPTS):
            left = [i for i in range(len(parts)) if i not in answers]
            if not left:
                break
            task = self._made.whole if attempt else self._made.known
            for i, answer in zip(left, self._run(task, [parts[i] for i in left])):
                if answer is not None:
                    answers[i] = answer
        else:
            lost = next(part for i, part in enumerate(parts) if i not in answers)
            raise self._given_up(lost, f"dask lost the evaluation, {_ATTEMPTS} times")
        for i, answer in answers.items():
            self.note(answer, parts[i])
        return [outcome for i in range(len(parts)) for outcome in answers[i].outcomes]

    def _count(self, k: int) -> int:
        """Count the tasks for k points."""
        if self._made.model.vectorized:
            return sum(self._client.nthreads().values()) or 1
        return math.ceil(k * min(1.0, self._price / _TASK_SECONDS))

    def note(self, answer: Answer, points: np.ndarray) -> None:
        """Count an answer, and learn the price of an evaluation from it."""
        super().note(answer, points)
        price = answer.seconds / len(answer.outcomes)
        self._price = price if math.isinf(self._price) else 0.8 * self._price + 0.2 * price

    def points_per_task(self) -> int:
        """Return how many points take five milliseconds."""
        return (
            1
            if math.isinf(self._price)
            else int(min(_TASK_SECONDS / max(self._price, 1e-9), _MOST_POINTS))
        )

    def idle(self) -> int:
        """Count the workers without a task of this run."""
        return max(self.usage.workers - len(self._under_way), 1)

    def ready(self) -> list[tuple[int, Evaluation | Failure]]:
        """Wait for the next answer and take all there are; count the workers now and then."""
        self._look()
        return super().ready()

    def _look(self) -> None:
        """Count the workers: clusters grow and shrink."""
        now = time.monotonic()
        if now - self._looked > _LOOK_SECONDS:
            self._looked = now
            self.usage.resize(sum(self._client.nthreads().values()) or 1)

    def _run(self, task: Task, parts: list[np.ndarray]) -> list[Answer | None]:
        """Run one task for each part; None for parts that have to be repeated."""
        futures = self._client.map(task, parts, pure=False, key=_NAME)
        try:
            return self._results(futures, parts)
        except BaseException:
            self._client.cancel(futures)
            raise

    def _results(self, futures, parts):
        from distributed import wait

        wait(futures)
        for future, part in zip(futures, parts):
            if future.status == "error":
                raise self._task_failed(part, future.exception()) from future.exception()
        finished = [i for i, future in enumerate(futures) if future.status == "finished"]
        results = dict(zip(finished, self._client.gather([futures[i] for i in finished])))
        return [results.get(i) for i in range(len(futures))]

    def abandon(self) -> None:
        """Cancel what is under way."""
        super().abandon()
        if self._under_way:
            self._client.cancel(list(self._under_way))
            self._under_way.clear()

    def _send_task(self, task: Task, x: np.ndarray, ended: Callable[[Any], None]) -> None:
        future = self._client.submit(task, x, pure=False, key=f"{_NAME}-{uuid4().hex}")
        self._under_way.add(future)

        def pass_on(done: Any) -> None:  # in a thread of dask's
            self._under_way.discard(done)
            if done.status == "lost":
                ended(None)
            elif done.status != "cancelled":
                ended(done.exception() or done.result())

        future.add_done_callback(pass_on)

    def _failed_task(self, error: BaseException, x: np.ndarray) -> Failure:
        return Failure(self._task_failed(x, error))

    def _task_failed(self, part: np.ndarray, error: Any) -> EvaluationError:
        from distributed import KilledWorker

        what = "its workers died" if isinstance(error, KilledWorker) else "the task failed"
        return self._given_up(
            part, f"dask gave up the evaluation, {what}, {type(error).__name__}: {error}"
        )

    def _given_up(self, part: np.ndarray, what: str) -> EvaluationError:
        """Return an error with the points of the task; one of them, or none, is the cause."""
        return failed_value(self._made.model, part[0] if len(part) == 1 else part, what, _REMEDY)
