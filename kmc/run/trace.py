"""The draws of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kmc.mcmc.base import FURTHER_STATS, STATS, Step
from kmc.run.blobs import BlobStore

_LEAST = 64  # rows of a block
_GROWTH = 8  # a new block has 1/8 of the rows present


class Trace:
    """Sweeps in the order in which they were made.

    Parameters
    ----------
    chains, dim : int
    blobs : BlobStore, optional
        Looks up the blobs of a sweep's states.
    proposals : bool
        Whether to keep the evaluated proposals, too.

    Attributes
    ----------
    left_out : int
        Sweeps that were made before the first of the trace.
    """

    left_out = 0

    def __init__(self, chains: int, dim: int, blobs: BlobStore | None = None, proposals: bool = False):
        self._n = 0
        self._has_proposals = proposals
        self._store = blobs
        self._blobs: dict[str, GrowingArray] = {}  # known from the first sweep on
        shapes = {"position": (chains, dim), "log_density": (chains,)} | dict.fromkeys(STATS, (chains,))
        if proposals:
            shapes |= {"proposal": (chains, dim), "proposal_log_density": (chains,)}
        self._columns = {
            name: GrowingArray(np.empty((0, *shape), STATS.get(name, np.float64))) for name, shape in shapes.items()
        }

    def __len__(self) -> int:
        return self._n

    def append(self, sweep: Step) -> None:
        """Copy one draw of every chain to the end."""
        values = {"position": sweep.position, "log_density": sweep.log_density, **sweep.stats}
        if not self._n:
            for name, dtype in FURTHER_STATS.items():
                if name in sweep.stats:
                    self._columns[name] = GrowingArray(np.empty((0, *sweep.stats[name].shape), dtype))
        if self._has_proposals:
            values["proposal"], values["proposal_log_density"] = sweep.proposed or _unknown(sweep)
        for name, column in self._columns.items():
            column.append(values[name])
        if self._store is not None:
            for name, row in self._store.at(sweep).items():
                column = self._blobs.setdefault(name, GrowingArray(np.empty((0, *row.shape), row.dtype)))
                column.widen(row.dtype)
                column.append(row)
        self._n += 1

    @property
    def positions(self) -> np.ndarray:
        """Points, shape (chains, draws, d)."""
        return self._by_chain(self._columns["position"])

    @property
    def log_density(self) -> np.ndarray:
        """The log-density at those points, shape (chains, draws)."""
        return self._by_chain(self._columns["log_density"])

    @property
    def stats(self) -> dict[str, np.ndarray]:
        """One array (chains, draws, ...) for each name in :data:`kmc.mcmc.base.STATS`, and for further ones present."""
        names = (name for name in (*STATS, *FURTHER_STATS) if name in self._columns)
        return {name: self._by_chain(self._columns[name]) for name in names}

    @property
    def proposals(self) -> dict[str, np.ndarray]:
        """The proposed points, "x" (chains, draws, d), and their log-densities, "lp"; empty if not kept."""
        names = {"x": "proposal", "lp": "proposal_log_density"} if self._has_proposals else {}
        return {name: self._by_chain(self._columns[column]) for name, column in names.items()}

    @property
    def blobs(self) -> dict[str, np.ndarray]:
        """Further outputs of the log-density at those points: (chains, draws, *shape) for each name."""
        return {name: self._by_chain(column) for name, column in self._blobs.items()}

    def rows(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Of sweeps start..stop, draws first: "position" (n, chains, d), "log_density" and statistics (n, chains)."""
        return {name: column.rows(start, stop) for name, column in self._columns.items()}

    def blob_rows(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """The blobs of sweeps start..stop, (stop - start, chains, *shape)."""
        return {name: column.rows(start, stop) for name, column in self._blobs.items()}

    def restore(self, rows: Mapping[str, np.ndarray], blobs: Mapping[str, np.ndarray]) -> None:
        """Restore the output of :meth:`rows` and :meth:`blob_rows`, from the first sweep on; nothing if it is empty."""
        if rows and len(rows["position"]):
            self._n = len(rows["position"])
            names = [*self._columns, *(name for name in FURTHER_STATS if name in rows)]
            self._columns = {name: GrowingArray(rows[name]) for name in dict.fromkeys(names)}
            self._blobs = {name: GrowingArray(values) for name, values in blobs.items()}

    def _by_chain(self, column: GrowingArray) -> np.ndarray:
        return column.rows(0, self._n).swapaxes(0, 1)


def joined(traces: Sequence[Trace]) -> Trace:
    """One trace of all chains, in order; if lengths differ, the last sweeps that all traces have."""
    if len(traces) == 1:
        return traces[0]
    n = min(map(len, traces))
    columns = side_by_side([trace.rows(len(trace) - n, len(trace)) for trace in traces])
    _, chains, dim = columns["position"].shape
    whole = Trace(chains, dim, proposals="proposal" in columns)
    whole.restore(columns, side_by_side([trace.blob_rows(len(trace) - n, len(trace)) for trace in traces]) if n else {})
    return whole


def side_by_side(parts: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Join the rows of several traces into rows of all their chains."""
    return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}


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


def _unknown(sweep):
    return np.full_like(sweep.position, np.nan), np.full_like(sweep.log_density, np.nan)
