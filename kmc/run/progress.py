"""Progress records and their content, updated with each sweep."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.core import event

from kmc.convergence import LEAST_DRAWS, worst_bulk_ess
from kmc.run.independent_run import IndependentRun
from kmc.run.trace import joined
from kmc.samplers.base import Step

_RECENT = 100  # sweeps whose acceptance is averaged
_LEAST_GROWTH = 1 / 2  # of the draws, from one effective sample size to the next
# per chain: the ESS of so many numbers costs 3 μs, a draw with its evaluation 1 ms
_NUMBERS_PER_DRAW = 20
_KIND = "numba:compile"  # not issued for code loaded from the cache on disk


class Meter:
    """Makes the progress records; it has no influence on the draws.

    Parameters
    ----------
    draws, max_evaluations : int or None
        Limits of the run.

    Attributes
    ----------
    elapsed : float
        Seconds from the first record to the last one.
    """

    def __init__(self, draws: int | None, max_evaluations: int | None):
        self._draws, self._max_evaluations = draws, max_evaluations
        self._acceptance: deque[float] = deque(maxlen=_RECENT)
        self._n_divergences = 0
        self._ess, self._ess_due = float("nan"), LEAST_DRAWS
        self._began: float | None = None
        self._pace = Pace()
        self.elapsed = 0.0

    def go_on(self, draws: int | None, max_evaluations: int | None, seconds: float) -> None:
        """Continue from a run that has already taken so many seconds."""
        self._draws, self._max_evaluations = draws, max_evaluations
        self._began, self._pace = time.perf_counter() - seconds, Pace()
        self.elapsed = seconds

    def note(self, sweeps: Sequence[Step | None]) -> None:
        """Record what the independent runs just did."""
        made = [sweep for sweep in sweeps if sweep is not None]
        if made:
            self._acceptance.append(
                sum(float(sweep.stats["acceptance_rate"].mean()) for sweep in made) / len(made)
            )
        self._n_divergences += sum(
            int(np.count_nonzero(sweep.stats["diverging"])) for sweep in made if not sweep.warmup
        )

    def record(
        self,
        phase: str,
        independent_runs: Sequence[IndependentRun],
        n_evaluations: int,
        compiled: float = 0.0,
        left: float = math.inf,
        planned: int | None = None,
    ) -> Progress:
        """Return a record of the current state of the run.

        Parameters
        ----------
        phase, independent_runs, n_evaluations
            As in the record.
        compiled : float
            Seconds of compilation so far; they do not count for the pace.
        left : float
            Seconds until the time limit stops the run.
        planned : int or None
            Planned evaluations, see the record.
        """
        draw = min(len(one.trace) for one in independent_runs)
        self._look_at_ess(phase, draw, independent_runs)
        now = time.perf_counter()
        self._began = now if self._began is None else self._began
        self.elapsed = now - self._began
        done = fraction(phase, draw, self._draws, n_evaluations, self._max_evaluations)
        return Progress(
            phase=phase,
            draw=draw,
            draws=self._draws,
            n_evaluations=n_evaluations,
            max_evaluations=self._max_evaluations,
            ess=self._ess,
            acceptance_rate=sum(self._acceptance) / len(self._acceptance)
            if self._acceptance
            else float("nan"),
            n_divergences=self._n_divergences,
            n_refits=sum(int(one.report().get("n_refits", 0)) for one in independent_runs),
            elapsed=self.elapsed,
            remaining=sooner(self._pace.remaining(phase, self.elapsed - compiled, done), left),
            planned_evaluations=planned,
        )

    def _look_at_ess(
        self, phase: str, draw: int, independent_runs: Sequence[IndependentRun]
    ) -> None:
        if draw < self._ess_due and phase != "done":
            return
        positions = joined([one.trace for one in independent_runs]).positions
        self._ess = worst_bulk_ess(positions)
        self._ess_due = next_look(draw, positions.shape[2])


def sooner(remaining: float | None, limit: float) -> float | None:
    """Return the estimate, or the limit if that is sooner or the only one; None without both.

    Examples
    --------
    >>> sooner(None, float("inf")), sooner(None, 60.0), sooner(20.0, 60.0)
    (None, 60.0, 20.0)
    """
    if remaining is None:
        return None if limit == math.inf else limit
    return min(remaining, limit)


def next_look(draw: int, dim: int) -> int:
    """Return the number of draws per chain at the next computation of the ESS after ``draw``.

    Examples
    --------
    >>> next_look(100, dim=2), next_look(100, dim=40)
    (150, 300)
    """
    return draw + max(10, int(draw * max(_LEAST_GROWTH, dim / _NUMBERS_PER_DRAW)))


class Pace:
    """Estimate how long a run still takes, from the pace of its phase so far."""

    def __init__(self) -> None:
        self._phase = ""
        self._began, self._done = 0.0, 0.0

    def remaining(self, phase: str, elapsed: float, done: float | None) -> float | None:
        """Return the seconds to the end, from those elapsed and the completed fraction of a phase.

        Examples
        --------
        >>> pace = Pace()
        >>> pace.remaining("sampling", 10.0, 0.0), pace.remaining("sampling", 70.0, 0.25)
        (None, 180.0)
        """
        if done == 1.0:
            return 0.0
        if done is None:
            return None
        if phase != self._phase:
            self._phase, self._began, self._done = phase, elapsed, done
        if done <= self._done:
            return None
        return (elapsed - self._began) * (1.0 - done) / (done - self._done)


@dataclass(frozen=True, slots=True)
class Progress:
    """State of a run.

    Attributes
    ----------
    phase : {"start", "warmup", "sampling", "done"}
        "start" once, before the first evaluation; "done" once, at the end.
    draw : int
        Draws kept so far, per chain (0 during warm-up).
    draws : int or None
        Draws per chain asked for; None if the budget of evaluations decides.
    n_evaluations : int
        True evaluations so far.
    max_evaluations : int or None
    ess : float
        Bulk effective sample size of the worst parameter over all chains, at its last computation:
        after 10 draws, then each time the draws have grown by half (by more if there are many
        parameters), and at the end. ``benchmarks/run.py`` measures the cost. NaN before the first
        one, and while a parameter has never moved.
    acceptance_rate : float
        Mean acceptance probability over the last 100 sweeps; NaN before the first sweep.
    n_divergences : int
        Divergent transitions since warm-up.
    n_refits : int
        Fits of the surrogate so far.
    elapsed : float
        Seconds since the start.
    remaining : float or None
        Seconds to the end at the pace of this phase, without the time of numba's compilation;
        limited by ``max_time``. None if unknown (a warm-up that no budget limits).
    planned_evaluations : int or None
        Evaluations of the whole run at most, warm-up included, as known at the start. Without
        ``max_evaluations``: approximately the cost of the longest warm-up and of the draws.
    """

    phase: str
    draw: int
    draws: int | None
    n_evaluations: int
    max_evaluations: int | None
    ess: float
    acceptance_rate: float
    n_divergences: int
    n_refits: int
    elapsed: float
    remaining: float | None
    planned_evaluations: int | None = None

    @property
    def fraction(self) -> float | None:
        """Completed fraction of the phase, from 0 to 1; None in a warm-up that no budget limits."""
        return fraction(self.phase, self.draw, self.draws, self.n_evaluations, self.max_evaluations)


def fraction(
    phase: str, draw: int, draws: int | None, n_evaluations: int, max_evaluations: int | None
) -> float | None:
    """Return the completed fraction of a phase; parameters as in :class:`Progress`."""
    if phase == "done":
        return 1.0
    parts = []
    if max_evaluations:
        parts.append(n_evaluations / max_evaluations)
    if draws and phase == "sampling":
        parts.append(draw / draws)
    return min(max(parts), 1.0) if parts else None


class Compilation(event.Listener):
    """A context that listens to numba; the user's own jitted functions count, too.

    Attributes
    ----------
    seconds : float
        Spent on compilation so far.
    tell : callable
        Called without arguments when compilation begins.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.tell: Callable[[], Any] = bool
        # compilation is nested: a function is compiled within the compilation of its caller
        self._depth = 0
        self._began = 0.0

    def on_start(self, event: Any) -> None:
        """Start the clock of one function's compilation."""
        if self._depth == 0:
            self._began = time.perf_counter()
            self.tell()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """Stop the clock of one function's compilation."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began

    def __enter__(self) -> None:
        event.register(_KIND, self)

    def __exit__(self, *error: object) -> None:
        event.unregister(_KIND, self)
