"""Cells of a benchmark in several processes, and their rows in a CSV file, each written as soon as
it is there.
"""

from __future__ import annotations

import csv
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows so far."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def number(text: str) -> Any:
    """A cell's text as an int or a float, if it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write all rows anew, with four digits of each number."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([f"{v:.4g}" if isinstance(v, float) else v for v in row] for row in rows)


def append_row(
    path: Path,
    columns: Sequence[str],
    row: dict[str, Any],
    *,
    digits: int = 4,
    line_end: str = "\n",
) -> None:
    """Write a row, with this number of digits of each number."""
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        table = csv.DictWriter(file, columns, lineterminator=line_end)
        if new:
            table.writeheader()
        table.writerow(
            {name: f"{v:.{digits}g}" if isinstance(v, float) else v for name, v in row.items()}
        )


def run_cells(
    run: Callable[..., Any],
    cells: Iterable[tuple],
    jobs: int,
    finish: Callable[[Any], str],
    *,
    max_time: float = math.inf,
) -> list[str]:
    """Call ``run(*cell)`` for each cell in this number of spawned processes, and return failures.

    Here, ``finish`` gets what was returned as soon as it is there, writes it, and describes it in a
    line. After ``max_time`` seconds no further cell begins.
    """
    # of the processes
    os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")})
    began, waiting = time.perf_counter(), deque(cells)
    failures: list[str] = []
    running: dict[Any, str] = {}
    n, done = len(waiting), 0
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        while True:
            while waiting and len(running) < jobs and time.perf_counter() - began < max_time:
                cell = waiting.popleft()
                running[pool.submit(run, *cell)] = " ".join(map(str, cell))
            if not running:
                return failures
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name, done = running.pop(future), done + 1
                if error := future.exception():
                    failures.append(f"{name}: {error!r}")
                said = repr(error) if error else finish(future.result())
                print(f"[{done}/{n}] {name}: {said}", flush=True)
