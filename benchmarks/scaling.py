"""How the workers' time is used, and how long 1,000 effective samples take, by price and number of
workers.

    python benchmarks/scaling.py            # adds missing rows to results/scaling.csv, and writes
    results/scaling.md python benchmarks/scaling.py --report   # writes the page only

Time is virtual (:mod:`virtual`): kmc's own scheduler, emcee's half-steps and pocoMC's batches run
on simulated workers. Some rows are in real time, beside the same in virtual time: their workers are
threads or processes that sleep. A second table has kmc's own time per evaluation, for a vectorized
model that costs nothing, by chains and threads.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import multiprocessing
import re
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numba
import numpy as np
from metrics import bulk_ess
from peers import BURN_INS
from targets import problem
from virtual import Several, Workers, constant, lognormal

import kmc
from kmc.samplers import inner_chains

RESULTS = Path(__file__).parent / "results"
BUDGET = 20_000
EMCEE_BUDGET = 100_000  # with 20,000, 256 walkers would make 78 steps
PRICES = {"constant": constant, "lognormal": lognormal}
SECONDS = 0.001, 0.1, 1.0
WORKERS = 1, 4, 16, 64, 256
COLUMNS = (
    "sampler",
    "target",
    "price",
    "seconds",
    "workers",
    "chains",
    "seed",
    "evaluations",
    "ess",
    "wall",
    "share",
    "share_alone",
    "own",
)
KEY = COLUMNS[:7]
OWN_CELLS = ((64, 1), (256, 1), (256, 2))
OWN_COLUMNS = "chains", "threads", "wall_us", "jitted_us", "python_us"


def run_kmc(
    target: str,
    price: str,
    seconds: float,
    workers: int,
    chains: int,
    seed: int,
    *,
    budget: int = BUDGET,
) -> dict:
    """One run of kmc with its defaults."""
    model, pool = problem(target), Workers(workers, PRICES[price](seconds))
    initial = model.initial(np.random.default_rng(seed), chains)
    idata = kmc.sample(
        model.log_density,
        model.dim,
        initial,
        draws=None,
        chains=chains,
        max_evaluations=budget,
        seed=seed,
        executor=pool,
        progress=False,
    )
    draws = idata.posterior["x"].transpose("chain", "draw", ...).values
    alone = None if pool.alone_at is None else pool.share(pool.alone_at)
    found = row_of(pool, bulk_ess(draws), idata.attrs["n_evaluations"])
    return found | {"share_alone": alone}


@dataclass(frozen=True)
class Sleeping:
    """A log-density that sleeps as long as an evaluation costs; it can go to other processes."""

    log_density: Callable[[np.ndarray], float]
    price: str
    seconds: float

    def __call__(self, x: np.ndarray) -> float:
        time.sleep(PRICES[self.price](self.seconds)(x))
        return self.log_density(x)


def run_asleep(
    target: str,
    price: str,
    seconds: float,
    workers: int,
    chains: int,
    seed: int,
    *,
    processes: bool,
    budget=BUDGET,
) -> dict:
    """One run of kmc in real time: an evaluation sleeps as long as it costs."""
    model = problem(target)
    initial = model.initial(np.random.default_rng(seed), chains)
    if processes:  # forked: they share this process's memory
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("fork"))
    else:
        pool = ThreadPoolExecutor(workers)
    with pool:
        list(pool.map(time.sleep, [0.1] * workers))  # all are there
        began = time.perf_counter()
        idata = kmc.sample(
            Sleeping(model.log_density, price, seconds),
            model.dim,
            initial,
            draws=None,
            chains=chains,
            max_evaluations=budget,
            seed=seed,
            executor=pool,
            progress=False,
        )
        wall = time.perf_counter() - began
    draws = idata.posterior["x"].transpose("chain", "draw", ...).values
    facts = idata.attrs
    found = {"evaluations": facts["n_evaluations"], "ess": bulk_ess(draws), "wall": wall}
    return found | {"share": 1.0 - facts["workers_waited"]}


def run_emcee(
    target: str, price: str, seconds: float, workers: int, walkers: int, seed: int, move: str
) -> dict:
    """One run of emcee: half the walkers are evaluated together. Burn-in is chosen in hindsight."""
    pools, draws = emcee_run(target, price, seconds, walkers, seed, move)
    kept = [draws[:, round(part * draws.shape[1]) :] for part in BURN_INS]
    return row_of(pools[workers], max(map(bulk_ess, kept)), draws.shape[0] * draws.shape[1])


@cache
def emcee_run(target: str, price: str, seconds: float, walkers: int, seed: int, move: str):
    """The pools by number of workers after a run of emcee, and its draws (walkers, steps, d)."""
    import emcee

    model, pools = problem(target), pools_of(price, seconds)
    initial = model.initial(np.random.default_rng(seed), walkers)
    sampler = emcee.EnsembleSampler(
        walkers,
        model.dim,
        model.log_density,
        pool=Several([*pools.values()]),
        moves=getattr(emcee.moves, move)(),
    )
    state = emcee.State(initial, random_state=np.random.RandomState(seed).get_state())
    sampler.run_mcmc(state, EMCEE_BUDGET // walkers - 1)
    return pools, sampler.get_chain().swapaxes(0, 1)


def pools_of(price: str, seconds: float) -> dict[int, Workers]:
    """Of each number of workers."""
    return {count: Workers(count, PRICES[price](seconds)) for count in WORKERS}


def run_pocomc(
    target: str, price: str, seconds: float, workers: int, particles: int, seed: int
) -> dict:
    """One run of pocoMC: the particles are evaluated together.

    The prior that it needs is normal, around the true mean and three times as wide as the density.
    """
    pools, weights, calls = pocomc_run(target, price, seconds, particles, seed)
    return row_of(pools[workers], float(np.sum(weights)) ** 2 / float(np.sum(weights**2)), calls)


@cache
def pocomc_run(target: str, price: str, seconds: float, particles: int, seed: int):
    """The pools of each number of workers, after a run of pocoMC, its weights, and the number of
    its evaluations.
    """
    import pocomc
    from scipy.stats import norm

    model, pools = problem(target), pools_of(price, seconds)
    mean, sd = model.truth.mean, 3.0 * model.truth.sd

    def log_likelihood(x: np.ndarray) -> float:
        return model.log_density(x) + 0.5 * float(np.sum(((x - mean) / sd) ** 2)) + log_volume

    log_volume = float(np.sum(np.log(sd))) + 0.5 * model.dim * math.log(2.0 * math.pi)
    prior = pocomc.Prior([norm(*each) for each in zip(mean, sd, strict=True)])
    pool = Several([*pools.values()])
    sampler = pocomc.Sampler(
        prior,
        log_likelihood,
        n_effective=2 * particles,
        n_active=particles,
        pool=pool,
        random_state=seed,
    )
    sampler.run(n_total=1000, n_evidence=0, progress=False)
    return pools, sampler.posterior()[1], sampler.calls


def run_own(chains: int, threads: int, sweeps: int = 100) -> dict:
    """kmc's own time per evaluation after the freeze, in microseconds: wall time, jitted loops, and
    Python.
    """
    precision = np.eye(5) + 0.5

    def log_density(x: np.ndarray) -> np.ndarray:
        return -0.5 * np.einsum("ij,jk,ik->i", x, precision, x) - 0.05 * np.sum(x**4, axis=1)

    spent, marks = [0.0], []
    jitted, numba.config.NUMBA_NUM_THREADS = inner_chains._some_inner_chains, threads

    def timed(*args) -> None:
        began = time.thread_time()
        jitted(*args)
        spent.append(time.thread_time() - began)

    def mark(progress) -> None:
        if progress.phase == "sampling":
            marks.append(
                (progress.n_evaluations, time.perf_counter(), time.process_time(), sum(spent))
            )

    inner_chains._some_inner_chains = timed
    try:
        kmc.sample(
            kmc.Model(log_density, dim=5, vectorized=True),
            initial=2.0 * np.random.default_rng(1).standard_normal((chains, 5)),
            chains=chains,
            draws=sweeps,
            max_evaluations=4000 + 12 * chains + sweeps * chains,
            seed=1,
            callback=mark,
            progress=False,
        )
    finally:
        inner_chains._some_inner_chains = jitted
    evaluations, wall, used, loops = (
        1e6 * (last - first) for first, last in zip(marks[0], marks[-1], strict=True)
    )
    evaluations /= 1e6
    found = wall / evaluations, loops / evaluations, (used - loops) / evaluations
    return dict(zip(OWN_COLUMNS, (chains, threads, *found), strict=True))


def row_of(pool: Workers, ess: float, evaluations: int) -> dict:
    """What a run has cost and given."""
    return {
        "evaluations": evaluations,
        "ess": ess,
        "wall": pool.clock,
        "share": pool.share(),
        "own": pool.own,
    }


def cells():
    """Settings of the rows, the most important first."""
    for seed, target in itertools.product((1, 2, 3), ("logistic", "banana-2d", "fitzhugh-nagumo")):
        yield "kmc", target, "lognormal", 1.0, 64, 64, seed
    for target in ("logistic", "banana-2d", "fitzhugh-nagumo", "ring"):
        yield "pocoMC", target, "lognormal", 1.0, 64, 256, 1
    for workers in WORKERS:
        for sampler in ("pocoMC", "emcee DEMove", "kmc"):
            chains = max(workers, 4) if sampler == "kmc" else 256
            yield sampler, "logistic", "lognormal", 1.0, workers, chains, 1
    for sampler in ("kmc, asleep", "kmc, asleep in processes", "kmc"):
        yield sampler, "logistic", "lognormal", 0.1, 64, 64, 1
    for price, seconds in itertools.product(("lognormal", "constant"), reversed(SECONDS)):
        yield "kmc", "logistic", price, seconds, 64, 64, 1
    yield "kmc", "ring", "lognormal", 1.0, 64, 64, 1
    for move, walkers in (
        ("DEMove", 512),
        ("DEMove", 256),
        ("DEMove", 128),
        ("DEMove", 64),
        ("StretchMove", 256),
    ):
        for target in ("logistic", "banana-2d", "fitzhugh-nagumo", "ring"):
            yield f"emcee {move}", target, "lognormal", 1.0, 64, walkers, 1


def run(cell) -> dict:
    """The row of a cell."""
    sampler, *setting = cell
    if sampler.startswith("kmc, asleep"):
        found = run_asleep(*setting, processes=sampler.endswith("processes"))
    elif sampler == "pocoMC":
        found = run_pocomc(*setting)
    elif sampler == "kmc":
        found = run_kmc(*setting)
    else:
        found = run_emcee(*setting, move=sampler.split()[1])
    return dict(zip(KEY, cell, strict=True)) | found


def load(path: Path) -> list[dict]:
    """All rows, in the order of :func:`cells`; numbers are numbers."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = [
            {name: _number(value) for name, value in row.items()} for row in csv.DictReader(file)
        ]
    order = list(dict.fromkeys(cells()))
    return sorted(rows, key=lambda row: order.index(tuple(row[name] for name in KEY)))


def save(path: Path, rows: list[dict]) -> None:
    """Write all rows."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows([{name: _short(row.get(name, "")) for name in COLUMNS} for row in rows])


def table(rows: list[dict]) -> str:
    """In Markdown."""
    head = (
        "| sampler | target | price | mean, s | workers | chains | seed | busy after the freeze | "
        "busy | own seconds | virtual seconds to 1,000 effective samples |"
    )
    lines = [head, "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for row in rows:
        alone = f"{row['share_alone']:.0%}" if row.get("share_alone", "") != "" else ""
        setting = " | ".join(str(row[name]) for name in KEY)
        own = f"{row['own']:.0f}" if row.get("own", "") != "" else ""
        seconds = 1000 * row["wall"] / row["ess"]
        seconds = f"{seconds:.3g}" if seconds < 100 else f"{seconds:,.0f}"
        lines.append(f"| {setting} | {alone} | {row['share']:.0%} | {own} | {seconds} |")
    return "\n".join(lines)


def workers_table(rows: list[dict]) -> str:
    """Seconds to 1,000 effective samples, and parallel efficiency, by number of workers."""
    lines = [
        "| sampler | "
        + " | ".join(f"{count} workers" if count > 1 else "1 worker" for count in WORKERS)
        + " |",
        "| --- |" + " ---: |" * len(WORKERS),
    ]
    for sampler in ("kmc", "emcee DEMove", "pocoMC"):
        seconds = {}
        for row in rows:
            setting = row["sampler"], row["target"], row["price"], row["seconds"]
            chains = max(row["workers"], 4) if sampler == "kmc" else 256
            if (
                setting == (sampler, "logistic", "lognormal", 1)
                and row["chains"] == chains
                and row["seed"] == 1
            ):
                seconds[row["workers"]] = 1000 * row["wall"] / row["ess"]
        if not seconds:
            continue
        entries = [f"{seconds[count]:,.0f}" if count in seconds else "" for count in WORKERS]
        if 1 in seconds:
            shares = [
                f" ({seconds[1] / count / seconds[count]:.0%})" if count in seconds else ""
                for count in WORKERS
            ]
            entries = [entry + share for entry, share in zip(entries, shares, strict=True)]
        lines.append(f"| {sampler} | " + " | ".join(entries) + " |")
    return "\n".join(lines)


def own_table(rows: list[dict]) -> str:
    """In Markdown."""
    lines = [
        "| chains | threads | wall | jitted loop | Python |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        lines.append("| " + " | ".join(f"{row[name]:.0f}" for name in OWN_COLUMNS) + " |")
    return "\n".join(lines)


def write_page(rows: list[dict], own: list[dict]) -> None:
    """The page of results."""
    text = f"""# Workers in virtual time

`python benchmarks/scaling.py`: {BUDGET:,} evaluations on simulated workers. Prices are constant or lognormal (sd 1 of
the logarithm); processor time that a sampler takes itself is added to the clock, as measured on two cores that were
shared with other work. "Busy" is the part of the workers' time that evaluations take. emcee's chains are its
walkers, of which half are evaluated at once; it has {EMCEE_BUDGET:,} evaluations, and burn-in is chosen in hindsight.
pocoMC's chains are its particles; it ends when it has 1,000 effective samples by their weights, and has a normal prior
around the true mean, three times as wide as the density. "kmc, asleep" is in real time: 64 threads or processes sleep
as long as evaluations cost. Rows without own seconds are of an earlier version.

{table(rows)}

## Workers

Virtual seconds to 1,000 effective samples on the logistic regression, prices lognormal with a mean of 1 s, and parallel
efficiency: the time with one worker over that with so many, for each of them. kmc has a chain for each worker, four at
least, emcee and pocoMC 256 walkers or particles.

{workers_table(rows)}

## Own time

kmc's own time per evaluation after the freeze, in microseconds, for a vectorized model that costs next to nothing
(d = 5), on two cores that were busy with other work: wall time, processor time in the jitted loop over the chains'
inner chains, and processor time in Python, the model included.

{own_table(own)}
"""  # noqa: E501
    (RESULTS / "scaling.md").write_text(text, encoding="utf-8")


def _number(text: str):
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def _short(value):
    return f"{value:.5g}" if isinstance(value, float) else value


def load_own(path: Path) -> list[dict]:
    """The rows about kmc's own time."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            {name: _number(value) for name, value in row.items()} for row in csv.DictReader(file)
        ]


def write_own(path: Path) -> None:
    """Measure kmc's own time."""
    run_own(64, 1)  # compiles
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, OWN_COLUMNS, lineterminator="\n")
        writer.writeheader()
        for cell in OWN_CELLS:
            row = run_own(*cell)
            writer.writerow({name: _short(value) for name, value in row.items()})
            print(row, flush=True)


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true", help="write the page only")
    parser.add_argument("--own", action="store_true", help="measure kmc's own time only")
    parser.add_argument("--most", type=int, default=1000, help="rows to add at most")
    parser.add_argument(
        "--samplers", default="", help="only those whose name this matches, a regular expression"
    )
    parser.add_argument("--targets", default="", help="the same for targets")
    options = parser.parse_args()
    path, own = RESULTS / "scaling.csv", RESULTS / "scaling_own.csv"
    rows = load(path)
    known = {tuple(row[name] for name in KEY) for row in rows}
    if options.own:
        write_own(own)
    only_page = options.report or options.own
    chosen = [cell for cell in dict.fromkeys(cells()) if re.search(options.samplers, cell[0])]
    chosen = [cell for cell in chosen if re.search(options.targets, cell[1]) and cell not in known]
    missing = [] if only_page else chosen[: options.most]
    if any(cell[0].startswith("kmc") for cell in missing):
        run_kmc("banana-2d", "constant", 0.0, 4, 4, 0, budget=1500)  # compiles
        run_kmc("banana-2d", "constant", 0.0, 64, 64, 0, budget=1500)
    for cell in missing:
        rows.append(run(cell))
        save(path, rows)
        print(rows[-1], flush=True)
    write_page(load(path), load_own(own))


if __name__ == "__main__":
    main()
