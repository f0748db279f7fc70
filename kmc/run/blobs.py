"""Keep what a log-density returns besides its value (blobs), for the states of the chains."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from kmc.mcmc.base import Proposed, Step
from kmc.targets.evaluate import Evaluation
from kmc.targets.model import Model
from kmc.targets.returned import Blobs, failed_value


class BlobStore:
    """The blobs of evaluations, looked up by the state that an evaluation led to.

    A state is, bit for bit, an evaluated position with its value, even if the sampler has moved it to another walker.
    In warm-up a chain may return to any of them, so all are kept; afterwards only those of current states.
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
        self.keep(np.array([x for x, _, _ in state]), [Evaluation(value, blobs) for _, value, blobs in state])

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
                what = f"log_density returned {_listed(shapes)}, but its first value came with {_listed(self._shapes)}"
                remedy = "return the same names and shapes wherever the density is positive"
                raise failed_value(self._model, x, what, remedy)
            if blobs:
                self._at[_key(x, value)] = blobs

    def at(self, sweep: Step) -> Blobs:
        """The blobs of a sweep's draws, (chains, *shape) each; empty if the log-density returns none."""
        if not self._shapes:
            return {}
        found = [self._at[key] for key in _keys(sweep)]
        return {name: np.stack([blobs[name] for blobs in found]) for name in self._shapes}

    def forget_but(self, sweeps: Iterable[Step]) -> None:
        """Keep those of the states only that the sweeps' chains may have again."""
        if self._at:
            kept = [states for sweep in sweeps for states in (sweep, sweep.others) if states is not None]
            self._at = {key: self._at[key] for states in kept for key in _keys(states)}


def _keys(states: Step | Proposed) -> list[bytes]:
    return [_key(x, value) for x, value in zip(states.position, states.log_density)]


def _key(x: np.ndarray, value: float) -> bytes:
    """Of a state; where the values are noisy, one position can have several."""
    return x.tobytes() + np.float64(value).tobytes()


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    if not shapes:
        return "no blobs"
    return "the blobs " + ", ".join(f"{name} {shape}" for name, shape in shapes.items())
