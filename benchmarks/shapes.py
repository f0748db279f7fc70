"""Hard shapes: right, wrong with a warning, or silently wrong: ``python benchmarks/shapes.py --help``.

A cell is (label, target, starts, method, budget, seed); its row is appended to results/shapes.csv at once, and existing
rows are not run again, so that an interrupted sweep can be continued. ``--label`` separates versions of the code.

A run is *wrong* if it is grossly off, whatever its own errors are: a mean by more than .3 true sd, a 5-95 % width by
more than 25 %, the weight of a mode by more than .1, or a mode with at least 2 % of the mass that has under a fifth of
its weight. It is also wrong if it is off by half as much (.15 sd, 12 %, .05) and that is over six standard errors
for its own effective sample size. If there is no mean, the median is compared in units of the 5-95 % width
over 3.29. *Silent* is a wrong run without any warning. A mode was *seen* if it was evaluated above the 2 % quantile of
its own draws' log-densities; a silent run that saw all modes of over 2 % had all the information it needed.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
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
from shape_peers import WITH_PRIOR
from shape_targets import FAMILIES, NAMES, SHAPES, STARTS, Shape, shape
from targets import TAILS

RESULTS = Path(__file__).parent / "results" / "shapes.csv"
KEY = ("label", "target", "starts", "method", "budget", "seed")
NUMBERS = ("bias", "width_min", "width_max", "share_error", "least_share", "excess", "ess", "tail_ess", "mode_ess")
FACTS = ("family", "dim", "modes", "seen", "evaluations", "draws", "acceptance", "rhat", "seconds", "own_seconds")
COLUMNS = (*KEY, *FACTS, *NUMBERS, "shares", "failure", "warnings", "said")
CHAINS = 4
ALL_METHODS = METHODS | WITH_PRIOR
FEWEST = 20  # draws per chain


# Verdict

BIAS, WIDTH, SHARE, LOST, MASS, SIGMAS = 0.3, 0.25, 0.1, 0.2, 0.02, 6.0


def quality(draws: np.ndarray, task: Shape) -> dict[str, Any]:
    """The numbers of a row, from draws (chains, n, d).

    ``excess``: among the statistics that are off by at least half of a gross error, the largest error in standard
    errors.
    """
    truth = task.truth
    flat = draws.reshape(-1, draws.shape[-1])
    center = np.median(flat, axis=0) if truth.heavy else flat.mean(0)
    bias = np.abs(center - truth.center) / truth.scale
    below_center = (draws <= truth.center).astype(float) if truth.heavy else draws
    spread = 0.5 * np.sqrt(2 * math.pi) if truth.heavy else 1.0  # of a median, approximately
    bias_error = spread / np.sqrt(_each(below_center, method="mean"))
    low, high = np.quantile(flat, TAILS, axis=0)
    true_width = truth.quantiles[1] - truth.quantiles[0]
    width = (high - low) / true_width
    errors = [
        np.sqrt(p * (1 - p) / _each((draws <= q).astype(float), method="mean")) * slope
        for p, q, slope in zip(TAILS, truth.quantiles, truth.slopes)
    ]
    width_error = np.hypot(*errors) / true_width
    found = [(bias, bias_error, BIAS), (np.abs(width - 1), width_error, WIDTH)]
    ess = _each(draws, method="bulk").min()
    numbers: dict[str, Any] = {
        "bias": bias.max(),
        "width_min": width.min(),
        "width_max": width.max(),
        "ess": ess,
        "tail_ess": _each(draws, method="tail", prob=(0.05, 0.95)).min(),
        "rhat": max(float(az.rhat(column)) for column in np.moveaxis(draws, 2, 0)),
    }
    if task.label is not None:
        labels = task.label(flat).reshape(draws.shape[:2])
        inside = np.stack([labels == k for k in range(len(truth.shares))], axis=2).astype(float)
        shares = inside.mean((0, 1))
        mode_ess = _each(inside, method="mean")
        found.append((np.abs(shares - truth.shares), np.sqrt(truth.shares * (1 - truth.shares) / mode_ess), SHARE))
        much = truth.shares >= MASS
        numbers |= {
            "share_error": np.abs(shares - truth.shares).max(),
            "least_share": (shares / truth.shares)[much].min(),
            "mode_ess": mode_ess.min() if np.all(shares > 0) else 1.0,
            "shares": " ".join(f"{share:.3f}" for share in shares),
        }
    material = [float((off / error)[off > 0.5 * gross].max(initial=0)) for off, error, gross in found]
    return numbers | {"excess": max(material)}


def wrong(row: dict) -> bool:
    """Whether the run's draws mislead, see the module's docstring; a run without draws or numbers is wrong."""
    if row["failure"] or row["bias"] == "" or math.isnan(row["bias"]):
        return True
    gross = row["bias"] > BIAS or row["width_min"] < 1 - WIDTH or row["width_max"] > 1 + WIDTH
    if row["share_error"] != "":
        gross |= row["share_error"] > SHARE or row["least_share"] < LOST
    return bool(gross or row["excess"] > SIGMAS)


def state(row: dict) -> str:
    """The verdict in words."""
    if not wrong(row):
        return "right, warned" if row["warnings"] else "right"
    if row["warnings"]:
        return "wrong, warned"
    return "SILENT" if saw_all(row) else "silent, a mode never seen"


def saw_all(row: dict) -> bool:
    """Whether each mode with a relevant weight was evaluated in its bulk."""
    return row["seen"] == row["modes"]


def _each(draws, **options):
    """ESS (d,) per column; a constant column gives no information, and counts with all draws."""
    size = draws.shape[0] * draws.shape[1]
    values = [float(az.ess(draws[:, :, i], **options)) for i in range(draws.shape[-1])]
    return np.where(np.isfinite(values), values, size)


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
        self.name, self.dim, self.noisy, self.black_box = task.name, task.dim, task.noisy, task.black_box
        self.log_density = task.density

    def initial(self, rng, k):
        """Exactly k starts."""
        x = self.task.initial(self.policy, rng, max(k, STARTS[self.policy]))
        return x[rng.permutation(len(x))[:k]]


def run_cell(label: str, target: str, policy: str, method: str, budget: int, seed: int) -> dict[str, Any]:
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
        run = max(ALL_METHODS[method](Bound(task, policy), seed, budget), key=lambda run: _each(run.draws).min())
        draws = run.draws
        facts = {"evaluations": run.evaluations, "seconds": run.seconds, "own_seconds": run.overhead, "seen": ""}
        facts |= {"warnings": int(any(az.rhat(c) > 1.05 for c in np.moveaxis(draws, 2, 0))), "said": "R-hat > 1.05"}
    row |= facts
    row["draws"] = draws.shape[1]
    if draws.shape[1] >= FEWEST:
        row |= quality(draws, task)
    else:
        row["failure"] = f"{draws.shape[1]} draws"
    return {name: _rounded(row[name]) for name in COLUMNS}


def _run_kmc(task, policy, budget, seed, important):
    import kmc
    from kmc.targets.toys import Banana

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
    ess = f"{_per_1000(row, 'ess'):.3g} per 1000" if row["ess"] != "" else row["failure"]
    parts = [state(row), ess]
    if row["shares"]:
        parts.append(f"shares {row['shares']}, mode ESS {row['mode_ess']:.3g}")
    bias = "" if row["bias"] == "" else f"bias {row['bias']:.2g}, widths {row['width_min']:.2g}-{row['width_max']:.2g}"
    return ", ".join([*parts, bias, f"{row['own_seconds']:.3g} s"])


# Reports


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of the CSV, the last one of each cell."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = [{name: _number(name, row.get(name) or "") for name in COLUMNS} for row in csv.DictReader(file)]
    return list({tuple(row[name] for name in KEY): row for row in rows}.values())


def _number(name: str, text: str):
    if name in ("label", "target", "starts", "method", "family", "shares", "failure", "said"):
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def table(rows: list[dict], by: tuple[str, ...]) -> str:
    """Markdown: a line for each combination of values of these columns."""
    head = [*by, "runs", "wrong", "SILENT, all modes seen", "silent, a mode never seen", "right, warned"]
    head += ["ESS per 1000 (worst)", "tail ESS", "mode ESS", "own ms"]
    lines = [f"| {' | '.join(head)} |", "| " + " | ".join(["---"] * len(by) + ["---:"] * (len(head) - len(by))) + " |"]
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    for key, group in groups.items():
        states = [state(row) for row in group]
        ess, tail, mode = (
            np.array([_per_1000(row, name) for row in group]) for name in ("ess", "tail_ess", "mode_ess")
        )
        own = [1000 * row["own_seconds"] / row["evaluations"] for row in group]
        cells = [*map(str, key), str(len(group)), str(sum(map(wrong, group)))]
        cells += [str(states.count(name)) for name in ("SILENT", "silent, a mode never seen", "right, warned")]
        cells += [f"{_median(ess)} ({np.nan_to_num(ess).min():.3g})", _median(tail), _median(mode)]
        lines.append(f"| {' | '.join([*cells, f'{np.median(own):.2g}'])} |")
    return "\n".join(lines)


def _per_1000(row, name):
    return math.nan if row[name] == "" else 1000 * row[name] / row["evaluations"]


def _median(values):
    return "" if np.isnan(values).all() else f"{np.nanmedian(values):.3g}"


def report(rows: list[dict]) -> str:
    """Markdown: families and then targets, of each label, method and budget."""
    order = {name: i for i, name in enumerate(NAMES)}
    rows = sorted(rows, key=lambda row: (order.get(row["target"], -1), row["starts"]))
    parts = []
    for label, method, budget in dict.fromkeys((row["label"], row["method"], row["budget"]) for row in rows):
        mine = [row for row in rows if (row["label"], row["method"], row["budget"]) == (label, method, budget)]
        parts.append(f"### {label}, {method}, {budget:,} evaluations")
        parts += [table(mine, ("family", "starts")), table(mine, ("target", "starts"))]
    return "\n\n".join(parts)


def _chosen(text: str) -> list[str]:
    """Targets by name, by family, or by a prefix of a name."""
    names: list[str] = []
    for part in text.split(","):
        if part in NAMES:
            found = [part]
        else:
            found = [
                n for n in NAMES if n.startswith(part) or (SHAPES[n].family if n in SHAPES else "controls") == part
            ]
        if not found:
            raise argparse.ArgumentTypeError(f"{part!r} is not a target, a family or the beginning of a name")
        names += found
    return list(dict.fromkeys(names))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    listed = f"names, beginnings of names, or families ({', '.join(FAMILIES)}), with commas between; default: all"
    parser.add_argument("--targets", type=_chosen, default=list(NAMES), metavar="A,B", help=listed)
    parser.add_argument("--starts", default="cover,box,spread", help=f"of {', '.join(STARTS)}")
    parser.add_argument("--methods", default="kmc", help=f"of {', '.join(ALL_METHODS)}")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--budget", type=int, default=10_000, help="evaluations, warm-up included")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--label", default="now", help="label of this version of the code")
    parser.add_argument("--rerun", action="store_true", help="run these cells even if the CSV has them")
    parser.add_argument("--report", action="store_true", help="run nothing: print tables from the CSV for this label")
    parser.add_argument("--list", action="store_true", help="print the targets and stop")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the CSV")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{name:24} {shape(name).family:24} {' '.join(shape(name).policies)}" for name in NAMES))
        return
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    cells = [
        (options.label, target, policy, method, options.budget, seed)
        for seed, method, target in itertools.product(seeds, options.methods.split(","), options.targets)
        for policy in shape(target).policies
        if policy in options.starts.split(",")
    ]
    known = {tuple(row[name] for name in KEY) for row in read(options.results)}
    missing = [] if options.report else [cell for cell in cells if options.rerun or cell not in known]
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
