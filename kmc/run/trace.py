"""Keep a run's draws, the blobs that a log-density returned for them, and data simulated there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kmc.model.evaluate import Evaluation
from kmc.model.model import Model
from kmc.model.returned import Blobs, failed_value
from kmc.model.simulation import OUTPUTS, PREDICTIVE, Simulation
from kmc.samplers.base import FURTHER_STATS, STATS, Proposed, Step
from kmc.seeds import Stream, substream


class Trace:
    """Sweeps in the order in which they were made.

    Parameters
    ----------
    chains, dim : int
    blobs : BlobStore, optional
        Looks up the blobs of a sweep's states.
    proposals : bool
        Whether to keep the evaluated proposals, too.
    predictive : SimulatedData, optional
        Draws data at each draw, which are kept with the blobs.

    Attributes
    ----------
    left_out : int
        Sweeps that were made before the first of the trace.
    """

    left_out = 0

    def __init__(
        self,
        chains: int,
        dim: int,
        blobs: BlobStore | None = None,
        proposals: bool = False,
        predictive: SimulatedData | None = None,
    ):
        self._n = 0
        self._has_proposals = proposals
        self._store, self._predictive = blobs, predictive
        self._blobs: dict[str, GrowingArray] = {}  # known from the first sweep on
        shapes = {"position": (chains, dim), "log_density": (chains,)} | dict.fromkeys(
            STATS, (chains,)
        )
        if proposals:
            shapes |= {"proposal": (chains, dim), "proposal_log_density": (chains,)}
        self._columns = {
            name: GrowingArray(np.empty((0, *shape), STATS.get(name, np.float64)))
            for name, shape in shapes.items()
        }

    def __len__(self) -> int:
        return self._n

    def append(self, sweep: Step) -> None:
        """Copy one draw of every chain to the end."""
        values = {"position": sweep.position, "log_density": sweep.log_density, **sweep.stats}
        if not self._n:
            for name, dtype in FURTHER_STATS.items():
                if name in sweep.stats:
                    self._columns[name] = GrowingArray(
                        np.empty((0, *sweep.stats[name].shape), dtype)
                    )
        if self._has_proposals:
            values["proposal"], values["proposal_log_density"] = sweep.proposed or _unknown(sweep)
        for name, column in self._columns.items():
            column.append(values[name])
        if self._store is not None:
            rows = self._store.at(sweep)
            if self._predictive is not None:
                rows |= self._predictive(self._n, sweep.position, rows)
            for name, row in rows.items():
                column = self._blobs.setdefault(
                    name, GrowingArray(np.empty((0, *row.shape), row.dtype))
                )
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
        """One array (chains, draws, ...) for each name.

        The names are those in :data:`kmc.samplers.base.STATS` and further ones present.
        """
        names = (name for name in (*STATS, *FURTHER_STATS) if name in self._columns)
        return {name: self._by_chain(self._columns[name]) for name in names}

    @property
    def proposals(self) -> dict[str, np.ndarray]:
        """Proposed points, "x" (chains, draws, d), and log-densities, "lp"; empty if not kept."""
        names = {"x": "proposal", "lp": "proposal_log_density"} if self._has_proposals else {}
        return {name: self._by_chain(self._columns[column]) for name, column in names.items()}

    @property
    def blobs(self) -> dict[str, np.ndarray]:
        """Further outputs of the log-density at those points: (chains, draws, *shape) by name."""
        return {name: self._by_chain(column) for name, column in self._blobs.items()}

    def rows(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Return sweeps start..stop, draws first: "position" (n, chains, d), others (n, chains)."""
        return {name: column.rows(start, stop) for name, column in self._columns.items()}

    def blob_rows(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Return the blobs of sweeps start..stop, (stop - start, chains, *shape) each."""
        return {name: column.rows(start, stop) for name, column in self._blobs.items()}

    def restore(self, rows: Mapping[str, np.ndarray], blobs: Mapping[str, np.ndarray]) -> None:
        """Restore the output of :meth:`rows` and :meth:`blob_rows`, from the first sweep on.

        Empty output changes nothing.
        """
        if rows and len(rows["position"]):
            self._n = len(rows["position"])
            names = [*self._columns, *(name for name in FURTHER_STATS if name in rows)]
            self._columns = {name: GrowingArray(rows[name]) for name in dict.fromkeys(names)}
            self._blobs = {name: GrowingArray(values) for name, values in blobs.items()}

    def _by_chain(self, column: GrowingArray) -> np.ndarray:
        return column.rows(0, self._n).swapaxes(0, 1)


def joined(traces: Sequence[Trace]) -> Trace:
    """Join the traces of all chains, in order; if lengths differ, the last sweeps that all have."""
    if len(traces) == 1:
        return traces[0]
    n = min(map(len, traces))
    columns = side_by_side([trace.rows(len(trace) - n, len(trace)) for trace in traces])
    _, chains, dim = columns["position"].shape
    whole = Trace(chains, dim, proposals="proposal" in columns)
    whole.restore(
        columns,
        side_by_side([trace.blob_rows(len(trace) - n, len(trace)) for trace in traces])
        if n
        else {},
    )
    return whole


def side_by_side(parts: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Join the rows of several traces into rows of all their chains."""
    return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}


class GrowingArray:
    """Rows of one shape, appended one by one.

    They are kept in blocks, so that a long run neither copies existing rows nor holds much unused
    memory.

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
        """Return rows start..stop, (stop - start, *shape); unaffected by rows appended later."""
        parts, first = [], 0
        for block in (*self._full, self._block[: self._used]):
            last = first + len(block)
            if first < stop and start < last:
                parts.append(block[max(start - first, 0) : stop - first])
            first = last
        return np.concatenate(parts) if parts else self._block[:0]


def _unknown(sweep):
    return np.full_like(sweep.position, np.nan), np.full_like(sweep.log_density, np.nan)


class BlobStore:
    """The blobs of evaluations, looked up by the state that an evaluation led to.

    A state is, bit for bit, an evaluated position with its value, even if the sampler has moved it
    to another walker. In warm-up a chain may return to any of them, so all are kept; afterwards
    only those of current states.
    """

    def __init__(self, model: Model):
        self._model = model
        self._shapes: dict[str, tuple[int, ...]] | None = None  # None before the first value
        self._at: dict[bytes, Blobs] = {}

    def __len__(self) -> int:
        return len(self._at)

    def state(self) -> list[tuple[np.ndarray, float, Blobs]]:
        """Return the states that are known, each with its point and value."""
        numbers = [(np.frombuffer(key, np.float64), blobs) for key, blobs in self._at.items()]
        return [(each[:-1].copy(), float(each[-1]), blobs) for each, blobs in numbers]

    def restore(self, state: Sequence[tuple[np.ndarray, float, Blobs]]) -> None:
        """Continue with these states."""
        self.keep(
            np.array([x for x, _, _ in state]),
            [Evaluation(value, blobs) for _, value, blobs in state],
        )

    def keep(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        """Take in new evaluations at points (k, d).

        Raises
        ------
        EvaluationError
            Names or shapes are not those of the first evaluation.
        """
        if self._shapes == {} and all(evaluation.blobs is None for evaluation in evaluations):
            return
        for x, (value, blobs, _) in zip(points, evaluations, strict=True):
            if not math.isfinite(value):
                continue  # no chain is ever there
            if blobs is None and self._shapes == {}:
                continue
            shapes = {name: blob.shape for name, blob in (blobs or {}).items()}
            if self._shapes is None:
                self._shapes = shapes
            if shapes != self._shapes:
                what = (
                    f"log_density returned {_listed(shapes)}, but its first value came with "
                    f"{_listed(self._shapes)}"
                )
                remedy = "return the same names and shapes wherever the density is positive"
                raise failed_value(self._model, x, what, remedy)
            if blobs:
                self._at[_key(x, value)] = blobs

    def at(self, sweep: Step) -> Blobs:
        """Return the blobs of a sweep's draws, (chains, *shape) each; empty if there are none."""
        if not self._shapes:
            return {}
        found = [self._at[key] for key in _keys(sweep)]
        return {name: np.stack([blobs[name] for blobs in found]) for name in self._shapes}

    def of(self, points: np.ndarray, values: np.ndarray) -> list[Blobs | None]:
        """Return the blobs of evaluations at points (k, d) with values (k,); None where missing."""
        return [self._at.get(_key(x, value)) for x, value in zip(points, values, strict=True)]

    def forget_but(self, sweeps: Iterable[Step]) -> None:
        """Keep only the blobs of states that the chains of these sweeps may have again."""
        if self._at:
            kept = [
                states for sweep in sweeps for states in (sweep, sweep.others) if states is not None
            ]
            self._at = {key: self._at[key] for states in kept for key in _keys(states)}


class SimulatedData:
    """Draws data at the outputs that belong to the states of the chains.

    Each draw has a random stream of its own, made of the run's seed and of the number of the draw.
    So a run that is resumed has the same data.

    Parameters
    ----------
    model : Model
    simulation : Simulation
        That of the model.
    seed : SeedSequence
        The seed of the run, or of one of its independent runs.
    """

    def __init__(self, model: Model, simulation: Simulation, seed: np.random.SeedSequence):
        self._model, self._simulation, self._seed = model, simulation, seed

    def __call__(
        self, draw: int, positions: np.ndarray, blobs: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return data by name, (chains, *shape), at each chain's draw (chains, d) and its blobs."""
        rng = np.random.default_rng(substream(self._seed, Stream.PREDICTIVE, draw))
        outputs = {name: blobs[f"{OUTPUTS}.{name}"] for name in self._simulation.likelihoods}
        rows = [
            self._simulation.draw(
                {name: rows[chain] for name, rows in outputs.items()},
                self._model.parameters_at(x),
                rng,
            )
            for chain, x in enumerate(positions)
        ]
        return {f"{PREDICTIVE}.{name}": np.stack([row[name] for row in rows]) for name in rows[0]}


def simulated_data(model: Model, seed: np.random.SeedSequence) -> SimulatedData | None:
    """Return what draws data for a model; None if it cannot."""
    simulation = model.simulation
    if simulation is None or not simulation.can_draw:
        return None
    return SimulatedData(model, simulation, seed)


_LEAST = 64  # rows of a block
_GROWTH = 8  # a new block has 1/8 of the rows present


def constrained(model: Model, points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the log-density of the parameters.

    It is that of unconstrained vectors (k, d), less the log-Jacobian.
    """
    if model.parameters is None:
        return values
    with np.errstate(invalid="ignore"):  # -inf - -inf, far out
        return values - model.log_jacobian(points)


def _keys(states: Step | Proposed) -> list[bytes]:
    return [_key(x, value) for x, value in zip(states.position, states.log_density)]


def _key(x: np.ndarray, value: float) -> bytes:
    """Return the key of a state; where the values are noisy, one position can have several."""
    return x.tobytes() + np.float64(value).tobytes()


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    if not shapes:
        return "no blobs"
    return "the blobs " + ", ".join(f"{name} {shape}" for name, shape in shapes.items())
