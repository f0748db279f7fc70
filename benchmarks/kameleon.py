"""The comparison of Kameleon's paper, ``python benchmarks/kameleon.py``.

Sejdinovic, Strathmann, Lomeli Garcia, Andrieu and Gretton (2014), "Kernel adaptive Metropolis-Hastings", section 5: a
chain from the origin on the strongly twisted banana and on the flower, both in eight dimensions, with half of the
iterations as burn-in. In coordinates in which the target is a Gaussian, the *quantile deviation* is the mean over the
deciles of |fraction of the draws in the ellipsoid of that probability - probability|. Targets and iterations are those
of the authors' scripts (https://github.com/karlnapf/kameleon-mcmc); ``--share`` runs a part of the iterations. The
bandwidth is this package's default: coordinates are scaled here.

``--targets glass`` is the posterior of the length scales of a classifier (``examples/gp_classifier.py``), whose
likelihood is estimated: 1,200 iterations of burn-in and 5,000 draws, as in Strathmann et al. (2015), section 5. It
needs ``--glass`` (UCI's glass.data) and ``--benchmark`` (draws of the posterior, .npy). In place of the quantile
deviation is the *MMD* from those draws in mixed moments up to order three, of standardized coordinates; the norm is
that of the mean's error. ``kmc.ScoreHMC`` and ``kmc.KernelHMC``, whose warm-up has several chains, have as many
evaluations in all as the others have iterations, and decide about the part of warm-up.

Writes ``results/kameleon.csv``, one row for each run, and prints their medians; rows that exist are not run again.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from csv_rows import append_row, read_rows
from scipy import stats

import kmc
from kmc.targets.toys import Banana

RESULTS = Path(__file__).parent / "results" / "kameleon.csv"
KEY = ("target", "sampler", "iterations", "seed")
COLUMNS = (*KEY, "quantile_deviation", "mean_norm", "acceptance", "ess_per_1000", "seconds")
GLASS_BURN_IN, GLASS_DRAWS = 1200, 5000
DECILES = np.arange(0.1, 0.95, 0.1)


@dataclass(frozen=True)
class Flower:
    """Radius N(10 + 6 cos 6θ, 1) at a uniform angle θ in the first two coordinates; the others are N(0, 1)."""

    dim: int = 8

    def __call__(self, x: np.ndarray) -> float:
        """Log-density, up to a constant."""
        return -0.5 * float(np.sum(self.normal(x[None]) ** 2))

    @staticmethod
    def normal(x: np.ndarray) -> np.ndarray:
        """Rows (n, 7) that are N(0, I) for draws x (n, 8): the deviation of the radius, and the other coordinates.

        The density has no factor 1 / r, as in the authors' code, so that this holds nearly for the first one.
        """
        radius = 10.0 + 6.0 * np.cos(6.0 * np.arctan2(x[:, 1], x[:, 0]))
        return np.column_stack([np.linalg.norm(x[:, :2], axis=1) - radius, x[:, 2:]])


def straightened(x: np.ndarray) -> np.ndarray:
    """Rows that are N(0, I) for draws x (n, 8) of the banana."""
    return np.column_stack([x[:, 0] / 10.0, x[:, 1] + 0.1 * (x[:, 0] ** 2 - 100.0), x[:, 2:]])


TARGETS: dict[str, tuple[Any, Callable[[np.ndarray], np.ndarray], int]] = {
    "banana-8d": (Banana(8, b=0.1), straightened, 80_000),
    "flower-8d": (Flower(), Flower.normal, 120_000),
}
"""Density, Gaussian coordinates, and iterations."""

BY_SCORE = kmc.scores.LiteKEF(n_basis=200)
SAMPLERS: dict[str, Any] = {
    "plain adaptive Metropolis": kmc.AdaptiveMetropolis(moves=("random-walk",)),
    "Kameleon": kmc.Kameleon(),
    "kmc.AdaptiveMetropolis": kmc.AdaptiveMetropolis(),
    "kmc.AdaptiveLangevin": kmc.AdaptiveLangevin(),
    "kmc.DelayedAcceptance": kmc.DelayedAcceptance(),
    "kmc.ScoreHMC": kmc.ScoreHMC(BY_SCORE, warmup_sampler=kmc.AdaptiveMetropolis()),
    "kmc.KernelHMC": kmc.KernelHMC(),
}
"""The first is the yardstick of the last column of the table."""


def quantile_deviation(normal: np.ndarray) -> float:
    """Of rows (n, k) that should be N(0, I)."""
    squares = np.sum(normal**2, axis=1)
    inside = np.mean(squares[:, None] < stats.chi2.ppf(DECILES, normal.shape[1]), axis=0)
    return float(np.mean(np.abs(inside - DECILES)))


def mmd(x: np.ndarray, benchmark: np.ndarray) -> float:
    """Between draws (n, d) and (m, d) in all mixed moments up to order three, standardized by the latter."""
    x, y = ((draws - benchmark.mean(axis=0)) / benchmark.std(axis=0) for draws in (x, benchmark))
    (a, b), c = (float(np.mean((1.0 + z @ z.T) ** 3)) for z in (x, y)), float(np.mean((1.0 + x @ y.T) ** 3))
    return float(np.sqrt(max(a + b - 2.0 * c, 0.0)))


def run_glass(sampler: str, seed: int, glass: Path, benchmark: Path) -> dict[str, Any]:
    """One chain on the noisy target."""
    sys.path.append(str(Path(__file__).parents[1] / "examples"))
    from gp_classifier import GaussianProcessClassifier, read_glass

    target, start = GaussianProcessClassifier(*read_glass(glass)), time.perf_counter()
    noise = np.random.default_rng([seed, 9])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kmc.KmcWarning)
        idata = kmc.sample(
            kmc.Model(lambda x: target(x, noise), dim=target.dim, noisy=True),
            initial=np.zeros((1, target.dim)),
            sampler=SAMPLERS[sampler],
            chains=1,
            **_length(sampler, GLASS_BURN_IN, GLASS_DRAWS),
            seed=seed,
            progress=False,
        )
    x, known = idata.posterior["x"].values, np.load(benchmark)
    return {
        **dict(zip(KEY, ("glass", sampler, GLASS_BURN_IN + GLASS_DRAWS, seed), strict=True)),
        "quantile_deviation": mmd(x[0], known),
        "mean_norm": float(np.linalg.norm(x[0].mean(axis=0) - known.mean(axis=0))),
        **mixing(idata),
        "seconds": time.perf_counter() - start,
    }


def _length(sampler: str, burn_in: int, draws: int) -> dict[str, Any]:
    if sampler in ("kmc.ScoreHMC", "kmc.KernelHMC"):
        return {"draws": None, "max_evaluations": burn_in + draws}
    return {"warmup": burn_in, "draws": draws}


def mixing(idata: Any) -> dict[str, float]:
    """Acceptance, and ESS per 1,000 evaluations, the start included."""
    x = idata.posterior["x"].values
    return {
        "acceptance": float(idata.sample_stats["accepted"].mean()),
        "ess_per_1000": 1000.0 * kmc.ess.worst_bulk_ess(x) / int(idata.posterior.attrs["n_evaluations"]),
    }


def run(target: str, sampler: str, iterations: int, seed: int) -> dict[str, Any]:
    """One chain."""
    density, normal, _ = TARGETS[target]
    start, half = time.perf_counter(), iterations // 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kmc.KmcWarning)
        idata = kmc.sample(
            density,
            dim=8,
            initial=np.eye(1, 8),  # the flower has no angle at the origin itself
            sampler=SAMPLERS[sampler],
            chains=1,
            **_length(sampler, half, half),
            seed=seed,
            progress=False,
        )
    x = idata.posterior["x"].values
    return {
        **dict(zip(KEY, (target, sampler, iterations, seed), strict=True)),
        "quantile_deviation": quantile_deviation(normal(x[0])),
        "mean_norm": float(np.linalg.norm(x[0].mean(axis=0))),
        **mixing(idata),
        "seconds": time.perf_counter() - start,
    }


def table(found: list[dict[str, str]]) -> str:
    """Medians over seeds."""
    lines = [
        "| target | iterations | sampler | seeds | quantile deviation | norm of mean | acceptance | ESS per 1,000 "
        "| x plain |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in found:
        groups.setdefault((row["target"], row["iterations"], row["sampler"]), []).append(row)
    for (target, iterations, sampler), group in sorted(groups.items(), key=lambda item: _order(*item[0])):
        names = ("quantile_deviation", "mean_norm", "acceptance", "ess_per_1000")
        medians = [statistics.median(float(row[name]) for row in group) for name in names]
        plain = groups.get((target, iterations, next(iter(SAMPLERS))))
        factor = f"{_factor(group, plain):.2g}" if plain else ""
        shown = " | ".join(f"{value:.3g}" for value in medians)
        lines.append(f"| {target} | {int(iterations):,} | {sampler} | {len(group)} | {shown} | {factor} |")
    return "\n".join(lines)


def _order(target: str, iterations: str, sampler: str) -> tuple[str, int, int]:
    return target, int(iterations), list(SAMPLERS).index(sampler)


def _factor(group: list[dict[str, str]], plain: list[dict[str, str]]) -> float:
    """Of the medians over the seeds that both have."""
    seeds = {row["seed"] for row in group} & {row["seed"] for row in plain}
    one, other = (
        statistics.median([float(row["ess_per_1000"]) for row in rows_ if row["seed"] in seeds] or [np.nan])
        for rows_ in (group, plain)
    )
    return one / other


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choices = [*TARGETS, "glass"]
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=choices, metavar="TARGET")
    parser.add_argument("--glass", type=Path, help="UCI's glass.data")
    parser.add_argument("--benchmark", type=Path, help="draws of the posterior of glass, .npy")
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no run after so long")
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=SAMPLERS, metavar="SAMPLER")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="of the paper's iterations")
    options = parser.parse_args()
    if "glass" in options.targets and not (options.glass and options.benchmark):
        parser.error("--targets glass needs --glass and --benchmark")
    begun = time.perf_counter()
    known = {tuple(row[name] for name in KEY) for row in read_rows(RESULTS)}
    for seed in range(options.seeds):
        for target in options.targets:
            glass = target == "glass"
            iterations = GLASS_BURN_IN + GLASS_DRAWS if glass else int(options.share * TARGETS[target][2])
            for sampler in options.samplers:
                late = time.perf_counter() - begun > options.seconds
                if late or (target, sampler, str(iterations), str(seed)) in known:
                    continue
                if glass:
                    append_row(RESULTS, COLUMNS, run_glass(sampler, seed, options.glass, options.benchmark))
                else:
                    append_row(RESULTS, COLUMNS, run(target, sampler, iterations, seed))
    print(table(read_rows(RESULTS)))


if __name__ == "__main__":
    main()
