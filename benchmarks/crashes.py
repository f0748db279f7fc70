"""Stop a stored run at every n-th file operation, resume it, and compare its draws with those of a
run without a store.

    python -m benchmarks.crashes [--points 100] [--samplers random-walk kernel-hmc ...]

Each run is a separate process. It dies without any clean-up (``os._exit``) when it is about to
create, open for writing, rename or remove a file or folder of its store, or when half of the bytes
of a write are in the file. Then another process checks the committed draws, which must be the first
draws of the reference, and resumes the run: draws and warm-up must be those of the reference, bit
for bit. Commits and snapshots are made every few sweeps. Prints how many resumes were right. It
forks, and so needs Linux or another POSIX system.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import kmc
from kmc.run.store import files, recorder

SAMPLERS = {
    "random-walk": kmc.RandomWalkMetropolis(),
    "adaptive-metropolis": kmc.AdaptiveMetropolis(),
    "kernel-hmc": kmc.KernelHMC(learning_share=0.3, burn_in=3),
}
ASKED = {
    "dim": 2,
    "chains": 2,
    "draws": 40,
    "max_evaluations": 300,
    "seed": 7,
    "progress": False,
    "save_warmup": True,
}
GROUPS = ("posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats")
_MAKES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}
_CRASHED, _WRONG = 9, 1


class Result(NamedTuple):
    """Results of one sampler: operations of a whole run, those where it was stopped, and resumes
    that were right.
    """

    operations: int
    stopped: int
    right: int
    wrong: list[int]  # operations


def log_density(x: np.ndarray) -> float:
    return -0.5 * float(x @ x) - 0.1 * float(x[0] ** 4)


class Counter:
    """Counts the file operations of a process on a store, and ends the process at one of them."""

    def __init__(self, store: Path, last: int | None):
        self._store, self._last = str(store), last
        self.n = 0
        self._write = files.write

    def start(self) -> None:
        files.write = self._half_way
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            changes = isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        else:
            changes = event in _MAKES
        if changes and str(args[0]).startswith(self._store):
            self._one()

    def _half_way(self, file: Any, content: bytes) -> None:
        self._write(file, content[: len(content) // 2])
        file.flush()
        self._one()
        self._write(file, content[len(content) // 2 :])

    def _one(self) -> None:
        self.n += 1
        if self.n == self._last:
            os._exit(_CRASHED)


def in_a_process(work: Callable[[], int]) -> int:
    """The exit status of a fork that calls ``work``."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = _WRONG
    try:
        status = work()
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(status)


def often() -> None:
    """Commit every few sweeps, and make a snapshot with every second commit, independently of the
    clock.
    """
    recorder.time = SimpleNamespace(perf_counter=count(0.0, 0.01).__next__)
    recorder.SNAPSHOT_SECONDS, recorder.SHARE = 0.4, 1.0


def sampled(name: str, **others: Any) -> Any:
    return kmc.sample(log_density, sampler=SAMPLERS[name], **ASKED, **others)


def stored(name: str, store: Path, last: int | None, report: Path | None = None) -> int:
    """Run with a store until the operation; write the total number of operations to a file."""
    often()
    counter = Counter(store, last)
    counter.start()
    sampled(name, store=store)
    if report is not None:
        report.write_text(str(counter.n))
    return 0


def resumed(name: str, store: Path, reference: Any) -> int:
    """Whether the committed draws are the beginning of the reference, and the resumed run gives all
    of it.
    """
    often()
    if (store / "zarr.json").exists():
        x = kmc.load(store).posterior["x"].values
        if not np.array_equal(x, reference.posterior["x"].values[:, : x.shape[1]]):
            return _WRONG
    result = sampled(name, store=store, resume=True)
    same = (
        result[group][variable].values.tobytes() == reference[group][variable].values.tobytes()
        for group in GROUPS
        for variable in reference[group].data_vars
    )
    return (
        0
        if all(same) and result.attrs["n_evaluations"] == reference.attrs["n_evaluations"]
        else _WRONG
    )


def campaign(name: str, points: int, folder: Path) -> Result:
    """Stop a sampler's run at this number of evenly spaced operations; at all of them if there are
    fewer.
    """
    reference = sampled(name)
    report = folder / "operations"
    if in_a_process(lambda: stored(name, folder / "whole.zarr", None, report)):
        raise RuntimeError(f"{name}: the run that is not stopped failed")
    n = int(report.read_text())
    stopped, wrong = 0, []
    for last in np.unique(np.linspace(1, n, min(points, n)).astype(int)).tolist():
        store = folder / f"{last}.zarr"
        stopped += in_a_process(lambda: stored(name, store, last)) == _CRASHED  # noqa: B023
        if in_a_process(lambda: resumed(name, store, reference)):  # noqa: B023
            wrong.append(last)
        shutil.rmtree(store, ignore_errors=True)
    return Result(n, stopped, stopped - len(wrong), wrong)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--points", type=int, default=100, help="operations to stop at, for each sampler"
    )
    parser.add_argument("--samplers", nargs="+", choices=list(SAMPLERS), default=list(SAMPLERS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| sampler | file operations of a run | stopped at | resumes that were right | seconds |")
    print("| --- | ---: | ---: | ---: | ---: |", flush=True)
    for name in options.samplers:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            result = campaign(name, options.points, Path(folder))
        seconds = time.perf_counter() - began
        print(
            f"| {name} | {result.operations} | {result.stopped} | {result.right} | {seconds:.0f} |",
            flush=True,
        )
        if result.wrong:
            print(f"wrong after the operations {result.wrong}", file=sys.stderr)


if __name__ == "__main__":
    main()
