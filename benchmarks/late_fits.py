"""Would fits help that run while workers evaluate? And how long do fits take, by threads?

    python benchmarks/late_fits.py              # a simulation in virtual time
    python benchmarks/late_fits.py --threads 2  # wall times, on cores that have nothing else to do

In warm-up of 64 chains on 64 workers a fit follows most rounds, and the workers wait for it. It could also be made
while they evaluate the next round, whose proposals then come from the surrogate before: such a fit is late by a round,
and the warm-up takes a round more for the same number of fits to the same number of values. Rounds and processor times
of fits are those of a run; evaluations have lognormal prices (sd 1). What a worse surrogate costs is left out.
"""

from __future__ import annotations

import argparse
import pickle
import time
from typing import NamedTuple

import numba
import numpy as np
from scaling import BUDGET
from targets import problem
from virtual import Workers, lognormal

import kmc
from kmc.mcmc.surrogate_trainer import SurrogateTrainer
from kmc.threads import single_threaded

TARGETS = "logistic", "banana-2d", "fitzhugh-nagumo"
WORKERS = 64
SECONDS = 10.0, 1.0, 0.1, 0.01
REPETITIONS = 30
OWN_AFTER = 0.001  # seconds of own time per evaluation after the freeze
BUSY_AFTER = 0.95  # part of the workers' time that evaluations take then


class WarmUp(NamedTuple):
    """What happened until the freeze."""

    rounds: list[int]  # evaluations of each
    fits: dict[int, float]  # seconds of the fit after a round
    arguments: list[bytes]  # of the fits


def warm_up(target: str, seed: int, chains: int = WORKERS) -> WarmUp:
    """Run until the freeze."""
    model, rounds, fits, arguments = problem(target), [], {}, []
    fit, counts = SurrogateTrainer.fit, [0]

    def timed(trainer: SurrogateTrainer, mixture):
        arguments.append(pickle.dumps((trainer, mixture)))
        began = time.process_time()
        found = fit(trainer, mixture)
        fits[len(rounds)] = fits.get(len(rounds), 0.0) + time.process_time() - began
        return found

    def note(progress) -> bool:
        if progress.phase == "warmup":
            rounds.append(progress.n_evaluations - counts[-1])
            counts.append(progress.n_evaluations)
        return progress.phase == "sampling"

    SurrogateTrainer.fit = timed
    try:
        kmc.sample(
            model.log_density,
            model.dim,
            model.initial(np.random.default_rng(seed), chains),
            draws=None,
            chains=chains,
            max_evaluations=BUDGET,
            seed=seed,
            callback=note,
            progress=False,
        )
    finally:
        SurrogateTrainer.fit = fit
    last = max(fits) + 1
    return WarmUp(rounds[:last], {i: seconds for i, seconds in fits.items() if i < last}, arguments)


def until_the_freeze(found: WarmUp, mean: float, late: int, seed: int) -> float:
    """Virtual seconds, if fits enter so many rounds later; the first one is always waited for."""
    pool, first, due = Workers(WORKERS, lognormal(mean), own=0.0), min(found.fits), {}
    rng, ended = np.random.default_rng(seed), 0.0
    rounds = found.rounds + [int(np.median(found.rounds))] * late
    for i, size in enumerate(rounds):
        pool.clock = max([pool.clock, *(pool._begin(x) for x in rng.standard_normal((size, 1)))])
        pool.clock = max(pool.clock, due.pop(i, 0.0))
        if i in found.fits:
            ended = max(ended, pool.clock) + found.fits[i]  # one fit at a time
            if i == first or not late:
                pool.clock = ended
            else:
                due[i + late] = ended
    return pool.clock


def simulate(target: str, seed: int) -> list[str]:
    """Rows of the table: changes of the time per draw if fits are one and two rounds late."""
    found, lines = warm_up(target, seed), []
    known, more = sum(found.rounds), float(np.median(found.rounds))
    for mean in SECONDS:
        per_draw, until = [], []
        for late in range(3):
            until.append(np.mean([until_the_freeze(found, mean, late, i) for i in range(REPETITIONS)]))
            draws = BUDGET - known - late * more
            per_draw.append(until[-1] / draws + mean / (BUSY_AFTER * WORKERS) + OWN_AFTER)
        changes = " | ".join(f"{each / per_draw[0] - 1:+.1%}" for each in per_draw[1:])
        fits = f"{len(found.fits)}, {sum(found.fits.values()):.1f} s"
        lines.append(f"| {target} | {len(found.rounds)} | {fits} | {mean:g} s | {until[0]:.0f} s | {changes} |")
    return lines


def wall(arguments: list[bytes], threads: int) -> float:
    """Seconds of all fits, again, with so many threads."""
    before, numba.config.NUMBA_NUM_THREADS = numba.config.NUMBA_NUM_THREADS, threads
    todo = [pickle.loads(each) for each in arguments]
    began = time.perf_counter()
    try:
        with single_threaded():
            for trainer, mixture in todo:
                trainer.fit(mixture)
    finally:
        numba.config.NUMBA_NUM_THREADS = before
    return time.perf_counter() - began


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, help="compare so many threads with one")
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    parser.add_argument("--chains", type=int, default=WORKERS, help="with --threads")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.threads:
        print(f"| target | chains | fits | one thread, s | {options.threads} threads, s |")
        print("| --- | ---: | ---: | ---: | ---: |")
    else:
        print("| target | rounds | fits | price | until the freeze | time per draw, a round late | two late |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for target in options.targets:
        if not options.threads:
            print("\n".join(simulate(target, options.seed)), flush=True)
            continue
        arguments = warm_up(target, options.seed, options.chains).arguments
        one, more = (min(wall(arguments, count) for _ in range(2)) for count in (1, options.threads))
        print(f"| {target} | {options.chains} | {len(arguments)} | {one:.1f} | {more:.1f} |", flush=True)


if __name__ == "__main__":
    main()
