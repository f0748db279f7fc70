"""What all executors share: their options, models as bytes, blocks of points, calls that take too long."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, lru_cache
from io import BytesIO
from typing import Any, Protocol

import numpy as np

from kmc.checks import check_number
from kmc.errors import EvaluationError
from kmc.pickles import load_pickle
from kmc.targets.evaluate import Evaluation, Mapper
from kmc.targets.model import Model
from kmc.targets.returned import Failure, failed_call

Outcomes = list[Evaluation | Failure]


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


def packed(model: Model) -> bytes:
    """A model as bytes, lambdas and closures included.

    Raises
    ------
    TypeError
        It holds something that cannot be pickled.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, given: Any) -> Any:
            # Functions of the script go by value, and so must those with a cache, which have no copy in a worker.
            if type(given) is type(cache(len)) and given.__module__ == "__main__":
                return _with_cache, (given.__wrapped__, given.cache_parameters())
            return super().reducer_override(given)

    content = BytesIO()
    try:
        Pickler(content).dump(model)
        return content.getvalue()
    except Exception as error:
        raise TypeError(
            f"log_density={model.log_density!r} cannot be sent to another process ({type(error).__name__}: {error}): "
            "open files, locks and connections inside the function, or use an executor of threads"
        ) from error


def _with_cache(function: Any, parameters: dict[str, Any]) -> Any:
    return lru_cache(**parameters)(function)


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


def too_late(model: Model, points: np.ndarray, timeout: float) -> EvaluationError:
    """The error for a call at points (k, d) that takes longer than allowed."""
    x = points if model.vectorized else points[0]
    late = f"took longer than timeout={timeout:g} seconds"
    return failed_call(model, x, f"log_density {late}", "raise timeout, make log_density faster", reason=late)
