"""Errors of the learned surrogate after few evaluations: ``python benchmarks/learning.py --help``.

For each target and seed, learning starts from 12 or 2 d over-dispersed points and is judged by
further draws of the surrogate. Printed are the largest error of a mean, in true standard
deviations, and of the log of a standard deviation, after each number of evaluations; the error in
nats of the last predictions; and the processor time of the whole run, nearly all of it kmc's own.
Where there is no variance, the mean is a median and the standard deviation a width.

With ``--budget``, whole runs of ``kmc.KernelHMC``: evaluations before the first draw, effective
draws (in the worst coordinate) per 1,000 evaluations, the same errors of the draws, and warnings.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable

import arviz
import numpy as np
from shape_targets import SHAPES, shape
from targets import DENSITIES, problem

import kmc
from kmc.kernel_hmc.learning import Learning

TARGETS = (
    "correlated-regression", "gaussian-10d", "logistic", "banana-2d", "banana-8d", "student-t-5d",
    "bimodal-5d", "unequal-5d", "t2-6d", "eight-schools", "eight-schools-centred",
    "fitzhugh-nagumo", "pints-oscillator", "demo", "log-gamma-5d", "pints-cone", "ring",
)  # fmt: skip
ITERATIONS = 60  # of 24 chains: 1,440 draws


class CorrelatedRegression:
    """A line through data far from the origin: intercept, slope and log sd, the first two with
    correlation -0.999.
    """

    dim = 3

    def __init__(self):
        self._x = 22.4 + np.linspace(-1.75, 1.75, 60)
        self._design = np.column_stack([np.ones(60), self._x])
        self._y = 3.0 + 0.5 * self._x + 0.1 * np.random.default_rng(5).standard_normal(60)

    def __call__(self, x) -> float:
        residual = self._y - x[0] - x[1] * self._x
        if abs(x[2]) > 50:
            return -np.inf
        prior = (x[0] / 10) ** 2 + (x[1] / 10) ** 2 + x[2] ** 2
        return float(-60 * x[2] - 0.5 * np.exp(-2 * x[2]) * (residual @ residual) - 0.5 * prior)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations, by a sum over the log sd; given it, the others are
        normal.
        """
        grid = np.linspace(-3.2, -1.3, 400)
        means, covariances, levels = [], [], []
        for log_sd in grid:
            precision = self._design.T @ self._design * np.exp(-2 * log_sd) + np.eye(2) / 100
            covariances.append(np.linalg.inv(precision))
            means.append(covariances[-1] @ self._design.T @ self._y * np.exp(-2 * log_sd))
            levels.append(
                self(np.append(means[-1], log_sd)) + 0.5 * np.linalg.slogdet(covariances[-1])[1]
            )
        weights = np.exp(np.array(levels) - max(levels))
        weights /= weights.sum()
        points = np.column_stack([np.array(means), grid])
        mean = weights @ points
        variances = weights @ (points - mean) ** 2
        variances[:2] += weights @ np.array([np.diag(c) for c in covariances])
        return mean, np.sqrt(variances)

    def initial(self, rng: np.random.Generator, k: int) -> np.ndarray:
        """Return k points of a guess that does not know the correlation, (k, 3)."""
        return np.array([0.0, 0.0, -1.0]) + np.array([3.0, 3.0, 1.0]) * rng.standard_normal((k, 3))


def target(name: str) -> tuple[Callable, np.ndarray, np.ndarray, Callable, bool]:
    """Return a log-density, true means and standard deviations, start points, and whether tails are
    heavy.
    """
    if name == "correlated-regression":
        density = CorrelatedRegression()
        return density, *density.moments(), density.initial, False
    if name in DENSITIES:
        known = problem(name)
        return known.log_density, known.truth.mean, known.truth.sd, known.initial, False
    hard = shape(name)
    policy = "spread" if hard.label is None else "cover"
    return (
        hard.density,
        hard.truth.center,
        hard.truth.scale,
        lambda rng, k: hard.initial(policy, rng, k),
        hard.heavy,
    )


def errors(draws: np.ndarray, mean: np.ndarray, sd: np.ndarray, heavy: bool) -> tuple[float, float]:
    """Return the largest errors of a mean, in standard deviations, and a log standard deviation."""
    if heavy:
        low, center, high = np.quantile(draws, [0.05, 0.5, 0.95], axis=0)
        scale = (high - low) / 3.29
    else:
        center, scale = draws.mean(axis=0), draws.std(axis=0)
    return float(np.abs((center - mean) / sd).max()), float(np.abs(np.log(scale / sd)).max())


def cell(
    name: str, seed: int, counts: list[int]
) -> tuple[dict[int, tuple[float, float]], float, float]:
    """Return errors by number of evaluations, the error of the last predictions, and seconds of
    processor time.
    """
    density, mean, sd, initial, heavy = target(name)
    rng = np.random.default_rng([seed, 77])
    start = initial(rng, max(12, 2 * len(mean)))
    began, left, found = time.process_time(), list(counts), {}
    evaluate = lambda points: np.array([density(x) for x in points])  # noqa: E731
    learning = Learning(start, evaluate(start), rng=rng)
    while True:
        points = learning.propose(max(counts))
        while left and len(learning.values) >= left[0]:
            found[left.pop(0)] = errors(learning.sample(ITERATIONS, rng), mean, sd, heavy)
        if not left:
            break
        learning.tell(evaluate(points))
    return found, learning.error, time.process_time() - began


def run(name: str, seed: int, budget: int, sampler: object) -> str:
    """Return the description of a whole run from eight start points."""
    density, mean, sd, initial, heavy = target(name)
    began = time.process_time()
    idata = kmc.sample(
        lambda x: float(density(x)),
        dim=len(mean),
        initial=initial(np.random.default_rng([seed, 77]), 8),
        sampler=sampler,
        draws=None,
        max_evaluations=budget,
        seed=seed,
        progress=False,
    )
    seconds = time.process_time() - began
    x, attrs = idata["posterior"]["x"].values, idata.attrs
    ess = float(arviz.ess(arviz.convert_to_dataset(x))["x"].min()) * 1000 / attrs["n_evaluations"]
    center, scale = errors(x.reshape(-1, len(mean)), mean, sd, heavy)
    said = " ".join(json.loads(attrs["warning_codes"]))
    return (
        f"{attrs['n_evaluations_warmup']:>8}{ess:>6.0f}{center:>8.2f} /{scale:4.2f}"
        f"{seconds:>9.1f}  {said}"
    )


def whole_runs(names: list[str], seeds: range, budget: int) -> None:
    """Print a row for each target and seed."""
    warnings.simplefilter("ignore")  # they are printed
    print(
        f"{'target':24}{'seed':>4} {'learned':>8}{'ESS':>6}{'errors':>14}{'seconds':>9}  warnings"
    )
    for name in names:
        for seed in seeds:
            print(f"{name:24}{seed:>4} {run(name, seed, budget, kmc.KernelHMC())}", flush=True)


def main() -> None:
    """Print a row for each target and seed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--targets", default=",".join(TARGETS), help="comma-separated")
    parser.add_argument("--evaluations", default="100,200,400", help="comma-separated, ascending")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--budget", type=int, help="evaluations of whole runs")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    counts = [int(count) for count in options.evaluations.split(",")]
    unknown = set(options.targets.split(",")) - {*DENSITIES, *SHAPES, "correlated-regression"}
    if unknown:
        parser.error(f"--targets: unknown {', '.join(sorted(unknown))}")
    if options.budget:
        whole_runs(options.targets.split(","), seeds, options.budget)
        return
    columns = "".join(f"{count:>14}" for count in counts)
    print(f"{'target':24}{'seed':>4}{columns}{'nats':>8}{'seconds':>9}")
    for name in options.targets.split(","):
        for seed in seeds:
            found, nats, seconds = cell(name, seed, counts)
            columns = "".join(
                f"{found[count][0]:>8.2f} /{found[count][1]:4.2f}" for count in counts
            )
            print(f"{name:24}{seed:>4}{columns}{nats:>8.2f}{seconds:>9.1f}", flush=True)


if __name__ == "__main__":
    main()
