"""The fraction of a run's time that its store and its progress take, at 1 ms per evaluation.

The time is that spent in their own methods, so that other work on the machine, which slows both
alike, has no influence.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from typing import NamedTuple
from unittest import mock

import numpy as np

import kmc
from kmc.run.display import make_display
from kmc.run.progress import Meter
from kmc.run.store.recorder import Recorder

STORE = {Recorder: ("recall", "keep", "swept", "finish", "__exit__")}
PROGRESS = {Meter: ("note", "record"), type(make_display(True)): ("update", "close")}


class Part(NamedTuple):
    """One line of the table."""

    name: str
    sampler: str
    dim: int
    bar: float  # %

    @property
    def methods(self) -> dict[type, tuple[str, ...]]:
        return STORE if self.name == "store" else PROGRESS


PARTS = (
    *(Part("store", sampler, 3, 3.0) for sampler in ("kernel-hmc", "adaptive-metropolis")),
    *(Part("progress", "adaptive-metropolis", dim, 1.0) for dim in (2, 10, 50)),
)


def log_density(x: np.ndarray) -> float:
    """A bent ridge; 1 ms."""
    end = time.perf_counter() + 1e-3
    while time.perf_counter() < end:
        pass
    return -0.5 * float(x @ x + 4 * (x[1] - 0.5 * x[0] ** 2) ** 2 - x[1] ** 2)


class Stopwatch:
    """Seconds spent in some methods of some classes, within the context; of nested calls only the
    outer one counts.
    """

    def __init__(self, methods: dict[type, tuple[str, ...]]):
        self._plain = {
            (kind, name): getattr(kind, name) for kind, names in methods.items() for name in names
        }
        self._inside = False
        self.seconds = 0.0

    def __enter__(self) -> Stopwatch:
        for (kind, name), method in self._plain.items():
            setattr(kind, name, self._timed(method))
        return self

    def __exit__(self, *error: object) -> None:
        for (kind, name), method in self._plain.items():
            setattr(kind, name, method)

    def _timed(self, method):
        @functools.wraps(method)
        def timed(*args):
            if self._inside:
                return method(*args)
            self._inside, began = True, time.perf_counter()
            try:
                return method(*args)
            finally:
                self._inside = False
                self.seconds += time.perf_counter() - began

        return timed


@contextlib.contextmanager
def terminal() -> Iterator[io.StringIO]:
    """Replace standard error by a terminal that keeps its output."""
    colors = mock.patch.dict(os.environ, {"FORCE_COLOR": "1", "TERM": "xterm"})
    with colors, contextlib.redirect_stderr(io.StringIO()) as screen:
        yield screen


def measured(part: Part, evaluations: int) -> tuple[float, float, int]:
    """Seconds of the run, seconds of the part itself, and bytes that it wrote to the disk or the
    screen.
    """
    asked = {
        "dim": part.dim,
        "sampler": part.sampler,
        "seed": 1,
        "progress": part.name == "progress",
    }
    with warnings.catch_warnings(), terminal() as screen, tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        kmc.sample(log_density, draws=20, warmup=20, **asked)  # compiles
        before = screen.tell()
        asked |= {"store": f"{folder}/run.zarr"} if part.name == "store" else {}
        with Stopwatch(part.methods) as watch:
            began = time.perf_counter()
            kmc.sample(log_density, draws=None, max_evaluations=evaluations, **asked)
            seconds = time.perf_counter() - began
        size = sum(
            512 * os.stat(f"{at}/{name}").st_blocks
            for at, _, names in os.walk(folder)
            for name in names
        )
        return seconds, watch.seconds, screen.tell() - before if part.name == "progress" else size


def shares(evaluations: int) -> str:
    """The table."""
    lines = [
        f"Of runs of {evaluations:,} evaluations of 1 ms:\n",
        "| | d | sampler | share, % | bar, % | seconds | bytes written |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for part in PARTS:
        seconds, own, size = measured(part, evaluations)
        share = f"{100 * own / seconds:.2f}"
        lines.append(
            f"| {part.name} | {part.dim} | {part.sampler} | {share} | {part.bar} | {seconds:.1f} "
            f"| {size} |"
        )
    return "\n".join(lines)
