"""Parameters whose spread around another one is exponential in a third one: the group of a hierarchical model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class ScaleGroup(NamedTuple):
    """Parameters x_i whose distances to x_k scale as exp(slope x_j), for the driver j and the center k.

    The spreads of a normal distribution with the log-sd x_j have the slope 1, with the log-variance 1/2 and with the
    log-precision -1/2.
    """

    driver: int
    slope: float
    center: int
    members: np.ndarray  # (m,) indices i

    def scaled(self, x: np.ndarray, change: float) -> tuple[np.ndarray, float]:
        """x (d,) with this change of the driver and the distances scaled to suit, and the map's log |det|."""
        out = x.copy()
        out[self.driver] += change
        out[self.members] = x[self.center] + (x[self.members] - x[self.center]) * np.exp(self.slope * change)
        return out, len(self.members) * self.slope * change
