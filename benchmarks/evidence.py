"""log Z by kmc.evidence and by nested sampling, compared with exact values: ``python benchmarks/evidence.py --help``.

A cell is (target, method, budget, seed). Its row is appended to results/evidence.csv at once, and existing rows are not
run again. Only targets with a known log Z are used. dynesty needs a prior that it can draw from: independent Student-t
densities (three degrees of freedom) around the true means, of three times the true sds; its likelihood is the ratio of
the target and this prior, so that both methods estimate the same integral. That helps dynesty: kmc gets over-dispersed
starts, and not the scales of the posterior. It stops at the budget, or when .01 nats are left; the rows have the
evaluations that it used. "For .1" is the number of evaluations at which the error would be .1 nats, as errors fall with
the square root of the evaluations, from the larger one of the root-mean-square and the stated error. kmc needs its
budget if its error is smaller than that; a run with an error of more than a nat is unfinished, and needs more.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from expectations import LOG_EVIDENCE
from scipy import stats
from targets import Problem, problem

import kmc

RESULTS = Path(__file__).parent / "results"
TARGETS = ("gaussian-10d", "banana-2d", "ring", "bimodal-2d", "log-gamma-5d", "funnel-5d-sd1", "student-t-5d")
COLUMNS = ("target", "method", "budget", "seed", "evaluations", "error", "se", "seconds", "said")
WANTED = 0.1  # nats

Found = tuple[float, float, int, int]  # log Z, its error, evaluations, warnings


def by_kmc(target: Problem, budget: int, seed: int) -> Found:
    """A default run, and its evidence."""
    initial = target.initial(np.random.default_rng(seed), 4)
    options = {"dim": target.dim, "draws": None, "max_evaluations": budget, "seed": seed, "progress": False}
    idata = kmc.sample(target.log_density, initial=initial, **options)
    found = kmc.evidence(idata, seed=seed)
    said = len(found.attrs["warnings"])
    return float(found["log_evidence"][0]), float(found["se"][0]), int(idata.attrs["n_evaluations"]), said


def by_dynesty(target: Problem, budget: int, seed: int) -> Found:
    """Nested sampling with 50 live points in each dimension, within limits given by the budget."""
    from dynesty import NestedSampler

    prior = stats.t(3, loc=target.truth.mean, scale=3 * target.truth.sd)
    sampler = NestedSampler(
        lambda x: target.log_density(x) - float(prior.logpdf(x).sum()),
        prior.ppf,
        target.dim,
        nlive=int(min(50 * target.dim, max(budget // 20, 2 * target.dim + 2))),
        rstate=np.random.default_rng(seed),
    )
    sampler.run_nested(maxcall=budget, dlogz=0.01, print_progress=False)
    results = sampler.results
    return float(results.logz[-1]), float(results.logzerr[-1]), int(np.sum(results.ncall)), 0


METHODS: dict[str, Callable[[Problem, int, int], Found]] = {"kmc": by_kmc, "dynesty": by_dynesty}


def table(rows: list[dict]) -> str:
    """Root-mean-square errors by target, method and budget, as Markdown."""
    lines = [
        "| target | method | budget | evaluations | runs | log Z: rms error | stated | within 1.96 stated | warned "
        "| for .1 | seconds |",
        "| --- " * 11 + "|",
    ]
    for key in dict.fromkeys((row["target"], row["method"], row["budget"]) for row in rows):
        group = [row for row in rows if (row["target"], row["method"], row["budget"]) == key]
        error, se, used = (np.array([float(row[name]) for row in group]) for name in ("error", "se", "evaluations"))
        rms = float(np.sqrt(np.mean(error**2)))
        needed = float(used.mean()) * (max(rms, float(np.sqrt(np.mean(se**2)))) / WANTED) ** 2
        if key[1] == "kmc":
            needed = max(needed, float(used.mean()))
        wanted = f"{needed:,.0f}" if rms < 1 else "more"
        covered = np.mean(np.abs(error) < 1.96 * se)
        seconds = np.median([float(row["seconds"]) for row in group])
        warned = sum(int(row["said"]) > 0 for row in group)
        cells = (*key, f"{used.mean():,.0f}", len(group), f"{rms:.3f}", f"{np.sqrt(np.mean(se**2)):.3f}")
        cells += (f"{covered:.2f}", warned, wanted, f"{seconds:.0f}")
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run missing cells, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--budgets", default="5000")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--max-time", type=float, default=np.inf, help="seconds after which no further cell begins")
    options = parser.parse_args()
    began, path = time.perf_counter(), RESULTS / "evidence.csv"
    rows = list(csv.DictReader(path.open())) if path.exists() else []
    done = {tuple(row[name] for name in COLUMNS[:4]) for row in rows}
    cells = [
        (name, method, budget, seed)
        for seed in range(1, options.seeds + 1)
        for budget in map(int, options.budgets.split(","))
        for name in options.targets.split(",")
        for method in options.methods.split(",")
    ]
    for name, method, budget, seed in cells:
        if (name, method, str(budget), str(seed)) in done or time.perf_counter() - began > options.max_time:
            continue
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            log_z, se, used, said = METHODS[method](problem(name), budget, seed)
        error, seconds = log_z - LOG_EVIDENCE[name], time.perf_counter() - start
        new = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.writer(file)
            writer.writerows([COLUMNS] * new)
            writer.writerow((name, method, budget, seed, used, f"{error:.5f}", f"{se:.5f}", f"{seconds:.1f}", said))
        print(name, method, budget, seed, f"{error:+.3f} ± {se:.3f}, {used} evaluations", flush=True)
    rows = sorted(csv.DictReader(path.open()), key=lambda row: (row["target"], int(row["budget"]), row["method"]))
    (RESULTS / "evidence.md").write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
