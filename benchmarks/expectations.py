"""Expectations and evidence from the surrogate, compared with the truth: ``python benchmarks/expectations.py --help``.

A cell is (target, budget, seed): one run of the default sampler, with ``kmc.expectations`` and ``kmc.evidence``. Its
row is appended to results/expectations.csv at once, and existing rows are not run again. Errors are in true sds. "Gain"
is the ratio of mean squared errors of the plain averages and of the corrected ones over all coordinates and seeds;
"least gain" is the smallest ratio of their stated squared errors; "covered" is the fraction of intervals of ±1.96
stated errors that contain the truth, for means, sds and quantiles.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.special import gammaln
from targets import TAILS, problem

import kmc

RESULTS = Path(__file__).parent / "results"
TARGETS = (
    "banana-2d", "gaussian-10d", "ring", "bimodal-2d", "log-gamma-5d", "logistic", "funnel-5d-sd1", "student-t-5d",
    "banana-8d", "pints-oscillator", "fitzhugh-nagumo", "demo",
)  # fmt: skip
_LOG_2PI = np.log(2 * np.pi)
LOG_EVIDENCE = {
    **dict.fromkeys(("banana-2d", "banana-8d", "gaussian-10d", "gaussian-30d", "ring", "bimodal-2d"), 0.0),
    **dict.fromkeys(("bimodal-5d", "twisted-gaussian-10d"), 0.0),
    "log-gamma-5d": float(gammaln([0.5, 1, 2, 4, 8]).sum()),
    "funnel-5d-sd1": 2.5 * _LOG_2PI,
    "student-t-5d": float(2.5 * np.log(3 * np.pi) + gammaln(1.5) - gammaln(4)),
    "pints-cone": float(np.log(12 * np.pi**2)),
}
"""Exact values, where they are known."""
COLUMNS = (
    "target", "budget", "seed", "dim", "draws", "corrected", "surrogate_draws", "sampling", "seconds", "mean_square",
    "plain_square", "sd_square", "least_gain", "ess_mean", "ess_sd", "ess_quantile", "covered_mean", "covered_sd",
    "covered_quantile", "covered_68", "log_evidence", "log_evidence_se", "evidence_seconds", "said",
)  # fmt: skip


def cell(name: str, budget: int, seed: int, surrogate_draws: int) -> dict:
    """One run, and its read-outs."""
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
    sampled = time.perf_counter()
    found = kmc.expectations(idata, quantiles=TAILS, max_surrogate_draws=surrogate_draws, seed=seed)
    read = time.perf_counter()
    evidence = kmc.evidence(idata, seed=seed)
    done = time.perf_counter()
    truth = target.truth
    error = np.abs(found["mean"].values - truth.mean)
    sd_error = np.abs(found["sd"].values - truth.sd)
    quantile_error = np.abs(found["quantiles"].values - truth.quantiles)
    mcse, mcse_sd, mcse_quantile = (found[key].values for key in ("mcse", "mcse_sd", "mcse_quantiles"))
    plain = (found["plain_mean"].values - truth.mean) / truth.sd
    log_z, se = float(evidence["log_evidence"][0]), float(evidence["se"][0])
    return {
        "target": name,
        "budget": budget,
        "seed": seed,
        "dim": target.dim,
        "draws": found.attrs["n_draws"],
        "corrected": found.attrs["corrected"],
        "surrogate_draws": found.attrs["n_surrogate_draws"],
        "sampling": round(sampled - began, 1),
        "seconds": round(read - sampled, 1),
        "mean_square": np.mean((error / truth.sd) ** 2),
        "plain_square": np.mean(plain**2),
        "sd_square": np.mean((sd_error / truth.sd) ** 2),
        "least_gain": float(((found["plain_mcse"] / found["mcse"]) ** 2).min()),
        "ess_mean": np.median(found["equivalent_ess"]),
        "ess_sd": np.median(found["equivalent_ess_sd"]),
        "ess_quantile": np.median(found["equivalent_ess_quantiles"]),
        "covered_mean": np.mean(error < 1.96 * mcse),
        "covered_sd": np.mean(sd_error < 1.96 * mcse_sd),
        "covered_quantile": np.mean(quantile_error < 1.96 * mcse_quantile),
        "covered_68": np.mean(error < mcse),
        "log_evidence": log_z,
        "log_evidence_se": se,
        "evidence_seconds": round(done - read, 1),
        "said": json.dumps([*found.attrs["warnings"], *evidence.attrs["warnings"]]),
    }


def table(rows: list[dict]) -> str:
    """Medians and rates by target and budget, as Markdown."""
    lines = [
        "| target | evaluations | runs | gain, means | least gain | equivalent ESS per 1,000: means | sds | "
        "5, 95 % quantiles | covered: means, 95 % | sds | quantiles | means, 68 % | log Z: rms error | stated "
        "| covered | seconds |",
        "| --- " * 16 + "|",
    ]
    for name, budget in dict.fromkeys((row["target"], row["budget"]) for row in rows):
        group = [row for row in rows if (row["target"], row["budget"]) == (name, budget)]

        def column(key, group=group):
            return np.array([float(row[key]) for row in group])

        per = 1000 / int(budget)
        gain = column("plain_square").mean() / column("mean_square").mean()
        ess = (f"{np.median(column(key)) * per:,.0f}" for key in ("ess_mean", "ess_sd", "ess_quantile"))
        covered = (f"{column(f'covered_{key}').mean():.2f}" for key in ("mean", "sd", "quantile", "68"))
        stated, exact = column("log_evidence_se"), LOG_EVIDENCE.get(name, np.nan)
        error = column("log_evidence") - exact
        evidence = ["", f"{np.sqrt(np.mean(stated**2)):.3f}", ""]
        if np.isfinite(exact):
            evidence = [
                f"{np.sqrt(np.mean(error**2)):.3f}",
                evidence[1],
                f"{np.mean(np.abs(error) < 1.96 * stated):.2f}",
            ]
        least, seconds = f"{column('least_gain').min():.1f}", f"{np.median(column('seconds')):.0f}"
        cells = (name, f"{int(budget):,}", len(group), f"{gain:.0f}", least, *ess, *covered, *evidence, seconds)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run missing cells, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--budgets", default="3000")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--surrogate-draws", type=int, default=100_000)
    parser.add_argument("--max-time", type=float, default=np.inf, help="seconds after which no further cell begins")
    options = parser.parse_args()
    began = time.perf_counter()
    path = RESULTS / "expectations.csv"
    rows = list(csv.DictReader(path.open())) if path.exists() else []
    done = {(row["target"], int(row["budget"]), int(row["seed"])) for row in rows}
    for seed in range(1, options.seeds + 1):
        for budget in map(int, options.budgets.split(",")):
            for name in options.targets.split(","):
                if (name, budget, seed) in done or time.perf_counter() - began > options.max_time:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", kmc.KmcWarning)
                    row = cell(name, budget, seed, options.surrogate_draws)
                new = not path.exists()
                with path.open("a", newline="") as file:
                    writer = csv.DictWriter(file, COLUMNS)
                    if new:
                        writer.writeheader()
                    writer.writerow(row)
                print(name, budget, seed, f"gain {row['plain_square'] / row['mean_square']:.0f}", flush=True)
    rows = sorted(csv.DictReader(path.open()), key=lambda row: (row["target"], int(row["budget"])))
    (RESULTS / "expectations.md").write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
