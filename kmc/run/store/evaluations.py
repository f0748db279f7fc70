"""The evaluations of a run in its store, in order, and the given ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kmc.run.store.columns import Table
from kmc.run.store.commit import read_commit
from kmc.run.store.files import Damaged, StoreError, read_arrays, write_arrays
from kmc.targets.evaluate import Evaluation

EVALUATIONS = "evaluations.npz"
Columns = dict[str, np.ndarray]


def stored_evaluations(path: Any) -> tuple[list[str], np.ndarray, np.ndarray]:
    """All evaluations that the run in a store has made so far.

    Returns
    -------
    names : list of str
        Names of its parameters.
    points : ndarray, shape (n, d)
        Unconstrained.
    values : ndarray, shape (n,)
        Log-Jacobians included.

    Raises
    ------
    FileNotFoundError, StoreError
        There is no store, or it is damaged.
    """
    folder = Path(path)
    header, commit = read_commit(folder)
    asked = header["settings"]
    if not commit.n_evaluations:
        return list(asked["parameters"]), np.empty((0, asked["dim"])), np.empty(0)
    try:
        columns = Table(folder / "history", ("evaluation",)).read(
            commit.n_evaluations, commit.columns.get("history", {})
        )
    except Damaged as error:
        raise StoreError(f"history={str(folder)!r} is damaged: {error}") from error
    return list(asked["parameters"]), columns["point"], columns["value"]


def write_given(folder: Path, given: Any) -> int | None:
    """Write the evaluations of a ``history``, points `x` and values `values`, if any; return the checksum."""
    return None if given is None else write_arrays(folder / EVALUATIONS, {"x": given.x, "values": given.values})


def read_given(folder: Path, header: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """Read them: points and values; None if the store's header says that there are none."""
    if header["evaluations"] is None:
        return None
    try:
        arrays = read_arrays(folder / EVALUATIONS, header["evaluations"])
    except Damaged as error:
        raise StoreError(f"store={str(folder)!r} is damaged, and the run cannot be resumed: {error}") from error
    return arrays["x"], arrays["values"]


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
        The whole history: "point" (n, d) and "value" (n,), and the blobs (n, ...).
    first : int
        The first row that will be requested; earlier rows will not.
    """

    def __init__(self, columns: Mapping[str, np.ndarray], blobs: Mapping[str, np.ndarray], first: int):
        self._points, self._values, self._blobs = columns["point"], columns["value"], blobs
        self._next = first

    def __bool__(self) -> bool:
        """Whether there are rows that will be requested."""
        return self._next < len(self._points)

    def before(self) -> tuple[np.ndarray, list[Evaluation]]:
        """Points and evaluations that will not be requested."""
        return self._points[: self._next], self._evaluations(0, self._next)

    def recall(self, points: np.ndarray) -> list[Evaluation]:
        """The results at the next points (k, d).

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
            Evaluation(float(value), self._blobs_of(row, value))
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
    """Rows of the history, and of its blobs; zeros where a point has none."""
    made = [evaluation for batch in batches for evaluation in batch.evaluations]
    columns = {
        "point": np.concatenate([batch.points for batch in batches]),
        "value": np.array([evaluation.value for evaluation in made]),
    }
    blobs = [evaluation.blobs for evaluation in made if evaluation.blobs]
    rows = [i for i, evaluation in enumerate(made) if evaluation.blobs]
    return columns, {
        name: _spread([one[name] for one in blobs], rows, len(made)) for name in (blobs[0] if blobs else ())
    }


def _spread(present, rows, n):
    """An array of n rows that are zero except at some."""
    whole = np.zeros((n, *np.shape(present[0])), np.result_type(*present))
    whole[rows] = np.stack(present)
    return whole
