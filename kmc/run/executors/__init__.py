"""Where evaluations run: in this process, in other processes of this machine, or on a cluster."""

from __future__ import annotations

import os
import sys
from typing import Any

from kmc.run.executors.base import Executor, InProcess
from kmc.run.executors.dask import DaskExecutor
from kmc.run.executors.maps import MapExecutor
from kmc.run.executors.processes import ProcessExecutor

__all__ = ["DaskExecutor", "Executor", "InProcess", "MapExecutor", "ProcessExecutor", "as_executor"]


def as_executor(executor: Any) -> Executor:
    """Make an executor from the argument of :func:`kmc.sample`.

    Raises
    ------
    TypeError, ValueError
        It is none of the kinds listed there.

    Examples
    --------
    >>> from kmc.run.executors import as_executor
    >>> as_executor(4)
    ProcessExecutor(workers=4, timeout=None)
    """
    if executor is None:
        return InProcess()
    if isinstance(executor, int) and not isinstance(executor, bool):
        return ProcessExecutor(executor)
    if isinstance(executor, Executor) and not isinstance(executor, (type, os.PathLike)):
        return executor  # from kmc, or from outside the package: see Executor
    if _is_dask_client(executor):
        return DaskExecutor(executor)
    if not isinstance(executor, type) and callable(getattr(executor, "map", None)):
        return MapExecutor(executor)
    raise TypeError(
        f"executor={executor!r}: expected None, a number of processes, an object with a method "
        "map(function, iterable) (a concurrent.futures executor, a multiprocessing or MPI pool), a "
        "dask.distributed Client, kmc.ProcessExecutor(...), kmc.MapExecutor(...), "
        "kmc.DaskExecutor(...) or an object with a method open(model)"
    )


def _is_dask_client(executor: Any) -> bool:
    distributed = sys.modules.get("distributed")  # a client can exist only if it has been imported
    return distributed is not None and isinstance(executor, distributed.Client)
