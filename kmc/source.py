"""Samples from any source, and a first sample of them before the pass over all."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain, tee
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from kmc.arrays import check_magnitude, to_numpy
from kmc.errors import warn
from kmc.estimator import Estimator, as_points, check_vector
from kmc.forms.stream import blocks, checked, is_dask, is_iterator, length, trajectories

_LEAST = 2  # samples of a fit
SELECTION = 50_000
"""Largest number of samples to compare settings on; the chosen one is fitted to all samples."""

SEGMENTS = 16
"""Contiguous parts of a sample of known length, assigned to folds in turn.

The reason is that samples of a chain are correlated.
"""

BLOCK = 512
"""Samples per part if the length is not known."""


COMPANIONS = {"weights": 1, "values": 1, "gradients": 2}
"""Further data for each sample, with their number of dimensions."""


class Sample(NamedTuple):
    """A part of the samples, for the choice of landmarks, the unit of bandwidths and candidates."""

    x: np.ndarray  # (n, d)
    weights: np.ndarray | None  # (n,)
    values: np.ndarray | None = None  # (n,)
    gradients: np.ndarray | None = None  # (n, d)

    def counted(self) -> np.ndarray:
        """Return the points of positive weight."""
        return self.x if self.weights is None else self.x[self.weights > 0]

    def source(self) -> Source:
        """Return a source of these points and weights, without values and gradients."""
        return Source(self.x, self.weights, len(self.x), False)


class Source(NamedTuple):
    """All samples, in a form that :func:`kmc.forms.accumulate` accepts."""

    x: Any
    weights: Any
    rows: int | None  # None if not known before they are read
    once: bool  # whether they can be read only once
    values: Any = None
    gradients: Any = None

    def beside(self, values: Any, gradients: Any) -> Source:
        """Return the source with further data for each sample, possibly in blocks of their own."""
        once = self.once or _once(values, 1) or _once(gradients, 2)
        return self._replace(values=values, gradients=gradients, once=once)

    def has_more_than(self, sample: Sample) -> bool:
        """Return whether a sample of it was only a part, as far as is known."""
        return self.rows is None or self.rows > len(sample.x)


def open_source(estimator: Estimator, X: Any, weights: Any = None) -> Source:
    """Make a source of the arguments of ``fit``, checked as far as possible without a pass over it.

    Arrays and inputs that convert to one are checked completely, as in scikit-learn. Memory maps,
    dask arrays, lists of arrays (trajectories) and iterators of blocks are checked block by block
    while they are read.

    Raises
    ------
    ValueError, TypeError
        Invalid points; weights that are negative, all zero or not one for each point.
    """
    if not is_stream(X):
        x = estimator._check_points(X, fitting=True, least=_LEAST)
        return Source(
            x, None if weights is None else checked_weights(weights, len(x)), len(x), False
        )
    estimator._forget_fit()
    rows, once = length(X), _once(X, 2) or _once(weights, 1)
    if rows is not None and rows < _LEAST:
        raise ValueError(f"X has {rows} samples: a minimum of {_LEAST} is required")
    if weights is not None and not is_stream(weights, 1) and rows is not None:
        weights = checked_weights(weights, rows)
    return Source(
        list(trajectories(X, 2)) if isinstance(X, (list, tuple)) else X, weights, rows, once
    )


def is_stream(data: Any, ndim: int = 2) -> bool:
    """Return whether data are read block by block: true except for an array in memory."""
    if isinstance(data, np.memmap) or is_dask(data) or is_iterator(data):
        return True
    return isinstance(data, (list, tuple)) and any(
        is_iterator(part) or np.ndim(part) == ndim for part in data
    )


def checked_weights(weights: Any, n: int) -> np.ndarray:
    """Return weights (n,), not negative and not all zero, on their own scale."""
    w = check_vector(weights, n, "weights")
    check_magnitude("weights", w)
    if np.any(w < 0) or not np.any(w > 0):
        raise ValueError(
            f"weights: expected non-negative numbers, not all of them zero; the least is "
            f"{w.min():g}"
        )
    return w


def look(source: Source, most: int, rng: np.random.Generator) -> tuple[Sample, Source]:
    """Return at most ``most`` samples, and the source from which to read all of them afterwards.

    Rows are drawn at random; the first ones are taken if samples can be read only once or their
    number is not known.
    """
    if source.once or source.rows is None:
        x, rest = _first(source.x, 2, most, "X")
        known = len(x) if len(x) < most else source.rows
        found, rests = {}, {}
        for name, ndim in COMPANIONS.items():
            if (given := getattr(source, name)) is not None:
                found[name], rests[name] = _first(given, ndim, most, name)
                if len(found[name]) != len(x):
                    less = "fewer" if len(found[name]) < len(x) else "more"
                    raise ValueError(f"{name} has {less} rows than X: expected one for each sample")
        sample = Sample(as_points(x), **({"weights": None} | found))
        return sample, source._replace(x=rest, rows=known, **rests)
    if source.rows > most:
        rows = np.sort(rng.choice(source.rows, most, replace=False))
    else:
        rows = np.arange(source.rows)
    taken = {}
    for name, ndim in COMPANIONS.items():
        if (given := getattr(source, name)) is not None:
            if (count := length(given, ndim)) not in (source.rows, None):
                raise ValueError(
                    f"{name} has {count} rows and X {source.rows}: expected one for each sample"
                )
            taken[name] = take(given, rows, ndim, name)
    return Sample(take(source.x, rows), **({"weights": None} | taken)), source


def take(source: Any, rows: np.ndarray, ndim: int = 2, name: str = "X") -> np.ndarray:
    """Return rows by their ascending numbers, from any source of known length."""
    pieces, start = [], 0
    for part in trajectories(source, ndim):
        part = part if hasattr(part, "shape") else np.asarray(part)
        stop = start + part.shape[0]
        piece: Any = part[rows[(rows >= start) & (rows < stop)] - start]
        pieces.append(checked(piece.compute() if is_dask(part) else piece, name, ndim))
        start = stop
    return np.concatenate(pieces)


def gathered(X: Any, weights: Any = None, values: Any = None) -> tuple[Any, Any, Any]:
    """Convert blocks to arrays, for code that needs all samples at once; leave others unchanged."""
    if not is_stream(X):
        return X, weights, values
    if hasattr(X, "shape"):
        return to_numpy(X), weights, values
    parts = list(blocks(X, BLOCK, weights, values))
    if not parts:
        raise ValueError("X has no rows: expected samples")
    x, w, v = (
        None
        if getattr(parts[0], name) is None
        else np.concatenate([to_numpy(getattr(part, name)) for part in parts])
        for name in ("x", "weights", "values")
    )
    return x, w, v


def unzipped(tuples: Iterator[Any], expected: str) -> list[Iterator[Any]]:
    """Split an iterator of tuples of blocks into iterators of their entries.

    Read in step, they need little memory.
    """
    first = next(tuples, None)
    if not isinstance(first, tuple):
        raise ValueError(f"X is an iterator of {type(first).__name__}: {expected}")
    copies = tee(chain([first], tuples), len(first))
    return [map(itemgetter(k), copy) for k, copy in enumerate(copies)]


def folds(source: Source, count: int) -> tuple[Any, Any]:
    """Return the samples and the fold of each one.

    Contiguous parts of the samples belong to the folds in turn, see ``SEGMENTS`` and ``BLOCK``.
    """
    if source.rows is not None:
        segments = min(SEGMENTS, source.rows)
        starts = -(-np.arange(segments + 1) * source.rows // segments)
        return source.x, np.repeat(np.arange(segments, dtype=np.int8) % count, np.diff(starts))
    lengths: deque[int] = deque()
    parts = [_counted(part, lengths) for part in trajectories(source.x, 2)]
    return parts, _labels(lengths, count)


def _counted(part, lengths: deque[int]) -> Iterator[np.ndarray]:
    """Yield an iterator's blocks, or an array as one block; append each length to ``lengths``."""
    for block in part if is_iterator(part) else [np.asarray(part)]:
        block = np.asarray(block)
        lengths.append(len(block))
        yield block


def _labels(lengths: deque[int], count: int) -> Iterator[np.ndarray]:
    """Return the labels of the rows that were read; points must be read before labels."""
    row = 0
    while lengths:
        rows = np.arange(row, row + lengths.popleft())
        yield rows // BLOCK % count
        row += len(rows)


def _once(data: Any, ndim: int) -> bool:
    return data is not None and any(hasattr(part, "__next__") for part in trajectories(data, ndim))


def _first(source, ndim, most, name):
    """Return the first rows, at most ``most``, and a source that still contains them."""
    found: list[np.ndarray] = []
    parts, missing = [], most
    for part in trajectories(source, ndim):
        if missing > 0 and is_iterator(part):
            part, chunks = iter(part), []
            for chunk in part:
                chunks.append(checked(chunk, name, ndim))
                missing -= len(chunks[-1])
                if missing <= 0:
                    break
            found += chunks
            part = chain(chunks, part)
        elif missing > 0:
            found.append(checked(part[:missing], name, ndim))
            missing -= len(found[-1])
        parts.append(part)
    if not found:
        raise ValueError(f"{name} has no rows: expected samples")
    return np.concatenate(found)[:most], parts


def check_repeatable(X: Any) -> None:
    """Raise a TypeError for samples that can be read only once."""
    if any(hasattr(part, "__next__") for part in trajectories(X, 2)):
        raise TypeError(
            "X is an iterator, which can be read only once, but it is needed repeatedly: give "
            "arrays"
        )


def check_lagtime(source: Source, lagtime: int) -> None:
    """Check trajectories of known shape: equal widths, and one of them longer than the lagtime."""
    parts = trajectories(source.x, 2)
    if len(widths := {part.shape[1] for part in parts if len(getattr(part, "shape", ())) == 2}) > 1:
        raise ValueError(
            f"X has trajectories of {sorted(widths)} columns: expected the same number in each"
        )
    lengths = [length(part) for part in parts]
    known = [n for n in lengths if n is not None]
    if len(known) < len(lengths) or not known:
        return
    if max(known) <= lagtime:
        raise ValueError(
            f"lagtime={lagtime}: n_samples={max(known)} in the longest trajectory, expected more "
            f"than the lagtime"
        )
    if short := sum(n <= lagtime for n in known):
        warn(
            f"lagtime={lagtime}: {short} of {len(known)} trajectories are not longer than it and "
            f"are left out"
        )
