"""One thread for kmc's own linear algebra; several for loops over chains and a fit's candidates."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from functools import cache
from itertools import count
from typing import Any, TypeVar

import numba
from threadpoolctl import ThreadpoolController

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class _Thread(threading.local):
    is_a_part = False


_this_thread = _Thread()


def single_threaded() -> AbstractContextManager[Any]:
    """Return a context in which BLAS uses one thread.

    The matrices are small: more threads gain nothing, on a busy machine they wait for each other (a
    fit took a hundred times as long), and the draws of a seed would depend on the number of cores.
    """
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def in_threads(work: Callable[[int, int], None], most: int) -> None:
    """Call ``work(k, parts)`` for each k < parts.

    There are as many parts as numba may use threads, but at most ``most``. The parts run at the
    same time if they release the interpreter's lock. Inside such a part there is only one.
    """
    # A part would wait for threads that wait themselves.
    parts = 1 if _this_thread.is_a_part else max(1, min(numba.config.NUMBA_NUM_THREADS, most))
    others = [_pool(os.getpid()).submit(work, k, parts) for k in range(1, parts)]
    work(0, parts)
    for other in others:
        other.result()


def each_in_threads(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """Call a function with each item, and return the results in order.

    It is called with as many items at a time as numba may use threads. What the function returns
    may depend on its item alone. Where it raises, the error of the first item that has one is
    raised, as in a loop.
    """
    todo = list(items)
    found: dict[int, _Result] = {}
    errors: dict[int, Exception] = {}
    # the caller's, as each thread has its own
    numbers, contexts = count(), [copy_context() for _ in todo]

    def some() -> None:
        while (i := next(numbers)) < len(todo) and not errors:
            try:
                found[i] = function(todo[i])
            except Exception as error:
                errors[i] = error

    if todo:
        in_threads(lambda k, parts: contexts[k].run(some), len(todo))
    if errors:
        raise errors[min(errors)]
    return [found[i] for i in range(len(todo))]


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the pool of threads of a process: a forked process has none of its parent's."""
    return ThreadPoolExecutor(
        max(1, numba.config.NUMBA_NUM_THREADS - 1), "kmc", initializer=_begin_thread
    )


def _begin_thread() -> None:
    _this_thread.is_a_part = True
