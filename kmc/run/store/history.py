"""The evaluations of a run, in order: those to be answered from a store, and those to be written to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Blobs = dict[str, np.ndarray]


class Batch(NamedTuple):
    """Evaluations that were made together."""

    points: np.ndarray  # (k, d)
    values: np.ndarray  # (k,)
    blobs: Sequence[Blobs | None]  # of each point; None where there are none


class Mismatch(Exception):
    """A point is asked for that is not the one that was evaluated.

    Attributes
    ----------
    row : int
        In the history.
    """

    def __init__(self, row: int, before: np.ndarray | None, now: np.ndarray):
        super().__init__()
        self.row, self.before, self.now = row, before, now


class Past:
    """Evaluations to be answered again, in the same order.

    Parameters
    ----------
    columns, blobs : mapping of str to ndarray
        The whole history: "point" (n, d) and "value" (n,), and the blobs (n, ...).
    first : int
        The row that is asked for first.
    """

    def __init__(self, columns: Mapping[str, np.ndarray], blobs: Mapping[str, np.ndarray], first: int):
        self._points, self._values, self._blobs = columns["point"], columns["value"], blobs
        self._next = first

    def __bool__(self) -> bool:
        return self._next < len(self._points)

    def before(self) -> Batch:
        """All that will not be asked for."""
        return self._batch(0, self._next)

    def recall(self, points: np.ndarray) -> Batch:
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
        return self._batch(start, end)

    def _batch(self, start: int, end: int) -> Batch:
        values = self._values[start:end]
        blobs: list[Blobs | None] = [None] * len(values)
        if self._blobs:
            for i in np.flatnonzero(values > -np.inf):  # where the density is zero there are none
                blobs[i] = {name: rows[start + i].copy() for name, rows in self._blobs.items()}
        return Batch(self._points[start:end], values, blobs)


def columns_of(batches: Sequence[Batch]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Rows of the history, and of its blobs; zeros stand where a point has none."""
    columns = {
        "point": np.concatenate([batch.points for batch in batches]),
        "value": np.concatenate([batch.values for batch in batches]),
    }
    found: list[Any] = [blobs for batch in batches for blobs in batch.blobs]
    names = next((list(blobs) for blobs in found if blobs), [])
    return columns, {name: _stacked([blobs and blobs[name] for blobs in found]) for name in names}


def _stacked(rows):
    present = [row for row in rows if row is not None]
    whole = np.zeros((len(rows), *present[0].shape), np.result_type(*present))
    for i, row in enumerate(rows):
        if row is not None:
            whole[i] = row
    return whole
