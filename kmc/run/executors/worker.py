"""A worker process: it evaluates points until its parent ends, however that ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import Connection, wait
from threading import Thread

from threadpoolctl import threadpool_limits

from kmc.errors import EvaluationError
from kmc.run.executors.base import unpacked
from kmc.targets.evaluate import evaluate_block

_LOOK = 1.0  # seconds between looks at the parent


def serve(connection: Connection, lifeline: Connection) -> None:
    """Receive a model, send None or a sentence that says what is wrong, then answer requests.

    The process leaves the terminal's process group, where Ctrl-C would reach it, for a group of its own, in which it
    can be ended together with whatever the user's function has started. ``lifeline`` closes when the parent ends, and
    then the group is killed.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None and parent.pid is not None
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "setpgid"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        os.setpgid(0, 0)
    if not killed_with(lifeline, -os.getpid()):
        Thread(target=watch, args=(lifeline, parent.pid), daemon=True).start()
    if wait([lifeline], 0):  # the parent has ended already
        return
    for library in ("OMP", "OPENBLAS", "MKL"):  # for libraries that are loaded later
        os.environ[f"{library}_NUM_THREADS"] = "1"
    try:
        model = unpacked(connection.recv_bytes())
        connection.send(None)
        with threadpool_limits(1):
            while True:
                while not connection.poll(_LOOK):
                    if os.getppid() != parent.pid:  # while a fork of it keeps the pipes open
                        return
                connection.send(evaluate_block(model, connection.recv()))
    except EvaluationError as error:
        connection.send(str(error))
    except (EOFError, OSError):  # the parent has closed the connection
        return


def killed_with(lifeline: Connection, process: int) -> bool:
    """Ask the kernel to kill a process, or a group if negative, when the writing end of a pipe is closed.

    Only Linux can do so, and not in every sandbox; the result tells whether it will. It needs no cooperation of the
    process, which may still be starting, or busy in compiled code. (A parent-death signal, ``PR_SET_PDEATHSIG``, would
    be sent when the thread ends that has started the process, and can only be asked for by the process itself.)
    """
    if sys.platform != "linux":
        return False
    import fcntl

    descriptor = lifeline.fileno()
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, process)
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    except OSError:
        return False
    return True


def watch(lifeline: Connection, parent: int) -> None:
    """End this process and its group once the parent has ended."""
    while not wait([lifeline], _LOOK) and os.getppid() == parent:
        pass
    if hasattr(os, "killpg"):
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)
