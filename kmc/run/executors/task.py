"""Send a model once to each worker of a pool, without knowing which worker has it.

A task names the model. A worker that does not have it yet says so, and gets the task again, with the model; so does a
worker that replaced a dead one. Threads of this process share the model without any pickling.

A worker cannot stop a call, nor survive one that crashes. Tasks that are isolated, as those with a time limit are, make
their calls in a process of the worker, which it can end and replace.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Timer
from time import perf_counter
from typing import NamedTuple

import numpy as np

from kmc.errors import EvaluationError
from kmc.run.executors.base import Outcomes, packed, unpacked
from kmc.run.executors.processes import Pool, ProcessExecutor
from kmc.run.executors.usage import Usage
from kmc.targets.evaluate import evaluate_block
from kmc.targets.model import Model
from kmc.targets.returned import Failure

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
def package(model: Model, timeout: float | None = None, isolated: bool = False) -> Iterator[Package]:
    """A package whose model threads of this process can find."""
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
    """A process, as a pool of one, that has the model of this name; it is ended unless it is taken."""

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
