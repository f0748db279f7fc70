"""A function that counts its calls."""

from collections.abc import Callable
from typing import Any


class Counted:
    """``function``, called ``n`` times so far."""

    def __init__(self, function: Callable[[Any], Any]):
        self.function, self.n = function, 0

    def __call__(self, x):
        self.n += 1
        return self.function(x)
