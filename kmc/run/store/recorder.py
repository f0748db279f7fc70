"""The recorder of a run with a store: what it writes, and when."""

from __future__ import annotations

import contextlib
import operator
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kmc.run.recording import RecordedRun
from kmc.run.results import described
from kmc.run.store import snapshot
from kmc.run.store.ahead import Found, read_ahead, write_ahead
from kmc.run.store.columns import StoredColumn, Table
from kmc.run.store.commit import Commit, read_commit, versions, write_commit
from kmc.run.store.evaluations import Batch, Mismatch, Past, columns_of
from kmc.run.store.files import Damaged, Lock, StoreError
from kmc.run.trace import side_by_side
from kmc.targets.evaluate import Evaluation

COMMIT_SECONDS = 0.25  # least time between commits.
SNAPSHOT_SECONDS = 5.0  # least time of the sampler itself between snapshots: what repeating it would cost.
SHARE = 0.01  # Commits and snapshots take no more of the time than this.


class Recorder:
    """Writes a run to a store, and answers repeated evaluations from it.

    Parameters
    ----------
    path : Path
    header : dict
        The store's attributes besides the commit.
    commit : Commit
        The last commit.
    lock : Lock
        Closed when recording ends.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], commit: Commit, lock: Lock):
        self.path, self.header, self.commit = path, header, commit
        self.replaying = False
        self._lock = lock
        self._past: Past | None = None
        self._found = Found()  # what chains on their own had evaluated beyond the past
        self._new: list[Batch] = []
        self._tables: dict[str, Table] = {}
        self._left = self._last_commit = time.perf_counter()  # _left: when a value was last returned
        self._commit_cost = self._snapshot_cost = 0.0
        self._own_seconds = 0.0  # time of the sampler itself since the last snapshot
        self._warming_up = True

    def attach(self, run: RecordedRun) -> tuple[int | None, int | None]:
        """See :class:`kmc.run.recording.RunRecorder`: draws and evaluations as requested last."""
        self.run = run
        return self.commit.draws, self.commit.max_evaluations

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        with contextlib.suppress(*((OSError,) if error[0] is not None else ())), contextlib.closing(self._lock):
            if not self.commit.finished:
                with self._saying_what_is_kept():
                    self._write()

    @contextlib.contextmanager
    def _saying_what_is_kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.add_note(
                f"store={str(self.path)!r} holds {self.commit.n_evaluations:,} evaluations and {self.commit.n_draws:,} "
                "draws of each chain from before this error: kmc.load reads them, and resume=True continues from them"
            )
            raise

    # Restoring

    def restore(self) -> bool:
        """Go back to the newest snapshot that loads; later evaluations are answered from the history."""
        done = self.commit
        self.run.warmup_cut = done.warmup_cut
        if not done.n_evaluations:
            return False
        columns, blobs = self._read("history", done.n_evaluations), self._read("history/blobs", done.n_evaluations)
        state = self._newest_state()
        self._past = Past(columns, blobs, first=0 if state is None else state["n_evaluations"])
        self._found = read_ahead(self.path, done.ahead)
        if state is not None:
            self.run.restore(state)
            if blobs:
                self.run.blobs.keep(*self._past.before())
            self._restore_traces(state["independent_runs"])
            self._warming_up = self.run.warming_up()
        self.run.meter.go_on(done.draws, done.max_evaluations, done.seconds)
        return state is not None

    def _restore_traces(self, states: Sequence[Mapping[str, Any]]) -> None:
        trace, blobs = self._read("draws/trace", self.commit.n_draws), self._read("draws/blobs", self.commit.n_draws)
        independent_runs, chains = self.run.independent_runs, self.run.independent_runs[0].chains
        for i, (one, state) in enumerate(zip(independent_runs, states, strict=True)):
            mine = np.s_[: state["n_draws"], i * chains : (i + 1) * chains]
            one.trace.restore(_cut(trace, mine), _cut(blobs, mine))
            made, n = self.commit.n_warmup[i], np.s_[: state["n_warmup"]]
            rows, row_blobs = self._read(f"warmup/{i}/trace", made), self._read(f"warmup/{i}/blobs", made)
            one.warmup_trace.restore(_cut(rows, n), _cut(row_blobs, n))

    def recall(self, points: np.ndarray) -> list[Evaluation] | None:
        """See :class:`kmc.run.recording.RunRecorder`; StoreError if the run differs from the earlier one."""
        self.replaying = bool(self._past)
        if not self._past:
            self._own_seconds += time.perf_counter() - self._left
            return None
        try:
            return self._past.recall(points)
        except Mismatch as error:
            before = "nothing" if error.before is None else error.before.tolist()
            raise StoreError(
                f"store={str(self.path)!r}: the run cannot be resumed: evaluation {error.row} was made at x = {before} "
                f"with {_listed(self.commit.versions)} and is now asked for at x = {error.now.tolist()} with "
                f"{_listed(versions())}: the code, the machine or the target has changed"
            ) from None

    @property
    def remembers(self) -> bool:
        """See :class:`kmc.run.recording.RunRecorder`."""
        return bool(self._past)

    def recall_ahead(self, chain: int, x: np.ndarray) -> Evaluation | None:
        """See :class:`kmc.run.recording.RunRecorder`."""
        return self._found.take(chain, x)

    def keep(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        """See :class:`kmc.run.recording.RunRecorder`."""
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
            lock = Lock(self.path)
        except RuntimeError:
            return  # another process has continued the run
        with contextlib.closing(lock), self._saying_what_is_kept():
            if read_commit(self.path)[1].at != self.commit.at:
                return  # and has got further
            self._write(with_snapshot=True, attrs=dict(result.attrs), finished=True)
            for table, columns in self.commit.columns.items():
                for name, record in columns.items():
                    StoredColumn.of(self.path / table / name, record).set_length(_rows_counted(table, self.commit))

    # Writing

    def _write(self, with_snapshot: bool = False, **changes: Any) -> None:
        """Write all that is new, and then the commit; only the commit changes the recorder's own records."""
        began = time.perf_counter()
        run, new = self.run, len(self._new)
        n_draws, n_warmup = run.n_draws(), [len(one.warmup_trace) for one in run.independent_runs]
        if self._past or n_draws < self.commit.n_draws or any(map(operator.lt, n_warmup, self.commit.n_warmup)):
            return  # still replaying
        known = {name: dict(columns) for name, columns in self.commit.columns.items()}
        n_evaluations = self.commit.n_evaluations
        if new:
            columns, blobs = columns_of(self._new[:new])
            self._put(known, "history", n_evaluations, columns)
            n = len(columns["value"])
            blobs = blobs or self._table("history/blobs").zeros(n, known.get("history/blobs", {}))
            self._put(known, "history/blobs", n_evaluations, blobs)
            n_evaluations += n
        self._put_phase(known, "draws", self.commit.n_draws, n_draws, [one.trace for one in run.independent_runs])
        for i, one in enumerate(run.independent_runs):
            self._put_phase(known, f"warmup/{i}", self.commit.n_warmup[i], n_warmup[i], [one.warmup_trace])
        snapshots = self.commit.snapshots
        if with_snapshot:
            snapshots = self._new_snapshots()
        ahead = write_ahead(self.path, run.evaluated_ahead() + self._found.left(), self.commit.ahead)
        commit = self.commit.with_changes(
            **{"attrs": described({**run.facts(), "n_evaluations": n_evaluations}), "finished": False, **changes},
            n_evaluations=n_evaluations,
            n_draws=n_draws,
            n_warmup=n_warmup,
            columns=known,
            snapshots=snapshots,
            draws=run.draws,
            max_evaluations=run.max_evaluations,
            seconds=run.meter.elapsed,
            warmup_cut=run.warmup_cut,
            ahead=ahead,
        )
        write_commit(self.path, self.header, commit)
        self.commit, self._new = commit, self._new[new:]
        self._last_commit = time.perf_counter()
        if with_snapshot:
            snapshot.remove_others(self.path / "snapshots", {record["name"] for record in snapshots})
            self._snapshot_cost, self._own_seconds = time.perf_counter() - began, 0.0
            self._left = time.perf_counter()
        else:
            self._commit_cost = time.perf_counter() - began

    def _put(self, known, name, start, columns, dims=None):
        if not columns:
            return
        mine = known.setdefault(name, {})
        if start and not mine:  # the first rows lack this column
            columns = {key: _after_zeros(rows, start) for key, rows in columns.items()}
            start = 0
        mine.update(self._table(name).put(start, columns, mine, dims))

    def _put_phase(self, known, name, start, stop, traces):
        """Rows start..stop of the traces, chains side by side, and the variables computed from them."""
        if start == stop:
            return
        columns = side_by_side([trace.rows(start, stop) for trace in traces])
        known[f"{name}/trace"] = {key: mine for key, mine in known.get(f"{name}/trace", {}).items() if key in columns}
        self._put(known, f"{name}/trace", start, columns)
        self._put(known, f"{name}/blobs", start, side_by_side([trace.blob_rows(start, stop) for trace in traces]))
        model = self.run.request.model
        if model.named:
            n, chains, dim = columns["position"].shape
            values = model.constrain(columns["position"].reshape(-1, dim))
            shown = {key: np.reshape(value, (n, chains, *value.shape[1:])) for key, value in values.items()}
            self._put(known, f"{name}/variables", start, shown, model.dims)

    def _table(self, name):
        if name not in self._tables:
            rows = ("evaluation",) if name.startswith("history") else ("draw", "chain")
            self._tables[name] = Table(self.path / name, rows)
        return self._tables[name]

    def _new_snapshots(self):
        """Records of a snapshot of the current state, if one can be made, and of the last one."""
        last = self.commit.snapshots[:1]
        number = 1 + max((int(record["name"]) for record in self.commit.snapshots), default=0)
        foreign = self.header["sampler"] is None or bool(snapshot.needs_trust(self.header["sampler"]))
        record = snapshot.dump(self.path / "snapshots" / str(number), self.run.state(), foreign)
        return last if record is None else [record, *last]

    # Reading

    def _read(self, name: str, rows: int) -> dict[str, np.ndarray]:
        try:
            return self._table(name).read(rows, self.commit.columns.get(name, {}))
        except Damaged as error:
            raise StoreError(f"store={str(self.path)!r} is damaged, and the run cannot be resumed: {error}") from error

    def _newest_state(self):
        if self.commit.versions.get("kmc") != versions()["kmc"]:
            return None  # all evaluations are in the history
        records = (record for record in self.commit.snapshots if record.get("layout") == snapshot.LAYOUT)
        states = (snapshot.load(self.path / "snapshots", record) for record in records)
        return next((state for state in states if state is not None), None)


def _rows_counted(name: str, commit: Commit) -> int:
    if name.startswith("history"):
        return commit.n_evaluations
    return commit.n_draws if name.startswith("draws") else commit.n_warmup[int(name.split("/")[1])]


def _after_zeros(rows, n):
    return np.concatenate([np.zeros((n, *rows.shape[1:]), rows.dtype), rows])


def _cut(columns, rows):
    return {name: column[rows] for name, column in columns.items()}


def _listed(packages: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in packages.items())
