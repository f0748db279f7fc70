"""Hermite polynomials from samples, as in figure 1 of Pillaud-Vivien and Bach (2023), and the rate
of its theorem 9.

python benchmarks/spectral_hermite.py [--seeds 20] [--rate-seeds 10] [--report]

The first five eigenfunctions of the Ornstein–Uhlenbeck operator: by algorithm 1 from 30 points with
λ = 0.1 (the paper gives no bandwidth: it is 1 here), and at the defaults from 30 points and more.
The cosines are those of the functions with the polynomials over the samples, less their means. The
table of rates has the errors of inverse eigenvalues for growing samples. Fits that
results/hermite.csv lacks are made and added to it; then the tables are printed.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from csv_rows import number, read_rows, write_rows
from numpy.polynomial import hermite_e

from kmc.errors import KmcWarning
from kmc.spectral import DiffusionMap

HERE = Path(__file__).parent
ROWS = HERE / "results" / "hermite.csv"
SIZES = (30, 300, 3000)
COUNT = 5
RATES = {1: (1.0, 2.0, 3.0), 5: (1.0,) * 5}  # eigenvalues by dimension
RATE_SIZES = (100, 300, 1000, 3000, 10000)
FEATURES = {1: 200, 5: 500}
PENALIZED, FOURIER, RITZ, SCORE = "algorithm 1", "algorithm 2", "default", "default, with the score"


class Row(NamedTuple):
    """A mode of a fit."""

    part: str  # "figure 1" or "rate"
    method: str
    dim: int
    n: int
    seed: int
    mode: int  # from 1; 0 for a fit without modes
    eigenvalue: float
    cosine: float  # of figure 1


def hermite(x: np.ndarray) -> np.ndarray:
    """The polynomials of degree 1 to 5 at points (n,), orthonormal under N(0, 1): shape (n, 5)."""
    norms = np.cumprod(np.sqrt(np.arange(1, COUNT + 1)))
    return hermite_e.hermevander(x, COUNT)[:, 1:] / norms


def figure_fit(method: str, n: int, seed: int) -> tuple[np.ndarray, DiffusionMap]:
    """Samples (n, 1) and the fit to them."""
    x = np.random.default_rng(seed).standard_normal((n, 1))
    if method == PENALIZED:
        settings = {"bandwidth": 1.0, "regularization": 0.1, "n_basis": n}
        # one: the constant
        return x, DiffusionMap(COUNT + 1, method="penalized", random_state=seed, **settings).fit(x)
    return x, DiffusionMap(COUNT, n_basis=min(n, 200), random_state=seed).fit(x)


def functions_at(fit: DiffusionMap, points: np.ndarray) -> np.ndarray:
    """The modes without the constant's."""
    return fit.transform(points)[:, int(fit.method == "penalized") :]


def cosines(x: np.ndarray, fit: DiffusionMap) -> np.ndarray:
    """Cosine between each estimate and its polynomial over the samples, both less their means."""
    functions, truth = functions_at(fit, x), hermite(x[:, 0])
    functions, truth = (
        functions - functions.mean(axis=0),
        truth[:, : functions.shape[1]] - truth.mean(axis=0)[: functions.shape[1]],
    )
    norms = np.linalg.norm(functions, axis=0) * np.linalg.norm(truth, axis=0)
    return np.abs(np.sum(functions * truth, axis=0)) / norms


def rate_fit(method: str, dim: int, n: int, seed: int) -> DiffusionMap:
    """The fit to samples of N(0, I), in algorithm 2 with the λ = n^-1/4 of theorem 9: of sums, n
    times that.
    """
    x, count = np.random.default_rng([seed, n, dim]).standard_normal((n, dim)), len(RATES[dim])
    if method == FOURIER:
        settings = {
            "bandwidth": np.sqrt(dim),
            "regularization": n**0.75,
            "basis": "fourier",
            "n_basis": FEATURES[dim],
        }
        return DiffusionMap(count + 1, method="penalized", random_state=seed, **settings).fit(x)
    score = (lambda p: -p) if method == SCORE else None
    return DiffusionMap(count, score_function=score, random_state=0).fit(x)


def cells(seeds: int, rate_seeds: int) -> Iterator[tuple[str, str, int, int, int]]:
    """Part, method, dimension, number of samples and seed of each fit."""
    for method, n in [(PENALIZED, SIZES[0]), *((RITZ, n) for n in SIZES)]:
        yield from (("figure 1", method, 1, n, seed) for seed in range(seeds))
    for dim in RATES:
        for method in (FOURIER, RITZ, SCORE):
            yield from (
                ("rate", method, dim, n, seed) for n in RATE_SIZES for seed in range(rate_seeds)
            )


def measured(part: str, method: str, dim: int, n: int, seed: int) -> list[Row]:
    """Rows of one fit."""
    with warnings.catch_warnings():
        # fewer modes, or uncertain ones, are what is measured
        warnings.simplefilter("ignore", KmcWarning)
        if part == "rate":
            fit = rate_fit(method, dim, n, seed)
            near = np.full(len(fit.eigenvalues_), np.nan)
        else:
            x, fit = figure_fit(method, n, seed)
            near = cosines(x, fit)
    eigenvalues = fit.eigenvalues_[int(fit.method == "penalized") :]
    if not len(eigenvalues):
        return [Row(part, method, dim, n, seed, 0, np.nan, np.nan)]
    return [
        Row(part, method, dim, n, seed, k + 1, float(v), float(c))
        for k, (v, c) in enumerate(zip(eigenvalues, near))
    ]


def figure_table(rows: list[Row]) -> str:
    """Markdown: eigenvalues and cosines, medians over the seeds that have the mode."""
    degrees = range(1, COUNT + 1)
    head = (
        "| method | n | modes in all seeds | "
        + " | ".join(f"λ{k}" for k in degrees)
        + " | cosines ± standard errors |"
    )
    lines = [head, "| --- | ---: | --- |" + " ---: |" * COUNT + " --- |"]
    lines.append(f"| truth | | | {' | '.join(map(str, degrees))} | 1 1 1 1 1 |")
    for method, n in dict.fromkeys((row.method, row.n) for row in rows):
        mine = [row for row in rows if (row.method, row.n) == (method, n)]
        modes = [[row for row in mine if row.mode == k] for k in degrees]
        seeds = len({row.seed for row in mine})
        eigenvalues = [
            f"{np.median([row.eigenvalue for row in mode]):.2f}" if mode else "" for mode in modes
        ]
        near = [with_error([row.cosine for row in mode]) for mode in modes if mode]
        found = f"{sum(map(len, modes))} of {COUNT * seeds}"
        lines.append(
            f"| {method} | {n:,} | {found} | {' | '.join(eigenvalues)} | {', '.join(near)} |"
        )
    return "\n".join(lines)


def with_error(values: list[float]) -> str:
    """The median and its standard error, for values of a normal distribution."""
    error = np.sqrt(np.pi / 2 / len(values)) * np.std(values, ddof=1) if len(values) > 1 else np.nan
    return f"{np.median(values):.2f} ± {error:.2f}"


def rate_table(rows: list[Row]) -> str:
    """Markdown: the largest error of 1/λ over the modes, medians over seeds, and the slope of its
    logarithm.
    """
    lines = [
        f"| d | method | {' | '.join(f'n = {n:,}' for n in RATE_SIZES)} | slope |",
        "| ---: | --- |" + " ---: |" * (len(RATE_SIZES) + 1),
    ]
    for dim, method in dict.fromkeys((row.dim, row.method) for row in rows):
        mine = [row for row in rows if (row.dim, row.method) == (dim, method)]
        medians = " | ".join(f"{error:.2g}" for error in np.median(largest_errors(mine), axis=0))
        slope, error = rate(mine)
        lines.append(f"| {dim} | {method} | {medians} | {slope:.2f} ± {error:.2f} |")
    return "\n".join(lines)


def rate(rows: list[Row]) -> tuple[float, float]:
    """The slope of the logarithm of the error of one method, the mean over seeds, and its standard
    error.
    """
    slopes = [
        np.polyfit(np.log(RATE_SIZES), np.log(errors), 1)[0] for errors in largest_errors(rows)
    ]
    return float(np.mean(slopes)), float(np.std(slopes, ddof=1) / np.sqrt(len(slopes)))


def largest_errors(rows: list[Row]) -> np.ndarray:
    """Largest errors of one method, of each seed (rows) and size (columns)."""
    return np.array(
        [
            [largest_error(rows, n, seed) for n in RATE_SIZES]
            for seed in sorted({r.seed for r in rows})
        ]
    )


def largest_error(rows: list[Row], n: int, seed: int) -> float:
    """Largest |1/λ - truth| over the modes of a fit; 1/λ counts as zero for a refused mode."""
    found = {
        row.mode: 1.0 / row.eigenvalue
        for row in rows
        if (row.n, row.seed) == (n, seed) and row.mode
    }
    return max(
        abs(found.get(k + 1, 0.0) - 1.0 / value) for k, value in enumerate(RATES[rows[0].dim])
    )


def draw(path: Path, seed: int) -> None:
    """The estimates over the polynomials, a panel per method and number of samples."""
    import matplotlib.pyplot as plt

    line = np.linspace(-4.0, 4.0, 400)
    panels = [(PENALIZED, SIZES[0]), (RITZ, SIZES[1]), (RITZ, SIZES[2])]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(12, 3.6), sharey=True, layout="constrained"
    )
    for axis, (method, n) in zip(axes, panels, strict=True):
        x, fit = figure_fit(method, n, seed)
        functions, truth = functions_at(fit, line[:, None]), hermite(line)
        found = functions.shape[1]
        signs = np.sign(np.sum(functions_at(fit, x) * hermite(x[:, 0])[:, :found], axis=0))
        for k in range(found):
            axis.plot(line, truth[:, k], color=f"C{k}", linestyle=":", linewidth=1)
            axis.plot(line, signs[k] * functions[:, k], color=f"C{k}", label=f"degree {k + 1}")
        axis.plot(x[:, 0], np.full(n, -3.9), "|", color="black", alpha=min(1.0, 100 / n))
        axis.set(title=f"{method}, n = {n}", ylim=(-4, 4), xlabel="x")
    axes[-1].legend(fontsize="small")
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rate-seeds", type=int, default=10)
    parser.add_argument("--output", type=Path, default=ROWS)
    parser.add_argument("--picture", type=Path, default=HERE / "pictures" / "spectral_hermite.png")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    rows = [Row(*map(number, row.values())) for row in read_rows(options.output)]
    done = {row[:5] for row in rows}
    for cell in cells(options.seeds, options.rate_seeds):
        if cell not in done and not options.report:
            rows += measured(*cell)
    if not options.report:
        write_rows(
            options.output,
            Row._fields,
            (row._replace(eigenvalue=f"{row.eigenvalue:.7g}") for row in rows),
        )
        draw(options.picture, 0)
    print("Figure 1, medians over seeds that have the mode:")
    print(figure_table([row for row in rows if row.part == "figure 1"]))
    print(
        "\nLargest error of 1/λ among the first three modes (d = 1) or five (d = 5) of N(0, I), "
        "median over seeds."
    )
    print(
        "A refused mode counts as zero. Algorithm 2 has the penalty of equation 11 and the λ = "
        "n^-1/4 of theorem 9,"
    )
    print("which bounds its error by a multiple of n^-1/4 if the modes are in the kernel's space:")
    print(rate_table([row for row in rows if row.part == "rate"]))


if __name__ == "__main__":
    main()
