"""Score estimators at their defaults, beside a Gaussian fit and kscore's estimators tuned by the
truth.

python benchmarks/score_defaults.py [--samples 500] [--seeds 3] [--first-seed 100] [--only ring]
python benchmarks/score_defaults.py --times 500,1000,2000 [--only ring] [--estimators
lite,Nyström,full]

Errors are E|s - s0|² / E|s0|² at 500 new draws. For kscore's estimators (`score_peers.py`) the best
kernel, width (half, one and two median distances) and regularization *by the truth* is shown, for
each sample anew.

With --times: processor time of a fit at the defaults relative to that of a fit with the fixed
Gaussian kernel, median distance and Gaussian base (medians of fits in turn, on one thread), at most
ten dimensions.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from score_peers import KERNELS, estimates

from kmc.kernels import median_distance
from kmc.scores import FullKEF, GaussianScore, LiteKEF, NystromKEF
from kmc.scores.choice import FIXED

RESULTS = Path(__file__).parent / "results" / "score_defaults.csv"
OWN = {"kmc Nyström": NystromKEF, "kmc lite": LiteKEF}
# and how many fits
TIMED = {"kmc lite": (LiteKEF, 9), "kmc Nyström": (NystromKEF, 3), "kmc full": (FullKEF, 1)}
LARGEST = {"kmc Nyström": 1000, "kmc full": 500}  # samples


@dataclass(frozen=True)
class Density:
    """Exact draws and their scores."""

    name: str
    dim: int
    draw: Callable[[np.random.Generator, int, int], np.ndarray]  # generator, number, dimension
    score: Callable[[np.ndarray], np.ndarray]


def _banana_draws(rng, n, d):
    x = rng.standard_normal((n, d))
    x[:, 0] *= 2.0
    x[:, 1] = 0.5 * x[:, 1] + 0.5 * (x[:, 0] ** 2 - 4)
    return x


def _banana_score(x):
    out, off = -x, (x[:, 1] - 0.5 * (x[:, 0] ** 2 - 4)) / 0.25
    out[:, 0], out[:, 1] = -x[:, 0] / 4 + off * x[:, 0], -off
    return out


def _hyperbolic_draws(rng, n, d):
    grid = np.linspace(-30, 30, 100_001)
    cdf = np.cumsum(np.exp(-np.sqrt(1 + grid**2)))
    return np.interp(rng.random((n, d)), cdf / cdf[-1], grid)


def _student_draws(rng, n, d):
    return rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(5, (n, 1)) / 5)


def _mixture_draws(rng, n, d):
    x = rng.standard_normal((n, d))
    x[:, 0] += 2.0 * rng.choice([-1.0, 1.0], n)
    return x


def _mixture_score(x):
    out = -x
    out[:, 0] += 2.0 * np.tanh(2.0 * x[:, 0])
    return out


def _ring_draws(rng, n, d):
    radius = np.linspace(1e-3, 6, 20_001)
    cdf = np.cumsum(radius * np.exp(-0.5 * ((radius - 3) / 0.3) ** 2))
    r, angle = np.interp(rng.random(n), cdf / cdf[-1], radius), rng.uniform(0, 2 * np.pi, n)
    return np.column_stack([r * np.cos(angle), r * np.sin(angle)])


def _ring_score(x):
    r = np.linalg.norm(x, axis=1, keepdims=True)
    return -(r - 3) / 0.09 * x / r


DENSITIES = (
    Density("banana, 2-d", 2, _banana_draws, _banana_score),
    Density("banana, 20-d", 20, _banana_draws, _banana_score),
    Density("hyperbolic, 10-d", 10, _hyperbolic_draws, lambda x: -x / np.sqrt(1 + x**2)),
    Density("hyperbolic, 20-d", 20, _hyperbolic_draws, lambda x: -x / np.sqrt(1 + x**2)),
    Density(
        "Student-t, 10-d",
        10,
        _student_draws,
        lambda x: -15 * x / (5 + np.sum(x**2, axis=1, keepdims=True)),
    ),
    Density("two Gaussians, 5-d", 5, _mixture_draws, _mixture_score),
    Density("ring, 2-d", 2, _ring_draws, _ring_score),
    Density("normal, 10-d", 10, lambda rng, n, d: rng.standard_normal((n, d)), lambda x: -x),
)


def errors(density: Density, n: int, seed: int) -> dict[str, float]:
    """Of each estimator, on one sample."""
    rng = np.random.default_rng([seed, n])
    x, points = density.draw(rng, n, density.dim), density.draw(rng, 500, density.dim)
    truth = density.score(points)

    def error(found):
        return float(np.sum((found - truth) ** 2) / np.sum(truth**2))

    out = {"Gaussian": error(GaussianScore().fit(x).gradient(points))}
    for name, kind in OWN.items():
        out[name] = error(kind(random_state=seed).fit(x).gradient(points))
    for kernel in KERNELS:
        for factor in (0.5, 1.0, 2.0):
            with np.errstate(all="ignore"):
                for name, found in estimates(x, points, kernel, factor * median_distance(x)):
                    value = error(found)
                    if np.isfinite(value):
                        out[name] = min(out.get(name, np.inf), value)
    return out


def seconds(kind: Any, n_fits: int, x: np.ndarray) -> tuple[float, float, float]:
    """Of a fit at the defaults, of one with fixed parameters, and of one with those that the first
    has chosen.
    """
    times: list[list[float]] = [[], [], []]
    for seed in range(n_fits + 1):
        chosen: dict[str, Any] = {}
        for k in range(3):
            begin = time.process_time()
            found = kind(random_state=seed, **({}, FIXED, chosen)[k]).fit(x)
            if seed:  # the first one compiles
                times[k].append(time.process_time() - begin)
            if not k:
                chosen = {
                    "kernel": found.kernel_,
                    "bandwidth": "median",
                    "base": found.base_density_,
                }
    first, fixed, same = (statistics.median(these) for these in times)
    return first, fixed, same


def print_times(sizes: list[int], only: str, estimators: list[str]) -> None:
    """Markdown, a row for each estimator, density and number of samples."""
    print("| estimator | density | n | defaults, s | / fixed | / fixed to what was chosen |")
    print("| --- | --- |" + 4 * " ---: |")
    for name, (kind, n_fits) in TIMED.items():
        if not any(name.endswith(ending) for ending in estimators):
            continue
        for density in DENSITIES:
            if density.dim > 10 or only not in density.name:
                continue
            for n in sizes:
                if n <= LARGEST.get(name, n):
                    x = density.draw(np.random.default_rng(n), n, density.dim)
                    first, fixed, same = seconds(kind, n_fits, x)
                    ratios = f"{first / fixed:.2f} | {first / same:.2f}"
                    print(
                        f"| {name} | {density.name} | {n:,} | {first:.3g} | {ratios} |", flush=True
                    )


def table(rows: list[dict]) -> str:
    """Markdown: geometric means over the seeds, the best of kscore's in its last column."""
    names = [name for name in rows[0] if name not in ("density", "samples", "seed")]
    lines = ["| density | " + " | ".join(names) + " |", "| --- |" + " ---: |" * len(names)]
    for density in dict.fromkeys(row["density"] for row in rows):
        these = [row for row in rows if row["density"] == density]
        means = [np.exp(np.mean([np.log(float(row[name])) for row in these])) for name in names]
        lines.append(f"| {density} | " + " | ".join(f"{mean:.3g}" for mean in means) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--only", default="", help="part of a density's name")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--times", default="", help="numbers of samples")
    parser.add_argument("--estimators", default="lite,Nyström,full", help="to be timed")
    args = parser.parse_args()
    if args.times:
        print_times([int(n) for n in args.times.split(",")], args.only, args.estimators.split(","))
        return
    rows = []
    for density in DENSITIES:
        if args.only not in density.name:
            continue
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            found = errors(density, args.samples, seed)
            rows.append({"density": density.name, "samples": args.samples, "seed": seed, **found})
        print(table(rows).splitlines()[-1], file=sys.stderr)
    print(table(rows))
    with args.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(
            {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows
        )


if __name__ == "__main__":
    main()
