"""Which sampler: kmc's samplers on the same targets, ``python benchmarks/which_sampler.py``.

Runs the cells (target, sampler, seed, budget) that ``results/which_sampler.csv`` lacks, all in this
process, and writes the table in ``docs/which-sampler.md``. ``--targets``, ``--samplers``,
``--seeds`` and ``--budgets`` select cells; ``--report`` runs none. Start points, truth and
definitions are those of ``sampling.py``.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import warnings
from pathlib import Path

from csv_rows import read_rows
from metrics import wrong
from pages import write_between
from peers import PEERS
from sampling import run_cell
from targets import TARGETS

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "which_sampler.csv"
SAMPLING = HERE / "results" / "sampling.csv"
PAGE = HERE.parent / "docs" / "which-sampler.md"
KEY = ("target", "sampler", "seed", "budget")
COLUMNS = (
    *KEY,
    *("ess_per_1000", "rhat", "warnings", "overhead_ms", "version"),
    *("bias", "sd_ratio_error", "width_min", "width_max", "bias_excess", "width_excess"),
)
METHODS = {
    "kernel-hmc": "kmc",
    "adaptive-metropolis": "kmc adaptive Metropolis",
    "adaptive-langevin": "kmc adaptive Langevin",
    "delayed-acceptance": "kmc delayed acceptance",
    "kameleon": "kmc Kameleon",
    "tempered": "kmc parallel tempering",
    "random-walk": "kmc random walk",
    "ScoreHMC": "kmc ScoreHMC",
}
"""By name in ``kmc.sample``, or by class if there is none, the method of ``peers.py``."""
SEEDS = 3
DEFAULT_TARGETS = (
    "banana-2d",
    "banana-8d",
    "gaussian-10d",
    "ring",
    "bimodal-2d",
    "logistic",
    "funnel-5d-sd1",
)


def rows() -> list[dict[str, str]]:
    """All cells so far; a cell that was run again counts with its last row.

    Those of the default sampler, of adaptive Metropolis and of peers are in
    ``results/sampling.csv`` already.
    """
    names = {method: name for name, method in METHODS.items()} | {peer: peer for peer in PEERS}
    found = [
        row | {"sampler": names[row["method"]]}
        for row in read_rows(SAMPLING)
        if row["method"] in names
    ]
    return list(
        {tuple(row[name] for name in KEY): row for row in found + read_rows(RESULTS)}.values()
    )


def run(target: str, sampler: str, seed: int, budget: int) -> None:
    """Run a cell, and append its row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = run_cell(target, METHODS[sampler], seed, budget) | {"sampler": sampler}
    new = not RESULTS.exists()
    with RESULTS.open("a", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        if new:
            table.writeheader()
        table.writerow(found)
    print(target, sampler, seed, budget, found["ess_per_1000"], flush=True)


def table(found: list[dict[str, str]], budget: int) -> str:
    """Median ESS per 1,000 evaluations (worst seed) of each sampler on each target; how many runs
    are wrong.

    The last column is the peer with the fewest wrong runs and, among those, the largest median. A
    sampler without any run at a budget has no column there.
    """
    mine = [row for row in found if int(row["budget"]) == budget and int(row["seed"]) < SEEDS]
    targets = [target for target in DEFAULT_TARGETS if any(row["target"] == target for row in mine)]
    shown = [name for name in METHODS if any(row["sampler"] == name for row in mine)]
    lines = [
        f"| target | {' | '.join(shown)} | best peer |",
        f"| --- |{' ---: |' * (len(shown) + 1)}",
    ]
    for target in targets:
        of: dict[str, list[dict[str, str]]] = {name: [] for name in (*METHODS, *PEERS)}
        for row in mine:
            if row["target"] == target:
                of[row["sampler"]].append(row)
        peers = sorted(
            (peer for peer in PEERS if of[peer]),
            key=lambda peer: (_wrong(of[peer]), -_median(of[peer])),
        )
        cells = [_cell(of[name]) for name in shown]
        cells.append(f"{peers[0]}: {_cell(of[peers[0]])}" if peers else "")
        lines.append(f"| {target} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _wrong(group: list[dict[str, str]]) -> int:
    return sum(
        wrong({name: float(row[name] or "nan") for name in ("bias_excess", "width_excess")})
        for row in group
    )


def _median(group: list[dict[str, str]]) -> float:
    return statistics.median(float(row["ess_per_1000"]) for row in group)


def _cell(group: list[dict[str, str]]) -> str:
    if not group:
        return ""
    bad = _wrong(group)
    shown = f"{_median(group):.3g} ({min(float(row['ess_per_1000']) for row in group):.3g})"
    return f"{shown}, {bad} of {len(group)} wrong" if bad else shown


def report() -> None:
    """Write the tables of all budgets to the page."""
    found = rows()
    budgets = [6000, 20_000]
    parts = [f"{budget:,} evaluations:\n\n{table(found, budget)}" for budget in budgets]
    write_between(PAGE, "which-sampler", "\n\n".join(parts))


def main() -> None:
    """Run what is missing, and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--targets", nargs="+", default=list(DEFAULT_TARGETS), choices=TARGETS, metavar="TARGET"
    )
    parser.add_argument(
        "--samplers", nargs="+", default=list(METHODS), choices=METHODS, metavar="SAMPLER"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--budgets", nargs="+", type=int, default=[6000])
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    if not options.report:
        known = {tuple(row[name] for name in KEY) for row in rows()}
        cells = [
            (target, sampler, seed, budget)
            for budget in options.budgets
            for sampler in options.samplers
            for target in options.targets
            for seed in range(options.seeds)
        ]
        for cell in cells:
            if tuple(map(str, cell)) not in known:
                run(*cell)
    report()


if __name__ == "__main__":
    main()
