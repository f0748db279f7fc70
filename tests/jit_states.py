"""Jit states in tests: a point at a time, in a jitted loop, and what numba allocates meanwhile."""

import numba
import numpy as np
from numba.core.runtime import _nrt_python, rtsys

from kmc import jitted


def allocations(function, calls):
    """Number of arrays that numba allocates in ``function(*arguments)``, for each of these
    arguments.
    """
    enabled = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    counts = []
    for arguments in calls:
        before = rtsys.get_allocation_stats().alloc
        function(*arguments)
        counts.append(rtsys.get_allocation_stats().alloc - before)
    if not enabled:
        _nrt_python.memsys_disable_stats()
    return counts


def evaluate(state, x):
    """Value and gradient at x (d,)."""
    gradient = np.full(len(x), np.nan)
    return jitted.value_and_gradient(state, x, gradient, jitted.workspace(state)), gradient


@numba.njit
def evaluate_all(state, x, gradients):
    """The sum of the values at points (n, d); their gradients are written to an array (n, d)."""
    work = jitted.workspace(state)
    total = 0.0
    for i in range(len(x)):
        total += jitted.value_and_gradient(state, x[i], gradients[i], work)
    return total
