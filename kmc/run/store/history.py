"""The evaluations of a run, in order: those to be answered from a store, and those to be written to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kmc.targets.evaluate import Evaluation

Columns = dict[str, np.ndarray]


class Mismatch(Exception):
    """The point that was evaluated at a row of the history (None past its end), and another one that is asked for."""

    def __init__(self, row: int, before: np.ndarray | None, now: np.ndarray):
        super().__init__()
        self.row, self.before, self.now = row, before, now


class Past:
    """Evaluations that were made.

    Parameters
    ----------
    columns, blobs : mapping of str to ndarray
        The whole history: "point" (n, d) and "value" (n,), and the blobs (n, ...).
    first : int
        The row that will be asked for first; those before will not.
    """

    def __init__(self, columns: Mapping[str, np.ndarray], blobs: Mapping[str, np.ndarray], first: int):
        self._points, self._values, self._blobs = columns["point"], columns["value"], blobs
        self._next = first

    def __bool__(self) -> bool:
        """Whether there are some that will be asked for."""
        return self._next < len(self._points)

    def before(self) -> tuple[np.ndarray, list[Evaluation]]:
        """Points and evaluations that will not be asked for."""
        return self._points[: self._next], self._evaluations(0, self._next)

    def recall(self, points: np.ndarray) -> list[Evaluation]:
        """What the next points (k, d) gave.

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
    """Points (k, d) that were evaluated together, and what came of it."""

    points: np.ndarray
    evaluations: Sequence[Evaluation]


def columns_of(batches: Sequence[Batch]) -> tuple[Columns, Columns]:
    """Rows of the history, and of its blobs; zeros stand where a point has none."""
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
    """An array of n rows, zeros but at some."""
    whole = np.zeros((n, *np.shape(present[0])), np.result_type(*present))
    whole[rows] = np.stack(present)
    return whole
