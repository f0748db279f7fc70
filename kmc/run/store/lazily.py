"""Rows on disk as an array that xarray reads when it is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing


def lazily(parts: Sequence[Any], skips: Sequence[int], n: int) -> Any:
    """Arrays (draw, chain, ...) that are read by slices of draws, side by side as one lazy array (chain, draw, ...).

    It has n rows of each, after some that are skipped.
    """
    return indexing.LazilyIndexedArray(_SideBySide(parts, skips, n))


class _SideBySide(BackendArray):
    def __init__(self, parts: Sequence[Any], skips: Sequence[int], n: int):
        self._parts, self._skips = parts, skips
        self.shape = (sum(part.shape[1] for part in parts), n, *parts[0].shape[2:])
        self.dtype = np.result_type(*(part.dtype for part in parts))

    def __getitem__(self, key: Any) -> np.ndarray:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key):
        """The elements at a key of whole numbers and slices: rows are read whole, as they are in one chunk."""
        chain, draw, *others = key
        wanted = np.atleast_1d(np.arange(self.shape[1])[draw])
        first, end = (wanted.min(), wanted.max() + 1) if len(wanted) else (0, 0)
        rows = [part[skip + first : skip + end] for part, skip in zip(self._parts, self._skips, strict=True)]
        found = np.concatenate(rows, axis=1).swapaxes(0, 1)[:, wanted - first]
        return found[(chain, slice(None) if isinstance(draw, slice) else 0, *others)]
