"""Whether numbers are right, or say that they are not: ``python benchmarks/honesty.py --help``.

A cell is (target, budget, seed): a run of the default sampler with its expectations and its
evidence. Its row is appended to results/honesty.csv at once, with the commit that changed kmc last,
and existing rows are not run again. Targets are in honesty_targets.py.

- **Coverage**: intervals of 1.96 stated errors of means, standard deviations, 5 and 95 % quantiles
  and evidence. The error of a truth that is from exact draws or importance sampling is part of the
  interval. Numbers that are NaN, or come with a warning of the function that returns them, are not
  counted. Required are 90 to 99 % on each target.
- **Beyond**: of the counted numbers, those whose error is over 3.5 stated errors. Required are
  none.
- **Wrong**: the draws are wrong by metrics.py (as in warning_rates.py) or by shape_rows.py (as in
  shapes.py), or a standard deviation is off by a quarter, unless fourth moments are infinite.
  Required are none without a warning of the run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import arviz
import metrics
import numpy as np
import shape_rows
from csv_rows import append_row, number, read_rows, run_cells
from honesty_targets import TARGETS
from targets import TAILS

import kmc

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "honesty.csv"
KINDS = ("mean", "sd", "quantiles", "evidence")
KEY = ("target", "budget", "seed")
FACTS = ("family", "evaluations", "draws", "corrected", "evidence", "evidence_se", "evidence_error")
QUALITY = (
    "bias",
    "bias_excess",
    "width_min",
    "width_max",
    "width_excess",
    "sd_ratio_error",
    "kurtosis",
    "ess",
    "rhat",
)
# to describe wrong draws
FAULTS = ("bias", "width_min", "width_max", "sd_ratio_error", "share_error")
SHARES = ("share_error", "least_share", "excess", "shares")
SAID = ("said_run", "said_expectations", "said_evidence")
COLUMNS = (
    *KEY,
    *FACTS,
    *QUALITY,
    *SHARES,
    "failure",
    *(f"z_{kind}" for kind in KINDS),
    *SAID,
    "seconds",
    "label",
)
CHAINS, FEWEST, BEYOND, MOST_SECONDS = 4, 10, 3.5, 20


def run_cell(runs: Path | None, label: str, name: str, budget: int, seed: int) -> dict[str, Any]:
    """One row; the run is kept in this folder, or is there already."""
    warnings.simplefilter("ignore")
    target, began = TARGETS[name], time.perf_counter()
    shape, (truth, errors) = target.shape, target.exact
    kept = runs / f"{name}-{budget}-{seed}.nc" if runs else None
    if kept and kept.exists():
        idata = arviz.from_netcdf(kept)
    else:
        starts = (
            None
            if target.starts is None
            else shape.initial(target.starts, np.random.default_rng([seed, 7]))
        )
        options = {"initial": starts, "chains": CHAINS, "max_evaluations": budget, "seed": seed}
        idata = kmc.sample(target.model(seed), draws=None, progress=False, **options)
        if kept:
            idata.to_netcdf(kept)
    x = idata["posterior"]["x"].values
    x = np.stack([np.cos(x), np.sin(x)], axis=-1) if name == "angle" else x
    row: dict[str, Any] = dict.fromkeys(COLUMNS, "") | {
        "label": label,
        "family": shape.family,
        "draws": x.shape[1],
    }
    row |= dict(zip(KEY, (name, budget, seed), strict=True)) | {
        "evaluations": int(idata.attrs["n_evaluations"])
    }
    row |= {
        "said_run": " ".join(json.loads(idata.attrs["warning_codes"])),
        "kurtosis": truth.kurtosis.max(),
    }
    if x.shape[1] < FEWEST:
        row["failure"] = f"{x.shape[1]} draws"
    else:
        row |= shape_rows.quality(x, shape) | metrics.quality(x, truth)

    try:
        found = kmc.expectations(
            idata, target.quantities(), quantiles=TAILS, max_time=MOST_SECONDS, seed=seed
        )
        row |= {"corrected": found.attrs["corrected"], "said_expectations": _said(found)}
        for kind, suffix in zip(KINDS, ("", "_sd", "_quantiles"), strict=False):
            stated = np.hypot(found[f"mcse{suffix}"].values, errors.get(kind, 0.0))
            row[f"z_{kind}"] = _z(found[kind].values - getattr(truth, kind), stated)
    except (TypeError, ValueError) as error:
        row["said_expectations"] = f"refused: {error}"
    try:
        found = kmc.evidence(idata, seed=seed)
        value, stated = (float(found[part][0]) for part in ("log_evidence", "se"))
        off = value - target.log_evidence
        row |= {
            "evidence": value,
            "evidence_se": stated,
            "evidence_error": off,
            "said_evidence": _said(found),
        }
        row["z_evidence"] = _z(off, stated)
    except (TypeError, ValueError) as error:
        row["said_evidence"] = f"refused: {error}"
    row["seconds"] = time.perf_counter() - began
    return {column: row[column] for column in COLUMNS}


def _said(found):
    return " | ".join(sentence[:60] for sentence in found.attrs["warnings"])


def _z(off, stated):
    with np.errstate(divide="ignore", invalid="ignore"):
        return " ".join(f"{z:.3g}" for z in np.ravel(np.divide(off, stated)))


# Rows


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of the CSV, the last one of each cell."""
    texts = ("shares", "failure", *SAID, *(f"z_{kind}" for kind in KINDS), "label")
    rows = [
        {name: text if name in texts else number(text) for name, text in row.items()}
        for row in read_rows(path)
    ]
    return list({tuple(row[name] for name in KEY): row for row in rows}.values())


def finish(path: Path, row: dict) -> str:
    """Append a row to the CSV, and describe it."""
    append_row(path, COLUMNS, row, digits=5)
    return f"{', '.join(silent(row)) or 'nothing silent'}, {row['seconds']:.1f} s"


def errors_of(row: dict, kind: str) -> np.ndarray:
    """Errors in stated errors, of the numbers of this kind that are known and have no warning."""
    said = row["said_evidence" if kind == "evidence" else "said_expectations"]
    z = np.array([] if said else row[f"z_{kind}"].split(), float)
    return z[~np.isnan(z)]


def wrong(row: dict) -> bool:
    """Whether the draws are wrong, see the module's docstring."""
    if row["failure"] or metrics.wrong(row) or shape_rows.wrong(row):
        return True
    return bool(row["sd_ratio_error"] > shape_rows.WIDTH and math.isfinite(row["kurtosis"]))


def silent(row: dict) -> list[str]:
    """Descriptions of what is wrong in a row without a warning."""
    found = []
    if wrong(row) and not row["said_run"]:
        parts = [f"{name} {row[name]:.3g}" for name in FAULTS if row[name] != ""]
        found.append(f"draws ({row['failure'] or ', '.join(parts)})")
    for kind in KINDS:
        if len(beyond := [z for z in errors_of(row, kind) if abs(z) > BEYOND]):
            found.append(f"{kind} ({', '.join(f'{z:+.1f}' for z in beyond)} stated errors)")
    return found


def table(rows: list[dict]) -> str:
    """Markdown: coverage and counts of each target and version of kmc, then what is wrong without a
    warning.
    """
    heads = [
        "target",
        "runs",
        *KINDS,
        "beyond 3.5",
        "expectations warned",
        "evidence warned or NaN",
    ]
    heads += ["wrong", "of these silently", "right, warned", "seconds"]
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " ---: |" * (len(heads) - 1)]
    names = dict.fromkeys(row["target"] for row in rows)
    groups = {name: [row for row in rows if row["target"] == name] for name in names}
    labels = dict.fromkeys(row["label"] for row in rows)
    if len(labels) > 1:
        groups |= {
            f"all of kmc {label}": [row for row in rows if row["label"] == label]
            for label in labels
        }
    for name, group in (groups | {"all": rows}).items():
        cells: list[Any] = [name, len(group)]
        beyond = 0
        for kind in KINDS:
            z = np.abs(np.concatenate([errors_of(row, kind) for row in group]))
            cells.append(f"{np.mean(z < 1.96):.0%} of {len(z)}" if len(z) else "")
            beyond += int(np.sum(z > BEYOND))
        warned = [bool(row["said_run"]) for row in group]
        bad = [wrong(row) for row in group]
        cells += [beyond, sum(bool(row["said_expectations"]) for row in group)]
        cells.append(
            sum(bool(row["said_evidence"] or math.isnan(row["evidence"])) for row in group)
        )
        cells += [sum(bad), sum(b and not w for b, w in zip(bad, warned, strict=True))]
        cells.append(sum(w and not b for b, w in zip(bad, warned, strict=True)))
        cells.append(f"{np.median([row['seconds'] for row in group]):.0f}")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    faults = [
        f"- {r['target']}, seed {r['seed']}, kmc {r['label']}: {', '.join(silent(r))}"
        for r in rows
        if silent(r)
    ]
    ends = "Wrong without a warning:" if faults else "Nothing is wrong without a warning."
    return "\n".join([*lines, "", ends, "", *faults]).rstrip()


def report(rows: list[dict]) -> str:
    """Markdown: a page with a table for each budget."""
    budgets = sorted({row["budget"] for row in rows})
    labels = ", ".join(dict.fromkeys(row["label"] for row in rows))
    parts = [
        f"## {b:,} evaluations\n\n{table([row for row in rows if row['budget'] == b])}"
        for b in budgets
    ]
    title = (
        "# Honest numbers\n\n"
        "    python benchmarks/honesty.py --table > benchmarks/results/honesty.md"
    )
    about = (
        "What the columns are is in [benchmarks/README.md](../README.md#honest-numbers). "
        f"kmc as of {labels}."
    )
    return "\n\n".join([title, about, *parts])


def main() -> None:
    """Run missing cells, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--targets", nargs="+", default=list(TARGETS), choices=TARGETS, metavar="TARGET"
    )
    parser.add_argument("--budgets", nargs="+", type=int, default=[1000, 3000], help="evaluations")
    parser.add_argument(
        "--seeds", nargs=2, type=int, default=[2001, 2021], metavar=("FIRST", "END")
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument(
        "--max-time",
        type=float,
        default=math.inf,
        help="seconds after which no further cell begins",
    )
    parser.add_argument(
        "--rerun", action="store_true", help="run these cells although the CSV has them"
    )
    parser.add_argument(
        "--label", help="of this version of the code; default: the commit that changed kmc last"
    )
    parser.add_argument(
        "--table", action="store_true", help="run nothing: print the tables of all that the CSV has"
    )
    parser.add_argument(
        "--runs", type=Path, help="a folder of runs: kept there, and not made again if there"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="the CSV")
    options = parser.parse_args()
    failures = []
    if not options.table:
        git = ["git", "-C", str(HERE.parent), "log", "-1", "--format=%h", "--", "kmc"]
        label = (
            options.label
            or subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
        )
        known = {tuple(row[name] for name in KEY) for row in read(options.results)}
        cells = [
            (n, b, s)
            for b, s, n in itertools.product(
                options.budgets, range(*options.seeds), options.targets
            )
        ]
        missing = [(label, *cell) for cell in cells if options.rerun or cell not in known]
        write = partial(finish, options.results)
        if options.runs:
            options.runs.mkdir(parents=True, exist_ok=True)
        failures = run_cells(
            partial(run_cell, options.runs), missing, options.jobs, write, max_time=options.max_time
        )
    print(report(read(options.results)), *failures, sep="\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
