"""The interface between a run and its recorder.

A run is given its recorder when it is made. A run without a store has a :class:`NullRecorder`, or a
:class:`kmc.run.final_state.Continued` if it continues a result. A run with a store has a
:class:`kmc.run.store.recorder.Recorder`, or one of the user's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from kmc.model.evaluate import Evaluation, Evaluator
from kmc.run.arguments import RunRequest
from kmc.run.independent_run import IndependentRun
from kmc.run.progress import Meter
from kmc.run.trace import BlobStore


class RecordedRun(Protocol):
    """The methods of a run that its recorder uses."""

    request: RunRequest
    draws: int | None
    max_evaluations: int | None
    warmup_cut: int | None
    blobs: BlobStore
    evaluate: Evaluator
    meter: Meter
    independent_runs: list[IndependentRun]

    def state(self) -> dict[str, Any]:
        """Return all that determines the continuation of the run, between two sweeps."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state."""

    def evaluated_ahead(self) -> list[tuple[int, np.ndarray, Evaluation]]:
        """Return the chain, point and result of each evaluation that is in no whole sweep yet."""

    def facts(self) -> dict[str, Any]:
        """Return a description of the run and its cost so far."""

    def n_draws(self) -> int:
        """Return the number of draws of every chain so far."""

    def warming_up(self) -> bool:
        """Return whether the run is still in warm-up."""


class RunRecorder(Protocol):
    """The methods of a recorder that a run uses; it is a context, entered while the run sweeps."""

    replaying: bool  # whether the last values came from the store

    @property
    def remembers(self) -> bool:
        """Whether `recall` may know further evaluations; only if not, chains move on their own."""

    def attach(self, run: RecordedRun) -> tuple[int | None, int | None]:
        """Begin to record a run; return the numbers of draws and evaluations at which it ends."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: Any) -> None: ...

    def restore(self) -> bool:
        """Restore the run from a snapshot; whether there was one."""

    def recall(self, points: np.ndarray) -> list[Evaluation] | None:
        """Return the results at the points (k, d), if they were evaluated before."""

    def recall_ahead(self, chain: int, x: np.ndarray) -> Evaluation | None:
        """Return the result at x (d,) that a chain on its own needs next; None if x is new."""

    def keep(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        """Store new evaluations."""

    def swept(self) -> None:
        """Store what is due; called when all independent runs are between two sweeps."""

    def finish(self, result: Any) -> None:
        """Store the end of the run; called with its result."""


@runtime_checkable
class Store(Protocol):
    """A backend from outside the package, which :func:`kmc.sample` takes as ``store``."""

    def recorder(self, request: RunRequest) -> RunRecorder:
        """Return a recorder for the run."""


class NullRecorder:
    """Records nothing."""

    replaying = remembers = False

    def attach(self, run: RecordedRun) -> tuple[int | None, int | None]:
        """Return the limits of the request."""
        return run.request.draws, run.request.max_evaluations

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass

    def restore(self) -> bool:
        """Return False: there is nothing to restore."""
        return False

    def recall(self, points: np.ndarray) -> None:
        """Return None: nothing was evaluated before."""

    def recall_ahead(self, chain: int, x: np.ndarray) -> None:
        """Return None: nothing was evaluated before."""

    def keep(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        """Do nothing."""

    def swept(self) -> None:
        """Do nothing."""

    def finish(self, result: Any) -> None:
        """Do nothing."""
