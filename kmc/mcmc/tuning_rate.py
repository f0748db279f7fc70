"""The scale of a proposal, tuned to an acceptance rate by a Robbins–Monro recursion."""

from __future__ import annotations

import math

BEST_SCALE = 2.38  # of a random walk, over sqrt(d): the best on a Gaussian (Gelman, Roberts and Gilks 1996)
_DECAY = 0.6  # step sizes of the recursion are proportional to sweep^-0.6
_GAIN = 2.0


class RobbinsMonro:
    """A factor f with log f <- log f + 2 t^-0.6 (acceptance - target) after sweep t (Andrieu and Thoms 2008).

    Parameters
    ----------
    target : float
        Acceptance rate.

    Attributes
    ----------
    log_value : float
        log f, 0 at first.
    """

    def __init__(self, target: float):
        self._target = target
        self.log_value = 0.0

    @property
    def value(self) -> float:
        """The factor."""
        return math.exp(self.log_value)

    def learn(self, acceptance: float, sweep: int, weight: float = 1.0) -> None:
        """Take the mean acceptance of a sweep, the first of which is 1; ``weight``: part of the chains it is of."""
        self.log_value += weight * _GAIN * (sweep + 1) ** -_DECAY * (acceptance - self._target)

    def restart(self) -> None:
        """The factor 1 again, for a new proposal."""
        self.log_value = 0.0
