"""What a worker process does: it reads points from a pipe and writes what they gave, until the pipe is closed."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection

from threadpoolctl import threadpool_limits

from kmc.errors import EvaluationError
from kmc.run.executors.task import unpacked
from kmc.targets.evaluate import evaluate_block


def serve(connection: Connection, payload: bytes) -> None:
    """Greet with None, or a sentence that says what is wrong, and answer.

    The process leaves the terminal's group, in which Ctrl-C would reach it, for one of its own, in which it can be
    ended together with whatever the user's function has started. It ends by itself when its parent does, which closes
    the pipe, after the evaluation that it is at.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    for library in ("OMP", "OPENBLAS", "MKL"):  # those that are loaded later
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
