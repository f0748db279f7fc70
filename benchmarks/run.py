"""The overhead of a run per evaluation: ``python benchmarks/run.py``.

Direct calls, executors, and other layers between a sampler and the log-density are measured in one
run, in turns, with a log-density that costs nothing. Each figure is the median over rounds;
*overhead* is relative to a direct call. ``--measures`` selects some of them; those of dask need
``pip install -e ".[dask]"``. Then the store and the progress are measured in whole runs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import NamedTuple

import numpy as np
from run_shares import shares

from kmc.model.evaluate import Evaluator
from kmc.model.model import Model
from kmc.run.executors import as_executor

DIM = 10
ROUND = 50  # batches

Timed = Callable[[], float]  # one round: seconds per evaluation


class Measure(NamedTuple):
    """One line of the table: how a round is prepared, and the limit for its overhead."""

    start: Callable[[], AbstractContextManager[Timed]]
    bar: float | None = None  # ms


def log_density(x: np.ndarray) -> float:
    return -0.5 * float(x @ x)


@contextmanager
def evaluations(executor: object, batch: int) -> Iterator[Timed]:
    """Batches of points through an executor, None for direct calls."""
    model = Model(log_density, dim=DIM)
    points = np.random.default_rng(0).standard_normal((batch, DIM))
    with as_executor(executor).open(model) as mapper:
        evaluate = Evaluator(model, mapper)

        def timed() -> float:
            start = time.perf_counter()
            for _ in range(ROUND):
                evaluate(points)
            return (time.perf_counter() - start) / (ROUND * batch)

        yield timed


@contextmanager
def dask(batch: int) -> Iterator[Timed]:
    """Batches of points on a LocalCluster of two processes."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        evaluations(client, batch) as timed,
    ):
        yield timed


DIRECT = "direct calls"
MEASURES = {
    DIRECT: Measure(lambda: evaluations(None, 1)),
    "processes, batches of 1": Measure(lambda: evaluations(2, 1), 0.5),
    "processes, batches of 4": Measure(lambda: evaluations(2, 4), 0.5),
    "dask, batches of 1": Measure(lambda: dask(1), 2.0),
    "dask, batches of 4": Measure(lambda: dask(4), 2.0),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measures", nargs="+", choices=list(MEASURES), default=list(MEASURES))
    parser.add_argument("--evaluations", type=int, default=8000, help="evaluations of a whole run")
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    names = list(dict.fromkeys([DIRECT, *options.measures]))
    with ExitStack() as stack:
        timed = {name: stack.enter_context(MEASURES[name].start()) for name in names}
        for one in timed.values():
            one()  # connections, caches, measured costs
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(options.rounds):
            for name, one in timed.items():
                seconds[name].append(one())
    direct = statistics.median(seconds[DIRECT])
    print("| | ms per evaluation | overhead, ms | bar, ms |\n| --- | ---: | ---: | ---: |")
    for name in names:
        whole, bar = statistics.median(seconds[name]), MEASURES[name].bar
        overhead = "" if name == DIRECT else f"{1e3 * (whole - direct):.3f}"
        print(f"| {name} | {1e3 * whole:.4f} | {overhead} | {'' if bar is None else bar} |")
    print("", shares(options.evaluations), sep="\n")


if __name__ == "__main__":
    main()
