"""Rows on disk as an array that xarray reads on access."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing


def lazily(parts: Sequence[Any], skips: Sequence[int], n: int) -> Any:
    """Join arrays (draw, chain, ...), which are read by slices of draws, into one lazy array (chain, draw, ...).

    It has n rows of each, after a number of skipped ones.
    """
    return indexing.LazilyIndexedArray(_SideBySide(parts, skips, n))


def computed(parts: Sequence[Any], skips: Sequence[int], n: int, function: Callable[[int, np.ndarray], Any]) -> Any:
    """A lazy array (chain, draw) of a function of the rows (k, d) of each chain of :func:`lazily`."""
    return indexing.LazilyIndexedArray(_Computed(_SideBySide(parts, skips, n), function))


class _Computed(BackendArray):
    def __init__(self, rows: _SideBySide, function: Callable[[int, np.ndarray], Any]):
        self._rows, self._function = rows, function
        self.shape, self.dtype = rows.shape[:2], np.dtype(float)

    def __getitem__(self, key: Any) -> np.ndarray:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key):
        chain, draw = key
        rows = self._rows._read((slice(None), slice(None), slice(None)))
        values = np.empty(self.shape)
        for i in np.atleast_1d(np.arange(self.shape[0])[chain]):
            values[i] = self._function(i, np.ascontiguousarray(rows[i]))
        return values[chain, draw]


class _SideBySide(BackendArray):
    def __init__(self, parts: Sequence[Any], skips: Sequence[int], n: int):
        self._parts, self._skips = parts, skips
        self.shape = (sum(part.shape[1] for part in parts), n, *parts[0].shape[2:])
        self.dtype = np.result_type(*(part.dtype for part in parts))

    def __getitem__(self, key: Any) -> np.ndarray:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key):
        """The elements at a key of whole numbers and slices; whole rows are read, as they are in one chunk."""
        chain, draw, *others = key
        wanted = np.atleast_1d(np.arange(self.shape[1])[draw])
        first, end = (wanted.min(), wanted.max() + 1) if len(wanted) else (0, 0)
        rows = [part[skip + first : skip + end] for part, skip in zip(self._parts, self._skips, strict=True)]
        found = np.concatenate(rows, axis=1).swapaxes(0, 1)[:, wanted - first]
        return found[(chain, slice(None) if isinstance(draw, slice) else 0, *others)]
