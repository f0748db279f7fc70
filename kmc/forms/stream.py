"""Samples in blocks, from any source: memory, disk, a list of trajectories, or an iterator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kmc.arrays import check_magnitude, to_numpy
from kmc.checks import is_whole


class Block(NamedTuple):
    """Consecutive samples, with their weights, values, ..."""

    x: np.ndarray  # (n, d)
    trajectory: np.ndarray  # (n,) int, the number of the trajectory that a sample belongs to
    weights: np.ndarray | None  # (n,)
    values: np.ndarray | None  # (n,)
    gradients: np.ndarray | None  # (n, d)
    base_gradient: np.ndarray | None  # (n, d)
    labels: np.ndarray | None  # (n,)

    def take(self, rows: slice | np.ndarray) -> Block:
        """Return the block of the samples in these rows."""
        return Block(
            self.x[rows], self.trajectory[rows], *(None if a is None else a[rows] for a in self[2:])
        )


def blocks(
    x: Any,
    size: int,
    weights: Any = None,
    values: Any = None,
    gradients: Any = None,
    base_gradient: Any = None,
    labels: Any = None,
) -> Iterator[Block]:
    """Return blocks of ``size`` samples; the last may be smaller.

    Parameters
    ----------
    x : array_like (n, d), memory map, dask array, iterator of blocks (k, d), or list of these
        A list holds one trajectory in each item; anything else is one trajectory.
    size : int
    weights, values, labels : array_like (n,), or its blocks as those of x, optional
        For all samples in order; their blocks may differ from those of x.
    gradients : the same (n, d), optional
    base_gradient : the same (n, d), or a callable from points (k, d) to (k, d), optional

    Raises
    ------
    ValueError
        ``size`` is not a positive whole number, a block has the wrong shape or is not finite, a
        weight is negative, or an array has more or fewer rows than x.
    """
    if not is_whole(size) or size < 1:
        raise ValueError(f"block={size!r}: expected a whole number of at least 1")
    points = _Rows(x, 2, "x")
    companions: dict[str, _Rows | None] = {
        "weights": _rows(weights, 1, "weights"),
        "values": _rows(values, 1, "values"),
        "gradients": _rows(gradients, 2, "gradients"),
        "base_gradient": None
        if callable(base_gradient)
        else _rows(base_gradient, 2, "base_gradient"),
        "labels": _rows(labels, 1, "labels", kind=int),
    }
    width = None
    while True:
        rows, trajectory = points.take(size)
        count = len(trajectory)
        if not count:
            break
        width = width or rows.shape[1]
        if rows.shape[1] != width:
            raise ValueError(f"x has {rows.shape[1]} columns in one block and {width} in another")
        parts = {
            name: None if source is None else source.take_for(count)
            for name, source in companions.items()
        }
        if callable(base_gradient):
            parts["base_gradient"] = checked(base_gradient(rows), "base_gradient(x)")
        _check(rows, parts)
        yield Block(rows, trajectory, **parts)
    for source in companions.values():
        if source is not None:
            source.check_exhausted()


def length(x: Any, ndim: int = 2) -> int | None:
    """Count the samples in any input of :func:`blocks`; return None if only reading tells it."""
    counts = [_length(part) for part in trajectories(x, ndim)]
    return None if None in counts else sum(c for c in counts if c is not None)


class _Rows:
    """The rows of a source, one after the other."""

    def __init__(self, source: Any, ndim: int, name: str, kind: type = float):
        self._chunks = _chunks(source, ndim, name)
        self._ndim, self._name, self._kind = ndim, name, kind
        self._trajectory, self._at = 0, 0
        self._chunk: Any = None

    def take(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return at most ``count`` next rows, and the number of each one's trajectory."""
        pieces: list[np.ndarray] = []
        numbers: list[np.ndarray] = []
        while count > 0 and self._more():
            piece = checked(
                self._chunk[self._at : self._at + count], self._name, self._ndim, self._kind
            )
            pieces.append(piece)
            numbers.append(np.full(len(piece), self._trajectory))
            self._at += len(piece)
            count -= len(piece)
        if len(pieces) == 1:
            return pieces[0], numbers[0]
        if not pieces:
            return np.empty((0,) * self._ndim), np.empty(0, int)
        if len({piece.shape[1:] for piece in pieces}) > 1:
            raise ValueError(
                f"{self._name} has blocks of different widths: {[piece.shape for piece in pieces]}"
            )
        return np.concatenate(pieces), np.concatenate(numbers)

    def take_for(self, count: int) -> np.ndarray:
        """Return exactly ``count`` next rows."""
        rows, _ = self.take(count)
        if len(rows) != count:
            raise ValueError(f"{self._name} has fewer rows than x: expected one for each sample")
        return rows

    def check_exhausted(self) -> None:
        if self._more():
            raise ValueError(f"{self._name} has more rows than x: expected one for each sample")

    def _more(self):
        """Tell whether there is another row; move on to the next chunk that has one."""
        while self._chunk is None or self._at >= self._chunk.shape[0]:
            self._chunk = None  # so that it is freed before the next one comes
            following = next(self._chunks, None)
            if following is None:
                return False
            self._trajectory, self._chunk = following
            if not np.ndim(self._chunk):
                raise ValueError(
                    f"{self._name}={self._chunk!r}: expected rows, one for each sample"
                )
            self._at = 0
        return True


def checked(rows: Any, name: str, ndim: int = 2, kind: type = float) -> np.ndarray:
    """Return rows as an array of finite numbers, or raise an error that says what is wrong."""
    out = to_numpy(rows)
    if out.ndim != ndim:
        expected = (
            "(n, d), one row for each sample" if ndim == 2 else "(n,), one number for each sample"
        )
        raise ValueError(f"{name} has a block of shape {out.shape}: expected {expected}")
    if kind is int and out.dtype.kind not in "iu":
        raise ValueError(f"{name} has dtype {out.dtype}: expected whole numbers")
    if out.dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {out.dtype}: expected real numbers")
    out = np.ascontiguousarray(out, dtype=kind)
    if kind is float and not np.all(np.isfinite(out)):
        raise ValueError(f"{name} contains NaN or infinity: expected finite numbers")
    return out


def _rows(source, ndim, name, kind=float):
    return None if source is None else _Rows(source, ndim, name, kind)


def _check(x, parts):
    weights, labels = parts["weights"], parts["labels"]
    for name in ("gradients", "base_gradient"):
        if parts[name] is not None and parts[name].shape != x.shape:
            raise ValueError(
                f"{name} has shape {parts[name].shape} for samples of shape {x.shape}: expected "
                f"the same"
            )
    if weights is not None:
        check_magnitude("weights", weights)
        if np.any(weights < 0):
            raise ValueError(f"weights: expected no negative number, found {weights.min():g}")
    if labels is not None and np.any(labels < 0):
        raise ValueError(f"labels: expected folds 0, 1, ..., found {labels.min()}")


def _chunks(source: Any, ndim: int, name: str) -> Iterator[tuple[int, Any]]:
    """Yield each chunk after the number of its trajectory; a chunk can be sliced like an array."""
    for number, part in enumerate(trajectories(source, ndim, name)):
        if is_dask(part):
            yield from ((number, part.blocks[i].compute()) for i in range(part.numblocks[0]))
        elif is_iterator(part):
            yield from ((number, _array(chunk, name)) for chunk in part)
        else:
            yield number, part if hasattr(part, "shape") and len(part.shape) else _array(part, name)


def trajectories(source: Any, ndim: int, name: str = "X") -> Any:
    """Return the trajectories of a source: the items of a list of them, or the source alone."""
    if isinstance(source, (list, tuple)):
        return (
            source
            if any(is_iterator(part) or np.ndim(part) == ndim for part in source)
            else [_array(source, name)]
        )
    return [source]


def _array(part: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(part)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} does not convert to an array of numbers: {error}") from error


def _length(part):
    if is_iterator(part):
        return None
    shape = part.shape if hasattr(part, "shape") else _array(part, "X").shape
    if not shape:
        raise TypeError(f"X={part!r}: expected samples, an array of shape (n, d) or blocks of them")
    count = shape[0]
    return int(count) if count == count else None  # dask: nan


def is_iterator(part: Any) -> bool:
    """Return whether it yields blocks, and has no length."""
    if hasattr(part, "__next__"):
        return True
    return hasattr(part, "__iter__") and not hasattr(part, "__len__") and not hasattr(part, "shape")


def is_dask(part: Any) -> bool:
    """Return whether it is a dask array."""
    return hasattr(part, "to_delayed") and hasattr(part, "blocks")
