"""A long run whose workers keep dying: ``python benchmarks/soak.py --evaluations 200000``.

    python benchmarks/soak.py --evaluations 1000000 --workers 32 --chains 2048
    python benchmarks/soak.py --evaluations 20000 --deaths 1000

The workers of a LocalCluster are killed at random and restarted by their nannies. At the end the draws must equal those
of the same seed in this process, the log-density must have been evaluated the same number of times, and the memory of
this process, which includes the scheduler, must have grown by less than 5 % over the second half of the run, without
the draws themselves. Needs ``pip install -e ".[dask]"``.

With ``--deaths``, workers are processes of this machine, and about so many evaluations first end theirs: by a
segmentation fault, an abort, a signal or an exit. The draws must be the same, too, and neither processes nor temporary
files may be left.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import multiprocessing
import os
import random
import resource
import signal
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

import kmc

if TYPE_CHECKING:  # processes that import this script do not wait for it
    from distributed import LocalCluster

DIM = 5
GROWTH = 0.05
COMPARED = ("warmup_posterior", "x"), ("warmup_blobs", "state"), ("posterior", "x"), ("blobs", "state")
GROUPS = ("warmup_posterior", "warmup_sample_stats", "warmup_blobs", "posterior", "sample_stats", "blobs")


def log_density(x: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
    """A bent Gaussian, with sums that are the same on every machine; the blob is the state itself."""
    bent = x[1] - 0.1 * (x[0] ** 2 - 1)
    return -0.5 * float(x[0] ** 2 + bent**2 + sum(value**2 for value in x[2:].tolist())), {"state": x}


@dataclass(frozen=True)
class Sleeping:
    """The same with a price: seconds of sleep."""

    seconds: float

    def __call__(self, x: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
        time.sleep(self.seconds)
        return log_density(x)


_DEATHS: dict[str, Callable[[], Any]] = {
    "segmentation fault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: os._exit(3),
}


@dataclass(frozen=True)
class Dying:
    """The same, but one of so many evaluations first ends its process, and leaves a file that says how."""

    folder: Path
    one_of: int

    def __call__(self, x: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
        lot, chosen = divmod(zlib.crc32(x.tobytes()), self.one_of)
        mark = self.folder / x.tobytes().hex()
        if not chosen and not mark.exists():
            how = list(_DEATHS)[lot % len(_DEATHS)]
            mark.write_text(how)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            _DEATHS[how]()
        return log_density(x)

    def deaths(self) -> Counter[str]:
        return Counter(mark.read_text() for mark in self.folder.iterdir())


@contextlib.contextmanager
def killing(cluster: LocalCluster, every: float, seed: int) -> Iterator[list[int]]:
    """Kill a random worker after random times of ``every`` seconds on average; yield the killed processes.

    Workers that are still starting are spared: dask's nannies do not restart them.
    """
    from distributed import Status

    killed: list[int] = []
    done = threading.Event()
    rng = random.Random(seed)

    def kill() -> None:
        while not done.wait(rng.expovariate(1 / every)):
            try:
                processes = [nanny.process for nanny in cluster.workers.values()]
                pid = rng.choice([process.pid for process in processes if process.status is Status.running])
                os.kill(pid, signal.SIGKILL)
            except (IndexError, AttributeError, OSError):  # all are being restarted, or this one is dead already
                continue
            killed.append(pid)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        done.set()
        thread.join()


def fill_caches() -> None:
    """Fill dask's memory of 100,000 task names, more than this run has: as after many runs."""
    from dask.utils import key_split

    for i in range(key_split.cache_info().maxsize):
        key_split(f"kmc-evaluate-{uuid4()}-{i}")


def resident() -> float:
    """Memory that this process uses in MB, without freed memory that its allocator keeps."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # the C library may not be glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Watch:
    """A callback that records the memory ten times and at the end, and prints progress."""

    def __init__(self, evaluations: int):
        self.evaluations, self.memory, self.due = evaluations, [], 0

    def __call__(self, record: kmc.Progress) -> None:
        if record.n_evaluations >= self.due or record.phase == "done":
            self.memory.append((record.n_evaluations, resident()))
            print("{:>9,} evaluations, {:6.0f} MB".format(*self.memory[-1]), f"{record.elapsed:8.1f} s", flush=True)
            self.due += max(self.evaluations // 10, 1)

    def second_half(self) -> tuple[float, float]:
        """MB in the middle of the run, and at its end."""
        counts, memory = np.array(self.memory).T
        return float(memory[np.searchsorted(counts, self.evaluations / 2)]), float(memory[-1])


def sampled(evaluations: int, seed: int, function: Callable = log_density, **options):
    return kmc.sample(
        function,
        dim=DIM,
        sampler="adaptive-metropolis",
        draws=None,
        max_evaluations=evaluations,
        warmup=100,
        seed=seed,
        progress=False,
        save_warmup=True,
        **options,
    )


def on_cluster(options: argparse.Namespace, watch: Watch) -> Any:
    """A run on a cluster whose workers are killed."""
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.admin.low-level-log-length": 1000})  # the scheduler is in this process
    fill_caches()
    start = time.perf_counter()
    with (
        LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        killing(cluster, options.every, options.seed) as killed,
    ):
        dear = Sleeping(options.price) if options.price else log_density
        found = sampled(options.evaluations, options.seed, dear, chains=options.chains, executor=client, callback=watch)
    busy, workers = 1 - found.attrs["workers_waited"], found.attrs["workers"]
    print(f"{workers} workers at the end; {busy:.0%} of the workers' time in evaluations")
    print(f"{len(killed)} workers killed in {time.perf_counter() - start:.0f} s")
    assert killed, "no worker was killed: run longer, or lower --every"
    return found


def on_processes(options: argparse.Namespace, watch: Watch) -> Any:
    """A run whose evaluations end processes."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as marks, tempfile.TemporaryDirectory() as temporary:
        os.environ["TMPDIR"] = tempfile.tempdir = temporary
        dying = Dying(Path(marks), max(options.evaluations // options.deaths, 1))
        workers = kmc.ProcessExecutor(options.workers)
        found = sampled(
            options.evaluations, options.seed, dying, chains=options.chains, executor=workers, callback=watch
        )
        deaths, left = dying.deaths(), list(Path(temporary).iterdir())
        tempfile.tempdir = None
    kinds = ", ".join(f"{count} {how}" for how, count in sorted(deaths.items()))
    children = multiprocessing.active_children()
    print(f"{sum(deaths.values())} workers died in {time.perf_counter() - start:.0f} s: {kinds}")
    print(f"{len(children)} processes left, {len(left)} temporary files left")
    assert deaths and not children and not left
    return found


def main() -> None:
    """Run, check and print; fail if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=200_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--price", type=float, default=0.0, help="seconds that an evaluation sleeps on the cluster")
    parser.add_argument("--every", type=float, default=10.0, help="mean seconds between two deaths on the cluster")
    parser.add_argument("--deaths", type=int, default=0, help="of processes of this machine; 0: use a cluster")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    watch = Watch(options.evaluations)
    found = (on_processes if options.deaths else on_cluster)(options, watch)
    expected = sampled(options.evaluations, options.seed, chains=options.chains)
    for group, name in COMPARED:
        np.testing.assert_array_equal(found[group][name].values, expected[group][name].values)
    for count in ("n_evaluations", "n_evaluations_warmup"):
        assert found.posterior.attrs[count] == expected.posterior.attrs[count], count
    print(f"{found.posterior.sizes['draw']} draws of each chain, none lost, none doubled, those of a calm run")
    half, end = watch.second_half()
    draws = sum(found[group].nbytes for group in GROUPS) / 1e6 / 2  # those of the second half
    beside = (end - half - draws) / half
    print(
        f"memory over the second half: {half:.0f} to {end:.0f} MB ({100 * (end / half - 1):+.1f} %), of them "
        f"{draws:.1f} MB draws and their statistics; beside those {100 * beside:+.1f} %"
    )
    assert beside < GROWTH, f"memory grew by more than {100 * GROWTH:g} %"


if __name__ == "__main__":
    main()
