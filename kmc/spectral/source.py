"""Samples wherever they are, and a look at some of them before the pass over all."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from kmc.checks import check_magnitude
from kmc.errors import KmcWarning
from kmc.estimator import Estimator, as_points, check_vector
from kmc.forms.stream import checked, is_dask, is_iterator, length, trajectories

SEGMENTS = 16
"""Contiguous parts of a sample of known length, which the folds take in turn: samples of a chain are correlated."""

BLOCK = 512
"""Samples per part where the length is not known."""


class Sample(NamedTuple):
    """Some of the samples, from which landmarks, the unit of bandwidths and candidates are chosen."""

    x: np.ndarray  # (n, d)
    weights: np.ndarray | None  # (n,)

    def counted(self) -> np.ndarray:
        """The points of positive weight."""
        return self.x if self.weights is None else self.x[self.weights > 0]

    def source(self) -> Source:
        """The same, to be read."""
        return Source(self.x, self.weights, len(self.x), False)


class Source(NamedTuple):
    """All samples, as :func:`kmc.forms.accumulate` takes them."""

    x: Any
    weights: Any
    rows: int | None  # None if it is not known before they are read
    once: bool  # they can be read only once


def open_source(estimator: Estimator, X: Any, weights: Any = None, least: int = 2) -> Source:
    """What a ``fit`` was given, checked as far as that is possible without a pass over it.

    Arrays and whatever converts to one are checked whole, as scikit-learn does. Memory maps, dask arrays, lists of
    arrays (trajectories) and iterators of blocks are checked block by block while they are read.

    Raises
    ------
    ValueError, TypeError
        For points that are no points; for weights that are negative, all zero or not one for each point.
    """
    if not is_stream(X):
        x = estimator._check_points(X, fitting=True, least=least)
        return Source(x, None if weights is None else checked_weights(weights, len(x)), len(x), False)
    estimator._forget_fit()
    parts = trajectories(X, 2)
    once = any(hasattr(part, "__next__") for part in parts)
    rows = length(X)
    if rows is not None and rows < least:
        raise ValueError(f"X has {rows} samples: a minimum of {least} is required")
    if weights is not None and not is_stream(weights, 1) and rows is not None:
        weights = checked_weights(weights, rows)
    return Source(list(parts) if isinstance(X, (list, tuple)) else X, weights, rows, once)


def is_stream(data: Any, ndim: int = 2) -> bool:
    """Whether data are read block by block: anything but an array in memory."""
    if isinstance(data, np.memmap) or is_dask(data) or is_iterator(data):
        return True
    return isinstance(data, (list, tuple)) and any(is_iterator(part) or np.ndim(part) == ndim for part in data)


def checked_weights(weights: Any, n: int) -> np.ndarray:
    """Weights (n,), not negative and not all zero, in their own scale."""
    w = check_vector(weights, n, "weights")
    check_magnitude("weights", w)
    if np.any(w < 0) or not np.any(w > 0):
        raise ValueError(f"weights: expected non-negative numbers, not all of them zero; the least is {w.min():g}")
    return w


def look(source: Source, most: int, rng: np.random.Generator) -> tuple[Sample, Source]:
    """At most so many samples, and the source to read all of them from afterwards.

    Rows drawn at random; the first ones where samples can be read only once or their number is not known.
    """
    if source.once or source.rows is None:
        x, rest = _first(source.x, 2, most)
        weights, weights_rest = (None, None) if source.weights is None else _first(source.weights, 1, len(x))
        known = len(x) if len(x) < most else source.rows
        return Sample(as_points(x), weights), Source(rest, weights_rest, known, source.once)
    rows = np.arange(source.rows)
    if source.rows > most:
        rows = np.sort(rng.choice(source.rows, most, replace=False))
    x = _take(source.x, 2, rows)
    return Sample(x, None if source.weights is None else _take(source.weights, 1, rows)), source


def folds(source: Source, count: int) -> tuple[Any, Any]:
    """The samples, and the fold of each: parts of a sample in turn, see ``SEGMENTS`` and ``BLOCK``."""
    if source.rows is not None:
        segments = min(SEGMENTS, source.rows)
        return source.x, np.arange(source.rows) * segments // source.rows % count
    lengths: deque[int] = deque()
    parts = [_counted(part, lengths) for part in trajectories(source.x, 2)]
    return parts, _labels(lengths, count)


def _counted(part, lengths: deque[int]) -> Iterator[np.ndarray]:
    """The blocks of an iterator, or an array as one; their lengths are kept."""
    for block in part if is_iterator(part) else [np.asarray(part)]:
        block = np.asarray(block)
        lengths.append(len(block))
        yield block


def _labels(lengths: deque[int], count: int) -> Iterator[np.ndarray]:
    """Labels of the rows that were read, for a reader who reads points first."""
    row = 0
    while lengths:
        rows = np.arange(row, row + lengths.popleft())
        yield rows // BLOCK % count
        row += len(rows)


def _first(source, ndim, most):
    """The first rows, and a source that still has them."""
    found: list[np.ndarray] = []
    parts, missing = [], most
    for part in trajectories(source, ndim):
        if missing > 0 and is_iterator(part):
            part, chunks = iter(part), []
            for chunk in part:
                chunks.append(checked(chunk, "X" if ndim == 2 else "weights", ndim))
                missing -= len(chunks[-1])
                if missing <= 0:
                    break
            found += chunks
            part = chain(chunks, part)
        elif missing > 0:
            found.append(checked(part[:missing], "X" if ndim == 2 else "weights", ndim))
            missing -= len(found[-1])
        parts.append(part)
    if not found:
        raise ValueError("X has no rows: expected samples")
    return np.concatenate(found)[:most], parts


def _take(source, ndim, rows):
    """Rows by their sorted numbers."""
    pieces, start = [], 0
    for part in trajectories(source, ndim):
        stop = start + part.shape[0]
        here = rows[(rows >= start) & (rows < stop)] - start
        piece = part[here]
        pieces.append(checked(piece.compute() if is_dask(part) else piece, "X" if ndim == 2 else "weights", ndim))
        start = stop
    return np.concatenate(pieces)


def check_repeatable(X: Any) -> None:
    """TypeError for samples that can be read only once."""
    if any(hasattr(part, "__next__") for part in trajectories(X, 2)):
        raise TypeError("X is an iterator, which can be read only once, and it is needed more often: give arrays")


def check_lagtime(source: Source, lagtime: int) -> None:
    """Of trajectories whose shapes are known unread, all are as wide, and at least one is longer than the lagtime."""
    parts = trajectories(source.x, 2)
    if len(widths := {part.shape[1] for part in parts if len(getattr(part, "shape", ())) == 2}) > 1:
        raise ValueError(f"X has trajectories of {sorted(widths)} columns: expected as many in each")
    lengths = [length(part) for part in parts]
    known = [n for n in lengths if n is not None]
    if len(known) < len(lengths) or not known:
        return
    if max(known) <= lagtime:
        raise ValueError(
            f"lagtime={lagtime}: n_samples={max(known)} in the longest trajectory, expected more than the lagtime"
        )
    if short := sum(n <= lagtime for n in known):
        warnings.warn(
            f"lagtime={lagtime}: {short} of {len(known)} trajectories are not longer than it and are left out",
            KmcWarning,
            stacklevel=3,
        )
