"""Evaluations through a pool that the caller has started: all it needs is ``map(function, iterable)``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from types import NoneType
from typing import Any

import numpy as np

from kmc.errors import EvaluationError
from kmc.model.evaluate import Mapper
from kmc.model.model import Model
from kmc.model.returned import Failure
from kmc.run.executors.base import Outcomes, blocks, check_timeout
from kmc.run.executors.tasks import Answer, Futures, Package, Send, package, sender


@dataclass(frozen=True)
class MapExecutor:
    """Evaluations through the ``map`` of a pool that the caller starts and closes.

    Parameters
    ----------
    pool : object
        A ``concurrent.futures`` executor, a ``multiprocessing`` or MPI pool, or anything else with a method
        ``map(function, iterable)``.
    timeout : float, optional
        Seconds that one call of the log-density may take. ``kmc.Model(on_error=...)`` says what becomes of a call that
        takes longer.

    Notes
    -----
    With a time limit each worker evaluates in a process of its own, which is replaced if a call takes too long or ends
    it. Workers of ``concurrent.futures``, ``multiprocessing`` and ``mpi4py.futures`` that are processes do so with
    ``kmc.Model(on_error=...)`` other than "raise", too: most pools do not survive a worker that dies.

    Examples
    --------
    >>> from mpi4py.futures import MPIPoolExecutor  # doctest: +SKIP
    >>> kmc.sample(log_density, dim=5, executor=kmc.MapExecutor(MPIPoolExecutor(), timeout=60))  # doctest: +SKIP
    """

    pool: Any
    timeout: float | None = None

    def __post_init__(self):
        if isinstance(self.pool, type) or not callable(getattr(self.pool, "map", None)):
            raise TypeError(f"pool={self.pool!r}: expected an object with a method map(function, iterable)")
        check_timeout(self)

    @contextmanager
    def open(self, model: Model) -> Iterator[Mapper]:
        """Send points through ``pool.map``; one by one, too, if the pool is a known one."""
        send = sender(self.pool)
        in_processes = send is not None and not isinstance(self.pool, (ThreadPoolExecutor, ThreadPool))
        with package(model, self.timeout, isolated=in_processes and model.on_error != "raise") as made:
            yield _Mapper(self.pool, made) if send is None else _StreamingMapper(self.pool, made, send)


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
            raise EvaluationError(f"executor={self._pool!r}: map returned None instead of values", position=points)
        for answer, part in zip(answers, parts, strict=True):
            self.note(answer, part)
        return [outcome for answer in answers for outcome in answer.outcomes]

    def note(self, answer: Answer, points: np.ndarray) -> None:
        """How long it took; nothing is known about the workers of such a pool."""

    def _map(self, task, parts):
        try:
            answers = list(self._pool.map(task, parts))
        except Exception as error:  # exceptions of the function itself are in the answers
            raise _broken(self._pool, error, np.concatenate(parts)) from error
        if not all(isinstance(answer, (Answer, NoneType)) for answer in answers):
            message = f"executor={self._pool!r}: map returned something other than the function's results: {answers!r}"
            raise EvaluationError(message, position=np.concatenate(parts))
        if len(answers) != len(parts):
            message = f"executor={self._pool!r}: map returned {len(answers)} results, expected {len(parts)}"
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
    message = f"executor={pool!r} failed, {type(error).__name__}: {error}; its workers may have died"
    return EvaluationError(message, position=points)


def _workers(pool: Any) -> int:
    """Workers of a pool of :mod:`concurrent.futures` or :mod:`multiprocessing`, which do not tell; else as `_size`."""
    count = getattr(pool, "_max_workers", getattr(pool, "_processes", None))
    return count if isinstance(count, int) and count > 0 else _size(pool)


def _size(pool: Any) -> int:
    """Workers of a pool that knows its size (MPI pools do), otherwise the number of processors."""
    size = getattr(pool, "size", None)
    return size if isinstance(size, int) and size > 0 else os.cpu_count() or 1
