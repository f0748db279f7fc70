"""Share code among executors.

This is about options, models as bytes, blocks of points, calls that take too long, and the use of
workers.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache, lru_cache
from io import BytesIO
from typing import Any, Protocol, runtime_checkable

import numpy as np

from kmc.checks import check_number
from kmc.errors import EvaluationError
from kmc.model.evaluate import Evaluation, Mapper
from kmc.model.model import Model
from kmc.model.returned import Failure, failed_call
from kmc.pickles import load_pickle

Outcomes = list[Evaluation | Failure]


@runtime_checkable
class Executor(Protocol):
    """Options of an executor: where evaluations run."""

    def open(self, model: Model) -> AbstractContextManager[Mapper | None]:
        """Provide a mapper while the context lasts, or None: evaluate in this process."""


@dataclass(frozen=True)
class InProcess:
    """Evaluations in this process, one after the other."""

    def open(self, model: Model) -> AbstractContextManager[None]:
        """Return a context that opens nothing."""
        return nullcontext()


def blocks(points: np.ndarray, count: int) -> list[np.ndarray]:
    """Split points (k, d) into at most ``count`` blocks of nearly equal size, in order."""
    return np.array_split(points, max(1, min(count, len(points))))


def check_timeout(options: Any) -> None:
    """Check the attribute ``timeout``, None or a positive number of seconds."""
    if options.timeout is not None:
        check_number(options, "timeout", 0, np.inf)


def packed(model: Model) -> bytes:
    """Pickle a model to bytes, lambdas and closures included.

    Raises
    ------
    TypeError
        It holds something that cannot be pickled.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, given: Any) -> Any:
            # Functions of the script go by value, and so must those with a cache, which have no
            # copy in a worker.
            if type(given) is type(cache(len)) and given.__module__ == "__main__":
                return _with_cache, (given.__wrapped__, given.cache_parameters())
            return super().reducer_override(given)

    content = BytesIO()
    try:
        Pickler(content).dump(model)
        return content.getvalue()
    except Exception as error:
        raise TypeError(
            f"log_density={model.log_density!r} cannot be sent to another process "
            f"({type(error).__name__}: {error}): "
            "open files, locks and connections inside the function, or use an executor of threads"
        ) from error


def _with_cache(function: Any, parameters: dict[str, Any]) -> Any:
    return lru_cache(**parameters)(function)


def unpacked(payload: bytes) -> Model:
    """Load a model from its bytes.

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


def too_late(model: Model, points: np.ndarray, timeout: float) -> EvaluationError:
    """Return the error for a call at points (k, d) that takes longer than allowed."""
    x = points if model.vectorized else points[0]
    late = f"took longer than timeout={timeout:g} seconds"
    return failed_call(
        model, x, f"log_density {late}", "raise timeout, make log_density faster", reason=late
    )


@dataclass
class Usage:
    """Seconds that evaluations took, and how long workers waited.

    Attributes
    ----------
    workers : int
        Number of workers that evaluate at the same time, at present.
    count, busy, longest
        Evaluations so far, their seconds together, and the longest.
    n_timeouts : int
        Evaluations that took longer than the executor's ``timeout``.
    """

    workers: int
    count: int = 0
    busy: float = 0.0
    longest: float = 0.0
    n_timeouts: int = 0
    _before: float = 0.0  # seconds of all workers until their number last changed
    _began: float = field(default_factory=time.monotonic)  # then, or at the start
    _latest: float = field(default_factory=time.monotonic)

    def note(self, seconds: float, points: np.ndarray) -> None:
        """Count ended evaluations at points (k, d), k > 0, that took so many seconds together."""
        count = len(points)
        self._latest = time.monotonic()
        self.count, self.busy = self.count + count, self.busy + seconds
        self.longest = max(self.longest, seconds / count)

    def resize(self, workers: int) -> None:
        """Set the number of workers from now on."""
        if workers != self.workers:
            now = time.monotonic()
            self._before += self.workers * (now - self._began) if self.count else 0.0
            self.workers, self._began = workers, now

    def facts(self) -> dict[str, Any]:
        """Return the results' attributes; empty before the first evaluation."""
        if not self.count:
            return {}
        available = self._before + self.workers * max(self._latest - self._began, 0.0)
        return {
            "workers": self.workers,
            "workers_waited": min(max(1.0 - self.busy / max(available, 1e-9), 0.0), 1.0),
            "evaluation_seconds": self.busy / self.count,
            "longest_evaluation_seconds": self.longest,
            "n_timeouts": self.n_timeouts,
        }


@runtime_checkable
class Measured(Protocol):
    """What a mapper may have besides: how its workers spent their time."""

    usage: Usage
