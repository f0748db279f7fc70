"""Means and sds from a few hundred evaluations: ``python benchmarks/small_budgets.py --help``.

A cell is (target, method, budget, seed). Its row is appended to results/small_budgets.csv at once, and existing rows
are not run again. The methods are ``kmc`` (the default sampler, read out by ``kmc.expectations``), ``chain`` (averages
of the same draws), ``adaptive-metropolis``, and ``pyvbmc``, which has to be installed. PyVBMC is given plausible bounds
of two true sds around the true means; the chains start over-dispersed, and know no scales. ``error`` is the
root-mean-square over coordinates of the error of the means in true sds, ``scale`` that of the log of the ratio of sds,
``worst`` the largest error of a mean in true sds, and ``covered`` the fraction of the means within 1.96 stated errors.
A run says that it is off by a warning (of the run or the read-out; for PyVBMC, that it did not converge). Silent runs
are off by more than .3 in ``worst`` without one. Above this table, errors of kmc (root-mean-square over seeds) are
divided by those of the other methods with the same seeds. PyVBMC stops when it has converged, often before its budget.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from csv_rows import append_row, read_rows, run_cells
from targets import Problem, problem

import kmc

RESULTS = Path(__file__).parent / "results"
TARGETS = (
    "banana-2d", "ring", "bimodal-2d", "pints-logistic", "pints-oscillator", "log-gamma-5d", "funnel-5d-sd1",
    "fitzhugh-nagumo", "demo", "banana-8d",
)  # fmt: skip
METHODS = "kmc", "adaptive-metropolis", "pyvbmc"
COLUMNS = (
    "target", "method", "budget", "seed", "dim", "draws", "evaluations", "error", "scale", "worst", "covered", "warned",
    "seconds",
)  # fmt: skip
OFF = 0.3  # sds


class Found(NamedTuple):
    """What a method says about a posterior."""

    mean: np.ndarray
    sd: np.ndarray
    evaluations: int
    warnings: int
    mcse: np.ndarray | float = np.nan
    draws: int = 0


def by_kmc(target: Problem, budget: int, seed: int) -> dict[str, Found]:
    """A default run, read out and plain."""
    idata = _run(target, budget, seed, "kernel-hmc")
    plain = _plain(idata)
    try:
        found = kmc.expectations(idata, quantiles=(), max_surrogate_draws=20_000, seed=seed)
    except ValueError:  # no surrogate was learned
        return {"kmc": plain, "chain": plain}
    read = plain._replace(
        mean=found["mean"].values,
        sd=found["sd"].values,
        mcse=found["mcse"].values,
        warnings=plain.warnings + len(found.attrs["warnings"]),
    )
    return {"kmc": read, "chain": plain._replace(mcse=found["plain_mcse"].values)}


def by_adaptive_metropolis(target: Problem, budget: int, seed: int) -> dict[str, Found]:
    """Plain averages."""
    return {"adaptive-metropolis": _plain(_run(target, budget, seed, "adaptive-metropolis"))}


def by_pyvbmc(target: Problem, budget: int, seed: int) -> dict[str, Found]:
    """The variational posterior."""
    from pyvbmc import VBMC

    mean, sd = target.truth.mean, target.truth.sd
    np.random.seed(seed)  # noqa: NPY002 - PyVBMC has no other seed
    start = target.initial(np.random.default_rng(seed), 1)
    options = {"max_fun_evals": budget, "display": "off"}
    bounds = {"plausible_lower_bounds": (mean - 2 * sd)[None], "plausible_upper_bounds": (mean + 2 * sd)[None]}
    start = np.clip(start, bounds["plausible_lower_bounds"], bounds["plausible_upper_bounds"])
    vbmc = VBMC(lambda x: float(target.log_density(np.ravel(x))), start, options=options, **bounds)
    posterior, results = vbmc.optimize()
    means, covariance = posterior.moments(N=100_000, cov_flag=True)
    said = int(not results["success_flag"])
    return {"pyvbmc": Found(np.ravel(means), np.sqrt(np.diag(covariance)), int(results["func_count"]), said)}


RUNNERS = {"kmc": by_kmc, "adaptive-metropolis": by_adaptive_metropolis, "pyvbmc": by_pyvbmc}


def _run(target, budget, seed, sampler):
    initial = target.initial(np.random.default_rng(seed), 4)
    options = {"dim": target.dim, "draws": None, "max_evaluations": budget, "seed": seed, "progress": False}
    return kmc.sample(target.log_density, initial=initial, sampler=sampler, **options)


def _plain(idata):
    x = idata["posterior"]["x"].values
    x = x.reshape(-1, x.shape[2])
    said = len(json.loads(idata.attrs["warning_codes"]))
    return Found(x.mean(axis=0), x.std(axis=0), int(idata.attrs["n_evaluations"]), said, draws=len(x))


def cell(name: str, method: str, budget: int, seed: int) -> list[dict]:
    """The rows of a run."""
    start, target = time.perf_counter(), problem(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = RUNNERS[method](target, budget, seed)
    seconds = time.perf_counter() - start
    return [row_of(target, own, budget, seed, one, seconds) for own, one in found.items()]


def finish(path: Path, rows: list[dict]) -> str:
    """Append rows to the CSV, and describe them."""
    for row in rows:
        append_row(path, COLUMNS, row)
    return "; ".join(" ".join(map(str, row.values())) for row in rows)


def row_of(target: Problem, method: str, budget: int, seed: int, found: Found, seconds: float) -> dict:
    """Errors, in true sds."""
    off = (found.mean - target.truth.mean) / target.truth.sd
    ratio = np.maximum(found.sd / target.truth.sd, 1e-3)
    numbers = {
        "error": np.sqrt(np.mean(off**2)),
        "scale": np.sqrt(np.mean(np.log(ratio) ** 2)),
        "worst": np.abs(off).max(),
        "covered": np.mean(np.abs(off) < 1.96 * found.mcse / target.truth.sd) if np.any(found.mcse > 0) else np.nan,
    }
    row = {"target": target.name, "method": method, "budget": budget, "seed": seed, "dim": target.dim}
    row |= {"draws": found.draws, "evaluations": found.evaluations, "warned": found.warnings}
    row["seconds"] = round(seconds, 1)
    return row | {key: round(float(value), 4) for key, value in numbers.items()}


def table(rows: list[dict]) -> str:
    """Medians and worst cases by target, budget and method, as Markdown."""
    lines = [
        "| target | d | budget | method | runs | error of means: median | error of means: largest | log ratio of sds: "
        f"median | log ratio of sds: largest | means in 1.96 errors | off by {OFF} | of these silent | seconds |",
        "| --- " * 13 + "|",
    ]
    for key in dict.fromkeys((row["target"], row["budget"], row["method"]) for row in rows):
        group = [row for row in rows if (row["target"], row["budget"], row["method"]) == key]
        names = "error", "scale", "worst", "warned", "covered", "seconds"
        error, scale, worst, warned, covered, seconds = (
            np.array([float(row[name]) for row in group]) for name in names
        )
        cells = [key[0], group[0]["dim"], f"{int(key[1]):,}", key[2], len(group)]
        cells += [f"{value:.3f}" for value in (np.median(error), error.max(), np.median(scale), scale.max())]
        cells.append(f"{covered.mean():.2f}" if np.isfinite(covered).all() else "")
        cells += [int(np.sum(worst > OFF)), int(np.sum((worst > OFF) & (warned == 0))), f"{np.median(seconds):.0f}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def against(rows: list[dict]) -> str:
    """Errors of means of kmc, relative to those of each other method on the same cells, by budget, as Markdown.

    Of each target the root-mean-square over seeds.
    """
    errors = {(row["budget"], row["method"], row["target"], row["seed"]): float(row["error"]) for row in rows}
    off = {key for key, row in zip(errors, rows, strict=True) if float(row["worst"]) > OFF}
    said = {key for key, row in zip(errors, rows, strict=True) if int(row["warned"])}
    lines = [
        "| budget | kmc beside | targets | runs | kmc's error / its: median | largest | over 1.5 | kmc off by "
        f"{OFF}, of these silent | its |",
        "| --- " * 9 + "|",
    ]
    for budget, method in sorted({key[:2] for key in errors if key[1] not in ("kmc", "chain")}, key=_by_budget):
        both = [key for key in errors if key[:2] == (budget, method) and (budget, "kmc", *key[2:]) in errors]
        if not both:
            continue
        own = [(budget, "kmc", *key[2:]) for key in both]
        squares: dict[str, np.ndarray] = {}  # of kmc's errors and of its
        for mine, its in zip(own, both, strict=True):
            squares[its[2]] = squares.get(its[2], np.zeros(2)) + np.square([errors[mine], errors[its]])
        ratios = {target: float(np.sqrt(mine / its)) for target, (mine, its) in squares.items()}
        ratio = np.array(list(ratios.values()))
        worse = ", ".join(f"{target} {value:.1f}" for target, value in ratios.items() if value > 1.5)
        counts = [f"{len(off & set(keys))}, {len(off & set(keys) - said)}" for keys in (own, both)]
        cells = (
            f"{int(budget):,}",
            method,
            len(ratios),
            len(both),
            f"{np.median(ratio):.2f}",
            f"{ratio.max():.1f}",
            worse,
            *counts,
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def _by_budget(key):
    return int(key[0]), key[1]


def main() -> None:
    """Run missing cells, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--methods", default="kmc,adaptive-metropolis", help=f"of {', '.join(METHODS)}")
    parser.add_argument("--budgets", default="200,500,1000")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--max-time", type=float, default=np.inf, help="seconds after which no further cell begins")
    parser.add_argument(
        "--results", type=Path, default=RESULTS / "small_budgets.csv", help="CSV; the table is beside it"
    )
    options = parser.parse_args()
    done = {(row["target"], row["method"], int(row["budget"]), int(row["seed"])) for row in read_rows(options.results)}
    cells = [
        (name, method, budget, seed)
        for seed in range(options.first_seed, options.first_seed + options.seeds)
        for budget in map(int, options.budgets.split(","))
        for name in options.targets.split(",")
        for method in options.methods.split(",")
    ]
    missing = [one for one in cells if one not in done]
    failures = run_cells(cell, missing, options.jobs, partial(finish, options.results), max_time=options.max_time)
    rows = sorted(read_rows(options.results), key=lambda row: (int(row["budget"]), row["target"], row["method"]))
    report = f"{against(rows)}\n{table(rows)}"
    options.results.with_suffix(".md").write_text(report)
    print("", report, *failures, sep="\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
