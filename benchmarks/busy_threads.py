"""Wall times of fits with one and with two BLAS threads, while as many other processes keep two cores busy.

python benchmarks/busy_threads.py [--turns 3]

Each fit runs in a fresh process, whose environment allows one or two threads, and the two take turns; medians are
shown. The last row is a plain eigendecomposition in NumPy, which uses as many threads as it is allowed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

BUSY = "while True: pass"
VARIABLES = [f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL")]
FITS = 3  # in a process, after a first one


def diffusion_map() -> Callable:
    from kmc.spectral import DiffusionMap

    x = np.random.default_rng(0).standard_normal((2000, 3))
    return lambda: DiffusionMap(3, random_state=0).fit(x)


def transition_operator() -> Callable:
    from kmc.spectral import TransitionOperator

    x = np.random.default_rng(0).standard_normal((3000, 3)).cumsum(axis=0) / 30
    return lambda: TransitionOperator(5, 2, random_state=0).fit(x)


def nystrom_kef() -> Callable:
    from kmc.scores import NystromKEF

    x = np.random.default_rng(0).standard_normal((500, 5))
    return lambda: NystromKEF(random_state=0).fit(x)


def numpy_eigh() -> Callable:
    x = np.random.default_rng(0).standard_normal((700, 700))
    return lambda: np.linalg.eigh(x @ x.T)


MEASURES = {
    "DiffusionMap, n = 2,000, d = 3": diffusion_map,
    "TransitionOperator, n = 3,000, d = 3": transition_operator,
    "NystromKEF, n = 500, d = 5": nystrom_kef,
    "numpy.linalg.eigh, 700 rows": numpy_eigh,
}


def seconds(name: str, threads: int) -> float:
    """Median wall time, measured in a process of its own."""
    environment = os.environ | dict.fromkeys(VARIABLES, str(threads))
    command = [sys.executable, "-W", "ignore", __file__, "--measure", name]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def measure(name: str) -> float:
    """Median wall time, in this process."""
    fit, times = MEASURES[name](), []
    for _ in range(FITS + 1):
        begin = time.perf_counter()
        fit()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--busy", type=int, default=2, help="other processes")
    parser.add_argument("--measure", choices=[*MEASURES], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(measure(args.measure))
        return
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(args.busy)]
    try:
        print(f"| fit, {args.busy} other busy processes | one thread, s | two threads, s | ratio |")
        print("| --- | ---: | ---: | ---: |")
        for name in MEASURES:
            pairs = [(seconds(name, 1), seconds(name, 2)) for _ in range(args.turns)]
            one, two = (statistics.median(column) for column in zip(*pairs, strict=True))
            print(f"| {name} | {one:.3g} | {two:.3g} | {two / one:.2f} |", flush=True)
    finally:
        for other in others:
            other.kill()


if __name__ == "__main__":
    main()
