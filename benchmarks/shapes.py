"""Hard shapes: right, wrong with a warning, or silently wrong: ``python benchmarks/shapes.py
--help``.

A cell is (label, target, starts, method, budget, seed); its row is appended to results/shapes.csv
at once, and existing rows are not run again, so that an interrupted sweep can be continued.
``--label`` separates versions of the code. Verdicts are those of shape_rows.py. ``--page`` writes
results/shapes.md (shape_tables.py).
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
from csv_rows import append_row, run_cells
from peers import METHODS, Counted
from shape_rows import COLUMNS, KEY, MASS, each_ess, per_1000, quality, read, verdict
from shape_tables import report, write_page
from shape_targets import FAMILIES, NAMES, SHAPES, STARTS, Shape, shape

RESULTS = Path(__file__).parent / "results" / "shapes.csv"
CHAINS = 4
FEWEST = 20  # draws per chain


# Runs


class Watched(Counted):
    """A counted log-density that stores its evaluations."""

    def __init__(self, log_density, budget):
        super().__init__(log_density, budget)
        self.x: list[np.ndarray] = []
        self.values: list[float] = []

    def __call__(self, x):
        value = super().__call__(x)
        start = time.process_time()
        self.x.append(np.array(x))
        self.values.append(value)
        self._inside += time.process_time() - start
        return value


class Bound:
    """A shape with a start policy: a problem for the peers."""

    def __init__(self, task: Shape, policy: str):
        self.task, self.policy = task, policy
        self.name, self.dim, self.noisy, self.black_box = (
            task.name,
            task.dim,
            task.noisy,
            task.black_box,
        )
        self.log_density = task.density

    def initial(self, rng, k):
        """Exactly k starts."""
        x = self.task.initial(self.policy, rng, max(k, STARTS[self.policy]))
        return x[rng.permutation(len(x))[:k]]


def run_cell(
    label: str, target: str, policy: str, method: str, budget: int, seed: int
) -> dict[str, Any]:
    """One row."""
    warnings.simplefilter("ignore")
    task = shape(target)
    row: dict[str, Any] = dict.fromkeys(COLUMNS, "")
    row |= dict(zip(KEY, (label, target, policy, method, budget, seed), strict=True))
    important = np.flatnonzero(task.truth.shares >= MASS)
    row |= {"family": task.family, "dim": task.dim, "modes": len(important), "warnings": 0}
    if method == "kmc":
        draws, facts = _run_kmc(task, policy, budget, seed, important)
    else:
        run = max(
            METHODS[method](Bound(task, policy), seed, budget),
            key=lambda run: each_ess(run.draws).min(),
        )
        draws = run.draws
        facts = {
            "evaluations": run.evaluations,
            "seconds": run.seconds,
            "own_seconds": run.overhead,
            "seen": "",
        }
        facts |= {
            "warnings": int(any(az.rhat(c) > 1.05 for c in np.moveaxis(draws, 2, 0))),
            "said": "R-hat > 1.05",
        }
    row |= facts
    row["draws"] = draws.shape[1]
    if draws.shape[1] >= FEWEST:
        row |= quality(draws, task)
    else:
        row["failure"] = f"{draws.shape[1]} draws"
    return {name: _rounded(row[name]) for name in COLUMNS}


def _run_kmc(task, policy, budget, seed, important):
    import kmc
    from kmc.model.toys import Banana

    tiny = {"dim": 2, "warmup": 100, "draws": 50, "max_evaluations": 2000, "progress": False}
    kmc.sample(Banana(2), seed=0, **tiny)  # compiles
    target = Watched(task.black_box(seed), budget)
    initial = task.initial(policy, np.random.default_rng([seed, 7]))
    target.begin()
    idata = kmc.sample(
        kmc.Model(target, task.dim, noisy=task.noisy),
        initial=initial,
        chains=CHAINS,
        draws=None,
        max_evaluations=budget,
        seed=seed,
        progress=False,
    )
    draws = idata["posterior"]["x"].values
    run = target.run(draws)
    said = json.loads(idata.attrs.get("warnings") or idata["posterior"].attrs.get("warnings", "[]"))
    seen = task.evaluated(np.array(target.x), np.array(target.values))
    return draws, {
        "evaluations": run.evaluations,
        "seconds": run.seconds,
        "own_seconds": run.overhead,
        "acceptance": float(idata["sample_stats"]["acceptance_rate"].mean()),
        "seen": len(np.intersect1d(seen, important)),
        "warnings": len(said),
        "said": " ".join(said),
    }


def _rounded(value):
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.4g}")
    return int(value) if isinstance(value, np.integer) else value


def finish(path: Path, row: dict) -> str:
    """Append a row to the CSV, and describe it."""
    append_row(path, COLUMNS, row, line_end="\r\n")
    return describe(row)


def describe(row: dict) -> str:
    """A line about a run."""
    ess = f"{per_1000(row, 'ess'):.3g} per 1000" if row["ess"] != "" else row["failure"]
    parts = [verdict(row), ess]
    if row["shares"]:
        parts.append(f"shares {row['shares']}, mode ESS {row['mode_ess']:.3g}")
    bias = (
        ""
        if row["bias"] == ""
        else f"bias {row['bias']:.2g}, widths {row['width_min']:.2g}-{row['width_max']:.2g}"
    )
    return ", ".join([*parts, bias, f"{row['own_seconds']:.3g} s"])


def _chosen(text: str) -> list[str]:
    """Targets by name, by family, or by a prefix of a name."""
    names: list[str] = []
    for part in text.split(","):
        if part in NAMES:
            found = [part]
        else:
            found = [
                n
                for n in NAMES
                if n.startswith(part) or (SHAPES[n].family if n in SHAPES else "controls") == part
            ]
        if not found:
            raise argparse.ArgumentTypeError(
                f"{part!r} is not a target, a family or the beginning of a name"
            )
        names += found
    return list(dict.fromkeys(names))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    listed = (
        f"names, beginnings of names, or families ({', '.join(FAMILIES)}), "
        "with commas between; default: all"
    )
    parser.add_argument("--targets", type=_chosen, default=list(NAMES), metavar="A,B", help=listed)
    parser.add_argument("--starts", default="cover,box,spread", help=f"of {', '.join(STARTS)}")
    parser.add_argument("--methods", default="kmc", help=f"of {', '.join(METHODS)}")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--budget", type=int, default=10_000, help="evaluations, warm-up included")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--label", default="now", help="label of this version of the code")
    parser.add_argument(
        "--rerun", action="store_true", help="run these cells even if the CSV has them"
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="run nothing: print tables from the CSV for this label",
    )
    parser.add_argument("--page", action="store_true", help="run nothing: write results/shapes.md")
    parser.add_argument("--list", action="store_true", help="print the targets and stop")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the CSV")
    options = parser.parse_args()
    if options.list:
        print(
            "\n".join(
                f"{name:24} {shape(name).family:24} {' '.join(shape(name).policies)}"
                for name in NAMES
            )
        )
        return
    if options.page:
        write_page(read(options.results))
        return
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    cells = [
        (options.label, target, policy, method, options.budget, seed)
        for seed, method, target in itertools.product(
            seeds, options.methods.split(","), options.targets
        )
        for policy in shape(target).policies
        if policy in options.starts.split(",")
    ]
    known = {tuple(row[name] for name in KEY) for row in read(options.results)}
    missing = (
        [] if options.report else [cell for cell in cells if options.rerun or cell not in known]
    )
    failures = run_cells(run_cell, missing, options.jobs, partial(finish, options.results))
    rows = [row for row in read(options.results) if row["label"] == options.label]
    if not options.report:
        rows = [row for row in rows if tuple(row[name] for name in KEY) in set(cells)]
    if rows:
        print("", report(rows), sep="\n")
    print("", *failures, sep="\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
