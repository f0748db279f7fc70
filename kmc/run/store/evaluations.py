"""The evaluations in a run's store: in order, given ones, and those ahead of the last whole sweep.

The history of a store holds whole sweeps, in the order of chains that wait for each other, so that
a store does not depend on the executor. What fast chains have evaluated beyond that is kept in a
file of its own, which each commit replaces. A resumed chain makes the same proposals again, and
finds their values here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kmc.model.evaluate import Evaluation
from kmc.run.store.columns import read_rows
from kmc.run.store.commit import AHEAD, read_commit
from kmc.run.store.files import Damaged, Folder, StoreError
from kmc.run.store.parts import Record, read_plain, write_plain

GIVEN = "evaluations"
"""The file of given evaluations."""

Columns = dict[str, np.ndarray]
Row = tuple[int, np.ndarray, Evaluation]
"""Chain, point (d,) and result."""


def stored_evaluations(path: Any) -> tuple[list[str], np.ndarray, np.ndarray, Columns]:
    """Return all evaluations that the run in a store has made so far.

    Returns
    -------
    names : list of str
        Names of its parameters.
    points : ndarray, shape (n, d)
        Unconstrained.
    values : ndarray, shape (n,)
        Log-Jacobians included.
    blobs : dict of str to ndarray, shape (n, ...)
        Zeros where an evaluation has none.

    Raises
    ------
    FileNotFoundError, StoreError
        There is no store, or it is damaged.
    """
    header, commit = read_commit(Path(path))
    asked = header["settings"]
    n = commit.n_evaluations
    if not n:
        return list(asked["parameters"]), np.empty((0, asked["dim"])), np.empty(0), {}
    try:
        columns, blobs = (
            read_rows(Folder(Path(path)), table, n, commit.columns.get(table, {}))
            for table in ("history", "history/blobs")
        )
    except Damaged as error:
        raise StoreError(f"history={str(path)!r} is damaged: {error}") from error
    return list(asked["parameters"]), columns["point"], columns["value"], blobs


def write_given(folder: Folder, given: Any) -> Record | None:
    """Write the points, values and perhaps outputs of a ``history``, if any; return the record."""
    if given is None:
        return None
    return write_plain(
        folder, GIVEN, {name: part for name, part in given._asdict().items() if part is not None}
    )


def read_given(
    folder: Folder, header: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None] | None:
    """Return points, values and outputs or None; None if the store's header says there are none."""
    if header["evaluations"] is None:
        return None
    try:
        found = read_plain(folder, GIVEN, header["evaluations"])
        x, values = as_points(folder, found, GIVEN, header["settings"]["dim"])
        outputs = found.get("outputs")
        if outputs is not None and (
            np.ndim(outputs) != 2 or outputs.dtype != np.float64 or len(outputs) != len(x)
        ):
            raise Damaged(
                f"{folder.path / GIVEN} has outputs that are not those of {len(x)} points"
            )
    except Damaged as error:
        raise StoreError(
            f"store={str(folder.path)!r} is damaged, and the run cannot be resumed: {error}"
        ) from error
    return x, values, outputs


def as_points(folder: Folder, found: Any, name: str, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points (n, d) and values (n,) of a file; Damaged if it has no such arrays.

    The file may hold anything.
    """
    x, values = (
        (found["x"], found["values"])
        if isinstance(found, dict) and {"x", "values"} <= set(found)
        else (0, 0)
    )
    if not (
        isinstance(x, np.ndarray)
        and isinstance(values, np.ndarray)
        and x.dtype == values.dtype == np.float64
    ):
        raise Damaged(f"{folder.path / name} has no points and values")
    if x.ndim != 2 or x.shape[1] != dim or values.shape != x.shape[:1]:
        raise Damaged(
            f"{folder.path / name} has points of shape {x.shape} and values of shape {values.shape}"
        )
    return x, values


class Mismatch(Exception):
    """A point of the history (None past its end) differs from the point that is requested now."""

    def __init__(self, row: int, before: np.ndarray | None, now: np.ndarray):
        super().__init__()
        self.row, self.before, self.now = row, before, now


class Past:
    """Earlier evaluations.

    Parameters
    ----------
    columns, blobs : mapping of str to ndarray
        The whole history: "point" (n, d), "value" (n,) and "failed" (n,), and the blobs (n, ...).
    first : int
        The first row that will be requested; earlier rows will not.
    """

    def __init__(
        self, columns: Mapping[str, np.ndarray], blobs: Mapping[str, np.ndarray], first: int
    ):
        self._points, self._values, self._blobs = columns["point"], columns["value"], blobs
        self._failed = columns["failed"]
        self._next = first

    def __bool__(self) -> bool:
        """Tell whether there are rows that will be requested."""
        return self._next < len(self._points)

    def before(self) -> tuple[np.ndarray, list[Evaluation]]:
        """Return points and evaluations that will not be requested."""
        return self._points[: self._next], self._evaluations(0, self._next)

    def recall(self, points: np.ndarray) -> list[Evaluation]:
        """Return the results at the next points (k, d).

        Raises
        ------
        Mismatch
            They are not bit for bit those of the history.
        """
        start, end = self._next, self._next + len(points)
        known = self._points[start:end]
        for i, x in enumerate(points):
            if i >= len(known) or x.tobytes() != known[i].tobytes():
                raise Mismatch(start + i, known[i] if i < len(known) else None, x)
        self._next = end
        return self._evaluations(start, end)

    def _evaluations(self, start: int, end: int) -> list[Evaluation]:
        return [
            Evaluation(float(value), self._blobs_of(row, value), _failure(self._failed[row]))
            for row, value in enumerate(self._values[start:end], start)
        ]

    def _blobs_of(self, row, value):
        if not self._blobs or not np.isfinite(value):
            return None
        return {name: rows[row].copy() for name, rows in self._blobs.items()}


class Batch(NamedTuple):
    """Points (k, d) that were evaluated together, and their results."""

    points: np.ndarray
    evaluations: Sequence[Evaluation]


def columns_of(batches: Sequence[Batch]) -> tuple[Columns, Columns]:
    """Return rows of the history, and of its blobs; zeros where a point has none."""
    made = [evaluation for batch in batches for evaluation in batch.evaluations]
    columns = {
        "point": np.concatenate([batch.points for batch in batches]),
        "value": np.array([evaluation.value for evaluation in made]),
        "failed": np.array([bool(evaluation.failure) for evaluation in made]),
    }
    blobs = [evaluation.blobs for evaluation in made if evaluation.blobs]
    rows = [i for i, evaluation in enumerate(made) if evaluation.blobs]
    return columns, {
        name: _spread([one[name] for one in blobs], rows, len(made))
        for name in (blobs[0] if blobs else ())
    }


class Found:
    """Evaluations ahead, looked up by chain and point.

    A chain that asks twice for a point gets its evaluations in their order.

    Parameters
    ----------
    rows : sequence of Row
    """

    def __init__(self, rows: Sequence[Row] = ()):
        self._at: dict[tuple[int, bytes], deque[Row]] = {}
        for row in rows:
            self._at.setdefault((row[0], row[1].tobytes()), deque()).append(row)

    def take(self, chain: int, x: np.ndarray) -> Evaluation | None:
        """Return the next result at that point; it is then forgotten."""
        rows = self._at.get((chain, x.tobytes()))
        return rows.popleft()[2] if rows else None

    def left(self) -> list[Row]:
        """Return what has not been asked for."""
        return [row for rows in self._at.values() for row in rows]


def write_ahead(folder: Folder, rows: Sequence[Row], last: Record | None) -> Record | None:
    """Write rows beside the file of the last record, which stays valid.

    Return the new record, None without rows.
    """
    if not rows:
        return None
    name = AHEAD[last is not None and last["name"] == AHEAD[0]]
    content = {
        "chains": np.array([chain for chain, _, _ in rows]),
        "x": np.array([x for _, x, _ in rows]),
        "values": np.array([evaluation.value for _, _, evaluation in rows]),
        "failed": np.array([bool(evaluation.failure) for _, _, evaluation in rows]),
        "blobs": [evaluation.blobs for _, _, evaluation in rows],
    }
    return write_plain(folder, name, content)


def read_ahead(folder: Folder, record: Record | None, dim: int) -> Found:
    """Return what :func:`write_ahead` wrote; nothing if it is missing or damaged.

    It can be evaluated again.
    """
    if record is None:
        return Found()
    try:
        content = read_plain(folder, record["name"], record)
        x, values = as_points(folder, content, record["name"], dim)
        made = map(
            Evaluation,
            values.tolist(),
            map(_as_blobs, content["blobs"]),
            map(_failure, content["failed"]),
        )
        return Found(list(zip(content["chains"].tolist(), x, made, strict=True)))
    except (Damaged, KeyError, TypeError, ValueError, AttributeError):
        return Found()


def _failure(failed: Any) -> str:
    """Return the reason of an evaluation: a store only tells whether there was one."""
    return "failed before the run was resumed" if failed else ""


def _as_blobs(blobs):
    """Return the blobs of an evaluation, arrays by name or None; ValueError for anything else."""
    if blobs is not None and not all(
        isinstance(v, (np.ndarray, np.generic)) for v in blobs.values()
    ):
        raise ValueError
    return blobs


def _spread(present, rows, n):
    """Return an array of n rows that are zero except at some."""
    whole = np.zeros((n, *np.shape(present[0])), np.result_type(*present))
    whole[rows] = np.stack(present)
    return whole
