"""What a run tells its store, and when the store writes it down."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kmc.run.store import snapshot
from kmc.run.store.commit import Commit, StoreError, versions, write_commit
from kmc.run.store.columns import Damaged, Table
from kmc.run.store.rows import History, rows_of

if TYPE_CHECKING:
    from kmc.run.run import Run

COMMIT_SECONDS = 0.25  # least time between commits, and
COMMIT_SHARE = 0.01  # greatest share of the time that they take
SNAPSHOT_SECONDS = 5.0  # of the sampler's own time, which is what it would take to run again, and
SNAPSHOT_SHARE = 0.01


class Unrecorded:
    """The recorder of a run without a store."""

    replaying = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass

    def restore(self) -> bool:
        """Whether the run went back to a snapshot."""
        return False

    def recall(self, points: np.ndarray) -> Any:
        """What the points (k, d) gave when they were evaluated, or None if they were not."""

    def keep(self, points: np.ndarray, values: np.ndarray) -> None:
        """Take in new evaluations."""

    def swept(self) -> None:
        """All replicas are between two sweeps."""

    def finish(self, attrs: dict[str, Any]) -> None:
        """The run has ended, with a result that has those attributes."""


class Recorder(Unrecorded):
    """Writes a run to a store, and answers from it what was evaluated before.

    Parameters
    ----------
    path : Path
    run : Run
    header : dict
        What the store says besides its commits.
    commit : Commit
        The last one.
    lock : file
        Closed when recording ends.
    """

    def __init__(self, path: Path, run: Run, header: dict[str, Any], commit: Commit, lock: Any):
        self.path, self.run, self.header, self.commit = path, run, header, commit
        self._lock = lock
        self._history = History()
        tables = ["history", "draws", "variables"]
        tables += [f"{kind}/{i}" for kind in ("warmup", "warmup_variables") for i in range(len(run.replicas))]
        self._tables = {
            name: Table(path / name, ("evaluation",) if name == "history" else ("draw", "chain")) for name in tables
        }
        self._began = self._committed = time.perf_counter()
        self._cost = self._snapshot_cost = 0.0
        self._own_time = self._asked = 0.0
        self._warming_up = True

    @property
    def replaying(self) -> bool:  # type: ignore[override]
        """Whether the next values come from the store."""
        return self._history.n_past > 0

    # Back to where the run was

    def restore(self) -> bool:
        """Go back to the newest snapshot that loads, and have the evaluations after it answered from the history."""
        self.run.clock -= self.commit.seconds
        history = self._read("history", self.commit.n_evaluations)
        state = self._newest_snapshot()
        if state is not None:
            draws = self._read("draws", self.commit.n_draws)
            warmup = [self._read(f"warmup/{i}", n) for i, n in enumerate(self.commit.n_warmup)]
            self.run.restore(state, draws, warmup)
            self.run.known({name: rows[: state["n_evaluations"]] for name, rows in history.items()})
            self._warming_up = False  
        first = 0 if state is None else state["n_evaluations"]
        self._history.expect({name: rows[first:] for name, rows in history.items()})
        return state is not None
