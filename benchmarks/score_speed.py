"""Speed: assembly, fits and gradients, beside the paper's formulas in plain NumPy
(score_formulas.py).

Every measure runs in a separate process with one thread; the alternatives take turns, and medians
of the processor time are shown, which other load hardly changes. The peak is that of a 2000 × 2000
matrix product, measured between the turns.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import score_formulas
from numba import njit
from score_problems import Grid
from score_results import grouped, markdown, number

from kmc import jitted
from kmc.bases import KernelExpansion, KernelGradients
from kmc.kernels import Gaussian, median_distance
from kmc.scores import FullKEF, NystromKEF
from kmc.scores.base import FittedExpansion
from kmc.scores.densities import Flat

KEY = ("measure", "way")
REGULARIZATION = 1e-3
OURS, FORMULA, PRODUCT = "kmc", "NumPy", "NumPy, BᵀB of a ready B"
GRADIENTS = ("NumPy, loop", "NumPy, blocks", "NumPy, contracted")
BLOCK = 500  # samples of B at a time


def cells(options) -> list[tuple]:
    """(measure, way)."""
    return [(measure, way) for measure, ways in MEASURES.items() for way in ways]


def run(group: tuple, names: list[str], options):
    """Rows of a measure."""
    (measure,) = group
    yield from MEASURES_OF[measure.split(":")[0]](measure, names)


def assembly(measure, names):
    """BᵀB / n and h; and the product BᵀB alone, for a given B.

    kmc's work is that of its matrix products, :mod:`kmc.bases.gradient_moments`: for each of m²/2
    pairs of landmarks one with d (d + 3) / 2 features of the samples and one with d. Of BᵀB half is
    counted, as it is symmetric.
    """
    n, m, d = sizes(measure)
    x, y, bandwidth = data(n, m, d)
    weights = np.ones(n)
    basis = KernelGradients(Gaussian(bandwidth), y)
    ways = {
        OURS: lambda: (basis.sum_dirichlet(x, weights), basis.sum_linear(x, weights)),
        FORMULA: lambda: score_formulas.assemble(x, y, 2 * bandwidth**2),
        PRODUCT: lambda: sum((b.T @ b)[0, 0] for _ in range(n // BLOCK)),
    }
    b = score_formulas.mixed_derivatives(x[:BLOCK], y, 2 * bandwidth**2)
    plain = n * d * (m * d) ** 2
    flops = {OURS: n * m**2 * d * (d + 5) / 2, FORMULA: plain, PRODUCT: plain}
    yield from compared(measure, ways, names, flops=flops, repeats=3)


def nystrom_fit(measure, names):
    """A whole fit with given bandwidth and regularization."""
    n, m, d = sizes(measure)
    x, y, bandwidth = data(n, m, d)
    options = {
        "base": "uniform",
        "bandwidth": bandwidth,
        "regularization": REGULARIZATION,
        "jitter": 1e-5,
    }
    ways = {
        OURS: lambda: NystromKEF(n_basis=m, landmarks=y, **options).fit(x),
        FORMULA: lambda: score_formulas.fit_nystrom(x, y, 2 * bandwidth**2, REGULARIZATION),
    }
    yield from compared(measure, ways, names, repeats=3)


def full_fit(measure, names):
    """The full estimator by conjugate gradients; peak memory is that of the whole process."""
    n, d = sizes(measure)
    x, _, bandwidth = data(n, 1, d)
    options = {"base": "uniform", "bandwidth": bandwidth, "regularization": REGULARIZATION}
    ways = {
        OURS: lambda: FullKEF(solver="cg", **options).fit(x),
        FORMULA: lambda: score_formulas.fit_full(x, 2 * bandwidth**2, REGULARIZATION),
    }
    yield from compared(measure, ways, names, repeats=3)


def gradient(measure, names):
    """∇f at one point after another: in a jitted loop, and by formulas called from Python."""
    m, d = sizes(measure)
    x, y, bandwidth = data(2000, m, d)
    beta, sigma = np.random.default_rng(2).standard_normal((m, d)), 2 * bandwidth**2
    expansion = KernelExpansion(Gaussian(bandwidth), y, gradients=beta)
    state = FittedExpansion(np.zeros(d), Flat(), expansion).jit_state()
    many = np.random.default_rng(1).permutation(np.tile(x, (5, 1)))
    ways = {
        OURS: lambda: jitted_loop(state, many, np.empty(d), jitted.workspace(state)) and None,
        "NumPy, loop": lambda: [
            score_formulas.looped_gradient(p, y, sigma, beta) for p in many[:200]
        ],
        "NumPy, blocks": lambda: [
            score_formulas.nystrom_gradient(p, y, sigma, beta) for p in many[:200]
        ],
        "NumPy, contracted": lambda: [
            score_formulas.contracted_gradient(p, y, sigma, beta) for p in many[:200]
        ],
    }
    yield from compared(measure, ways, names, per={OURS: len(many)}, otherwise=200)


@njit(cache=True)
def jitted_loop(state, many, out, work):
    """Sum of values, so that nothing is optimized away."""
    total = 0.0
    for i in range(len(many)):
        total += jitted.value_and_gradient(state, many[i], out, work)
    return total


MEASURES_OF: dict[str, Callable] = {
    "assembly": assembly,
    "nyström fit": nystrom_fit,
    "full fit": full_fit,
    "gradient": gradient,
}
MEASURES = {
    "assembly: n=5000 m=200 d=10": (OURS, FORMULA, PRODUCT),
    "assembly: n=2000 m=100 d=30": (OURS, FORMULA, PRODUCT),
    "nyström fit: n=5000 m=200 d=10": (OURS, FORMULA),
    "full fit: n=400 d=10": (OURS, FORMULA),
    "full fit: n=5000 d=20": (OURS,),
    "full fit: n=10000 d=10": (OURS,),
    "gradient: m=100 d=9": (OURS, *GRADIENTS),
    "gradient: m=500 d=30": (OURS, *GRADIENTS),
}

ORDER = {"way": [OURS, FORMULA, PRODUCT, *GRADIENTS], "measure": list(MEASURES)}


def sizes(measure: str) -> list[int]:
    """The numbers in a measure's name."""
    return [int(part.split("=")[1]) for part in measure.split(": ")[1].split()]


def data(n: int, m: int, d: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Samples of the grid, landmarks among them, and the median distance as the bandwidth."""
    x = Grid(d).sample(np.random.default_rng(0), n)
    return x, x[:m].copy(), median_distance(x)


def compared(measure, ways, names, flops=None, repeats=5, per=None, otherwise=1):
    """Rows; the alternatives take turns, and the first turn, in which numba compiles, does not
    count.
    """
    ways = {name: ways[name] for name in names}
    times: dict[str, list[float]] = {name: [] for name in ways}
    peaks = []
    for turn in range(repeats + 1):
        for name, way in ways.items():
            begin = time.process_time()
            way()
            if turn:
                times[name].append(time.process_time() - begin)
        peaks.append(peak())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1 << 20 if sys.platform == "darwin" else 1 << 10
    )
    for name in ways:
        seconds = statistics.median(times[name]) / (per or {}).get(name, otherwise)
        row = {
            "measure": measure,
            "way": name,
            "seconds": seconds,
            "peak_gflops": statistics.median(peaks),
        }
        if flops:
            row["share_of_peak"] = flops[name] / seconds / 1e9 / row["peak_gflops"]
        yield row | {"process_mb": memory if len(ways) == 1 else ""}


def peak(size: int = 2000) -> float:
    """10⁹ operations per second of a matrix product."""
    a = np.ones((size, size))
    begin = time.process_time()
    a @ a
    return 2 * size**3 / (time.process_time() - begin) / 1e9


def tables(rows) -> dict[str, str]:
    """Markdown by title."""
    lines = []
    for (measure,), group in grouped(rows, "measure").items():
        ours = next((row["seconds"] for row in group if row["way"] == OURS), float("nan"))
        for row in group:
            ratio = "" if row["way"] == OURS else number(row["seconds"] / ours)
            share = f"{row['share_of_peak']:.0%}" if row.get("share_of_peak", "") != "" else ""
            memory = f"{row['process_mb']:.0f}" if row.get("process_mb", "") != "" else ""
            lines.append([measure, row["way"], duration(row["seconds"]), ratio, share, memory])
    return {
        "times": markdown(
            ["measure", "way", "time", "× kmc", "of peak", "MB"], lines, text_columns=2
        )
    }


def duration(seconds: float) -> str:
    """A duration in a suitable unit."""
    unit, scale = next(
        (pair for pair in (("s", 1), ("ms", 1e3)) if seconds * pair[1] >= 1), ("µs", 1e6)
    )
    return f"{number(seconds * scale)} {unit}"


def pictures(rows, folder) -> None:
    """None: there is only a table."""
