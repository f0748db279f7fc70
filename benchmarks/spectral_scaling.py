"""Time and memory against samples, functions and dimension: ``python benchmarks/spectral_scaling.py
--help``.

Table 1 of Cabannes and Bach (2023), "The Galerkin method beats graph-based approaches for spectral
algorithms", with the p³ of the solution from its section 5, measured. The Galerkin method is
DiffusionMap's computation for one bandwidth: mass and Dirichlet form of Gaussian sections, and the
eigenproblem in whitened coordinates. The graph is GraphLaplacian in the same functions with all
points joined. One of n, p and d is varied at a time; exponents are least-squares slopes of
logarithms over the range in which the named term dominates. Processor seconds of one thread, the
minimum of several; memory is the peak that NumPy allocates in addition to the samples.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import linalg
from score_results import Results, grouped, markdown, number

from kmc.bases import KernelSections
from kmc.forms import accumulate
from kmc.kernels import Gaussian
from kmc.linalg import eigen_whitening
from kmc.spectral import GraphLaplacian

HERE = Path(__file__).parent
KEY = ("method", "varied", "n", "p", "d")
SCANS = {
    ("Galerkin", "n"): [(n, 200, 10) for n in (1000, 3000, 10_000, 30_000, 100_000)],
    ("Galerkin", "p"): [(20_000, p, 10) for p in (50, 100, 200, 400, 800, 1600)],
    ("Galerkin", "d"): [(20_000, 50, d) for d in (2, 5, 10, 20, 50, 100, 200, 400, 800)],
    ("graph", "n"): [(n, 50, 10) for n in (500, 1000, 2000, 4000, 8000)],
    ("graph", "p"): [(3000, p, 10) for p in (50, 100, 200, 400, 800, 1600)],
    ("graph", "d"): [(3000, 50, d) for d in (2, 5, 10, 20, 50, 100, 200, 400, 800, 1600)],
}


class Claim(NamedTuple):
    """A term of a complexity, and the range in which it dominates."""

    method: str
    measure: str  # a column
    varied: str
    paper: str
    exponent: str  # of the varied size, in the paper
    least: int  # of the varied size


CLAIMS = (
    Claim("Galerkin", "assembly", "n", "p n d + p² n", "1", 3000),
    Claim("Galerkin", "assembly", "p", "p² n", "2", 400),
    Claim("Galerkin", "assembly", "d", "p n d", "1", 200),
    Claim("Galerkin", "solution", "p", "p³", "3", 400),
    Claim("Galerkin", "megabytes", "n", "p n", "1", 30_000),
    Claim("Galerkin", "megabytes", "p", "p n", "1", 50),
    Claim("Galerkin", "megabytes", "d", "none", "0", 2),
    Claim("graph", "fit", "n", "n² d", "2", 1000),
    Claim("graph", "fit", "p", "n² p + p² n", "1 to 2", 400),
    Claim("graph", "fit", "d", "n² d", "1", 400),
    Claim("graph", "megabytes", "n", "n²", "2", 1000),
)


def gaussian_samples(n: int, p: int, d: int) -> tuple[np.ndarray, KernelSections]:
    """Samples (n, d) and sections at the first p with a bandwidth proportional to the distances."""
    x = np.random.default_rng(0).standard_normal((n, d))
    return x, KernelSections(Gaussian(np.sqrt(2.0 * d)), x[:p])


def assemble(basis: KernelSections, x: np.ndarray):
    """Mass and Dirichlet form."""
    return accumulate(basis, x, ("mass", "dirichlet"))


def solve(basis: KernelSections, forms) -> np.ndarray:
    """Eigenvalues in coordinates that whiten the Gram matrix."""
    w = eigen_whitening(basis.gram(), 2e-8)
    mass, energy = (
        w.T @ form @ w for form in (forms.centered_mass(), forms.dirichlet / forms.weight)
    )
    ridge = 1e-10 * np.trace(energy) / len(energy) * np.eye(len(energy))
    return linalg.eigh(mass, energy + mass + ridge, eigvals_only=True)


def seconds(function: Callable, repeats: int) -> float:
    """Processor seconds, the minimum of several."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def peak(function: Callable) -> float:
    """Peak of megabytes in use during a call, minus those before."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def galerkin_costs(n: int, p: int, d: int, repeats: int) -> dict[str, float]:
    """Seconds of assembly and of solution, and megabytes of both."""
    x, basis = gaussian_samples(n, p, d)
    forms = assemble(basis, x[:100])  # compiles
    forms = assemble(basis, x)
    return {
        "assembly": seconds(lambda: assemble(basis, x), repeats),
        "solution": seconds(lambda: solve(basis, forms), repeats),
        "megabytes": peak(lambda: solve(basis, assemble(basis, x))),
    }


def graph_costs(n: int, p: int, d: int, repeats: int) -> dict[str, float]:
    """Seconds and megabytes of a fit."""
    x, basis = gaussian_samples(n, p, d)
    graph = GraphLaplacian(6, bandwidth=np.sqrt(d / 2.0), n_neighbors=None, basis=basis)
    return {"fit": seconds(lambda: graph.fit(x), repeats), "megabytes": peak(lambda: graph.fit(x))}


def run(results: Results, repeats: int, rerun: bool) -> None:
    """Measure what the results lack."""
    costs = {"Galerkin": galerkin_costs, "graph": graph_costs}
    for (method, varied), sizes in SCANS.items():
        for n, p, d in sizes:
            if rerun or (method, varied, n, p, d) not in results.rows:
                key = {"method": method, "varied": varied, "n": n, "p": p, "d": d}
                results.add(key | costs[method](n, p, d, repeats))


def exponent(sizes: list[int], costs: list[float]) -> tuple[float, float]:
    """Least-squares slope of log cost on log size, and its standard error."""
    x, y = np.log(sizes), np.log(costs)
    x, y = x - x.mean(), y - y.mean()
    slope = x @ y / (x @ x)
    return float(slope), float(np.sqrt(np.sum((y - slope * x) ** 2) / max(len(x) - 2, 1) / (x @ x)))


def in_range(results: Results, claim: Claim) -> list[dict]:
    """The rows in which the term dominates, in the order of the varied size."""
    rows = grouped(results.rows.values(), "method", "varied")[claim.method, claim.varied]
    return sorted(
        (row for row in rows if row[claim.varied] >= claim.least), key=lambda row: row[claim.varied]
    )


def exponents(results: Results) -> Iterator[tuple[Claim, float, float]]:
    """Each claim, with the measured exponent and its standard error."""
    for claim in CLAIMS:
        rows = in_range(results, claim)
        yield (
            claim,
            *exponent([row[claim.varied] for row in rows], [row[claim.measure] for row in rows]),
        )


def table(results: Results) -> str:
    """The exponents beside those of the paper."""
    lines = []
    for claim, slope, error in exponents(results):
        rows = in_range(results, claim)
        fixed = ", ".join(f"{name} = {rows[0][name]:,}" for name in "npd" if name != claim.varied)
        span = f"{claim.varied} = {rows[0][claim.varied]:,} to {rows[-1][claim.varied]:,}; {fixed}"
        unit = "MB" if claim.measure == "megabytes" else "s"
        measure = "memory" if claim.measure == "megabytes" else f"time, {claim.measure}"
        cost = f"{number(rows[0][claim.measure])} to {number(rows[-1][claim.measure])} {unit}"
        found = f"{slope:.2f} ± {error:.2f}"
        lines.append((claim.method, measure, span, claim.paper, claim.exponent, found, cost))
    head = ("method", "cost", "range", "paper", "exponent in the paper", "measured", "from, to")
    return markdown(head, lines, 5)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--rerun", action="store_true", help="repeat measurements that results/ has"
    )
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = Results(HERE / "results" / "spectral_scaling.csv", KEY)
    if not options.report:
        run(results, options.repeats, options.rerun)
    print(table(results))


if __name__ == "__main__":
    main()
