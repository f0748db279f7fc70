"""The evaluations of a run, in order: earlier ones to be replayed from a store, and new ones to be written to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kmc.targets.evaluate import Evaluation

Columns = dict[str, np.ndarray]


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
