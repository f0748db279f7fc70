"""Kill a run with SIGKILL at random moments, resume it each time, and compare its draws with an
uninterrupted run.

    python -m benchmarks.kill9 [--kills 50] [--sampler kernel-hmc] [--workers 2] [--evaluations
    40000]

Every third session is killed while it starts, and with it the workers that import this script.
Prints how often the run was killed, and counts stores whose draws are not the first draws of the
reference ("silent"), sessions that end with an error, sessions that neither evaluate nor compute
for ten seconds or do not start within sixty ("hangs"), and processes that outlive their parent by
five seconds ("orphans"). The exit status is 1 unless all these are 0. It needs Linux.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import select
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kmc

ASKED = {"dim": 3, "chains": 4, "draws": None, "seed": 11, "progress": False, "save_warmup": True}
GROUPS = ("posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats")
_START, _HANG, _ORPHAN = 60.0, 10.0, 5.0  # seconds


@dataclass(frozen=True)
class Ridge:
    """A bent ridge; 1 ms, so that a run takes some seconds. The time of a file is that of the
    latest call.
    """

    beat: Path

    def __call__(self, x: np.ndarray) -> float:
        os.utime(self.beat)
        end = time.perf_counter() + 1e-3
        while time.perf_counter() < end:
            pass
        return -0.5 * float(x[0] ** 2 + 4 * (x[1] - 0.5 * x[0] ** 2) ** 2 + x[2] ** 2)


@dataclass
class Counts:
    """Results of a campaign."""

    kills: int = 0
    starting: int = 0  # of these, sessions that were killed before they evaluated
    silent: int = 0
    errors: int = 0
    hangs: int = 0
    orphans: int = 0


@dataclass(frozen=True)
class Campaign:
    """A run in a folder, killed again and again."""

    folder: Path
    options: argparse.Namespace

    @property
    def store(self) -> Path:
        return self.folder / "run.zarr"

    def sample(self, **others: Any) -> Any:
        beat = self.folder / "beat"
        beat.touch()
        asked = ASKED | {
            "max_evaluations": self.options.evaluations,
            "sampler": self.options.sampler,
        }
        return kmc.sample(Ridge(beat), **asked, **others)

    def session(self) -> None:
        """The process that is killed."""

        def ready(record: Any) -> None:
            if record.phase == "start":
                print("ready", flush=True)

        self.sample(
            store=self.store, resume=True, callback=ready, executor=self.options.workers or None
        )

    def started(self) -> subprocess.Popen[str]:
        """A session of its own, with its own number of a session for the system: that of its
        workers, too.
        """
        given = ("sampler", "workers", "evaluations")
        options = [f"--{name}={getattr(self.options, name)}" for name in given]
        command = [
            sys.executable,
            "-m",
            "benchmarks.kill9",
            "--session",
            str(self.folder),
            *options,
        ]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def kills(self, reference: Any, rng: np.random.Generator) -> tuple[Counts, list[int]]:
        """Kill session after session; return the counts, and the evaluations in the store after
        each.

        The kills are spread over the whole run: a session runs for a random number of evaluations,
        and then for a random time that ends before, during or after the next commit. Every third
        one is killed at a random moment of its start.
        """
        counts, reached, last, to_start = Counts(), [], 0, 5.0
        while counts.kills < self.options.kills:
            began = time.monotonic()
            left = self.options.evaluations - last
            enough = last + rng.uniform(0, 1.2) * left / (self.options.kills + 1 - counts.kills)
            with self.started() as process:
                if counts.kills % 3 == 2:
                    time.sleep(rng.uniform(0, to_start))
                    counts.starting += 1
                else:
                    ready, _, _ = select.select([process.stdout], [], [], _START)
                    to_start = time.monotonic() - began
                    counts.hangs += not ready or self.wait(process, enough)
                    time.sleep(rng.uniform(0.0, 0.3))
                over = process.poll() is not None
                process.kill()
                counts.orphans += orphans(process.pid)
            counts.errors += over and process.returncode != 0
            if over:
                break
            counts.kills += 1
            counts.silent += not self.first_draws(reference)
            last = self.evaluations()
            reached.append(last)
        return counts, reached

    def wait(self, process: subprocess.Popen[str], enough: float) -> bool:
        """Wait for so many evaluations; whether the session hangs before.

        A session that is resumed first repeats its fits, without evaluations: it hangs if it does
        not compute either.
        """
        since, before = time.monotonic(), self.signs_of_life(process)
        while process.poll() is None and self.evaluations() < enough:
            if (now := self.signs_of_life(process)) != before:
                since, before = time.monotonic(), now
            elif time.monotonic() - since > _HANG:
                return True
            time.sleep(0.05)
        return False

    def signs_of_life(self, process: subprocess.Popen[str]) -> tuple[float, int]:
        """The time of the latest evaluation, and tenths of seconds of processor time."""
        times = map(
            int, Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        )
        return (self.folder / "beat").stat().st_mtime, int(
            10 * sum(times) / os.sysconf("SC_CLK_TCK")
        )

    def evaluations(self) -> int:
        """The number of evaluations in the store, 0 if it does not exist yet."""
        return (
            kmc.load(self.store).attrs.get("n_evaluations", 0)
            if (self.store / "zarr.json").exists()
            else 0
        )

    def first_draws(self, reference: Any) -> bool:
        """Whether the draws in the store are the first draws of the reference."""
        if not (self.store / "zarr.json").exists():
            return True
        x = kmc.load(self.store).posterior["x"].values
        return np.array_equal(x, reference.posterior["x"].values[:, : x.shape[1]])


def orphans(session: int) -> int:
    """Processes of a session that is killed which go on for five seconds; they are killed then."""
    end = time.monotonic() + _ORPHAN
    while (left := members(session)) and time.monotonic() < end:
        time.sleep(0.02)
    for process in left:
        os.kill(process, 9)
    return len(left)


def members(session: int) -> list[int]:
    """Processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, number = path.read_text().rsplit(")", 1)[1].split()[:4]
        except OSError:  # it has ended meanwhile
            continue
        if int(number) == session and state not in "ZX":
            found.append(int(path.parent.name))
    return found


def same(result: Any, reference: Any) -> bool:
    return all(
        np.array_equal(result[group][name].values, reference[group][name].values)
        for group in GROUPS
        for name in reference[group].data_vars
    )


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--sampler", default="kernel-hmc")
    parser.add_argument("--workers", type=int, default=0, help="0: evaluate in the process itself")
    parser.add_argument("--evaluations", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--session", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.session:
        Campaign(options.session, options).session()
        return
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(Path(folder), options)
        reference = campaign.sample()
        counts, reached = campaign.kills(reference, np.random.default_rng(options.seed))
        result = campaign.sample(store=campaign.store, resume=True)
    counts.silent += not same(result, reference)
    print(
        f"killed at {reached} evaluations; {result.attrs['n_evaluations']} and "
        f"{reference.attrs['n_evaluations']}"
    )
    print(
        f"{options.sampler}, {options.workers} workers: {counts.kills} kills, {counts.starting} of "
        f"them of starting sessions; {counts.silent} silent, {counts.errors} errors, "
        f"{counts.hangs} hangs over ten seconds, {counts.orphans} orphans; "
        f"{time.monotonic() - began:.0f} s"
    )
    sys.exit(any(dataclasses.astuple(counts)[2:]))


if __name__ == "__main__":
    main()
