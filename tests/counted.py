"""A function that records its calls."""

from collections.abc import Callable
from typing import Any

import numpy as np


class Counted:
    """``function``, called ``n`` times so far: at ``points``, with ``values``, in order."""

    def __init__(self, function: Callable[[Any], Any]):
        self.function = function
        self.points: list[np.ndarray] = []
        self.values: list[Any] = []

    def __call__(self, x):
        self.points.append(np.array(x))
        self.values.append(self.function(x))
        return self.values[-1]

    @property
    def n(self) -> int:
        """The number of calls, of one that raised too."""
        return len(self.points)
