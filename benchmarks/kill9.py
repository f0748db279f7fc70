"""Kill a run with SIGKILL at random moments, resume it each time, and compare its draws with an uninterrupted run.

    python -m benchmarks.kill9 [--kills 50] [--sampler kernel-hmc]

Prints how often the run was killed, how many sessions were alive long enough to begin, and whether the draws are the
same, bit for bit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import kmc

ASKED = {
    "dim": 3,
    "chains": 4,
    "draws": None,
    "max_evaluations": 40_000,
    "seed": 11,
    "progress": False,
    "save_warmup": True,
}


def log_density(x):
    """A bent ridge; 1 ms, so that a run takes some seconds."""
    end = time.perf_counter() + 1e-3
    while time.perf_counter() < end:
        pass
    return -0.5 * (x[0] ** 2 + 4 * (x[1] - 0.5 * x[0] ** 2) ** 2 + x[2] ** 2)


def session(store: str, sampler: str) -> None:
    """The process that is killed."""

    def ready(record):
        if record.phase == "start":
            print("ready", flush=True)

    kmc.sample(log_density, sampler=sampler, store=store, resume=True, callback=ready, **ASKED)


def kills(store: str, sampler: str, wanted: int, rng: np.random.Generator) -> tuple[int, list[int]]:
    """Kill session after session; return the number of kills, and the evaluations in the store after each.

    The kills are spread over the whole run: each session runs for a random number of evaluations, and then for a
    random time that ends before, during or after the next commit.
    """
    killed, reached, last = 0, [], 0
    while killed < wanted:
        command = [sys.executable, "-m", "benchmarks.kill9", "--session", store, "--sampler", sampler]
        enough = last + rng.uniform(0, 1.2) * (ASKED["max_evaluations"] - last) / (wanted + 1 - killed)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            while process.poll() is None and evaluations(store) < enough:
                time.sleep(0.02)
            time.sleep(rng.uniform(0.0, 0.3))
            over = process.poll() is not None
            process.kill()
        last = evaluations(store)
        reached.append(last)
        if over:
            break
        killed += 1
    return killed, reached


def evaluations(store: str) -> int:
    """The number of evaluations in the store, 0 if it does not exist yet."""
    return kmc.load(store).attrs.get("n_evaluations", 0) if Path(store, "zarr.json").exists() else 0


def main() -> None:
    """Print the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--sampler", default="kernel-hmc")
    parser.add_argument("--session", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.session:
        session(options.session, options.sampler)
        return
    reference = kmc.sample(log_density, sampler=options.sampler, **ASKED)
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/run.zarr"
        killed, reached = kills(store, options.sampler, options.kills, np.random.default_rng(1))
        result = kmc.sample(log_density, sampler=options.sampler, store=store, resume=True, **ASKED)
        same = all(
            np.array_equal(result[group][name].values, reference[group][name].values)
            for group in ("posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats")
            for name in reference[group].data_vars
        )
    counts = f"evaluations {result.attrs['n_evaluations']} and {reference.attrs['n_evaluations']}"
    print(f"{options.sampler}: killed {killed} times at {reached} evaluations; draws the same: {same}; {counts}")


if __name__ == "__main__":
    main()
