"""In warm-up, idle workers evaluate points that the next sweeps will probably need.

A sweep ends with its slowest evaluation, few chains have few points in a sweep, and there are several sweeps between
two fits. While values are waited for, the sampler is asked which points it would need next, if those to come were as
expected. They are evaluated on workers that would be idle. As with guesses after the freeze (:mod:`kmc.run.guesses`), a
value is used only at the very same point, so the draws are the same with and without guesses, to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import count

import numpy as np

from kmc.targets.evaluate import Evaluation, Stream
from kmc.targets.returned import Failure

ValueAt = Callable[[np.ndarray], float | None]
"""The log-density at a point (d,), if it is known already."""

Upcoming = Callable[[ValueAt], Iterator[np.ndarray]]
"""Gives the points (d,) that will probably be needed next."""


class SweepGuesses:
    """Evaluates sweeps, and what may follow them.

    Parameters
    ----------
    stream : Stream
        Its keys are negative here: those of chains on their own, later, are not.
    workers : callable
        ``workers()`` is the number of workers.

    Attributes
    ----------
    n_begun, n_used : int
        Guesses that were begun, and those of them that were needed.
    """

    def __init__(self, stream: Stream, workers: Callable[[], int]):
        self._stream, self._workers, self._keys = stream, workers, count(-1, -1)
        self._under_way: dict[int, bytes] = {}
        self._known: dict[bytes, Evaluation | Failure | None] = {}  # None: under way
        self.n_begun = self.n_used = 0

    def evaluate(self, points: np.ndarray, upcoming: Upcoming) -> list[Evaluation | Failure]:
        """The outcomes at points (k, d), and meanwhile at as many of the upcoming ones (d,) as workers are idle."""
        guesses: Iterator[np.ndarray] | None = None
        needed = [x.tobytes() for x in points]
        for key, x in dict(zip(needed, points, strict=True)).items():
            if key in self._known:
                self.n_used += 1
            else:
                self._submit(key, x)
        while any(self._known[key] is None for key in needed):
            while len(self._under_way) < self._workers():
                guesses = upcoming(self._value_at) if guesses is None else guesses
                x = next(guesses, None)
                if x is None:
                    break
                if x.tobytes() not in self._known:
                    self._submit(x.tobytes(), x)
                    self.n_begun += 1
            for number, outcome in self._stream.ready():
                self._known[self._under_way.pop(number)] = outcome
        known = {key: self._known.pop(key) for key in set(needed)}
        return [found for key in needed if (found := known[key]) is not None]

    def _value_at(self, x: np.ndarray) -> float | None:
        outcome = self._known.get(x.tobytes())
        if not isinstance(outcome, Evaluation):
            return None
        return -math.inf if math.isnan(outcome.value) else outcome.value  # NaN: the model rejects it

    def _submit(self, key: bytes, x: np.ndarray) -> None:
        number = next(self._keys)
        self._under_way[number], self._known[key] = key, None
        self._stream.submit(number, x)
