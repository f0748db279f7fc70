"""Corrected expectations compared with the truth: ``python benchmarks/expectations.py --help``.

A cell is (target, budget, seed): one run of the default sampler, read out by ``kmc.expectations``.
Its row is appended to results/expectations.csv at once, and existing rows are not run again: the
benchmark can be run in pieces. The table has, for means, sds, and 5 and 95 % quantiles: the
root-mean-square error over coordinates and seeds in true sds; the equivalent effective sample size
per 1,000 evaluations (of the median coordinate, median over seeds) as stated; and the fractions of
intervals of 1 and 1.96 standard errors that contain the truth. Where the truth is from importance
sampling, its own standard error is part of the interval. "Gain" is the ratio of mean squared errors
of the plain means and the corrected ones; "least gain" is the smallest ratio of their stated
squared errors. The lines below the table are of all targets together, for each number of
evaluations.

With ``--runs DIR`` each run is saved there, and one that is there is read out instead of being
sampled again. To read saved runs out with another version of kmc, remove their rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import arviz
import numpy as np
from csv_rows import append_row, read_rows, run_cells
from pages import head
from targets import REFERENCES, TAILS, problem

import kmc

RESULTS = Path(__file__).parent / "results"
TARGETS = (
    "banana-2d", "gaussian-10d", "ring", "bimodal-2d", "log-gamma-5d", "logistic", "funnel-5d-sd1",
    "banana-8d", "pints-logistic", "pints-oscillator", "fitzhugh-nagumo", "demo", "student-t-5d",
)  # fmt: skip
KINDS = "mean", "sd", "quantiles"
COLUMNS = (
    "target", "budget", "seed", "dim", "draws", "corrected", "surrogate_draws", "sampling",
    "seconds", "plain_square",
    *(f"square_{kind}" for kind in KINDS), "least_gain", *(f"ess_{kind}" for kind in KINDS),
    *(f"z_{kind}" for kind in KINDS), "warnings", "said",
)  # fmt: skip
SAID = {
    "refused": "The surrogate is not used",
    "nearby": "The surrogate has mass far from all draws",
    "tails": "The tails are like",
    "largest": "The largest values",
}
"""Beginnings of what read-outs say: the column "said" has these names ("warnings" counts those of
the run).
"""


def sampled(name: str, budget: int, seed: int, runs: Path | None):
    """One run, from its file if there is one."""
    path = None if runs is None else runs / f"{name}_{budget}_{seed}.nc"
    if path is not None and path.exists():
        return arviz.from_netcdf(str(path))
    target = problem(name)
    began = time.perf_counter()
    idata = kmc.sample(
        target.log_density,
        dim=target.dim,
        draws=None,
        max_evaluations=budget,
        seed=seed,
        initial=target.initial(np.random.default_rng(seed), 4),
        progress=False,
    )
    idata.attrs["sampling"] = round(time.perf_counter() - began, 1)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        idata.to_netcdf(str(path))
    return idata


def cell(name: str, budget: int, seed: int, surrogate_draws: int, runs: Path | None = None) -> dict:
    """One run and its expectations."""
    warnings.simplefilter("ignore", kmc.KmcWarning)
    target = problem(name)
    idata = sampled(name, budget, seed, runs)
    began = time.perf_counter()
    found = kmc.expectations(idata, quantiles=TAILS, max_surrogate_draws=surrogate_draws, seed=seed)
    done = time.perf_counter()
    sd, said = target.truth.sd, found.attrs["warnings"]
    row = {
        "target": name,
        "budget": budget,
        "seed": seed,
        "dim": target.dim,
        "draws": found.attrs["n_draws"],
        "corrected": found.attrs["corrected"],
        "surrogate_draws": found.attrs["n_surrogate_draws"],
        "sampling": idata.attrs.get("sampling", ""),
        "seconds": round(done - began, 1),
        "plain_square": _short(
            np.mean(((found["plain_mean"].values - target.truth.mean) / sd) ** 2)
        ),
        "least_gain": _short(((found["plain_mcse"] / found["mcse"]) ** 2).min()),
        "warnings": len(json.loads(idata.attrs["warning_codes"])),
        "said": " ".join(
            one for one, begin in SAID.items() if any(w.startswith(begin) for w in said)
        ),
    }
    of_truth = json.loads(REFERENCES.read_text())[name].get("standard_error", {})
    for kind, suffix in zip(KINDS, ("", "_sd", "_quantiles"), strict=True):
        error = found[kind].values - getattr(target.truth, kind)
        stated = np.hypot(found[f"mcse{suffix}"].values, of_truth.get(kind, 0.0))
        row[f"square_{kind}"] = _short(np.mean((error / sd) ** 2))
        row[f"ess_{kind}"] = round(float(np.median(found[f"equivalent_ess{suffix}"])))
        row[f"z_{kind}"] = " ".join(f"{z:.2f}" for z in (error / stated).ravel())
    return row


def finish(path: Path, row: dict) -> str:
    """Append a row to the CSV, and describe it."""
    append_row(path, COLUMNS, row)
    return " ".join(f"{key}={row[key]}" for key in COLUMNS[7:])


def table(rows: list[dict]) -> str:
    """Medians and rates by target and budget, as Markdown."""
    header = ["target", "evaluations", "runs", "gain", "least gain"]
    header += [
        f"{what}: {of}"
        for what in ("rms error", "ESS per 1,000")
        for of in ("means", "sds", "quantiles")
    ]
    header += [f"in 1.96 errors: {of}" for of in ("means", "sds", "quantiles", "all")]
    header += ["all in 1 error", "not corrected", "warned", "seconds"]
    lines = ["| " + " | ".join(header) + " |", "| --- " * len(header) + "|"]
    for name, budget in dict.fromkeys((row["target"], row["budget"]) for row in rows):
        group = [row for row in rows if (row["target"], row["budget"]) == (name, budget)]

        def column(key, group=group):
            return np.array([float(row[key]) for row in group])

        per = 1000 / int(budget)
        gain = column("plain_square").mean() / column("square_mean").mean()
        z = {
            kind: np.abs(
                np.concatenate([np.array(row[f"z_{kind}"].split(), float) for row in group])
            )
            for kind in KINDS
        }
        everything = np.concatenate(list(z.values()))
        cells = [
            name,
            f"{int(budget):,}",
            len(group),
            f"{gain:,.0f}",
            f"{column('least_gain').min():.1f}",
        ]
        cells += [f"{np.sqrt(column(f'square_{kind}').mean()):.4f}" for kind in KINDS]
        cells += [f"{np.median(column(f'ess_{kind}')) * per:,.0f}" for kind in KINDS]
        cells += [f"{np.mean(off < 1.96):.2f}" for off in (*z.values(), everything)]
        cells += [f"{np.mean(everything < 1):.2f}", int(np.sum(column("corrected") == 0))]
        cells += [int(np.sum(column("warnings") > 0)), f"{np.median(column('seconds')):.0f}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def totals(rows: list[dict]) -> str:
    """A line on all targets together for each number of evaluations."""
    lines = []
    for budget in sorted({int(row["budget"]) for row in rows}):
        own = [row for row in rows if int(row["budget"]) == budget]
        targets = {
            name: [row for row in own if row["target"] == name]
            for name in {row["target"] for row in own}
        }
        z = np.abs(
            [float(one) for row in own for kind in KINDS for one in row[f"z_{kind}"].split()]
        )
        refused = sum(row["corrected"] == "0" for row in own)
        nearby = sum("nearby" in (row["said"] or "").split() for row in own)
        medians = [
            np.median(
                [
                    np.median([float(row[f"ess_{kind}"]) for row in group])
                    for group in targets.values()
                ]
            )
            for kind in KINDS
        ]
        fewest, per = (
            min(map(len, targets.values())),
            ", ".join(f"{one * 1000 / budget:,.0f}" for one in medians),
        )
        lines.append(
            f"{budget:,} evaluations: {len(own)} runs of {len(targets)} targets, {fewest} or more "
            f"of each; surrogate refused in {refused}, used near the draws alone in {nearby}; "
            f"medians over targets of the ESS per 1,000 {per}; {np.mean(z < 1.96):.1%} within 1.96 "
            f"errors, {np.mean(z < 1):.1%} within one"
        )
    return "\n\n".join(lines) + "\n"


def _short(number) -> float:
    return float(f"{float(number):.4g}")


def main() -> None:
    """Run missing cells, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--budgets", default="3000")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--surrogate-draws", type=int, default=50_000)
    parser.add_argument("--runs", type=Path, help="folder of saved runs")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument(
        "--max-time", type=float, default=np.inf, help="seconds after which no further cell begins"
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=RESULTS / "expectations.csv",
        help="CSV; the table is beside it",
    )
    options = parser.parse_args()
    done = {
        (row["target"], int(row["budget"]), int(row["seed"])) for row in read_rows(options.results)
    }
    cells = [
        (name, budget, seed)
        for seed in range(options.first_seed, options.first_seed + options.seeds)
        for budget in map(int, options.budgets.split(","))
        for name in options.targets.split(",")
    ]
    missing = [(*one, options.surrogate_draws, options.runs) for one in cells if one not in done]
    failures = run_cells(
        cell, missing, options.jobs, partial(finish, options.results), max_time=options.max_time
    )
    rows = sorted(read_rows(options.results), key=lambda row: (int(row["budget"]), row["target"]))
    title = head(
        "Are expectations and their errors right?",
        "python benchmarks/expectations.py",
        ("expectations.csv",),
    )
    options.results.with_suffix(".md").write_text(f"{title}{table(rows)}\n{totals(rows)}")
    print("", table(rows), totals(rows), *failures, sep="\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
