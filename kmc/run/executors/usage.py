"""How an executor's workers spent their time: what to look at when evaluations differ in price."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Usage:
    """Seconds that evaluations took, and how long workers waited.

    Attributes
    ----------
    workers : int
        Number of workers that evaluate at the same time, at present.
    count, busy, longest
        Evaluations so far, their seconds together, and the longest.
    n_timeouts : int
        Evaluations that took longer than the executor's ``timeout``.
    """

    workers: int
    count: int = 0
    busy: float = 0.0
    longest: float = 0.0
    n_timeouts: int = 0
    _before: float = 0.0  # seconds of all workers until their number last changed
    _began: float = field(default_factory=time.monotonic)  # then, or at the start
    _latest: float = field(default_factory=time.monotonic)

    def note(self, seconds: float, points: np.ndarray) -> None:
        """Evaluations at points (k, d), k > 0, have ended that took so many seconds together."""
        count = len(points)
        self._latest = time.monotonic()
        self.count, self.busy = self.count + count, self.busy + seconds
        self.longest = max(self.longest, seconds / count)

    def resize(self, workers: int) -> None:
        """The number of workers has changed."""
        if workers != self.workers:
            now = time.monotonic()
            self._before += self.workers * (now - self._began) if self.count else 0.0
            self.workers, self._began = workers, now

    def facts(self) -> dict[str, Any]:
        """For the results' attributes; empty before the first evaluation."""
        if not self.count:
            return {}
        available = self._before + self.workers * max(self._latest - self._began, 0.0)
        return {
            "workers": self.workers,
            "workers_waited": min(max(1.0 - self.busy / max(available, 1e-9), 0.0), 1.0),
            "evaluation_seconds": self.busy / self.count,
            "longest_evaluation_seconds": self.longest,
            "n_timeouts": self.n_timeouts,
        }
