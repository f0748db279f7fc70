"""Ctrl-C waits while jitted code takes a NumPy generator, and has no effect while draws are saved.

numba unpacks a Generator by calls of Python functions (``ctypes.cast``) whose errors it does not
check. If Ctrl-C is handled within them, the jitted code runs on with addresses that are not there:
the process dies of a segmentation fault or a SystemError, and the draws in memory are lost (numba
0.65). Nothing is unpacked in :func:`kmc.samplers.inner_chains.generators_of`, which is Python.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def ignored() -> Iterator[None]:
    """Ignore Ctrl-C in this context."""
    if _handler() is None:
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait for the end of this context; pressed again, it does not wait.

    Every call of a jitted function with a Generator is made in it.
    """
    handler = _handler()
    if handler is None:
        yield
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


@contextmanager
def children_uninterrupted() -> Iterator[None]:
    """Protect processes started in this context from Ctrl-C while they start and import a script.

    They inherit that SIGINT is blocked. Pressed meanwhile, Ctrl-C reaches this process at the end
    of the context.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # when it starts, multiprocessing unblocks SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _handler() -> Callable[[int, Any], Any] | None:
    """Return the function that handles Ctrl-C in this thread; None if there is none.

    Ctrl-C may be ignored, or end the process, and it is handled in the main thread alone.
    """
    handler = signal.getsignal(signal.SIGINT)
    return (
        handler
        if callable(handler) and threading.current_thread() is threading.main_thread()
        else None
    )
