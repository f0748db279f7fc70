"""Which choice of landmarks is best, and do leverage scores beat pivoted Cholesky? ``python
benchmarks/landmarks.py``.

Sutherland et al. (2018) and Pillaud-Vivien and Bach (2023) mention leverage scores for the choice
of landmarks. Here m of n samples are drawn without replacement with probabilities proportional to
the ridge leverage scores, the diagonal of K (K + n λ I)⁻¹ (El Alaoui and Mahoney 2015), computed
exactly, for three λ. The others are kmc's own. Each has the Gaussian kernel with the best of some
bandwidths by the truth, and the regularization that cross-validation chooses. Scores have the
Fisher divergence (n = 500), spectra the mean relative error of five eigenvalues (n = 1,000).
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy import linalg
from score_problems import Grid, Ring, fisher_divergence
from score_results import Results, grouped, markdown, number
from spectral_problems import problems, relative_error

from kmc.bases import KernelSections
from kmc.errors import KmcWarning
from kmc.kernels import Gaussian, median_distance
from kmc.scores import LiteKEF, NystromKEF
from kmc.spectral import DiffusionMap

HERE = Path(__file__).parent
KEY = ("task", "target", "m", "landmarks", "seed")
LEVERAGE = {f"leverage, λ = {ridge:g}": ridge for ridge in (1e-2, 1e-4, 1e-6)}
BASELINE = "pivoted-cholesky"
METHODS = ("uniform", BASELINE, "k-means", *LEVERAGE)
SIZES = (20, 60)
FACTORS = {
    "NystromKEF": (0.125, 0.25, 0.5, 1.0),
    "LiteKEF": (0.125, 0.25, 0.5, 1.0),
    "DiffusionMap": (0.5, 1.0, 2.0),
}
"""Of the median distance: bandwidths."""
COUNT = 5


def leverage(
    x: np.ndarray, bandwidth: float, ridge: float, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Distinct samples, drawn in proportion to their ridge leverage scores."""
    gram = KernelSections(Gaussian(bandwidth), x).gram()
    scores = np.diag(linalg.solve(gram + len(x) * ridge * np.eye(len(x)), gram, assume_a="pos"))
    chosen = rng.choice(
        len(x), count, replace=False, p=np.maximum(scores, 1e-12) / np.maximum(scores, 1e-12).sum()
    )
    return x[chosen]


def score_targets() -> dict[str, Callable[[int], object]]:
    """Densities by name, each from a seed."""
    return {
        f"{name} {dim}": (lambda seed, make=make, dim=dim: make(dim, seed))
        for name, make in (("ring", _ring), ("grid", Grid))
        for dim in (2, 5)
    }


def _ring(dim: int, seed: int) -> Ring:
    return Ring(dim)


def cells(seeds: int) -> Iterator[tuple[str, str, int, str, int]]:
    """Task, target, number of landmarks, choice and seed."""
    tasks = {
        "NystromKEF": score_targets(),
        "LiteKEF": score_targets(),
        "DiffusionMap": [one.name for one in problems()],
    }
    for task, targets in tasks.items():
        for target in targets:
            for m in SIZES:
                for seed in range(seeds):
                    yield from ((task, target, m, method, seed) for method in METHODS)


def error(task: str, target: str, m: int, method: str, seed: int) -> float:
    """The least error over bandwidths."""
    rng = np.random.default_rng([seed, m])
    if task == "DiffusionMap":
        problem = next(one for one in problems() if one.name == target)
        x = problem.sample(np.random.default_rng(seed), 1000)
    else:
        problem = score_targets()[target](seed)
        x = problem.sample(np.random.default_rng(seed), 500)
        test = problem.sample(np.random.default_rng([seed, 1]), 1500)
    found = []
    for factor in FACTORS[task]:
        bandwidth = factor * median_distance(x)
        landmarks = (
            leverage(x, bandwidth, LEVERAGE[method], m, rng) if method in LEVERAGE else method
        )
        options = {
            "kernel": "gaussian",
            "bandwidth": bandwidth,
            "n_basis": m,
            "landmarks": landmarks,
            "random_state": seed,
        }
        if task == "DiffusionMap":
            estimate = DiffusionMap(COUNT, **options).fit(x).eigenvalues_
            found.append(relative_error(estimate, problem.eigenvalues(COUNT)))
        else:
            estimator = {"NystromKEF": NystromKEF, "LiteKEF": LiteKEF}[task](
                base="gaussian", **options
            ).fit(x)
            found.append(fisher_divergence(estimator.gradient(test), problem.score(test)))
    return float(np.nanmin(found))


def logarithms(group: list[dict]) -> dict[str, np.ndarray]:
    """Logarithms of the errors of a cell, by choice, in the order of the seeds."""
    found = grouped(sorted(group, key=lambda row: row["seed"]), "landmarks")
    return {name: np.log([row["error"] for row in members]) for (name,), members in found.items()}


def mean_and_error(differences: np.ndarray) -> tuple[float, float]:
    """The mean and its standard error."""
    return float(differences.mean()), float(differences.std(ddof=1) / math.sqrt(len(differences)))


def table(rows: list[dict]) -> str:
    """Ratios of errors to those of pivoted Cholesky, geometric means over seeds, and their standard
    errors.
    """
    others = [name for name in METHODS if name != BASELINE]
    lines = []
    for (task, target, m), group in grouped(rows, "task", "target", "m").items():
        logs = logarithms(group)
        ratios = [mean_and_error(logs[name] - logs[BASELINE]) for name in others]
        shown = [f"{math.exp(mean):.2f} ± {math.exp(mean) * error:.2f}" for mean, error in ratios]
        lines.append([task, target, m, number(math.exp(logs[BASELINE].mean())), *shown])
    head = ["task", "target", "m", f"error, {BASELINE}", *(f"{name}, ×" for name in others)]
    return markdown(head, lines, 2)


def verdict(rows: list[dict]) -> str:
    """In how many cells the best leverage scores are ahead by two standard errors, of each choice
    and of the best.
    """
    cells = [logarithms(group) for group in grouped(rows, "task", "target", "m").values()]
    known = [name for name in METHODS if name not in LEVERAGE]
    counts = dict.fromkeys([*known, "the best of these"], 0)
    for logs in cells:
        leader = min(LEVERAGE, key=lambda name: logs[name].mean())
        for name in counts:
            rival = name if name in logs else min(known, key=lambda one: logs[one].mean())
            mean, error = mean_and_error(logs[leader] - logs[rival])
            counts[name] += mean + 2 * error < 0
    shown = ", ".join(f"{name} in {count}" for name, count in counts.items())
    return (
        f"Of {len(cells)} cells, the best of the leverage scores is ahead "
        f"by two standard errors of {shown}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    results = Results(HERE / "results" / "landmarks.csv", KEY)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KmcWarning)
        for cell in cells(0 if options.report else options.seeds):
            if cell not in results.rows:
                results.add(dict(zip(KEY, cell, strict=True)) | {"error": error(*cell)})
    rows = [results.rows[cell] for cell in cells(options.seeds) if cell in results.rows]
    print(table(rows))
    print(f"\n{verdict(rows)}")


if __name__ == "__main__":
    main()
