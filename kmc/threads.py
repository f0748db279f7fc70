"""A single thread for kmc's own linear algebra; several for jitted loops over many chains."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numba
from threadpoolctl import ThreadpoolController


def single_threaded() -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread.

    The matrices are small: more threads gain nothing, on a busy machine they wait for each other (a fit took a hundred
    times as long), and the draws of a seed would depend on the number of cores.
    """
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def in_threads(work: Callable[[int, int], None], most: int) -> None:
    """Call ``work(k, parts)`` for each k < parts: as many parts as numba may use threads, but at most ``most``.

    The parts run at the same time if they release the interpreter's lock.
    """
    parts = max(1, min(numba.config.NUMBA_NUM_THREADS, most))
    others = [_pool(os.getpid()).submit(work, k, parts) for k in range(1, parts)]
    work(0, parts)
    for other in others:
        other.result()


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """The threads of a process: a forked one has none of its parent's."""
    return ThreadPoolExecutor(max(1, numba.config.NUMBA_NUM_THREADS - 1), "kmc")
