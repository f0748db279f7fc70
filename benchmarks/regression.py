"""Is the sampler as efficient as it was? ``python benchmarks/regression.py --help``.

Effective samples per evaluation of the default sampler on five targets, five seeds each, at 2,000
evaluations. The median over seeds is compared with that in results/regression.csv; the exit code is
1 if one fell by a fifth or more. It takes about three minutes of one core. A change that is meant
to cost efficiency is accepted with ``--accept``, which writes the file: say why in the commit.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sampling import Store, run_cells

BASELINE = Path(__file__).parent / "results" / "regression.csv"
TARGETS = ("banana-2d", "gaussian-10d", "ring", "logistic", "fitzhugh-nagumo")
SEEDS, BUDGET = 5, 2000
LEAST = 0.8  # of the former median


def measured(jobs: int) -> dict[str, float]:
    """Median ESS per 1,000 evaluations of each target; SystemExit if a run failed."""
    cells = [(target, "kmc", seed, BUDGET) for target in TARGETS for seed in range(SEEDS)]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "rows.csv")
        failures = run_cells(cells, jobs, store)
    if failures:
        sys.exit("\n".join(failures))
    return {
        target: statistics.median(
            store.rows[target, "kmc", seed, BUDGET]["ess_per_1000"] for seed in range(SEEDS)
        )
        for target in TARGETS
    }


def read(path: Path) -> dict[str, float]:
    """The medians of a file."""
    with path.open(newline="") as file:
        return {row["target"]: float(row["ess_per_1000"]) for row in csv.DictReader(file)}


def write(path: Path, medians: Mapping[str, float]) -> None:
    """Write a file that :func:`read` reads."""
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("target", "ess_per_1000"))
        table.writerows((target, f"{value:.4g}") for target, value in medians.items())


def compared(before: Mapping[str, float], now: Mapping[str, float]) -> tuple[str, list[str]]:
    """A table, and the targets whose median fell by a fifth or more, or that the file lacks."""
    lines, fallen = ["| target | before | now | ratio |", "| --- | ---: | ---: | ---: |"], []
    for target, value in now.items():
        ratio = value / before[target] if target in before else float("nan")
        lines.append(
            f"| {target} | {before.get(target, float('nan')):.0f} | {value:.0f} | {ratio:.2f} |"
        )
        if not ratio > LEAST:
            fallen.append(target)
    return "\n".join(lines), fallen


def main(arguments: list[str] | None = None) -> int:
    """Measure, and compare or accept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument(
        "--accept", action="store_true", help="write the medians to results/regression.csv"
    )
    options = parser.parse_args(arguments)
    now = measured(options.jobs)
    if options.accept:
        write(BASELINE, now)
    text, fallen = compared(read(BASELINE), now)
    print(text)
    if fallen:
        print(f"Fallen by a fifth or more: {', '.join(fallen)}. If that is meant: --accept.")
    return int(bool(fallen))


if __name__ == "__main__":
    sys.exit(main())
