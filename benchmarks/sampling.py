"""Samplers at fixed budgets of evaluations: ``python benchmarks/sampling.py --help``.

A cell is (target, method, seed, budget). Cells that differ only by their seed run one after the
other in a separate process with one thread, and each row is appended to results/sampling.csv as
soon as it is ready; existing rows are not run again. The benchmark counts all evaluations,
including starts, warm-up and burn-in.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import itertools
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from importlib import metadata
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from csv_rows import number
from metrics import bars, best_peer, bulk_ess, quality, summarize, times
from pages import head, write_between
from peers import EMCEE, METHODS, NO_NOISE, OURS, PEERS, Unavailable
from targets import NOISY, TARGETS, problem

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "sampling.csv"
PICTURES = HERE / "pictures"
DEFINITIONS = """\
- **Budget**: every evaluation of the true log-density counts: start points, warm-up, burn-in.
- **Starts**: the true mean plus two standard deviations of independent normal noise, drawn anew for every seed.
- **Methods**: kmc runs at its defaults on four chains. emcee runs one move at a time with 2d + 2 and with
  max(4d + 4, 20) walkers, and discards a sixth, a third or a half; the best of these six is shown, chosen by its
  effective sample size in hindsight, which flatters it. `peers.py` has the settings of the others.
- **ESS per 1,000**: the smallest of ArviZ's bulk ESS over the coordinates, per 1,000 evaluations: the median over seeds
  (worst seed in parentheses). "×": the ratio of the medians.
- **mean, sd, 5 %, 95 %**: the largest error over coordinates and seeds, in units of the standard errors that the run's
  own ESS implies (`metrics.py`).
- **wrong**: a mean off by more than 0.1 standard deviations or a 5–95 % width outside 0.93–1.07 of the truth, by more
  than three standard errors.

The truth comes from exact draws if a target has them, otherwise from quadrature or importance sampling
(`python benchmarks/references.py`).
"""  # noqa: E501
KEY = ("target", "method", "seed", "budget")
COLUMNS = (
    *KEY,
    *(
        "dim",
        "evaluations",
        "ess_per_1000",
        "tail_ess_per_1000",
        "seconds",
        "overhead_ms",
        "compile_seconds",
    ),
    *("memory_mb", "warnings", "setting", "ess", "tail_ess", "rhat"),
    *("mean_error", "sd_error", "q05_error", "q95_error"),
    *(
        "bias",
        "sd_ratio_error",
        "q05_shift",
        "q95_shift",
        "width_min",
        "width_max",
        "bias_excess",
        "width_excess",
    ),
    *("version", "said"),
)

DEFAULT_METHODS = ("kmc", "kmc adaptive Metropolis", "emcee stretch", "emcee DE", "zeus")
FRONT_TARGETS = (
    "banana-2d",
    "gaussian-10d",
    "ring",
    "bimodal-2d",
    "logistic",
    "fitzhugh-nagumo",
    "demo",
)
FRONT_METHODS = ("kmc", "kmc adaptive Metropolis", "emcee stretch", "emcee DE")
FRONT_SEEDS, FRONT_BUDGET = 3, 6000


# Cells


def run_cell(target: str, method: str, seed: int, budget: int) -> dict:
    """One row of the CSV, computed in this process."""
    task = problem(target)
    runs = METHODS[method](task, seed, budget)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1 << 20 if sys.platform == "darwin" else 1 << 10
    )
    run = max(runs, key=lambda run: bulk_ess(run.draws)) if len(runs) > 1 else runs[0]
    found = quality(run.draws, task.truth)
    facts = {
        "dim": task.dim,
        "evaluations": run.evaluations,
        "ess_per_1000": 1000 * found["ess"] / run.evaluations,
        "tail_ess_per_1000": 1000 * found["tail_ess"] / run.evaluations,
        "seconds": run.seconds,
        "overhead_ms": 1000 * run.overhead / run.evaluations,
        "compile_seconds": run.compile_seconds,
        "memory_mb": memory,
        "warnings": len(run.warnings),
        "setting": run.setting,
        "version": version(method),
        "said": " ".join(run.warnings),
    }
    numbers = {
        k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in (facts | found).items()
    }
    return {"target": target, "method": method, "seed": seed, "budget": budget} | numbers


@cache
def version(method: str) -> str:
    """Version of the peer; for kmc a part of a hash of its sources, which change more often than
    its version.
    """
    package = method.partition(" ")[0]
    if package != "kmc":
        return metadata.version({"zeus": "zeus-mcmc"}.get(package, package))
    import kmc

    sources = sorted(path for folder in kmc.__path__ for path in Path(folder).rglob("*.py"))
    return (
        "sha1 " + hashlib.sha1(b"".join(source.read_bytes() for source in sources)).hexdigest()[:10]
    )


def run_here(target: str, method: str, budget: int, seeds: list[int]) -> None:
    """Run the cells of one process: print a line of JSON for each."""
    warnings.simplefilter("ignore")
    for seed in seeds:
        said: dict[str, Any]
        try:
            said = {"row": run_cell(target, method, seed, budget)}
        except Unavailable as reason:
            said = {"unavailable": str(reason)}
        # the parent reports it as a failure of this seed, and the other seeds are run
        except Exception:
            said = {"seed": seed, "error": traceback.format_exc()}
        print("\n" + json.dumps(said), flush=True)


def run_cells(cells, jobs: int, store: Store) -> list[str]:
    """Run them, with a process for each (target, method, budget), store each row, and return
    failures.
    """
    batches: dict[tuple, list[int]] = {}
    for target, method, seed, budget in cells:
        batches.setdefault((target, method, budget), []).append(seed)
    environment = os.environ | {
        f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")
    }
    failures, done = [], itertools.count(1)
    unavailable: dict[tuple, bool] = {}

    def launch(batch, seeds):
        command = [sys.executable, __file__, "--cells", json.dumps([*batch, seeds])]
        name, heard = " ".join(map(str, batch)), 0
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
            )
            for line in process.stdout or ():
                if not line.startswith('{"'):
                    continue
                said, heard = json.loads(line), heard + 1
                if "row" in said:
                    row = said["row"]
                    store.append(row)
                    outcome = f"{row['ess_per_1000']:.3g} per 1000 in {row['seconds']:.1f} s"
                elif "unavailable" in said:
                    outcome = f"not available: {said['unavailable']}"
                    unavailable[batch[1], said["unavailable"]] = True
                else:
                    outcome = "failed"
                    failures.append(f"{name}, seed {said['seed']}\n{said['error']}")
                print(f"[{next(done)}/{len(cells)}] {name}: {outcome}", flush=True)
            if process.wait() or heard < len(seeds):
                errors.seek(0)
                failures.append(
                    f"{name}: ended after {heard} of {len(seeds)} seeds\n{errors.read()[-2000:]}"
                )

    with ThreadPoolExecutor(jobs) as pool:
        for future in as_completed(
            [pool.submit(launch, batch, seeds) for batch, seeds in batches.items()]
        ):
            future.result()
    return [f"{method}: not available: {reason}" for method, reason in unavailable] + failures


class Store:
    """The rows of a CSV by their key. Rows of an older format lack columns and count as not run."""

    def __init__(self, path: Path):
        self.path, self.rows = path, {}
        self._columns: tuple[str, ...] = ()
        self._lock = Lock()  # several threads append rows
        if not path.exists():
            return
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            for texts in reader:
                row = {name: number(texts.get(name) or "") for name in COLUMNS}
                self.rows[tuple(row[name] for name in KEY)] = row
            self._columns = tuple(reader.fieldnames or ())

    def append(self, row: dict) -> None:
        """Add a row, also to the file."""
        with self._lock:
            self._append(row)

    def _append(self, row: dict) -> None:
        key = tuple(row[name] for name in KEY)
        new = key not in self.rows
        self.rows[key] = row
        if new and self._columns == COLUMNS:
            with self.path.open("a", newline="") as file:
                csv.DictWriter(file, COLUMNS).writerow(row)
            return
        # a new file, one of an older format, or a row again
        self.path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.path.with_suffix(".tmp")
        with scratch.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(self.rows.values())
        scratch.replace(self.path)
        self._columns = COLUMNS

    def has(self, cell: tuple) -> bool:
        return cell in self.rows and self.rows[cell]["bias_excess"] != ""

    def summaries(
        self, targets, methods, seeds, budget, old: bool = False
    ) -> dict[tuple[str, str], dict]:
        """Summaries of each (target, method) that has rows: `seeds` is a function of the method."""
        found = {}
        for target, method in itertools.product(targets, methods):
            cells = [(target, method, seed, budget) for seed in range(seeds(method))]
            group = [self.rows[cell] for cell in cells if self.has(cell)]
            if old and not group:
                group = [self.rows[cell] for cell in cells if cell in self.rows]
            if group:
                found[target, method] = summarize(group)
        return found


# The plan: how long a run will take

OVERHEAD_MS = {  # of one evaluation, if no row has it
    "kmc": 0.35,
    "kmc adaptive Metropolis": 0.09,
    "kmc adaptive Langevin": 0.4,
    "kmc delayed acceptance": 0.5,
    "kmc Kameleon": 0.2,
    "kmc parallel tempering": 0.15,
    "kmc random walk": 0.1,
    "kmc ScoreHMC": 0.5,
    "emcee stretch": 0.009,
    "emcee DE": 0.011,
    "zeus": 0.008,
    "pints ACMC": 0.055,
    "pints DREAM": 0.055,
    "pymc DEMetropolisZ": 0.045,
}
LEARNING_SECONDS = 3.5  # of a kmc run; some targets need this many times as much:
HARD = {"funnel-5d-sd3": 9, "gaussian-50d": 2.5, "eight-schools": 2.5, "twisted-gaussian-10d": 4}
START_SECONDS = {"kmc": 4, "pymc": 10}  # of a process, by package
SCORE_SECONDS = 0.7  # of a cell


def plan(cells, jobs: int, store: Store) -> str:
    """Time for these cells, by method and budget."""
    price = {target: _price(target) for target in {cell[0] for cell in cells}}
    groups: dict[tuple, list] = {}
    for cell in cells:
        groups.setdefault((cell[1], cell[3]), []).append(cell)
    lines, total = (
        ["| method | budget | cells | minutes of one core |", "| --- | ---: | ---: | ---: |"],
        0.0,
    )
    for (method, budget), group in groups.items():
        batches = len({cell[0] for cell in group})
        seconds = batches * START_SECONDS.get(method.partition(" ")[0], 3) + SCORE_SECONDS * len(
            group
        )
        seconds += sum(_cell_seconds(store, price, *cell) for cell in group)
        total += seconds
        lines.append(f"| {method} | {budget} | {len(group)} | {seconds / 60:.1f} |")
    lines.append(
        f"\nAbout {total / 60 / jobs:.0f} minutes with --jobs {jobs}, on cores that nothing else "
        f"uses."
    )
    return "\n".join(lines)


def _cell_seconds(store, price, target, method, _, budget):
    cells = [(target, method, other, budget) for other in range(10)]
    same = [store.rows[cell]["overhead_ms"] for cell in cells if cell in store.rows]
    runs = 2 if method in (*EMCEE, "zeus") else 1  # ensembles run in both sizes
    own = budget * (statistics.median(same) if same else OVERHEAD_MS[method]) / 1000
    if method == "kmc" and not same:
        own = HARD.get(target, 1) * (own + LEARNING_SECONDS)
    return runs * (own + budget * price[target])


def _price(target) -> float:
    """Seconds of one evaluation."""
    task = problem(target)
    points = task.initial(np.random.default_rng(0), 100)
    start = time.perf_counter()
    for x in points:
        task.log_density(x)
    return (time.perf_counter() - start) / len(points)


# Reports


def table(found) -> str:
    """Markdown: a line per target and method, over seeds."""
    head = (
        "target|method|ESS per 1000 (worst seed)|× best emcee|"
        "tail ESS per 1000|mean|sd|5 %|95 %|5–95 % width|ms|MB"
    )
    lines = [f"| {head.replace('|', ' | ')} |", "| --- | --- |" + " ---: |" * 10]
    for (target, method), s in found.items():
        best = best_peer(found, target, EMCEE)
        ratio = s["ess_per_1000"] / best["ess_per_1000"] if best else float("nan")
        errors = " | ".join(f"{s[f'{name}_error']:.1f}" for name in ("mean", "sd", "q05", "q95"))
        lines.append(
            f"| {target} | {method} | {s['ess_per_1000']:.3g} ({s['worst_ess_per_1000']:.3g}) | "
            f"{ratio:.2g} | {s['tail_ess_per_1000']:.3g} | {errors} | "
            f"{s['width_min']:.2f}–{s['width_max']:.2f} | {s['overhead_ms']:.2g} | "
            f"{s['memory_mb']:.0f} |"
        )
    return "\n".join(lines)


def methods_table(found) -> str:
    """Markdown: a line per target, a column per method, median ESS per 1000 (worst seed)."""
    targets, there = (dict.fromkeys(names) for names in zip(*found, strict=True))
    methods = [method for method in METHODS if method in there]
    lines = [
        f"| target | {' | '.join(methods)} | kmc, × best emcee |",
        "| --- |" + " ---: |" * (len(methods) + 1),
    ]
    for target in targets:
        row = [found.get((target, method)) for method in methods]
        cells = [
            f"{s['ess_per_1000']:.3g} ({s['worst_ess_per_1000']:.3g})" if s else "" for s in row
        ]
        lines.append(
            f"| {target} | {' | '.join(cells)} | {_known(times(found, target, EMCEE), 2)} |"
        )
    return "\n".join(lines)


def overheads(found) -> str:
    """Return a sentence about the processor time per evaluation outside the log-density, over
    targets.
    """

    def span(*methods):
        own = [s["overhead_ms"] for (_, method), s in found.items() if method in methods]
        return f"{min(own):.2g} to {max(own):.2g} ms"

    return f"kmc adds {span('kmc')} of processor time to an evaluation, emcee {span(*EMCEE)}."


def safety_table(found) -> str:
    """Markdown: a line per target, for the default sampler."""
    head = (
        "target|seeds|× best peer|best peer|× best right peer|mean|sd|5 %|95 %|mean, sd units|5–95 "
        "% width|wrong, unwarned|wrong, warned|right, warned|worst seed|s"
    )
    lines = [f"| {head.replace('|', ' | ')} |", "| --- |" + " ---: |" * head.count("|")]
    for (target, method), s in found.items():
        if method != "kmc":
            continue
        best = best_peer(found, target, PEERS)
        errors = " | ".join(f"{s[f'{name}_error']:.1f}" for name in ("mean", "sd", "q05", "q95"))
        lines.append(
            f"| {target} | {s['seeds']} | {_known(times(found, target, PEERS))} | "
            f"{best['method'] if best else ''} | {_known(times(found, target, PEERS, right=True))} "
            f"| {errors} | {s['bias']:.2g} | {s['width_min']:.2f}–{s['width_max']:.2f} | "
            f"{s['wrong_unwarned']} | {s['wrong_warned']} | {s['right_warned']} | "
            f"{s['worst_seed']} | {s['seconds']:.3g} |"
        )
    return "\n".join(lines)


def _known(ratio: float, digits: int = 3) -> str:
    return "" if math.isnan(ratio) else f"{ratio:.{digits}g}"


def report(by_budget: dict[int, dict]) -> str:
    """Markdown: tables and bars of every budget."""
    parts = []
    for budget, found in by_budget.items():
        asked = "\n".join(bars(found, budget, PEERS, NOISY))
        parts += [
            f"## {budget:,} evaluations",
            methods_table(found),
            safety_table(found),
            f"```text\n{asked}\n```",
        ]
    return "\n\n".join(parts)


def versions(store: Store) -> list[str]:
    """A sentence if rows of several versions of kmc are in one table."""
    found = {row["version"] for row in store.rows.values() if row["method"] == "kmc"}
    return (
        [f"The rows of kmc come from {len(found)} versions of its sources: --rerun."]
        if len(found) > 1
        else []
    )


def _options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--targets", nargs="+", default=list(TARGETS), choices=TARGETS, metavar="TARGET"
    )
    methods = ", ".join(METHODS)
    parser.add_argument(
        "--methods",
        nargs="+",
        default=list(DEFAULT_METHODS),
        choices=[*METHODS, "all"],
        metavar="METHOD",
        help=methods,
    )
    parser.add_argument(
        "--budget",
        nargs="+",
        type=int,
        default=[FRONT_BUDGET],
        help="evaluations, warm-up included",
    )
    parser.add_argument("--seeds", type=int, default=FRONT_SEEDS, help="number of seeds for kmc")
    parser.add_argument(
        "--peer-seeds", type=int, default=3, help="number of seeds for each of the others"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument(
        "--rerun", action="store_true", help="run these cells even if the CSV has them"
    )
    parser.add_argument(
        "--plan", action="store_true", help="print how long the run would take, and stop"
    )
    parser.add_argument(
        "--tables", action="store_true", help="run nothing: print tables from the CSV"
    )
    parser.add_argument(
        "--front", action="store_true", help="run only the cells of the front page's table"
    )
    parser.add_argument(
        "--readme",
        action="store_true",
        help="write the table into README.md and two pages of docs/",
    )
    parser.add_argument("--plots", action="store_true", help="draw the pictures")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the CSV")
    parser.add_argument("--cells", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if "all" in options.methods:
        options.methods = list(METHODS)
    return options


def main() -> None:
    options = _options()
    if options.cells:
        run_here(*options.cells)
        return

    def seeds(method):
        return options.seeds if method in OURS else options.peer_seeds

    store = Store(options.results)
    asked = options.budget, options.methods, options.targets
    if options.front:
        asked = [FRONT_BUDGET], FRONT_METHODS, FRONT_TARGETS
    cells = [
        (target, method, seed, budget)
        for budget, method, target in itertools.product(*asked)
        if not (target in NOISY and method in NO_NOISE)
        for seed in range(seeds(method))
        if options.rerun or not store.has((target, method, seed, budget))
    ]
    if options.plan:
        print(plan(cells, options.jobs, store))
        return
    failures = [] if options.tables else run_cells(cells, options.jobs, store)
    by_budget = {
        b: store.summaries(options.targets, options.methods, seeds, b) for b in options.budget
    }
    by_budget = {budget: found for budget, found in by_budget.items() if found}
    if by_budget:
        whole = report(by_budget)
        title = head(
            "How many effective samples does an evaluation give?",
            "python benchmarks/sampling.py",
            ("sampling.csv",),
        )
        options.results.with_suffix(".md").write_text(f"{title}{DEFINITIONS}\n{whole}\n")
        print("", whole, *versions(store), sep="\n")
    print("", *failures, sep="\n")
    if options.plots:
        import sampling_plots

        sampling_plots.draw(by_budget, PICTURES)
    if options.readme:
        front = store.summaries(
            FRONT_TARGETS, FRONT_METHODS, lambda _: FRONT_SEEDS, FRONT_BUDGET, old=True
        )
        for page in ("README.md", "docs/index.md", "docs/choose.md", "docs/paper.md"):
            write_between(
                HERE.parent / page,
                "sampling-short",
                f"{methods_table(front)}\n\n{overheads(front)}",
            )
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
