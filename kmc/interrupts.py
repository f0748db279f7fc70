"""Ctrl-C waits while jitted code takes a NumPy generator.

numba unpacks a Generator by calls of Python functions (``ctypes.cast``) whose errors it does not check. If Ctrl-C is
handled within them, the jitted code runs on with addresses that are not there: the process dies of a segmentation fault
or a SystemError, and the draws in memory are lost (numba 0.65). Nothing is unpacked in
:func:`kmc.mcmc.generators.generators_of`, which is Python.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A context in which Ctrl-C waits for the end; pressed again, it does not wait.

    Every call of a jitted function with a Generator is made in it.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield  # Ctrl-C is ignored, or ends the process; and it is handled in the main thread alone
        return
    pressed: list[tuple[int, Any]] = []

    def wait(number: int, frame: Any) -> None:
        if pressed:
            handler(number, frame)
        pressed.append((number, frame))

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if pressed:
            handler(*pressed[0])
