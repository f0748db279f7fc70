"""Learning the outputs of a simulator, or the log-density alone: ``python benchmarks/structured.py
--help``.

A cell is (target, learned, budget, seed): a run of the default sampler, from starts drawn from the
prior unless the target is a "near" one, of a model with a simulator and a likelihood. Learned are
its outputs, their difference from those of a cheap simulator (``approximation=``, a few Euler
steps), or, with ``save_outputs=False``, the log-density. "Alone" is the answer of the emulator
without correction: all evaluations are the history of a run that makes no draws. Of hierarchies the
log-likelihood may be learned beside the declared priors ("priors"), or the log-density without any
structure, which then begins at points two standard deviations wide. Errors are those of
kmc.expectations: the worst error of a mean in posterior standard deviations, and of a standard
deviation relative to its own. Truths are those of references.py, exact draws, and a quadrature for
the epidemic.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from csv_rows import append_row, number, read_rows, run_cells
from structured_targets import APPROXIMATIONS, HIERARCHIES, TARGETS

import kmc
from kmc.convergence import bulk_ess

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "structured.csv"
PEERS = HERE / "results" / "common_table.csv"
KEY = ("target", "learned", "budget", "seed")
COLUMNS = (
    *KEY,
    "warmup",
    "mean_error",
    "sd_error",
    "stated",
    "ess_per_1000",
    "seconds",
    "calls",
    "said",
    "label",
)
LEARNED = ("outputs", "alone", "priors", "log-density", "difference")
SAME = {
    "demo": "predator-and-prey",
    "fitzhugh-nagumo": "neuron",
    "eight-schools": "eight-schools",
}
"""Posteriors of common_table.py that are those of targets here."""
OFF = 0.3  # standard deviations: such a mean is wrong


def fits(name: str, learned: str) -> bool:
    """Whether that can be learned of that target."""
    if learned == "difference":
        return name in APPROXIMATIONS
    return learned != "priors" or name in HIERARCHIES


def run_cell(label: str, name: str, learned: str, budget: int, seed: int) -> dict[str, Any]:
    """One row."""
    warnings.simplefilter("ignore")
    target, began = TARGETS[name](learned), time.perf_counter()
    initial = None if target.initial is None else target.initial(np.random.default_rng(seed))
    options = {"draws": None, "max_evaluations": budget, "seed": seed, "progress": False}
    model = target.model
    if learned == "difference":
        model = replace(model, approximation=APPROXIMATIONS[name], dim=None)
    if learned == "alone":
        last = 2 * model.dim + 2
        history = kmc.sample(model, initial=initial, **options | {"max_evaluations": budget - last})
        options |= {"history": history, "max_evaluations": last}
        initial = None
    idata = kmc.sample(model, initial=initial, **options)
    seconds = time.perf_counter() - began
    found = kmc.expectations(idata, target.coordinates, model=model)
    group = "unconstrained_posterior" if "unconstrained_posterior" in idata else "posterior"
    draws = idata[group]["x"].values
    return {
        "target": name,
        "learned": learned,
        "budget": budget,
        "seed": seed,
        "warmup": idata.attrs["n_evaluations_warmup"],
        "mean_error": float(np.max(np.abs(found["mean"].values - target.mean) / target.sd)),
        "sd_error": float(np.max(np.abs(found["sd"].values / target.sd - 1.0))),
        "stated": float(np.max(found["mcse"].values / target.sd)),
        "ess_per_1000": 1000.0 * float(np.min(bulk_ess(draws))) / budget
        if draws.shape[1] > 20
        else 0.0,
        "seconds": seconds,
        "calls": budget if learned == "alone" else idata.attrs["n_evaluations"],
        "said": " ".join(
            json.loads(idata.attrs["warning_codes"]) + ["rough"] * ("are rough" in str(found.attrs))
        ),
        "label": label,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: medians over seeds, the number of runs that are off, and of those without a warning
    of the run.
    """
    head = [
        "target",
        "evaluations",
        "learned",
        "runs",
        "mean",
        "sd",
        "off (silent)",
        "per 1,000",
        "warm-up",
        "seconds",
    ]
    lines = [" | ".join(head), " | ".join(["---"] * 3 + ["---:"] * 7)]
    for key in dict.fromkeys((row["target"], row["budget"], row["learned"]) for row in rows):
        own = [row for row in rows if (row["target"], row["budget"], row["learned"]) == key]
        off = [row for row in own if row["mean_error"] > OFF]
        silent = sum(
            not set(str(row["said"]).split()) - {"few-draws", "no-draws", "few-tail-draws"}
            for row in off
        )
        numbers = [
            f"{np.median([row[name] for row in own]):.3g}" for name in ("mean_error", "sd_error")
        ]
        more = [
            f"{np.median([row[name] for row in own]):.3g}"
            for name in ("ess_per_1000", "warmup", "seconds")
        ]
        lines.append(
            " | ".join(
                [
                    key[0],
                    f"{key[1]:,}",
                    key[2],
                    str(len(own)),
                    *numbers,
                    f"{len(off)} ({silent})",
                    *more,
                ]
            )
        )
    return "\n".join(f"| {line} |" for line in lines)


def peers_table(rows: list[dict[str, Any]]) -> str:
    """Markdown: medians over seeds of peers that learn the log-density of the same posteriors."""
    head = "target", "evaluations", "package", "runs", "failed", "mean", "sd", "seconds"
    lines = [head, ["---"] * 3 + ["---:"] * 5]
    for name, own in SAME.items():
        for budget in sorted({row["budget"] for row in rows}):
            for method in dict.fromkeys(row["method"] for row in rows):
                group = [
                    row
                    for row in rows
                    if (row["target"], row["budget"], row["method"]) == (name, budget, method)
                ]
                known = [row for row in group if not row["failure"]]
                if not group:
                    continue
                numbers = []
                for column in ("mean_error", "sd_error", "seconds"):
                    values = [row[column] for row in known if row[column] != ""]
                    numbers.append(f"{np.median(values):.3g}" if values else "")
                failed = len(group) - len(known)
                lines.append([own, f"{budget:,}", method, len(group), failed, *numbers])
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def report(rows: list[dict[str, Any]], peers: list[dict[str, Any]]) -> str:
    """Markdown: the page."""
    rows = sorted(rows, key=lambda row: (row["target"], row["budget"], row["learned"]))
    labels = ", ".join(dict.fromkeys(str(row["label"]) for row in rows))
    about = (
        "The same model from starts drawn from the prior, or near; the surrogate learns the "
        "simulator's outputs, their difference from those of a cheap simulator, the log-likelihood "
        "beside declared priors, or the log-density. Medians over seeds of the worst error of a "
        "mean, in posterior standard deviations, and of a standard deviation; runs with a mean "
        f"that is off by {OFF} or more, and those of them that say nothing but that they are "
        f"short; effective draws per 1,000 evaluations. kmc as of {labels}."
    )
    of_peers = (
        "Peers learn the log-density, within a box of six standard deviations to each side of a "
        "shifted center instead of a prior. Errors as above, that of a standard deviation in its "
        "logarithm, and their own seconds; `python benchmarks/common_table.py` runs them."
    )
    command = "    python benchmarks/structured.py --table > benchmarks/results/structured.md"
    return "\n\n".join(
        [
            "# Outputs or the log-density",
            command,
            about,
            table(rows),
            of_peers,
            peers_table([row for row in peers if row["method"] != "kmc"]),
        ]
    )


def main() -> None:
    """Run missing cells, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--targets", nargs="+", default=list(TARGETS), choices=TARGETS, metavar="TARGET"
    )
    parser.add_argument("--learned", nargs="+", default=list(LEARNED), choices=LEARNED)
    parser.add_argument(
        "--budgets", nargs="+", type=int, default=[100, 200, 1000], help="evaluations"
    )
    parser.add_argument("--seeds", nargs=2, type=int, default=[0, 5], metavar=("FIRST", "END"))
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument(
        "--rerun", action="store_true", help="run these cells although the CSV has them"
    )
    parser.add_argument(
        "--table", action="store_true", help="run nothing: print the table of all that the CSV has"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="the CSV")
    options = parser.parse_args()
    failures = []
    if not options.table:
        git = ["git", "-C", str(HERE.parent), "log", "-1", "--format=%h", "--", "kmc"]
        label = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
        known = {tuple(str(row[name]) for name in KEY) for row in read_rows(options.results)}
        cells = itertools.product(
            options.targets, options.learned, options.budgets, range(*options.seeds)
        )
        cells = [cell for cell in cells if fits(cell[0], cell[1])]
        missing = [
            (label, *cell) for cell in cells if options.rerun or tuple(map(str, cell)) not in known
        ]

        def finish(row):
            append_row(options.results, COLUMNS, row)
            return (
                f"{row['mean_error']:.2f} {row['sd_error']:.2f} ({row['stated']:.2f}), "
                f"{row['ess_per_1000']:.0f}"
            )

        failures = run_cells(run_cell, missing, options.jobs, finish)
    rows, peers = (
        [{name: number(text) for name, text in row.items()} for row in read_rows(path)]
        for path in (options.results, PEERS)
    )
    print(report(rows, peers), *failures, sep="\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
