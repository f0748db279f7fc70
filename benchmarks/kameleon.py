"""The comparison of Kameleon's paper, ``python benchmarks/kameleon.py``.

Sejdinovic, Strathmann, Lomeli Garcia, Andrieu and Gretton (2014), "Kernel adaptive Metropolis-Hastings", section 5: a
chain from the origin on the strongly twisted banana and on the flower, both in eight dimensions, with half of the
iterations as burn-in. In coordinates in which the target is a Gaussian, the *quantile deviation* is the mean over the
deciles of |fraction of the draws in the ellipsoid of that probability - probability|. Targets and iterations are those
of the authors' scripts (https://github.com/karlnapf/kameleon-mcmc); ``--share`` runs a part of the iterations. The
bandwidth is this package's default: coordinates are scaled here.

Writes ``results/kameleon.csv``, one row for each run, and prints their medians; rows that exist are not run again.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import kmc
from kmc.targets.toys import Banana

RESULTS = Path(__file__).parent / "results" / "kameleon.csv"
KEY = ("target", "sampler", "iterations", "seed")
COLUMNS = (*KEY, "quantile_deviation", "mean_norm", "acceptance", "ess_per_1000", "seconds")
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

SAMPLERS = {
    "plain adaptive Metropolis": kmc.AdaptiveMetropolis(moves=("random-walk",)),
    "Kameleon": kmc.Kameleon(),
    "kmc.AdaptiveMetropolis": kmc.AdaptiveMetropolis(),
}


def quantile_deviation(normal: np.ndarray) -> float:
    """Of rows (n, k) that should be N(0, I)."""
    squares = np.sum(normal**2, axis=1)
    inside = np.mean(squares[:, None] < stats.chi2.ppf(DECILES, normal.shape[1]), axis=0)
    return float(np.mean(np.abs(inside - DECILES)))


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
            warmup=half,
            draws=half,
            seed=seed,
            progress=False,
        )
    x = idata.posterior["x"].values
    return {
        **dict(zip(KEY, (target, sampler, iterations, seed), strict=True)),
        "quantile_deviation": quantile_deviation(normal(x[0])),
        "mean_norm": float(np.linalg.norm(x[0].mean(axis=0))),
        "acceptance": float(idata.sample_stats["accepted"].mean()),
        "ess_per_1000": 1000.0 * kmc.ess.worst_bulk_ess(x) / iterations,
        "seconds": time.perf_counter() - start,
    }


def rows() -> list[dict[str, str]]:
    """The rows so far."""
    if not RESULTS.exists():
        return []
    with RESULTS.open(newline="") as file:
        return list(csv.DictReader(file))


def append(row: dict[str, Any]) -> None:
    """Write a row."""
    new = not RESULTS.exists()
    with RESULTS.open("a", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            table.writeheader()
        table.writerow({name: f"{v:.4g}" if isinstance(v, float) else v for name, v in row.items()})


def table(found: list[dict[str, str]]) -> str:
    """Medians over seeds."""
    lines = [
        "| target | iterations | sampler | seeds | quantile deviation | norm of mean | acceptance | ESS per 1,000 |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in found:
        groups.setdefault((row["target"], row["iterations"], row["sampler"]), []).append(row)
    for (target, iterations, sampler), group in groups.items():
        medians = [
            f"{statistics.median(float(row[name]) for row in group):.3g}"
            for name in ("quantile_deviation", "mean_norm", "acceptance", "ess_per_1000")
        ]
        lines.append(f"| {target} | {int(iterations):,} | {sampler} | {len(group)} | {' | '.join(medians)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=TARGETS, metavar="TARGET")
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=SAMPLERS, metavar="SAMPLER")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="of the paper's iterations")
    options = parser.parse_args()
    known = {tuple(row[name] for name in KEY) for row in rows()}
    for seed in range(options.seeds):
        for target in options.targets:
            iterations = int(options.share * TARGETS[target][2])
            for sampler in options.samplers:
                if (target, sampler, str(iterations), str(seed)) not in known:
                    append(run(target, sampler, iterations, seed))
    print(table(rows()))


if __name__ == "__main__":
    main()
