"""How often warnings are right: ``python benchmarks/warning_rates.py --help``.

The default sampler runs on the targets of ``sampling.py``, from the same starts. A row of
results/warnings.csv has the errors of a run by that benchmark's own measure (``metrics.py``), and
the statistics that the warnings use. Which warnings fire is computed when the tables are made, by
the limits in ``kmc/run/run_warnings.py``: limits can be changed without running anything again.
They were set on seeds below 100; the rates to report are those of other seeds.

A run is *wrong* if a mean is off by more than .1 sd or a 5-95 % width is outside .93-1.07 of the
truth, and by more than three standard errors; *off* if it is so by less, which its own effective
sample size explains; otherwise *right*.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from csv_rows import append_row, number, read_rows, run_cells
from metrics import BIAS_TOLERANCE, WIDTH_TOLERANCE, quality, wrong
from pages import head
from sampling import version
from targets import NOISY, TARGETS, problem

import kmc
from kmc.convergence import worst_rhat
from kmc.run.problems import by_code, problems_of
from kmc.run.run_statistics import FinishedRun, run_statistics
from kmc.run.run_warnings import WARNINGS
from kmc.samplers.base import MOVES

HERE = Path(__file__).parent
DEFINITIONS = """\
A run is *wrong* if a mean is off by more than 0.1 standard deviations or a 5–95 % width is outside
0.93–1.07 of the truth, by more than three standard errors; *off* if it is so by less, which its own
effective sample size explains; otherwise *right*. "Alone": no other warning fired. Which warnings
fire is computed from the stored statistics by the limits in `kmc/run/run_warnings.py`, so that
limits can be changed without running anything again.
"""
RESULTS = HERE / "results" / "warnings.csv"
KEY = ("target", "budget", "independent_runs", "seed")
FOUND = (
    "acceptance",
    "tail_acceptance",
    "stay",
    "longest_stay",
    "rhat",
    "tail_ess",
    "drift",
    "disagreement",
)
CANDIDATES = ("piece_rhat", "free_acceptance")  # not used by any warning
FACTS = (
    "surrogate_loo_sd",
    "surrogate_trend_sd",
    "surrogate_metric_spread",
    "inner_chain_length",
    "n_evaluations_warmup",
)
QUALITY = ("bias", "width_min", "width_max", "bias_excess", "width_excess", "ess")
COLUMNS = (*KEY, "dim", "draws", "seconds", *QUALITY, *FOUND, *CANDIDATES, *FACTS, "version")
CHAINS = 4


def run_cell(target: str, budget: int, independent_runs: int, seed: int) -> dict[str, Any]:
    """One row."""
    warnings.simplefilter("ignore")
    task = problem(target)
    start = time.perf_counter()
    idata = kmc.sample(
        kmc.Model(task.log_density, dim=task.dim),
        initial=task.initial(np.random.default_rng(seed), CHAINS),
        draws=None,
        max_evaluations=budget,
        chains=CHAINS,
        independent_runs=independent_runs,
        seed=seed,
        progress=False,
    )
    seconds = time.perf_counter() - start
    stats = {
        name: idata["sample_stats"][name].values
        for name in ("lp", "acceptance_rate", "accepted", "move")
    }
    x = idata["posterior"]["x"].values
    row = dict(zip(KEY, (target, budget, independent_runs, seed), strict=True))
    row |= {"dim": task.dim, "draws": x.shape[1], "seconds": seconds, "version": version("kmc")}
    row |= {name: _worst(idata.attrs.get(name)) for name in FACTS}
    if x.shape[1] >= 10:
        row |= quality(x, task.truth)
        accepted = stats["accepted"]
        row |= run_statistics(
            x,
            stats["lp"],
            stats["acceptance_rate"],
            accepted=accepted,
            independent_runs=independent_runs,
        )
        row |= _candidates(x, stats)
    return {name: _rounded(row.get(name, math.nan)) for name in COLUMNS}


def _candidates(x, stats):
    """R-hat with fifths of chains as chains, also of the log-density; acceptance of moves without a
    surrogate.
    """
    columns = np.concatenate([x, stats["lp"][:, :, None]], axis=2)
    draws = columns.shape[1] // 5
    free = np.isin(stats["move"], [MOVES.index("differential-evolution"), MOVES.index("snooker")])
    return {
        "piece_rhat": worst_rhat(columns[:, : 5 * draws].reshape(5 * CHAINS, draws, -1)),
        "free_acceptance": float(stats["acceptance_rate"][free].mean()) if free.any() else math.nan,
    }


def _worst(fact):
    """The largest of the independent runs' numbers; NaN if there is none."""
    numbers = json.loads(fact) if isinstance(fact, str) else [fact]
    return max((float(number) for number in numbers if number is not None), default=math.nan)


def _rounded(value):
    return float(f"{value:.5g}") if isinstance(value, (float, np.floating)) else value


# Rows


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of the CSV."""
    return [{name: number(text) for name, text in row.items()} for row in read_rows(path)]


def finish(path: Path, row: dict) -> str:
    """Append a row to the CSV, and describe it."""
    append_row(path, COLUMNS, row, digits=5, line_end="\r\n")
    return f"{state(row)}, {', '.join(fired(row)) or 'no warning'}, {row['seconds']:.1f} s"


# Evaluation of the rows


def state(row: dict) -> str:
    """Whether a run is "wrong", "off" or "right"."""
    if wrong(row):
        return "wrong"
    width = max(1 - row["width_min"], row["width_max"] - 1)
    return "off" if row["bias"] > BIAS_TOLERANCE or width > WIDTH_TOLERANCE else "right"


def fired(row: dict) -> list[str]:
    """Names of the warnings of a run, by the current limits."""
    # of a version that drew without a surrogate if its budget was small
    if math.isnan(row["surrogate_loo_sd"]):
        return ["no-surrogate"]
    facts = {name: row[name] for name in FACTS if not math.isnan(row[name])}
    # they were not measured
    missing = {"width_error": math.nan, "sd_error": math.nan, "burn_in": math.nan}
    found = row | {"bulk_ess": row["ess"]} | missing
    return list(
        by_code(
            problems_of(FinishedRun("kernel-hmc", found, [facts], row["draws"], None), WARNINGS)
        )
    )


def table(rows: list[dict]) -> str:
    """Markdown: for each warning and for the set, how many of the wrong, off and right runs have
    it.
    """
    states, said = [state(row) for row in rows], [fired(row) for row in rows]
    names = sorted(
        {name for names in said for name in names},
        key=lambda name: (-sum(name in names for names in said), name),
    )
    lines = [
        "| warning | of the wrong runs | of those that are off | of the right ones |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name in ("any", *names):
        hits = [bool(names) if name == "any" else name in names for names in said]
        alone = [names == [name] for names in said]
        cells = []
        for kind in ("wrong", "off", "right"):
            mine = [i for i, found in enumerate(states) if found == kind]
            count, single = sum(hits[i] for i in mine), sum(alone[i] for i in mine)
            share = f" ({count / len(mine):.0%})" if mine else ""
            cells.append(
                f"{count} of {len(mine)}{share}"
                + (f", {single} alone" if single and name != "any" else "")
            )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def by_target(rows: list[dict]) -> str:
    """Markdown: runs of each target by state, and how many of them were warned."""
    lines = [
        "| target | wrong, warned | off, warned | right, warned |",
        "| --- | ---: | ---: | ---: |",
    ]
    for target in dict.fromkeys(row["target"] for row in rows):
        cells = []
        for kind in ("wrong", "off", "right"):
            mine = [row for row in rows if row["target"] == target and state(row) == kind]
            cells.append(f"{len(mine)}, {sum(bool(fired(row)) for row in mine)}" if mine else "")
        lines.append(f"| {target} | {' | '.join(cells)} |")
    return "\n".join(lines)


def separation(rows: list[dict]) -> str:
    """Markdown: of each number, the quantiles in right runs, and how many wrong runs lie beyond the
    outer ones.
    """
    good, bad = ([row for row in rows if state(row) == kind] for kind in ("right", "wrong"))
    lines = [
        "| number | 2.5 %, median and 97.5 % of right runs | wrong runs below, above |",
        "| --- | ---: | ---: |",
    ]
    for name in (*FOUND, *CANDIDATES, *FACTS):
        values = np.array([row[name] for row in good if not math.isnan(row[name])])
        others = np.array([row[name] for row in bad if not math.isnan(row[name])])
        if len(values) and len(others):
            low, middle, high = np.quantile(values, [0.025, 0.5, 0.975])
            below, above = np.sum(others < low), np.sum(others > high)
            lines.append(
                f"| {name} | {low:.3g}, {middle:.3g}, {high:.3g} | {below}, {above} of "
                f"{len(others)} |"
            )
    return "\n".join(lines)


def report(rows: list[dict]) -> str:
    """Markdown: the tables of each budget and number of independent runs."""
    parts = []
    for budget, independent_runs in sorted(
        {(row["budget"], row["independent_runs"]) for row in rows}
    ):
        chosen = [
            row
            for row in rows
            if (row["budget"], row["independent_runs"]) == (budget, independent_runs)
        ]
        parts += [
            f"## {budget:,} evaluations, independent_runs={independent_runs}",
            table(chosen),
            by_target(chosen),
        ]
    return "\n\n".join([*parts, "## All runs", table(rows), separation(rows)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    plain = [target for target in TARGETS if target not in NOISY]
    parser.add_argument("--targets", nargs="+", default=plain, choices=plain, metavar="TARGET")
    parser.add_argument("--budget", nargs="+", type=int, default=[3000, 6000], help="evaluations")
    parser.add_argument("--independent-runs", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--seeds", nargs=2, type=int, default=[100, 110], metavar=("FIRST", "END"))
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument(
        "--rerun", action="store_true", help="run these cells although the CSV has them"
    )
    parser.add_argument(
        "--tables", action="store_true", help="run nothing: tables of all that the CSV has"
    )
    parser.add_argument("--page", action="store_true", help="write results/warnings.md")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the CSV")
    options = parser.parse_args()

    seeds = range(*options.seeds)
    cells = list(
        itertools.product(options.targets, options.budget, options.independent_runs, seeds)
    )
    cells.sort(key=lambda cell: cell[-1])  # a seed of every target, then the next
    known = {tuple(row[name] for name in KEY) for row in read(options.results)}
    missing = (
        [] if options.tables else [cell for cell in cells if options.rerun or cell not in known]
    )
    failures = run_cells(run_cell, missing, options.jobs, partial(finish, options.results))
    # the last one wins
    latest = {tuple(row[name] for name in KEY): row for row in read(options.results)}
    rows = (
        list(latest.values())
        if options.tables
        else [latest[cell] for cell in cells if cell in latest]
    )
    if rows:
        whole = report(rows)
        print("", whole, sep="\n")
        if options.page:
            command = "python benchmarks/warning_rates.py --page"
            title = head("Do warnings tell wrong runs from right ones?", command, ("warnings.csv",))
            (HERE / "results" / "warnings.md").write_text(
                f"{title}{DEFINITIONS}\n{whole}\n", encoding="utf-8"
            )
        if len(found := {row["version"] for row in rows}) > 1:
            failures.append(f"The rows come from {len(found)} versions of kmc's sources: --rerun.")
    print("", *failures, sep="\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
