"""The executor protocol."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kmc.checks import check_number
from kmc.targets.evaluate import Evaluation, Mapper
from kmc.targets.failures import Failure
from kmc.targets.model import Model

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
    """Check the attribute ``timeout``: None or a positive number of seconds."""
    if options.timeout is not None:
        check_number(options, "timeout", 0, np.inf)
