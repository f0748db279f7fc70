"""The loop of a worker process: read points from a pipe and write results, until the pipe is closed."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection

from threadpoolctl import threadpool_limits

from kmc.errors import EvaluationError
from kmc.run.executors.task import unpacked
from kmc.targets.evaluate import evaluate_block


def serve(connection: Connection, payload: bytes) -> None:
    """Send None, or a sentence that says what is wrong, then answer requests.

    The process leaves the terminal's process group, where Ctrl-C would reach it, for a group of its own, in which it
    can be ended together with whatever the user's function has started. When its parent ends, the pipe closes, and the
    process ends after its current evaluation.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    for library in ("OMP", "OPENBLAS", "MKL"):  # for libraries that are loaded later
        os.environ[f"{library}_NUM_THREADS"] = "1"
    try:
        model = unpacked(payload)
    except EvaluationError as error:
        connection.send(str(error))
        return
    connection.send(None)
    with threadpool_limits(1):
        while True:
            try:
                points = connection.recv()
            except EOFError:
                return
            connection.send(evaluate_block(model, points))
