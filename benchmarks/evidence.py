"""log Z by kmc.evidence, nested sampling and bridge sampling: ``python benchmarks/evidence.py
--help``.

A cell is (target, method, budget, seed). Its row is appended to results/evidence.csv at once, and
existing rows are not run again. The true log Z is known in closed form, or from importance sampling
(references.py).

Nested samplers and pocoMC need a prior that they can draw from: independent Student-t densities
(three degrees of freedom) around the true means, of three times the true sds; their likelihood is
the ratio of the target and this prior, so that all methods estimate the same integral. That helps
them: kmc gets over-dispersed starts, and not the scales of the posterior. They stop at the budget,
or when they have finished by their own rules; the rows have the evaluations that they used. pocoMC
has no limit of evaluations: it has one budget, 0, and its smallest sizes of populations. "bridge"
spends four fifths of the budget on ``kmc.AdaptiveMetropolis``, fits a Gaussian to the first half of
its draws, and the rest on draws from it; its error is by the jackknife over blocks.

Where the true log Z is from importance sampling, its own standard error is part of the intervals
("within ... stated"). The error of a method is the larger one of the root-mean-square and the
stated error, and it falls with the square root of the evaluations. "For .1" is the number of
evaluations at which it would be .1 nats; kmc needs its budget if its error is smaller than that; a
run with an error of more than a nat is unfinished, and needs more. "Times kmc's" is the number of
evaluations at which it would be that of kmc with 5,000, in units of 5,000.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from csv_rows import append_row, read_rows, run_cells
from pages import head
from scipy import special, stats
from targets import REFERENCES, Problem, problem

import kmc
from kmc.control_variates.replicate import bennett

RESULTS = Path(__file__).parent / "results"
TARGETS = (
    "gaussian-10d", "gaussian-30d", "banana-2d", "bimodal-2d", "funnel-5d-sd1", "logistic", "demo",
    "ring", "log-gamma-5d", "student-t-5d",
)  # fmt: skip
_LOG_2PI = np.log(2 * np.pi)
LOG_EVIDENCE = {
    **dict.fromkeys(
        ("banana-2d", "banana-8d", "gaussian-10d", "gaussian-30d", "ring", "bimodal-2d"), 0.0
    ),
    **dict.fromkeys(("bimodal-5d", "twisted-gaussian-10d"), 0.0),
    "log-gamma-5d": float(special.gammaln([0.5, 1, 2, 4, 8]).sum()),
    "funnel-5d-sd1": 2.5 * _LOG_2PI,
    "student-t-5d": float(2.5 * np.log(3 * np.pi) + special.gammaln(1.5) - special.gammaln(4)),
    "pints-cone": float(np.log(12 * np.pi**2)),
}
"""Closed forms."""
COLUMNS = ("target", "method", "budget", "seed", "evaluations", "error", "se", "seconds", "said")
WANTED = 0.1  # nats
OF_KMC = 5000  # evaluations

Found = tuple[float, float, int, int]  # log Z, its error, evaluations, warnings


def exact(name: str) -> float:
    """log Z."""
    if name in LOG_EVIDENCE:
        return LOG_EVIDENCE[name]
    return float(json.loads(REFERENCES.read_text())[name]["log_evidence"])


def error_of_truth(name: str) -> float:
    """The standard error of log Z: zero in closed form."""
    if name in LOG_EVIDENCE:
        return 0.0
    return float(json.loads(REFERENCES.read_text())[name]["log_evidence_error"])


def by_kmc(target: Problem, budget: int, seed: int) -> Found:
    """A default run, and its evidence."""
    idata = _run(target, budget, seed, "kernel-hmc")
    found = kmc.evidence(idata, seed=seed)
    said = len(found.attrs["warnings"])
    return (
        float(found["log_evidence"][0]),
        float(found["se"][0]),
        int(idata.attrs["n_evaluations"]),
        said,
    )


def by_bridge(target: Problem, budget: int, seed: int) -> Found:
    """Bridge sampling between draws of adaptive Metropolis and a Gaussian (Meng and Wong 1996)."""
    idata = _run(target, 4 * budget // 5, seed, "adaptive-metropolis")
    used = int(idata.attrs["n_evaluations"])
    x, values = idata["posterior"]["x"].values, idata["sample_stats"]["lp"].values
    half = x.shape[1] // 2
    first = x[:, :half].reshape(-1, target.dim)
    gaussian = stats.multivariate_normal(first.mean(axis=0), np.cov(first.T), seed=seed)
    y = np.atleast_2d(gaussian.rvs(budget - used))
    at_x = values[:, half:] - gaussian.logpdf(x[:, half:])
    with np.errstate(over="ignore"):
        at_y = np.clip([target.log_density(row) for row in y] - gaussian.logpdf(y), -1e3, 1e3)
    blocks = np.array_split(np.arange(at_x.shape[1]), 10), np.array_split(np.arange(len(y)), 10)

    def without(i):
        kept = [
            np.delete(np.arange(n), own[i])
            for n, own in zip((at_x.shape[1], len(y)), blocks, strict=True)
        ]
        return bennett(at_x[:, kept[0]].ravel(), at_y[kept[1]])

    parts = np.array([without(i) for i in range(10)])
    return bennett(at_x.ravel(), at_y), float(np.sqrt(9 * parts.var())), used + len(y), 0


class Likelihood:
    """The ratio of a target and a prior, which both nested sampling and pocoMC draw from."""

    def __init__(self, target: Problem):
        self.target, self.calls = target, 0
        self.location, self.scale = target.truth.mean, 3 * target.truth.sd
        self.prior = [
            stats.t(3, loc=m, scale=s) for m, s in zip(self.location, self.scale, strict=True)
        ]
        self._constant = target.dim * (
            special.gammaln(2) - special.gammaln(1.5) - 0.5 * np.log(3 * np.pi)
        )

    def __call__(self, x: np.ndarray) -> float:
        """The log-likelihood at a point."""
        self.calls += 1
        z = (np.asarray(x) - self.location) / self.scale
        log_prior = self._constant - np.sum(np.log(self.scale) + 2 * np.log1p(z**2 / 3))
        return max(float(self.target.log_density(np.asarray(x))) - float(log_prior), -1e30)

    def from_cube(self, u: np.ndarray) -> np.ndarray:
        """Points from the unit cube."""
        return self.location + self.scale * special.stdtrit(3, u)


def by_dynesty(target: Problem, budget: int, seed: int) -> Found:
    """Nested sampling with 50 live points in each dimension, within limits given by the budget."""
    from dynesty import NestedSampler

    likelihood = Likelihood(target)
    live = int(min(50 * target.dim, max(budget // 20, 2 * target.dim + 2)))
    rng = np.random.default_rng(seed)
    sampler = NestedSampler(likelihood, likelihood.from_cube, target.dim, nlive=live, rstate=rng)
    sampler.run_nested(maxcall=budget, dlogz=0.01, print_progress=False)
    results = sampler.results
    return float(results.logz[-1]), float(results.logzerr[-1]), likelihood.calls, 0


def by_nautilus(target: Problem, budget: int, seed: int) -> Found:
    """Importance nested sampling with neural networks; a tenth of the budget, at most its default,
    are live points.
    """
    from nautilus import Sampler

    likelihood = Likelihood(target)
    live = int(np.clip(budget // 10, 100, 2000))
    sampler = Sampler(
        likelihood.from_cube, likelihood, n_dim=target.dim, n_live=live, pass_dict=False, seed=seed
    )
    sampler.run(n_like_max=budget, verbose=False)
    size = max(float(sampler.n_eff), 1.0)
    return float(sampler.log_z), size**-0.5, likelihood.calls, int(likelihood.calls >= budget)


def by_ultranest(target: Problem, budget: int, seed: int) -> Found:
    """Reactive nested sampling with 50 live points per dimension, at most its default of 400."""
    import logging

    from ultranest import ReactiveNestedSampler

    logging.getLogger("ultranest").setLevel(logging.ERROR)
    np.random.seed(seed)  # noqa: NPY002 - UltraNest has no other seed
    likelihood = Likelihood(target)
    names = [f"x{i}" for i in range(target.dim)]
    sampler = ReactiveNestedSampler(names, likelihood, likelihood.from_cube)
    live = min(50 * target.dim, 400)
    quiet = {"show_status": False, "viz_callback": None}
    results = sampler.run(max_ncalls=budget, min_num_live_points=live, **quiet)
    return (
        float(results["logz"]),
        float(results["logzerr"]),
        likelihood.calls,
        int(likelihood.calls >= budget),
    )


def by_pocomc(target: Problem, budget: int, seed: int) -> Found:
    """Preconditioned Monte Carlo with small populations."""
    import pocomc

    likelihood = Likelihood(target)
    prior = pocomc.Prior(likelihood.prior)
    sampler = pocomc.Sampler(prior, likelihood, n_effective=256, n_active=128, random_state=seed)
    sampler.run(n_total=512, n_evidence=512, progress=False)
    log_z, error = sampler.evidence()
    return float(log_z), float(error), likelihood.calls, 0


METHODS: dict[str, Callable[[Problem, int, int], Found]] = {
    "kmc": by_kmc,
    "bridge": by_bridge,
    "dynesty": by_dynesty,
    "nautilus": by_nautilus,
    "ultranest": by_ultranest,
    "pocomc": by_pocomc,
}


def _run(target, budget, seed, sampler):
    initial = target.initial(np.random.default_rng(seed), 4)
    options = {
        "dim": target.dim,
        "draws": None,
        "max_evaluations": budget,
        "seed": seed,
        "progress": False,
    }
    return kmc.sample(target.log_density, initial=initial, sampler=sampler, **options)


def cell(name: str, method: str, budget: int, seed: int) -> dict:
    """One row."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log_z, se, used, said = METHODS[method](problem(name), budget, seed)
    row = {
        "target": name,
        "method": method,
        "budget": budget,
        "seed": seed,
        "evaluations": used,
        "said": said,
    }
    numbers = {"error": f"{log_z - exact(name):.5f}", "se": f"{se:.5f}"}
    return row | numbers | {"seconds": f"{time.perf_counter() - start:.1f}"}


def finish(path: Path, row: dict) -> str:
    """Append a row to the CSV, and describe it."""
    append_row(path, COLUMNS, row)
    return f"{row['error']} ± {row['se']}, {row['evaluations']} evaluations, {row['seconds']} s"


def error_of(group: list[dict]) -> tuple[float, float, float]:
    """Root-mean-square error, stated error and mean number of evaluations."""
    error, se, used = (
        np.array([float(row[name]) for row in group]) for name in ("error", "se", "evaluations")
    )
    return float(np.sqrt(np.mean(error**2))), float(np.sqrt(np.mean(se**2))), float(used.mean())


def table(rows: list[dict]) -> str:
    """Root-mean-square errors by target, method and budget, as Markdown."""
    lines = [
        "| target | method | budget | evaluations | runs | log Z: mean error | rms error | stated "
        "| within 1 stated | within 1.96 stated | warned | for .1 | times kmc's | seconds |",
        "| --- " * 14 + "|",
    ]
    groups: dict[tuple[str, str, str], list[dict]] = {}
    for row in rows:
        groups.setdefault((row["target"], row["method"], row["budget"]), []).append(row)
    for key, group in groups.items():
        rms, stated, used = error_of(group)
        needed = used * (max(rms, stated) / WANTED) ** 2
        if key[1] == "kmc":
            needed = max(needed, used)
        wanted = f"{needed:,.0f}" if rms < 1 else "more"
        own = groups.get((key[0], "kmc", str(OF_KMC)))
        times = ""
        if own is not None and key[1] != "kmc":
            least = max(error_of(own)[:2])
            times = f"{used * (max(rms, stated) / least) ** 2 / OF_KMC:,.0f}"
        off, stated_each = (
            np.array([float(row[column]) for row in group]) for column in ("error", "se")
        )
        stated_each = np.hypot(stated_each, error_of_truth(key[0]))
        covered = [f"{np.mean(np.abs(off) < k * stated_each):.2f}" for k in (1.0, 1.96)]
        seconds = np.median([float(row["seconds"]) for row in group])
        warned = sum(int(row["said"]) > 0 for row in group)
        cells = (
            key[0],
            key[1],
            f"{int(key[2]):,}",
            f"{used:,.0f}",
            len(group),
            f"{off.mean():+.4f}",
        )
        cells += (f"{rms:.4f}", f"{stated:.4f}", *covered, warned, wanted, times, f"{seconds:.0f}")
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def coverage(rows: list[dict]) -> str:
    """The runs of kmc whose error is within the bar, and within 1.96 stated errors, with binomial
    standard errors.
    """
    lines = [
        "| kmc's runs | number | within .05 | in 1.96 stated errors | binomial standard error |",
        "| --- " * 5 + "|",
    ]
    runs = [row for row in rows if row["method"] == "kmc" and int(row["budget"]) == OF_KMC]
    for name, group in (
        ("all", runs),
        ("without a warning", [row for row in runs if int(row["said"]) == 0]),
    ):
        if not group:
            continue
        off = np.abs([float(row["error"]) for row in group])
        stated = np.hypot(
            [float(row["se"]) for row in group], [error_of_truth(row["target"]) for row in group]
        )
        share = float(np.mean(off < 1.96 * stated))
        se = np.sqrt(share * (1 - share) / len(group))
        lines.append(
            f"| {name} | {len(group)} | {int(np.sum(off < 0.05))} | {share:.3f} | {se:.3f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run missing cells, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--methods", default="kmc,bridge,dynesty", help=f"of {', '.join(METHODS)}")
    parser.add_argument("--budgets", default="5000")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument(
        "--max-time", type=float, default=np.inf, help="seconds after which no further cell begins"
    )
    parser.add_argument(
        "--results", type=Path, default=RESULTS / "evidence.csv", help="CSV; the table is beside it"
    )
    options = parser.parse_args()
    done = {tuple(row[name] for name in COLUMNS[:4]) for row in read_rows(options.results)}
    cells = [
        (name, method, 0 if method == "pocomc" else budget, seed)
        for seed in range(options.first_seed, options.first_seed + options.seeds)
        for budget in map(int, options.budgets.split(","))
        for name in options.targets.split(",")
        for method in options.methods.split(",")
    ]
    missing = [one for one in dict.fromkeys(cells) if tuple(map(str, one)) not in done]
    failures = run_cells(
        cell, missing, options.jobs, partial(finish, options.results), max_time=options.max_time
    )
    rows = sorted(
        read_rows(options.results),
        key=lambda row: (row["target"], int(row["budget"]), row["method"]),
    )
    known = [row for row in rows if np.isfinite(float(row["error"]))]
    unknown = f"Left out, as the evidence is NaN: {len(rows) - len(known)} runs.\n"
    report = f"{coverage(known)}\n{unknown if len(known) < len(rows) else ''}\n{table(known)}"
    title = head(
        "How exact is the evidence, and what do peers need?",
        "python benchmarks/evidence.py",
        ("evidence.csv",),
    )
    options.results.with_suffix(".md").write_text(title + report)
    print("", report, *failures, sep="\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
