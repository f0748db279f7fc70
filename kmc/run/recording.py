"""What a run and its recorder know of each other.

A run is given its recorder when it is made. A run without a store has a :class:`NullRecorder`; the other recorder is
:class:`kmc.run.store.recorder.Recorder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from kmc.run.blobs import BlobStore
from kmc.run.independent_run import IndependentRun
from kmc.run.meter import Meter
from kmc.run.request import Request
from kmc.targets.evaluate import Evaluation


class RecordedRun(Protocol):
    """What a recorder asks of its run."""

    request: Request
    draws: int | None
    max_evaluations: int | None
    warmup_cut: int | None
    blobs: BlobStore
    meter: Meter
    independent_runs: list[IndependentRun]

    def state(self) -> dict[str, Any]:
        """All that decides how the run continues, between two sweeps."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state."""

    def facts(self) -> dict[str, Any]:
        """What was run and at what price, so far."""

    def n_draws(self) -> int:
        """Draws of every chain so far."""

    def warming_up(self) -> bool:
        """Whether draws do not count yet."""


class RunRecorder(Protocol):
    """What a run asks of its recorder; it is a context that is entered while the run sweeps."""

    replaying: bool  # whether the last values came from the store

    def attach(self, run: RecordedRun) -> tuple[int | None, int | None]:
        """Begin to record that run; returns the draws and the evaluations at which it ends."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: Any) -> None: ...

    def restore(self) -> bool:
        """Whether the run went back to a snapshot."""

    def recall(self, points: np.ndarray) -> list[Evaluation] | None:
        """What the points (k, d) gave, if they were evaluated before."""

    def keep(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        """Take in new evaluations."""

    def swept(self) -> None:
        """All independent runs are between two sweeps."""

    def finish(self, result: Any) -> None:
        """The run has ended, with that result."""


class NullRecorder:
    """Records nothing."""

    replaying = False

    def attach(self, run: RecordedRun) -> tuple[int | None, int | None]:
        """Where the request says that the run ends."""
        return run.request.draws, run.request.max_evaluations

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass

    def restore(self) -> bool:
        """Never."""
        return False

    def recall(self, points: np.ndarray) -> None:
        """Nothing was evaluated before."""

    def keep(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        """Do nothing."""

    def swept(self) -> None:
        """Do nothing."""

    def finish(self, result: Any) -> None:
        """Do nothing."""
