"""Detect a log-density that increases without bound, such as one with the wrong sign."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kmc.errors import EvaluationError
from kmc.model.model import Model

# nats above the start before anything is suspected: starts far from the mode reach that
LEAST_RISE = 1e4
# times the way so far: no proper density rises at all
FURTHER = 10.0 ** np.array([-1, 0, 1, 2, 4, 8, 16, 32, 64])
NEARER = 0.5 ** np.arange(1, 5)  # of the way to a place where the function overflows
FEWEST_PROBES = 4


class Ascent:
    """The best point so far, and the straight line to it from the best of the first points.

    Attributes
    ----------
    n_probes : int
        Evaluations that :meth:`approach` and :meth:`check` made.
    """

    def __init__(self, model: Model):
        self._model = model
        self._first: tuple[np.ndarray, float] | None = None
        self._best: tuple[np.ndarray, float] | None = None
        self.n_probes = 0

    def note(self, points: np.ndarray, values: np.ndarray) -> None:
        """Record evaluations at points (k, d)."""
        if not len(values):
            return
        i = int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))
        value = float(values[i])
        if np.isfinite(value) and (self._best is None or value > self._best[1]):
            self._best = points[i].copy(), value
            self._first = self._first or self._best

    @property
    def suspicious(self) -> bool:
        """Whether the values have risen by more than they usually do from a start to a mode."""
        if self._first is None or self._best is None:
            return False
        return self._best[1] - self._first[1] > LEAST_RISE

    def approach(
        self, end: np.ndarray, evaluate: Callable[[np.ndarray], Sequence[float]], most: int
    ) -> None:
        """Evaluate points between the best one and an end (d,) where the function overflowed.

        The first finite value on the way back from the end is recorded: if it is higher, the
        function rises there.
        """
        if self._best is None:
            return
        for part in NEARER[:most]:
            x = self._best[0] + part * (end - self._best[0])
            self.n_probes += 1
            value = _value(evaluate, x)
            if np.isfinite(value):
                return self.note(x[None], np.array([value]))

    def check(self, evaluate: Callable[[np.ndarray], Sequence[float]], most: int) -> None:
        """Evaluate further points on the line to the best point, at increasing distances.

        Parameters
        ----------
        evaluate : callable
            The log-density of points (1, d), shape (1,), as the function returns it.
        most : int
            Largest number of evaluations.

        Raises
        ------
        EvaluationError
            The log-density increases at each of these distances, so it does not belong to a
            distribution.
        """
        if not self.suspicious or most < FEWEST_PROBES:
            return
        assert self._first is not None and self._best is not None
        (start, low), (best, last) = self._first, self._best
        n_rising = 0
        for further in FURTHER[:most]:
            x = best + further * (best - start)
            if not np.all(np.isfinite(x)):
                break
            self.n_probes += 1
            value = _value(evaluate, x)
            if not value > last:
                return
            n_rising += 1
            if value == np.inf:
                break
            last = value
        if n_rising:
            raise self._error(low, last)

    def _error(self, low: float, last: float) -> EvaluationError:
        assert self._first is not None and self._best is not None
        (start, _), (best, high) = self._first, self._best
        way = _way(self._model, start, best)
        shown = f"{high:.3g}" if last == high else f"{high:.3g}, and {last:.3g} further on"
        return EvaluationError(
            f"the log-density rises without bound along {way}: from {low:.3g} at the start to "
            f"{shown}. It is not the log of a density; is its sign right? log_density has to "
            "return log p itself, which falls far from the bulk, and not -log p or a misfit to be "
            "minimized",
            position=best,
            parameters={name: value[0] for name, value in self._model.constrain(best[None]).items()}
            if self._model.named
            else None,
        )


def overflowed(error: EvaluationError) -> bool:
    """Return whether the log-density was beyond the range of floats: +inf, or an OverflowError."""
    return str(error).startswith("log_density returned +inf") or isinstance(
        error.__cause__, OverflowError
    )


def _value(evaluate: Callable[[np.ndarray], Sequence[float]], x: np.ndarray) -> float:
    """Return the value at x (d,); NaN for a failure, and inf beyond the range of floats."""
    with np.errstate(all="ignore"):
        try:
            return float(evaluate(x[None])[0])
        except EvaluationError as error:
            return np.inf if overflowed(error) else np.nan


def _way(model: Model, start: np.ndarray, best: np.ndarray) -> str:
    """Tell which parameters, by element, have moved furthest, and from where to where."""
    places: list[tuple[float, str]] = []
    before, after = model.constrain(start[None]), model.constrain(best[None])
    for name in before:
        old, new = (np.asarray(values[name][0], dtype=float) for values in (before, after))
        with np.errstate(all="ignore"):
            moved = np.abs(new - old)
        for index in np.ndindex(old.shape):
            label = f"{name}[{', '.join(map(str, index))}]" if index else name
            far: Any = moved[index] if np.isfinite(moved[index]) else np.inf
            places.append((far, f"{label} ({old[index]:.3g} to {new[index]:.3g})"))
    places.sort(key=lambda place: -place[0])
    furthest = places[0][0]
    told = [text for far, text in places if far >= 0.3 * furthest]
    return ", ".join(told[:5]) + (", ..." if len(told) > 5 else "")
