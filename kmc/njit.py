"""Compilation by numba, cached on disk: in a private temporary folder where numba finds no other.

numba keeps compiled code beside a module's source or in the user's cache folder. In containers, on
batch nodes and in services neither may be writable, and then ``numba.njit(cache=True)`` raises an
error.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np

from kmc.errors import warn
from kmc.unwritable import private_folder

_Function = TypeVar("_Function", bound=Callable[..., Any])


def njit(*, allocates: bool = True, **options: Any) -> Callable[[_Function], _Function]:
    """Return a decorator: ``numba.njit`` with these options, and with a cache if there is a place.

    numba loads what is in the cache, so the folder must be safe against other users.

    A function that allocates no array, and calls none that does, need not count references to
    arrays. Where a state of many arrays is passed on, counting takes several times as long as the
    arithmetic of a small surrogate.

    Raises
    ------
    RuntimeError
        numba's compiler is disabled: some functions cannot run as Python.
    """
    if numba.config.DISABLE_JIT:
        raise RuntimeError(
            "NUMBA_DISABLE_JIT=1: kmc needs numba's compiler, so unset this environment variable; "
            "to debug a log-density that is compiled by numba, pass its attribute py_func instead"
        )

    # Nobody takes the address of a function. A callee would inherit its caller's "_nrt", if it had
    # none of its own.
    options = {"cache": True, "no_cfunc_wrapper": True, "_nrt": allocates} | options

    def compiled(function: _Function) -> _Function:
        with suppress(RuntimeError):  # numba can write nowhere
            return numba.njit(**options)(function)
        folder, chosen = _temporary_folder(), numba.config.CACHE_DIR
        if folder is not None:
            numba.config.CACHE_DIR = str(folder)
            try:
                return numba.njit(**options)(function)
            finally:
                numba.config.CACHE_DIR = chosen
        return numba.njit(**options | {"cache": False})(function)

    return compiled


@cache
def _temporary_folder() -> Path | None:
    """Return a private folder, or None where nothing is writable.

    Warn once, but not in each worker process.
    """
    try:
        folder = private_folder()
        kept = f"is kept in {folder}"
    except OSError:
        folder = None
        kept = "is not kept, and compiled again in each process"
    if multiprocessing.current_process().name == "MainProcess":
        warn(
            f"compiled code {kept}, because neither the folder of kmc nor your cache folder is "
            "writable: set the environment variable NUMBA_CACHE_DIR to a writable folder that "
            "lasts, to compile only once"
        )
    return folder


# Products and sums for compiled loops.


@njit()
def dot(a, b, out):
    """Write the product of a matrix and a vector, or of a vector and a matrix, to ``out`` by BLAS.

    numba does not compile this inside functions that do not count references.
    """
    np.dot(a, b, out)


@njit(allocates=False)
def sum_of(x):
    """Return the sum of x (n,), as eight sums side by side: one alone waits for each addition."""
    whole = x.size - x.size % 8
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for i in range(0, whole, 8):
        s0, s1, s2, s3 = s0 + x[i], s1 + x[i + 1], s2 + x[i + 2], s3 + x[i + 3]
        s4, s5, s6, s7 = s4 + x[i + 4], s5 + x[i + 5], s6 + x[i + 6], s7 + x[i + 7]
    for i in range(whole, x.size):
        s0 += x[i]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
