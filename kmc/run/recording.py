"""The interface between a run and its recorder.

A run is given its recorder when it is made. A run without a store has a :class:`NullRecorder`; the other recorder is
:class:`kmc.run.store.recorder.Recorder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from kmc.run.arguments import Request
from kmc.run.blobs import BlobStore
from kmc.run.independent_run import IndependentRun
from kmc.run.meter import Meter
from kmc.targets.evaluate import Evaluation, Evaluator


class RecordedRun(Protocol):
    """The methods of a run that its recorder uses."""

    request: Request
    draws: int | None
    max_evaluations: int | None
    warmup_cut: int | None
    blobs: BlobStore
    evaluate: Evaluator
    meter: Meter
    independent_runs: list[IndependentRun]

    def state(self) -> dict[str, Any]:
        """All that determines the continuation of the run, between two sweeps."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state."""

    def evaluated_ahead(self) -> list[tuple[int, np.ndarray, Evaluation]]:
        """Chain, point and result of each evaluation that is in no whole sweep yet."""

    def facts(self) -> dict[str, Any]:
        """Description of the run and its cost so far."""

    def n_draws(self) -> int:
        """Draws of every chain so far."""

    def warming_up(self) -> bool:
        """Whether the run is still in warm-up."""


class RunRecorder(Protocol):
    """The methods of a recorder that a run uses; it is a context that is entered while the run sweeps."""

    replaying: bool  # whether the last values came from the store

    @property
    def remembers(self) -> bool:
        """Whether `recall` may know further evaluations; chains move on their own only if it does not."""

    def attach(self, run: RecordedRun) -> tuple[int | None, int | None]:
        """Begin to record a run; return the numbers of draws and evaluations at which it ends."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: Any) -> None: ...

    def restore(self) -> bool:
        """Restore the run from a snapshot; whether there was one."""

    def recall(self, points: np.ndarray) -> list[Evaluation] | None:
        """Results at the points (k, d), if they were evaluated before."""

    def recall_ahead(self, chain: int, x: np.ndarray) -> Evaluation | None:
        """The result at x (d,) that a chain on its own needs next, if it was evaluated before."""

    def keep(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        """Store new evaluations."""

    def swept(self) -> None:
        """Called when all independent runs are between two sweeps."""

    def finish(self, result: Any) -> None:
        """Called at the end of the run, with its result."""


class NullRecorder:
    """Records nothing."""

    replaying = remembers = False

    def attach(self, run: RecordedRun) -> tuple[int | None, int | None]:
        """The limits of the request."""
        return run.request.draws, run.request.max_evaluations

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass

    def restore(self) -> bool:
        """Never."""
        return False

    def recall(self, points: np.ndarray) -> None:
        """None: nothing was evaluated before."""

    def recall_ahead(self, chain: int, x: np.ndarray) -> None:
        """None: nothing was evaluated before."""

    def keep(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        """Do nothing."""

    def swept(self) -> None:
        """Do nothing."""

    def finish(self, result: Any) -> None:
        """Do nothing."""
