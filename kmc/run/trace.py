"""The draws of a run, in arrays that grow by doubling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kmc.mcmc.base import STATS, Sweep
from kmc.run.blobs import BlobStore

_CAPACITY = 64


class Trace:
    """Sweeps in the order they were made.

    Parameters
    ----------
    chains, dim : int
    blobs : BlobStore, optional
        Where the blobs of a sweep's states are found.
    """

    def __init__(self, chains: int, dim: int, blobs: BlobStore | None = None):
        self._n = 0
        self._store = blobs
        self._blobs: dict[str, np.ndarray] = {}  # known from the first sweep on
        # Draws come first, so that appending one and doubling the room both touch contiguous memory.
        self._position = np.empty((_CAPACITY, chains, dim))
        self._log_density = np.empty((_CAPACITY, chains))
        self._stats: dict[str, np.ndarray] = {
            name: np.empty((_CAPACITY, chains), dtype) for name, dtype in STATS.items()
        }

    def __len__(self) -> int:
        return self._n

    def append(self, sweep: Sweep) -> None:
        """Copy one draw of every chain to the end."""
        if self._n == len(self._position):
            self._double()
        self._position[self._n] = sweep.position
        self._log_density[self._n] = sweep.log_density
        for name, column in self._stats.items():
            column[self._n] = sweep.stats[name]
        if self._store is not None:
            for name, values in self._store.at(sweep).items():
                self._blobs[name] = column = self._room(name, values)
                column[self._n] = values
        self._n += 1

    @property
    def positions(self) -> np.ndarray:
        """Points, shape (chains, draws, d): a view, and later draws leave it as it is."""
        return self._by_chain(self._position)

    @property
    def log_density(self) -> np.ndarray:
        """The log-density at those points, shape (chains, draws)."""
        return self._by_chain(self._log_density)

    @property
    def stats(self) -> dict[str, np.ndarray]:
        """One array of shape (chains, draws) for each name in :data:`kmc.mcmc.base.STATS`."""
        return {name: self._by_chain(column) for name, column in self._stats.items()}

    @property
    def blobs(self) -> dict[str, np.ndarray]:
        """What the log-density computed besides, at those points: (chains, draws, *shape) for each name."""
        return {name: self._by_chain(column) for name, column in self._blobs.items()}

    def last(self, n: int) -> dict[str, np.ndarray]:
        """The last n sweeps, draws first: positions (n, chains, d), log-density and statistics (n, chains)."""
        return self.rows(self._n - n, self._n)

    def last_blobs(self, n: int) -> dict[str, np.ndarray]:
        """The blobs of the last n sweeps, (n, chains, *shape)."""
        return self.blob_rows(self._n - n, self._n)

    def rows(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """The same of sweeps start..stop."""
        columns = {"position": self._position, "log_density": self._log_density, **self._stats}
        return {name: column[start:stop] for name, column in columns.items()}

    def blob_rows(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """The blobs of sweeps start..stop, (stop - start, chains, *shape)."""
        return {name: column[start:stop] for name, column in self._blobs.items()}

    def restore(self, rows: dict[str, np.ndarray], blobs: dict[str, np.ndarray]) -> None:
        """Take what :meth:`rows` and :meth:`blob_rows` gave, from the first sweep on; nothing if there was none."""
        if rows and len(rows["position"]):
            self._n = len(rows["position"])
            self._position, self._log_density = rows["position"], rows["log_density"]
            self._stats = {name: rows[name] for name in self._stats}
            self._blobs = dict(blobs)

    def _room(self, name: str, values: np.ndarray) -> np.ndarray:
        """The column of a blob, of a type that holds what is in it and the values."""
        column = self._blobs.get(name)
        if column is None:
            return np.empty((len(self._position), *values.shape), values.dtype)
        return column.astype(np.result_type(column, values), copy=False)

    def _by_chain(self, column: np.ndarray) -> np.ndarray:
        return column[: self._n].swapaxes(0, 1)

    def _double(self) -> None:
        self._position = _doubled(self._position)
        self._log_density = _doubled(self._log_density)
        self._stats = {name: _doubled(column) for name, column in self._stats.items()}
        self._blobs = {name: _doubled(column) for name, column in self._blobs.items()}


def joined(traces: Sequence[Trace]) -> Trace:
    """One trace of all chains, in order; of traces that differ in length, the last sweeps that all have."""
    if len(traces) == 1:
        return traces[0]
    n = min(map(len, traces))
    parts = [trace.last(n) for trace in traces]
    columns = side_by_side(parts)
    whole = Trace(*columns["position"].shape[1:])
    whole._n = n
    whole._position, whole._log_density = columns.pop("position"), columns.pop("log_density")
    whole._stats = columns
    whole._blobs = side_by_side([trace.last_blobs(n) for trace in traces]) if n else {}
    return whole


def side_by_side(parts: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Rows of several traces as those of one of all their chains."""
    return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}


def _doubled(column: np.ndarray) -> np.ndarray:
    room = np.empty((2 * len(column), *column.shape[1:]), column.dtype)  # memory from the system once it is written to
    room[: len(column)] = column
    return room
