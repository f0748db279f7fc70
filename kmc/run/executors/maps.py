"""Evaluations through a pool that the caller has started: all it needs is ``map(function, iterable)``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import NoneType
from typing import Any

import numpy as np

from kmc.errors import EvaluationError
from kmc.run.executors.task import Answer, Outcomes, Package, blocks, package
from kmc.targets.evaluate import Mapper
from kmc.targets.model import Model


@dataclass(frozen=True)
class MapExecutor:
    """Evaluations through the ``map`` of a pool that the caller starts and closes."""

    pool: Any

    @contextmanager
    def open(self, model: Model) -> Iterator[Mapper]:
        """Send points through ``pool.map``."""
        with package(model) as made:
            yield lambda points: self._evaluate(made, points)

    def _evaluate(self, made: Package, points: np.ndarray) -> Outcomes:
        parts = blocks(points, _size(self.pool) if made.model.vectorized else len(points))
        answers = self._map(made.known, parts)
        unknown = [i for i, answer in enumerate(answers) if answer is None]
        if unknown:
            for i, answer in zip(unknown, self._map(made.whole, [parts[i] for i in unknown])):
                answers[i] = answer
        if None in answers:
            raise EvaluationError(f"executor={self.pool!r}: map returned None instead of values", position=points)
        return [outcome for answer in answers for outcome in answer.outcomes]

    def _map(self, task, parts):
        try:
            answers = list(self.pool.map(task, parts))
        except Exception as error:  # exceptions of the function itself are in the answers
            message = f"executor={self.pool!r} failed, {type(error).__name__}: {error}; its workers may have died"
            raise EvaluationError(message, position=np.concatenate(parts)) from error
        if not all(isinstance(answer, (Answer, NoneType)) for answer in answers):
            message = f"executor={self.pool!r}: map returned something other than the function's results: {answers!r}"
            raise EvaluationError(message, position=np.concatenate(parts))
        if len(answers) != len(parts):
            message = f"executor={self.pool!r}: map returned {len(answers)} results, expected {len(parts)}"
            raise EvaluationError(message, position=np.concatenate(parts))
        return answers


def _size(pool: Any) -> int:
    """Workers of a pool that knows its size (MPI pools do), otherwise the number of processors."""
    size = getattr(pool, "size", None)
    return size if isinstance(size, int) and size > 0 else os.cpu_count() or 1
