"""Send a model once to each worker of a pool, without knowing which worker has it.

A task names the model. A worker that does not have it yet says so, and gets the task again, with the model; so does a
worker that replaced a dead one. Threads of this process share the model without any pickling.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Thread
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np

from kmc.checks import check_number
from kmc.errors import EvaluationError
from kmc.pickles import load_pickle
from kmc.targets.evaluate import Evaluation, Mapper, evaluate_block
from kmc.targets.model import Model
from kmc.targets.returned import Failure, failed_call

_REMEMBERED = 8
_models: dict[str, Model] = {}  # models of this process, by name; the oldest first
Outcomes = list[Evaluation | Failure]


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
        start = perf_counter()
        outcomes, n_timeouts = evaluate_in_time(_models[self.name], points, self.timeout)
        return Answer(outcomes, perf_counter() - start, n_timeouts)


class Package:
    """A model under a name, with tasks that evaluate it.

    Attributes
    ----------
    model : Model
    known : Task
        For workers that have the model.
    """

    def __init__(self, model: Model, timeout: float | None = None):
        self.model = model
        self.known = Task(uuid.uuid4().hex, timeout)

    @cached_property
    def whole(self) -> Task:
        """A task with the model, for any worker."""
        return replace(self.known, payload=packed(self.model))


@contextmanager
def package(model: Model, timeout: float | None = None) -> Iterator[Package]:
    """A package whose model threads of this process can find."""
    made = Package(model, timeout)
    _models[made.known.name] = model
    try:
        yield made
    finally:
        _models.pop(made.known.name, None)


def packed(model: Model) -> bytes:
    """A model as bytes, lambdas and closures included.

    Raises
    ------
    TypeError
        It holds something that cannot be pickled.
    """
    import cloudpickle

    try:
        return cloudpickle.dumps(model)
    except Exception as error:
        raise TypeError(
            f"log_density={model.log_density!r} cannot be sent to another process ({type(error).__name__}: {error}): "
            "open files, locks and connections inside the function, or use an executor of threads"
        ) from error


def unpacked(payload: bytes) -> Model:
    """A model from its bytes.

    Raises
    ------
    EvaluationError
        Something that it needs is missing in this process.
    """
    try:
        return load_pickle(payload, trust=True)  # the parent of this process has sent it
    except Exception as error:
        raise EvaluationError(
            f"a worker could not load the model, {type(error).__name__}: {error}; "
            "make the modules that log_density needs importable on the workers"
        ) from error


def evaluate_in_time(model: Model, points: np.ndarray, timeout: float | None) -> tuple[Outcomes, int]:
    """Return outcomes of the points, and the number of calls that took too long and were abandoned.

    A run that a late call ends does not wait for further ones.
    """
    if timeout is None:
        return evaluate_block(model, points), 0
    outcomes: Outcomes = []
    late = 0
    for call in calls(model, points):
        made = _within(timeout, model, call)
        late += made is None
        outcomes += [Failure(too_late(model, call, timeout))] * len(call) if made is None else made
        if made is None and model.on_error == "raise":
            return outcomes + outcomes[-1:] * (len(points) - len(outcomes)), late
    return outcomes, late


def _within(timeout: float, model: Model, call: np.ndarray) -> Outcomes | None:
    made: list[Outcomes] = []
    thread = Thread(target=lambda: made.append(evaluate_block(model, call)), daemon=True)
    thread.start()
    thread.join(timeout)
    return made[0] if made else None


def calls(model: Model, points: np.ndarray) -> list[np.ndarray]:
    """The points (k, d) of each call: all of them at once if the model is vectorized."""
    return [points] if model.vectorized else list(points[:, None])


def too_late(model: Model, points: np.ndarray, timeout: float) -> EvaluationError:
    """The error for a call at points (k, d) that takes longer than allowed."""
    x = points if model.vectorized else points[0]
    late = f"took longer than timeout={timeout:g} seconds"
    return failed_call(model, x, f"log_density {late}", "raise timeout, make log_density faster", reason=late)


class Executor(Protocol):
    """Options of an executor: where evaluations run."""

    def open(self, model: Model) -> AbstractContextManager[Mapper | None]:
        """A mapper, valid while the context lasts; None: evaluate in this process."""


@dataclass(frozen=True)
class InProcess:
    """Evaluations in this process, one after the other."""

    def open(self, model: Model) -> AbstractContextManager[None]:
        """Nothing to open or close."""
        return nullcontext()


def blocks(points: np.ndarray, count: int) -> list[np.ndarray]:
    """The rows of points (k, d) in at most ``count`` blocks of nearly equal size, in order."""
    return np.array_split(points, max(1, min(count, len(points))))


def check_timeout(options: Any) -> None:
    """Check the attribute ``timeout``, None or a positive number of seconds."""
    if options.timeout is not None:
        check_number(options, "timeout", 0, np.inf)
