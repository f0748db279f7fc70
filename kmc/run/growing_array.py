"""An array that grows at its end."""

from __future__ import annotations

import numpy as np

_LEAST = 64  # rows of a block
_GROWTH = 8  # a new block has 1/8 of the rows present


class GrowingArray:
    """Rows of one shape, appended one by one.

    They are kept in blocks, so that a long run neither copies existing rows nor holds much unused memory.

    Parameters
    ----------
    rows : ndarray, shape (n, *shape)
        The first rows; taken, not copied.
    """

    def __init__(self, rows: np.ndarray):
        self._full: list[np.ndarray] = [rows]
        self._block, self._used = np.empty((0, *rows.shape[1:]), rows.dtype), 0

    def __len__(self) -> int:
        return sum(map(len, self._full)) + self._used

    def append(self, row: np.ndarray) -> None:
        """Copy a row to the end."""
        if self._used == len(self._block):
            self._full.append(self._block)
            size = max(_LEAST, sum(map(len, self._full)) // _GROWTH)
            self._block, self._used = np.empty((size, *self._block.shape[1:]), self._block.dtype), 0
        self._block[self._used] = row
        self._used += 1

    def widen(self, dtype: np.dtype) -> None:
        """Convert to a type that also holds ``dtype``."""
        wider = np.result_type(self._block, dtype)
        if wider != self._block.dtype:
            self._full, self._used = [self.rows(0, len(self)).astype(wider)], 0
            self._block = self._block[:0].astype(wider)

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows start..stop, shape (stop - start, *shape); unaffected by rows appended later."""
        parts, first = [], 0
        for block in (*self._full, self._block[: self._used]):
            last = first + len(block)
            if first < stop and start < last:
                parts.append(block[max(start - first, 0) : stop - first])
            first = last
        return np.concatenate(parts) if parts else self._block[:0]
