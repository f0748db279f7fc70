"""Common parts of the tests of jit states."""

from numba.core.runtime import _nrt_python, rtsys


def allocations(function, calls):
    """Number of arrays that numba allocates in ``function(*arguments)``, for each of these arguments."""
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
