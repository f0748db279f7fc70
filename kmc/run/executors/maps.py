"""Evaluations in a pool that the caller has started: it only needs ``map(function, iterable)``.

A model is sent once to each worker, without knowing which worker has it. A task names the model. A
worker that does not have it yet says so, and gets the task again, with the model; so does a worker
that replaced a dead one. Threads of this process share the model without any pickling.

A worker cannot stop a call, nor survive one that crashes. Tasks that are isolated, as those with a
time limit are, make their calls in a process of the worker, which it can end and replace.
"""

from __future__ import annotations

import multiprocessing.pool
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from multiprocessing.pool import ThreadPool
from queue import Empty, SimpleQueue
from threading import Timer
from time import perf_counter
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from kmc.errors import EvaluationError
from kmc.model.evaluate import Evaluation, Mapper, evaluate_block
from kmc.model.model import Model
from kmc.model.returned import Failure
from kmc.run.executors.base import Outcomes, Usage, blocks, check_timeout, packed, unpacked
from kmc.run.executors.processes import Pool, ProcessExecutor

_REMEMBERED = 8
_models: dict[str, Model] = {}  # models of this process, by name; the oldest first
_IDLE_SECONDS = 60.0  # after which a process that evaluates for this worker is ended


class Answer(NamedTuple):
    """Results for a block of points, in order."""

    outcomes: Outcomes
    seconds: float
    n_timeouts: int = 0


@dataclass(frozen=True)
class Task:
    """Evaluates a block of points wherever it is called; returns None if the model is not there."""

    name: str
    timeout: float | None = None
    isolated: bool = False  # whether calls are made in a process of their own
    payload: bytes | None = None

    def __call__(self, points: np.ndarray) -> Answer | None:
        if self.name not in _models:
            if self.payload is None:
                return None
            try:
                model = unpacked(self.payload)
            except EvaluationError as error:
                error.position = points[0]
                return Answer([Failure.of(error)] * len(points), 0.0)
            while len(_models) >= _REMEMBERED:
                del _models[next(iter(_models))]
            _models[self.name] = model
        model = _models[self.name]
        if self.isolated:
            with _process(self.name, model, self.timeout) as pool:
                return _passed_on(pool, model, points)
        start = perf_counter()
        return Answer(evaluate_block(model, points), perf_counter() - start)


class Package:
    """A model under a name, with tasks that evaluate it.

    Attributes
    ----------
    model : Model
    known : Task
        For workers that have the model.
    """

    def __init__(self, model: Model, timeout: float | None = None, isolated: bool = False):
        self.model = model
        self.known = Task(uuid.uuid4().hex, timeout, isolated or timeout is not None)

    @cached_property
    def whole(self) -> Task:
        """A task with the model, for any worker."""
        return replace(self.known, payload=packed(self.model))


@contextmanager
def package(
    model: Model, timeout: float | None = None, isolated: bool = False
) -> Iterator[Package]:
    """Make a package, and let threads of this process find its model while the context lasts."""
    made = Package(model, timeout, isolated)
    if made.known.isolated:
        _ = made.whole  # an error now if the model cannot be sent
    _models[made.known.name] = model
    try:
        yield made
    finally:
        _models.pop(made.known.name, None)


@dataclass(eq=False)
class _Idle:
    """A process, as a pool of one, that has the model of this name; it is ended unless taken."""

    name: str
    pool: Pool

    def __post_init__(self) -> None:
        self.timer = Timer(_IDLE_SECONDS, lambda: self.pool.close() if self.taken() else None)
        self.timer.daemon = True

    def taken(self) -> bool:
        """Return whether it was idle still: another thread, or its timer, may have been faster."""
        try:
            _idle.remove(self)
        except ValueError:
            return False
        self.timer.cancel()
        return True


_idle: list[_Idle] = []


@contextmanager
def _process(name: str, model: Model, timeout: float | None) -> Iterator[Pool]:
    """Provide a process for a model, as a pool of one, and keep it for a while."""
    pool = next((idle.pool for idle in list(_idle) if idle.name == name and idle.taken()), None)
    if pool is None:
        pool = Pool(model, ProcessExecutor(1, timeout))
        pool.start()
    try:
        yield pool
    except BaseException:
        pool.close()
        raise
    idle = _Idle(name, pool)
    _idle.append(idle)
    idle.timer.start()


def _passed_on(pool: Pool, model: Model, points: np.ndarray) -> Answer:
    """Evaluate a block in a process; a call that ends the run also ends the block."""
    pool.usage = Usage(1)
    outcomes: Outcomes = []
    for call in [points] if model.vectorized else points[:, None]:
        try:
            outcomes += pool(call)
        except EvaluationError as error:
            outcomes += [Failure(error)] * (len(points) - len(outcomes))
            break
    return Answer(outcomes, pool.usage.busy, pool.usage.n_timeouts)


Send = Callable[[Task, np.ndarray, Callable[[Any], None]], Any]
"""Begin a task at points (k, d); the callable gets its answer, or the exception that ended it."""


class Futures:
    """Evaluate one by one through whatever accepts a task and calls back.

    See :class:`kmc.model.evaluate.Stream`. A task evaluates one point, or several if they are
    cheap: a mapper that knows the cost of a task says how many.

    Parameters
    ----------
    made : Package
    send : callable
    failed : callable
        ``failed(error, x)`` makes an outcome of the exception with which a task at x (k, d) ended,
        or raises an error.
    """

    def __init__(
        self, made: Package, send: Send, failed: Callable[[BaseException, np.ndarray], Failure]
    ):
        self._made, self._send, self._failed = made, send, failed
        self._ended: SimpleQueue[tuple[Sequence[int], np.ndarray, Any]] = SimpleQueue()
        self._unsent: list[tuple[int, np.ndarray]] = []
        self.usage = Usage(1)

    def note(self, answer: Answer, points: np.ndarray) -> None:
        """Count the answer at points (k, d) in the usage of the workers."""
        self.usage.note(answer.seconds, points[: len(answer.outcomes)])
        self.usage.n_timeouts += answer.n_timeouts

    def points_per_task(self) -> int:
        """Return the number of points for a task: one, unless it costs more than an evaluation."""
        return 1

    def idle(self) -> int:
        """Return how many workers are idle; only asked if a task should have several points."""
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
        """Let answers that still come go to a queue that nobody reads."""
        self._ended, self._unsent = SimpleQueue(), []

    def _send_all(self) -> None:
        """Send what was submitted, in tasks of as many points, or fewer if workers are idle."""
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
    """Return a function that sends tasks to a known pool; None unless it is Python's own."""
    if isinstance(pool, Executor) and type(pool).submit is not Executor.submit:
        return lambda task, x, ended: when_done(pool.submit(task, x), ended)
    if isinstance(pool, multiprocessing.pool.Pool):
        return lambda task, x, ended: pool.apply_async(
            task, (x,), callback=ended, error_callback=ended
        )
    return None


def when_done(future: Future[Any], ended: Callable[[Any], None]) -> None:
    """Pass the result or the exception of a future on, unless it is cancelled."""

    def pass_on(done: Future[Any]) -> None:
        if not done.cancelled():
            ended(done.exception() or done.result())

    future.add_done_callback(pass_on)


@dataclass(frozen=True)
class MapExecutor:
    """Evaluations through the ``map`` of a pool that the caller starts and closes.

    Parameters
    ----------
    pool : object
        A ``concurrent.futures`` executor, a ``multiprocessing`` or MPI pool, or anything else with
        a method ``map(function, iterable)``.
    timeout : float, optional
        Seconds that one call of the log-density may take. ``kmc.Model(on_error=...)`` says what
        becomes of a call that takes longer.

    Notes
    -----
    With a time limit each worker evaluates in a process of its own, which is replaced if a call
    takes too long or ends it. Workers of ``concurrent.futures``, ``multiprocessing`` and
    ``mpi4py.futures`` that are processes do so with ``kmc.Model(on_error=...)`` other than "raise",
    too: most pools do not survive a worker that dies.

    Examples
    --------
    >>> from mpi4py.futures import MPIPoolExecutor  # doctest: +SKIP
    >>> kmc.sample(  # doctest: +SKIP
    ...     log_density, dim=5, executor=kmc.MapExecutor(MPIPoolExecutor(), timeout=60)
    ... )
    """

    pool: Any
    timeout: float | None = None

    def __post_init__(self):
        if isinstance(self.pool, type) or not callable(getattr(self.pool, "map", None)):
            raise TypeError(
                f"pool={self.pool!r}: expected an object with a method map(function, iterable)"
            )
        check_timeout(self)

    @contextmanager
    def open(self, model: Model) -> Iterator[Mapper]:
        """Send points through ``pool.map``; one by one, too, if the pool is a known one."""
        send = sender(self.pool)
        in_processes = send is not None and not isinstance(
            self.pool, (ThreadPoolExecutor, ThreadPool)
        )
        with package(
            model, self.timeout, isolated=in_processes and model.on_error != "raise"
        ) as made:
            yield (
                _Mapper(self.pool, made)
                if send is None
                else _StreamingMapper(self.pool, made, send)
            )


class _Mapper:
    def __init__(self, pool: Any, made: Package):
        self._pool, self._made = pool, made

    def __call__(self, points: np.ndarray) -> Outcomes:
        made = self._made
        parts = blocks(points, _size(self._pool) if made.model.vectorized else len(points))
        answers = self._map(made.known, parts)
        unknown = [i for i, answer in enumerate(answers) if answer is None]
        if unknown:
            for i, answer in zip(unknown, self._map(made.whole, [parts[i] for i in unknown])):
                answers[i] = answer
        if None in answers:
            raise EvaluationError(
                f"executor={self._pool!r}: map returned None instead of values", position=points
            )
        for answer, part in zip(answers, parts, strict=True):
            self.note(answer, part)
        return [outcome for answer in answers for outcome in answer.outcomes]

    def note(self, answer: Answer, points: np.ndarray) -> None:
        """Note nothing: the workers of such a pool are not known."""

    def _map(self, task, parts):
        try:
            answers = list(self._pool.map(task, parts))
        except Exception as error:  # exceptions of the function itself are in the answers
            raise _broken(self._pool, error, np.concatenate(parts)) from error
        if not all(isinstance(answer, (Answer, NoneType)) for answer in answers):
            message = (
                f"executor={self._pool!r}: map returned something other than the function's "
                f"results: {answers!r}"
            )
            raise EvaluationError(message, position=np.concatenate(parts))
        if len(answers) != len(parts):
            message = (
                f"executor={self._pool!r}: map returned {len(answers)} results, "
                f"expected {len(parts)}"
            )
            raise EvaluationError(message, position=np.concatenate(parts))
        return answers


class _StreamingMapper(Futures, _Mapper):
    """The same, and evaluations one by one."""

    def __init__(self, pool: Any, made: Package, send: Send):
        _Mapper.__init__(self, pool, made)
        Futures.__init__(self, made, send, self._given_up)
        self.usage.workers = _workers(pool)

    def _given_up(self, error: BaseException, x: np.ndarray) -> Failure:
        raise _broken(self._pool, error, x) from error


def _broken(pool: Any, error: BaseException, points: np.ndarray) -> EvaluationError:
    message = (
        f"executor={pool!r} failed, {type(error).__name__}: {error}; its workers may have died"
    )
    return EvaluationError(message, position=points)


def _workers(pool: Any) -> int:
    """Count the workers of Python's own pools, which do not tell; otherwise as `_size` does."""
    count = getattr(pool, "_max_workers", getattr(pool, "_processes", None))
    return count if isinstance(count, int) and count > 0 else _size(pool)


def _size(pool: Any) -> int:
    """Count the workers of a pool that knows them (MPI pools do), or else the processors."""
    size = getattr(pool, "size", None)
    return size if isinstance(size, int) and size > 0 else os.cpu_count() or 1
