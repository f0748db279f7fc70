"""The recorder of a run with a store: what it writes, and when."""

from __future__ import annotations

import contextlib
import json
import operator
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmc.model.evaluate import Evaluation, Evaluator
from kmc.run.frozen_surrogates import blocks_of, flattened
from kmc.run.results import described
from kmc.run.store.base import RecordedRun
from kmc.run.store.columns import Column, put_rows, read_rows
from kmc.run.store.commit import SNAPSHOTS, Commit, read_commit, versions, write_commit
from kmc.run.store.evaluations import (
    Batch,
    Found,
    Mismatch,
    Past,
    columns_of,
    read_ahead,
    write_ahead,
)
from kmc.run.store.files import Damaged, Folder, Lock, StoreError
from kmc.run.store.parts import SURROGATE, Record, read_snapshot, write_bytes, write_snapshot
from kmc.run.trace import side_by_side

COMMIT_SECONDS = 0.25  # least time between commits.
# least time of the sampler itself between snapshots: what repeating it would cost.
SNAPSHOT_SECONDS = 5.0
# largest difference, absolute and relative, of two values of a function that has not changed
SAME = 1e-6
"""The file of the frozen surrogates."""

SHARE = 0.01  # Commits and snapshots take no more of the time than this.


class Recorder:
    """Writes a run to a store, and answers repeated evaluations from it.

    Parameters
    ----------
    folder : Folder
    header : dict
        The store's attributes besides the commit.
    commit : Commit
        The last commit.
    lock : Lock
        Closed when recording ends.
    trust : bool
        Whether a snapshot that this user did not sign may be used.
    """

    def __init__(
        self, folder: Folder, header: Mapping[str, Any], commit: Commit, lock: Lock, trust: bool
    ):
        self.folder, self.header, self.commit = folder, header, commit
        self.replaying = False
        self._lock = lock
        self._trust = trust
        self._past: Past | None = None
        self._found = Found()  # what chains on their own had evaluated beyond the past
        self._new: list[Batch] = []
        # _left: when a value was last returned
        self._left = self._last_commit = time.perf_counter()
        self._commit_cost = self._snapshot_cost = 0.0
        self._own_seconds = 0.0  # time of the sampler itself since the last snapshot
        self._warming_up = True

    def attach(self, run: RecordedRun) -> tuple[int | None, int | None]:
        """Return the numbers of draws and evaluations that were requested last."""
        self.run = run
        return self.commit.draws, self.commit.max_evaluations

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        with (
            contextlib.suppress(*((OSError,) if error[0] is not None else ())),
            contextlib.closing(self._lock),
        ):
            # a refused store stays as it is
            if not (self.commit.finished or isinstance(error[1], StoreError)):
                with self._saying_what_is_kept():
                    self._write()

    @contextlib.contextmanager
    def _saying_what_is_kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.add_note(
                f"store={str(self.folder.path)!r} holds {self.commit.n_evaluations:,} evaluations "
                f"and {self.commit.n_draws:,} draws of each chain from before this error: kmc.load "
                "reads them, and resume=True continues from them"
            )
            raise

    # Restoring

    def restore(self) -> bool:
        """Go back to the snapshot if it can be used; the history answers later evaluations."""
        done = self.commit
        self.run.warmup_cut = done.warmup_cut
        if not done.n_evaluations:
            return False
        columns, blobs = (
            self._read("history", done.n_evaluations),
            self._read("history/blobs", done.n_evaluations),
        )
        state = self._state()
        self._past = Past(columns, blobs, first=0 if state is None else state["n_evaluations"])
        self._found = read_ahead(self.folder, done.ahead, self.run.request.model.dim)
        if state is not None:
            self.run.restore(state)
            if blobs:
                self.run.blobs.keep(*self._past.before())
            self._restore_traces(state["independent_runs"])
            self._warming_up = self.run.warming_up()
        self.run.meter.go_on(done.draws, done.max_evaluations, done.seconds)
        self._check_function(columns["point"], columns["value"])
        return state is not None

    def _check_function(self, points: np.ndarray, values: np.ndarray) -> None:
        """Evaluate two points of the history again; StoreError if the function has changed."""
        model, (rows,) = self.run.request.model, np.nonzero(np.isfinite(values))
        if model.noisy or not len(rows):
            return
        rows = rows[[0, -1]]
        if what := difference(
            Evaluator(model, self.run.evaluate.mapper), points[rows], values[rows]
        ):
            raise StoreError(
                f"store={str(self.folder.path)!r} is of a run of another function: {what}; use "
                "another path for the new one"
            )

    def _state(self) -> Any:
        """Return the state in the snapshot; None if there is none that can be used."""
        record = self.commit.snapshot
        if record is None or self.commit.versions.get("kmc") != versions()["kmc"]:
            return None  # all evaluations are in the history
        return read_snapshot(self.folder, record["name"], record, self._context(), self._trust)

    def _context(self) -> str:
        return json.dumps([self.header["settings"], versions()["kmc"]], sort_keys=True)

    def _restore_traces(self, states: Sequence[Mapping[str, Any]]) -> None:
        trace, blobs = (
            self._read("draws/trace", self.commit.n_draws),
            self._read("draws/blobs", self.commit.n_draws),
        )
        independent_runs, chains = self.run.independent_runs, self.run.independent_runs[0].chains
        for i, (one, state) in enumerate(zip(independent_runs, states, strict=True)):
            mine = np.s_[: state["n_draws"], i * chains : (i + 1) * chains]
            one.trace.restore(cut(trace, mine), cut(blobs, mine))
            made, n = self.commit.n_warmup[i], np.s_[: state["n_warmup"]]
            rows, row_blobs = (
                self._read(f"warmup/{i}/trace", made),
                self._read(f"warmup/{i}/blobs", made),
            )
            one.warmup_trace.restore(cut(rows, n), cut(row_blobs, n))

    def recall(self, points: np.ndarray) -> list[Evaluation] | None:
        """Return results at the points (k, d), if known; StoreError if the run has changed."""
        self.replaying = bool(self._past)
        if not self._past:
            self._own_seconds += time.perf_counter() - self._left
            return None
        try:
            return self._past.recall(points)
        except Mismatch as error:
            before = "nothing" if error.before is None else error.before.tolist()
            raise StoreError(
                f"store={str(self.folder.path)!r}: the run cannot be resumed: evaluation "
                f"{error.row} was made at x = {before} with {_listed(self.commit.versions)} and is "
                f"now asked for at x = {error.now.tolist()} with {_listed(versions())}: the code, "
                "the machine or the target has changed"
            ) from None

    @property
    def remembers(self) -> bool:
        """Tell whether `recall` may know further evaluations."""
        return bool(self._past)

    def recall_ahead(self, chain: int, x: np.ndarray) -> Evaluation | None:
        """Return the result at x (d,) that a chain on its own needs next, if it is known."""
        return self._found.take(chain, x)

    def keep(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        """Take in new evaluations, for the next commit."""
        if len(points):
            self._new.append(Batch(points.copy(), evaluations))
        self._left = time.perf_counter()

    def swept(self) -> None:
        """Commit if it is time."""
        if self.replaying:
            self._left = self._last_commit = time.perf_counter()
            return
        now = time.perf_counter()
        since = self._own_seconds + now - self._left
        settled = self._warming_up and not self.run.warming_up()
        with self._saying_what_is_kept():
            self._commit_if_due(now, settled, since)
        self._warming_up = self.run.warming_up()

    def _commit_if_due(self, now, settled, since):
        if settled or since > max(SNAPSHOT_SECONDS, self._snapshot_cost / SHARE):
            self._write(with_snapshot=True)
        elif now - self._last_commit > max(COMMIT_SECONDS, self._commit_cost / SHARE):
            self._write()

    def finish(self, result: Any) -> None:
        """Commit that the run has ended."""
        if self.commit.finished:
            return
        try:
            lock = Lock(self.folder.path)
        except RuntimeError:
            return  # another process has continued the run
        with contextlib.closing(lock), self._saying_what_is_kept():
            if read_commit(self.folder.path)[1].at != self.commit.at:
                return  # and has got further
            self._write(with_snapshot=True, attrs=dict(result.attrs), finished=True)
            for table, columns in self.commit.columns.items():
                for name, record in columns.items():
                    Column(self.folder, table, name, record).set_length(
                        _rows_counted(table, self.commit)
                    )

    # Writing

    def _write(self, with_snapshot: bool = False, **changes: Any) -> None:
        """Write all that is new, then the commit; it alone changes the recorder's own records."""
        began = time.perf_counter()
        run, new = self.run, len(self._new)
        n_draws, n_warmup = run.n_draws(), [len(one.warmup_trace) for one in run.independent_runs]
        if (
            self._past
            or n_draws < self.commit.n_draws
            or any(map(operator.lt, n_warmup, self.commit.n_warmup))
        ):
            return  # still replaying
        known = {name: dict(columns) for name, columns in self.commit.columns.items()}
        n_evaluations = self._put_history(known, self._new[:new])
        self._put_phase(
            known,
            "draws",
            self.commit.n_draws,
            n_draws,
            [one.trace for one in run.independent_runs],
        )
        for i, one in enumerate(run.independent_runs):
            self._put_phase(
                known, f"warmup/{i}", self.commit.n_warmup[i], n_warmup[i], [one.warmup_trace]
            )
        snapshot = self.commit.snapshot
        if with_snapshot:
            name = SNAPSHOTS[snapshot is not None and snapshot["name"] == SNAPSHOTS[0]]
            made = write_snapshot(self.folder, name, run.state(), self._context())
            snapshot = None if made is None else {**made, "name": name}
        commit = self.commit.with_changes(
            **{
                "attrs": described({**run.facts(), "n_evaluations": n_evaluations}),
                "finished": False,
                **changes,
            },
            n_evaluations=n_evaluations,
            n_draws=n_draws,
            n_warmup=n_warmup,
            columns=known,
            snapshot=snapshot,
            surrogate=self.commit.surrogate or self._new_surrogate(n_draws),
            draws=run.draws,
            max_evaluations=run.max_evaluations,
            seconds=run.meter.elapsed,
            warmup_cut=run.warmup_cut,
            ahead=write_ahead(
                self.folder, run.evaluated_ahead() + self._found.left(), self.commit.ahead
            ),
        )
        write_commit(self.folder, self.header, commit)
        self.commit, self._new = commit, self._new[new:]
        self._last_commit = time.perf_counter()
        if with_snapshot:
            for name in SNAPSHOTS:
                if snapshot is None or name != snapshot["name"]:
                    self.folder.remove(name)
            self._snapshot_cost, self._own_seconds = time.perf_counter() - began, 0.0
            self._left = time.perf_counter()
        else:
            self._commit_cost = time.perf_counter() - began

    def _put(self, known, table, start, columns, dims=None):
        if columns:
            shared = ("evaluation",) if table.startswith("history") else ("draw", "chain")
            named = {**(dims or {}), "": shared}
            known[table] = put_rows(self.folder, table, start, columns, known.get(table, {}), named)

    def _put_history(self, known, batches):
        """Put new evaluations after the committed ones, and return how many there are then."""
        start = self.commit.n_evaluations
        if not batches:
            return start
        columns, blobs = columns_of(batches)
        n = len(columns["value"])
        blobs = blobs or {
            name: np.zeros((n, *record["shape"]), record["dtype"])
            for name, record in known.get("history/blobs", {}).items()
        }
        self._put(known, "history", start, columns)
        self._put(known, "history/blobs", start, blobs)
        return start + n

    def _put_phase(self, known, name, start, stop, traces):
        """Put rows start..stop of traces, chains side by side, and variables computed from them."""
        if start == stop:
            return
        columns = side_by_side([trace.rows(start, stop) for trace in traces])
        self._put(known, f"{name}/trace", start, columns)
        self._put(
            known,
            f"{name}/blobs",
            start,
            side_by_side([trace.blob_rows(start, stop) for trace in traces]),
        )
        model = self.run.request.model
        if model.named:
            n, chains, dim = columns["position"].shape
            values = model.constrain(columns["position"].reshape(-1, dim))
            shown = {
                key: np.reshape(value, (n, chains, *value.shape[1:]))
                for key, value in values.items()
            }
            self._put(known, f"{name}/variables", start, shown, model.dims)

    def _new_surrogate(self, n_draws: int) -> Record | None:
        """Write the frozen surrogates once all of them have draws; None if there are none."""
        if not (n_draws and self.header["save_surrogate"]):
            return None
        densities = [one.density() for one in self.run.independent_runs]
        parts = flattened(densities, blocks_of(self.run.request.model))
        return None if parts is None else write_bytes(self.folder, SURROGATE, parts.packed())

    # Reading

    def _read(self, table: str, rows: int) -> dict[str, np.ndarray]:
        try:
            return read_rows(self.folder, table, rows, self.commit.columns.get(table, {}))
        except Damaged as error:
            raise StoreError(
                f"store={str(self.folder.path)!r} is damaged, and the run cannot be resumed: "
                f"{error}"
            ) from error


def difference(evaluate: Evaluator, points: np.ndarray, values: np.ndarray) -> str:
    """Evaluate points (k, d) again, and return in words how a value differs; empty if none does."""
    now = evaluate(points)
    differ = ~np.isclose(now, values, rtol=SAME, atol=SAME)
    if not differ.any():
        return ""
    i = int(np.argmax(differ))
    return (
        f"at x = {points[i].tolist()} the log-density was {values[i]:.8g} and is {now[i]:.8g} now"
    )


def _rows_counted(name: str, commit: Commit) -> int:
    if name.startswith("history"):
        return commit.n_evaluations
    return commit.n_draws if name.startswith("draws") else commit.n_warmup[int(name.split("/")[1])]


def cut(columns: Mapping[str, np.ndarray], rows: Any) -> dict[str, np.ndarray]:
    """Return the same rows of all columns."""
    return {name: column[rows] for name, column in columns.items()}


def _listed(packages: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in packages.items())
