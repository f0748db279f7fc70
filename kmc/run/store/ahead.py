"""Evaluations that chains on their own have made beyond the last whole sweep.

The history of a store holds whole sweeps, in the order of chains that wait for each other, so that a store does not
depend on the executor. What fast chains have evaluated beyond that is kept in a file of its own, which each commit
replaces. A resumed chain makes the same proposals again, and finds their values here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kmc.run.store.evaluations import Batch, columns_of
from kmc.run.store.files import Damaged, read_arrays, write_arrays
from kmc.targets.evaluate import Evaluation

Row = tuple[int, np.ndarray, Evaluation]
"""Chain, point (d,) and result."""

_NAMES = "ahead-0.npz", "ahead-1.npz"
_BLOB = "blob/"


class Found:
    """Evaluations ahead, looked up by chain and point; where a chain asks twice for a point, in their order.

    Parameters
    ----------
    rows : sequence of Row
    """

    def __init__(self, rows: Sequence[Row] = ()):
        self._at: dict[tuple[int, bytes], deque[Row]] = {}
        for row in rows:
            self._at.setdefault((row[0], row[1].tobytes()), deque()).append(row)

    def take(self, chain: int, x: np.ndarray) -> Evaluation | None:
        """The next result at that point; it is then forgotten."""
        rows = self._at.get((chain, x.tobytes()))
        return rows.popleft()[2] if rows else None

    def left(self) -> list[Row]:
        """What has not been asked for."""
        return [row for rows in self._at.values() for row in rows]


def write_ahead(folder: Path, rows: Sequence[Row], last: dict[str, Any] | None) -> dict[str, Any] | None:
    """Write rows beside the file of the last record, which stays valid; return the new record, None without rows."""
    if not rows:
        return None
    columns, blobs = columns_of([Batch(x[None], [evaluation]) for _, x, evaluation in rows])
    name = _NAMES[last is not None and last["name"] == _NAMES[0]]
    arrays = {**columns, "chain": np.array([chain for chain, _, _ in rows])}
    arrays["has_blobs"] = np.array([evaluation.blobs is not None for _, _, evaluation in rows])
    arrays |= {_BLOB + key: values for key, values in blobs.items()}
    return {"name": name, "crc": write_arrays(folder / name, arrays)}


def read_ahead(folder: Path, record: dict[str, Any] | None) -> Found:
    """Read what :func:`write_ahead` wrote; nothing if it is missing or damaged: it can be evaluated again."""
    if record is None:
        return Found()
    try:
        arrays = read_arrays(folder / record["name"], record["crc"])
    except Damaged:
        return Found()
    blobs = {name.removeprefix(_BLOB): rows for name, rows in arrays.items() if name.startswith(_BLOB)}
    return Found(
        [
            (int(chain), point, Evaluation(float(value), {k: v[i].copy() for k, v in blobs.items()} if has else None))
            for i, (chain, point, value, has) in enumerate(
                zip(arrays["chain"], arrays["point"], arrays["value"], arrays["has_blobs"], strict=True)
            )
        ]
    )
