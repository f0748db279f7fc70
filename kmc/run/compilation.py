"""Measure how long numba compiles, and notice when it begins: that time says nothing about the pace of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from numba.core import event

_KIND = "numba:compile"  # not issued for code loaded from the cache on disk


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
        self._depth = 0  # compilation is nested: a function is compiled within the compilation of its caller
        self._began = 0.0

    def on_start(self, event: Any) -> None:
        """Of one function."""
        if self._depth == 0:
            self._began = time.perf_counter()
            self.tell()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """Of one function."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began

    def __enter__(self) -> None:
        event.register(_KIND, self)

    def __exit__(self, *error: object) -> None:
        event.unregister(_KIND, self)
