"""A single thread for kmc's own linear algebra."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

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
