"""Samplers at a fixed budget of evaluations: ``python benchmarks/sampling.py --help``.

Every cell (target, method, seed) runs in a process of its own with one thread, and its row goes to
results/sampling.csv; rows that are there are not run again. Evaluations are counted by the benchmark, all of them:
starts, warm-up and burn-in too.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from metrics import quality
from targets import DENSITIES, Problem, problem

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "sampling.csv"
KEY = ("target", "method", "seed", "budget")

BARS = {"bimodal-2d": 4, "fitzhugh-nagumo": 4}  # times the best emcee move
BAR, OVERHEAD_BAR_MS, MEMORY_BAR_MB = 10, 2, 600


@dataclass(frozen=True)
class Run:
    """What a method did with its budget."""

    draws: np.ndarray  # (chains, n, d), warm-up or burn-in left out
    evaluations: int
    seconds: float  # wall time
    overhead: float  # seconds of processor time outside the log-density
    setting: str = ""
    compile_seconds: float = 0.0  # before the run, and not in its seconds
    warnings: int = 0


class Counted:
    """A log-density that counts its evaluations, and tells its own time from the sampler's.

    Overhead is processor time (of one thread, see :func:`run_cells`), so that a busy machine does not add to it.
    """

    def __init__(self, log_density):
        self.log_density, self.evaluations, self._inside = log_density, 0, 0.0
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def __call__(self, x):
        self.evaluations += 1
        start = time.process_time()
        value = self.log_density(x)
        self._inside += time.process_time() - start
        return value

    def times(self) -> tuple[float, float]:
        """Wall time since the beginning, and processor time outside the log-density."""
        return time.perf_counter() - self._wall, time.process_time() - self._processor - self._inside


# Methods: (problem, seed, budget) -> the runs of which the one with the largest ESS is reported.


def run_kmc(problem: Problem, seed: int, budget: int, sampler: str) -> list[Run]:
    """kmc with default settings, four chains. A tiny run on another target comes first, for numba to compile."""
    import kmc

    if sampler == "vanishing":
        sampler = kmc.KernelHMC(adaptation="vanishing")
    sample = partial(kmc.sample, sampler=sampler, chains=4, draws=None, seed=seed, progress=False)
    normal = DENSITIES["gaussian-10d"]()
    start = time.perf_counter()
    sample(normal, dim=10, initial=normal.sample(np.random.default_rng(seed), 4), max_evaluations=600)
    compile_seconds = time.perf_counter() - start
    initial, target = problem.initial(np.random.default_rng(seed), 4), Counted(problem.log_density)
    idata = sample(target, dim=problem.dim, initial=initial, max_evaluations=budget)
    times = target.times()
    said = json.loads(idata.posterior.attrs.get("warnings", "[]"))
    draws = idata.posterior["x"].transpose("chain", "draw", ...).values
    return [Run(draws, target.evaluations, *times, compile_seconds=compile_seconds, warnings=len(said))]


def run_emcee(problem: Problem, seed: int, budget: int, move: str) -> list[Run]:
    """One emcee move alone, with two numbers of walkers and three burn-ins. The best of six, in hindsight, flatters."""
    import emcee

    runs = []
    for walkers in (2 * problem.dim + 2, max(4 * problem.dim + 4, 20)):
        initial, target = problem.initial(np.random.default_rng(seed), walkers), Counted(problem.log_density)
        sampler = emcee.EnsembleSampler(walkers, problem.dim, target, moves=getattr(emcee.moves, move)())
        state = emcee.State(initial, random_state=np.random.RandomState(seed).get_state())
        sampler.run_mcmc(state, budget // walkers - 1)
        times = target.times()
        chain = sampler.get_chain().swapaxes(0, 1)
        for burn_in in (1 / 6, 1 / 3, 1 / 2):
            draws = chain[:, round(burn_in * chain.shape[1]) :]
            setting = f"{walkers} walkers, burn-in {burn_in:.0%}"
            runs.append(Run(draws, target.evaluations, *times, setting))
    return runs


METHODS = {
    "kmc": partial(run_kmc, sampler="kernel-hmc"),
    "kmc vanishing": partial(run_kmc, sampler="vanishing"),
    "kmc adaptive Metropolis": partial(run_kmc, sampler="adaptive-metropolis"),
    "emcee stretch": partial(run_emcee, move="StretchMove"),
    "emcee DE": partial(run_emcee, move="DEMove"),
}
EMCEE = ("emcee stretch", "emcee DE")


# Cells


def run_cell(target: str, method: str, seed: int, budget: int) -> dict:
    """One row of the CSV, computed in this process."""
    task = problem(target)
    runs = METHODS[method](task, seed, budget)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    found, run = max(((quality(run.draws, task.truth), run) for run in runs), key=lambda pair: pair[0]["ess"])
    facts = {
        "dim": task.dim,
        "evaluations": run.evaluations,
        "ess_per_1000": 1000 * found["ess"] / run.evaluations,
        "tail_ess_per_1000": 1000 * found["tail_ess"] / run.evaluations,
        "seconds": run.seconds,
        "overhead_ms": 1000 * run.overhead / run.evaluations,
        "compile_seconds": run.compile_seconds,
        "memory_mb": memory,
        "warnings": run.warnings,
        "setting": run.setting,
    }
    numbers = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in (facts | found).items()}
    return {"target": target, "method": method, "seed": seed, "budget": budget} | numbers


def run_cells(cells, jobs: int, rows: dict[tuple, dict]) -> list[str]:
    """Fill in the rows, each from a fresh process, and save after each; return what went wrong."""
    environment = os.environ | {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}

    def launch(cell):
        command = [sys.executable, __file__, "--cell", json.dumps(cell)]
        return cell, subprocess.run(command, capture_output=True, text=True, env=environment)

    failures = []
    with ThreadPoolExecutor(jobs) as pool:
        for done, future in enumerate(as_completed([pool.submit(launch, cell) for cell in cells]), 1):
            cell, process = future.result()
            if process.returncode:
                failures.append(f"{cell}\n{process.stderr}")
                outcome = "failed"
            else:
                rows[cell] = row = json.loads(process.stdout.splitlines()[-1])
                save(rows)
                outcome = f"{row['ess_per_1000']:.3g} per 1000 in {row['seconds']:.1f} s"
            print(f"[{done}/{len(cells)}] {' '.join(map(str, cell))}: {outcome}", flush=True)
    return failures


def load() -> dict[tuple, dict]:
    """The rows of the CSV by their key."""
    if not RESULTS.exists():
        return {}
    with RESULTS.open(newline="") as file:
        rows = [{name: _number(text) for name, text in row.items()} for row in csv.DictReader(file)]
    return {tuple(row[name] for name in KEY): row for row in rows}


def save(rows: dict[tuple, dict]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    scratch = RESULTS.with_suffix(".tmp")
    with scratch.open("w", newline="") as file:
        writer = csv.DictWriter(file, next(iter(rows.values())))
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))
    scratch.replace(RESULTS)


def _number(text: str):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


# Reports


def groups(rows, targets, methods, seeds, budget) -> dict[tuple[str, str], list[dict]]:
    """The rows of each (target, method) that has any."""
    found = {}
    for target, method in itertools.product(targets, methods):
        keys = [(target, method, seed, budget) for seed in range(seeds)]
        if group := [rows[key] for key in keys if key in rows]:
            found[target, method] = group
    return found


def ratio(grouped, target: str, method: str) -> float:
    """Median ESS per evaluation over that of the better emcee move; NaN where emcee was not run."""
    best = max((_median(grouped[target, move]) for move in EMCEE if (target, move) in grouped), default=float("nan"))
    return _median(grouped[target, method]) / best


def table(grouped) -> str:
    """Markdown: a line per target and method, over seeds."""
    head = "target|method|ESS per 1000 (worst seed)|× best emcee|tail ESS per 1000|mean|sd|5 %|95 %|5–95 % width|ms|MB"
    lines = [f"| {head.replace('|', ' | ')} |", "| --- | --- |" + " ---: |" * 10]
    for (target, method), group in grouped.items():
        column = {name: [row[name] for row in group] for name in group[0]}
        errors = " | ".join(f"{max(column[f'{name}_error']):.1f}" for name in ("mean", "sd", "q05", "q95"))
        lines.append(
            f"| {target} | {method} | {_median(group):.3g} ({min(column['ess_per_1000']):.3g}) "
            f"| {ratio(grouped, target, method):.2g} | {statistics.median(column['tail_ess_per_1000']):.3g} | {errors} "
            f"| {min(column['width_min']):.2f}–{max(column['width_max']):.2f} "
            f"| {statistics.median(column['overhead_ms']):.2g} | {max(column['memory_mb']):.0f} |"
        )
    return "\n".join(lines)


def short_table(grouped) -> str:
    """Markdown for the front page: a line per target, a column per method."""
    targets = dict.fromkeys(target for target, _ in grouped)
    methods = [m for m in METHODS if any((target, m) in grouped for target in targets)]
    lines = [f"| target | {' | '.join(methods)} | kmc, × best emcee |", "| --- |" + " ---: |" * (len(methods) + 1)]
    for target in targets:
        cells = []
        for method in methods:
            group = grouped.get((target, method), [])
            worst = min((row["ess_per_1000"] for row in group), default=float("nan"))
            cells.append(f"{_median(group):.3g} ({worst:.3g})" if group else "")
        times = f"{ratio(grouped, target, 'kmc'):.2g}" if (target, "kmc") in grouped else ""
        lines.append(f"| {target} | {' | '.join(cells)} | {times} |")
    return "\n".join(lines)


def bars(grouped) -> str:
    """What is asked of the default sampler, and whether it holds."""
    lines = []

    def line(holds, text):
        lines.append(f"{'pass' if holds else 'FAIL'}  {text}")

    for (target, method), group in grouped.items():
        if method != "kmc":
            continue
        column = {name: [row[name] for row in group] for name in group[0]}
        bar, times = BARS.get(target, BAR), ratio(grouped, target, method)
        line(times >= bar, f"{target}: {times:.3g} times the best emcee move (at least {bar})")
        low, high = min(column["width_min"]), max(column["width_max"])
        holds = max(column["width_excess"]) <= 0
        line(holds, f"{target}: 5–95 % widths {low:.2f}–{high:.2f} (.93–1.07, give or take three standard errors)")
        memory, overhead = max(column["memory_mb"]), max(column["overhead_ms"])
        line(memory < MEMORY_BAR_MB, f"{target}: {memory:.0f} MB (under {MEMORY_BAR_MB})")
        if column["dim"][0] == 10:
            line(overhead < OVERHEAD_BAR_MS, f"{target}: {overhead:.2f} ms an evaluation (under {OVERHEAD_BAR_MS})")
    return "\n".join(lines)


def write_between(page: Path, name: str, text: str) -> None:
    """Put the text between the page's markers of that name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = page.read_text().partition(begin)
    _, _, after = rest.partition(end)
    if not after:
        sys.exit(f"{page} has no lines {begin!r} and {end!r} to write between")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def _median(group):
    return statistics.median(row["ess_per_1000"] for row in group)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--targets", nargs="+", default=list(DENSITIES), choices=DENSITIES, metavar="TARGET")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, metavar="METHOD")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--budget", type=int, default=6000, help="evaluations, warm-up included")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time")
    parser.add_argument("--rerun", action="store_true", help="run these cells although the CSV has them")
    parser.add_argument("--readme", action="store_true", help="write the tables into both README.md")
    parser.add_argument("--cell", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        warnings.simplefilter("ignore")
        print(json.dumps(run_cell(*options.cell)))
        return
    rows = load()
    cells = itertools.product(options.targets, options.methods, range(options.seeds), [options.budget])
    failures = run_cells([cell for cell in cells if options.rerun or cell not in rows], options.jobs, rows)
    grouped = groups(rows, options.targets, METHODS, options.seeds, options.budget)
    print("", table(grouped), "", bars(grouped), *failures, sep="\n")
    if options.readme:
        write_between(HERE / "README.md", "sampling", table(grouped))
        write_between(HERE.parent / "README.md", "sampling-short", short_table(grouped))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
