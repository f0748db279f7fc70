"""What a store costs: ``python -m benchmarks.store``.

The share of a run's time that its store takes, at 1 ms for an evaluation (bar: 3 %), and its size on disk. The time is
that spent in the recorder's methods, so that other work on the machine, which slows both alike, does not decide.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import time
import warnings
from pathlib import Path

import kmc
from benchmarks.kill9 import log_density
from kmc.run.store.recorder import Recorder

METHODS = ("recall", "keep", "swept", "finish", "__exit__")


class Stopwatch:
    """Seconds spent in some methods of a class, while it is entered."""

    def __init__(self, kind: type, methods: tuple[str, ...]):
        self._kind, self._plain = kind, {name: getattr(kind, name) for name in methods}
        self.seconds = 0.0

    def __enter__(self):
        for name, method in self._plain.items():
            setattr(self._kind, name, self._timed(method))
        return self

    def __exit__(self, *error):
        for name, method in self._plain.items():
            setattr(self._kind, name, method)

    def _timed(self, method):
        @functools.wraps(method)
        def timed(*args):
            began = time.perf_counter()
            try:
                return method(*args)
            finally:
                self.seconds += time.perf_counter() - began

        return timed


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=8000)
    parser.add_argument("--samplers", nargs="+", default=["kernel-hmc", "adaptive-metropolis"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| sampler | seconds | of them the store's | share, % | draws | bytes on disk |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for sampler in options.samplers:
        asked = {"dim": 3, "sampler": sampler, "seed": 1, "progress": False}
        kmc.sample(log_density, draws=20, warmup=20, **asked)  # what numba compiles
        with tempfile.TemporaryDirectory() as folder, Stopwatch(Recorder, METHODS) as watch:
            began = time.perf_counter()
            result = kmc.sample(
                log_density, draws=None, max_evaluations=options.evaluations, store=f"{folder}/run.zarr", **asked
            )
            seconds = time.perf_counter() - began
            size = sum(512 * file.stat().st_blocks for file in Path(folder).rglob("*") if file.is_file())
        draws = result.posterior.sizes["draw"]
        share = 100 * watch.seconds / seconds
        print(f"| {sampler} | {seconds:.1f} | {watch.seconds:.2f} | {share:.2f} | {draws} | {size} |")


if __name__ == "__main__":
    main()
