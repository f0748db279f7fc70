"""``max_time``: a limit on the wall-clock time of a run."""

from __future__ import annotations

import math
import time

WARMUP_SHARE = 1 / 2  # of the time, as of the evaluations, after which warm-up is told to end


class TimeLimit:
    """Seconds from the first evaluation of this call; a resumed run gets all of them again.

    Parameters
    ----------
    seconds : float or None
        None: no limit.
    """

    def __init__(self, seconds: float | None):
        self.seconds = seconds
        self._began: float | None = None

    def start(self) -> None:
        """Start the clock."""
        self._began = time.monotonic()

    @property
    def left(self) -> float:
        """Seconds that are left; inf without a limit."""
        if self.seconds is None or self._began is None:
            return math.inf
        return max(0.0, self.seconds - (time.monotonic() - self._began))

    @property
    def over(self) -> bool:
        """Whether the run has to stop."""
        return self.left <= 0.0

    @property
    def warmup_over(self) -> bool:
        """Whether warm-up has to end."""
        return self.seconds is not None and self.left <= (1.0 - WARMUP_SHARE) * self.seconds
