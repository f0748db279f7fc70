"""Eigenvalues at the defaults, on densities that nothing was tuned on: how often they are wrong,
and whether silently.

python benchmarks/spectral_defaults.py [--seeds 5] [--first-seed 200] [--samples 500,2000,10000]
[--only muller]

Truths are those of normal distributions, or of finite volumes on a grid, times normal coordinates.
A fit is wrong if one of its first three eigenvalues is off by more than a factor of 1.5, and
silently so if there was no warning.

Fits that results/spectral_defaults.csv lacks are made and added to it, until --max-time seconds
have passed; --report makes none. Then the tables are printed: counts, and the error of the first
eigenvalue with and without a score.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from csv_rows import read_rows, write_rows
from scipy import sparse
from scipy.sparse.linalg import eigsh
from spectral_problems import Normal, Problem

from kmc.spectral import DiffusionMap

COUNT = 3
FACTOR = 1.5
RESULTS = Path(__file__).parent / "results" / "spectral_defaults.csv"


@dataclass(frozen=True)
class OnAGrid:
    """exp(-V) on a box in one or two dimensions, times N(0, I) in ``normal`` more coordinates."""

    name: str
    potential: Callable[[np.ndarray], np.ndarray]
    gradient: Callable[[np.ndarray], np.ndarray]
    box: tuple[tuple[float, float], ...]
    cells: int = 400
    normal: int = 0

    @property
    def dim(self) -> int:
        """Coordinates of both kinds."""
        return len(self.box) + self.normal

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws (n, dim): a cell, and a uniform point in it."""
        density = np.exp(-self._heights())
        cell = rng.choice(density.size, n, p=density.ravel() / density.sum())
        corner = np.column_stack(np.unravel_index(cell, density.shape))
        low, width = np.array([a for a, _ in self.box]), self._widths()
        x = low + (corner + rng.random(corner.shape)) * width
        return np.hstack([x, rng.standard_normal((n, self.normal))])

    def score(self, x: np.ndarray) -> np.ndarray:
        """∇ log p at the rows of x."""
        k = len(self.box)
        return np.hstack([-self.gradient(x[:, :k]), -x[:, k:]])

    def eigenvalues(self, count: int) -> np.ndarray:
        """Sums of those of the grid and of the normal coordinates."""
        grid = np.append(0.0, self._spectrum[:count])
        other = (
            np.append(0.0, Normal(self.normal).eigenvalues(count)) if self.normal else np.zeros(1)
        )
        return np.sort(np.add.outer(grid, other).ravel())[1 : count + 1]

    def slowest_function(self, x: np.ndarray) -> np.ndarray:
        """The first eigenfunction that is not constant at the rows of x, (n,), of mean zero and
        variance one.
        """
        low = np.array([a for a, _ in self.box])
        cell = np.clip(((x - low) / self._widths()).astype(int), 0, self.cells - 1)
        return self._slowest[tuple(cell.T)]

    @cached_property
    def _slowest(self):
        ground = np.exp(-0.5 * self._heights().ravel())
        modes = eigsh(self._generator, 2, sigma=self._shift)[1]
        values = np.where(ground > 1e-7, modes[:, np.argmin(np.abs(ground @ modes))] / ground, 0.0)
        p = ground**2 / np.sum(ground**2)
        values -= p @ values
        return (values / np.sqrt(p @ values**2)).reshape([self.cells] * len(self.box))

    @cached_property
    def _spectrum(self):
        found = eigsh(self._generator, 12, sigma=self._shift, return_eigenvectors=False)
        return np.sort(found)[1:]

    @property
    def _shift(self):
        return -1e-6 / self._widths().max() ** 2

    @cached_property
    def _generator(self):
        """Finite volumes: a reversible generator, with rates exp((V_i - V_j) / 2) / h² between
        neighbors.
        """
        v, numbers = (
            self._heights(),
            np.arange(self.cells ** len(self.box)).reshape([self.cells] * len(self.box)),
        )
        size = v.size
        matrix = sparse.csr_array((size, size))
        for axis, width in enumerate(self._widths()):
            a, b = (np.take(numbers, np.arange(self.cells - 1) + k, axis).ravel() for k in (0, 1))
            rise = np.clip((v.ravel()[b] - v.ravel()[a]) / 2, -50, 50)
            off = sparse.csr_array((np.full(len(a), -1 / width**2), (a, b)), shape=(size, size))
            out = np.bincount(a, np.exp(-rise), size) + np.bincount(b, np.exp(rise), size)
            matrix = (
                matrix
                + off
                + off.T
                + sparse.dia_array((out[None] / width**2, [0]), shape=(size, size))
            )
        return matrix.tocsc()

    def _widths(self):
        return np.array([(b - a) / self.cells for a, b in self.box])

    def _heights(self):
        axes = [a + (np.arange(self.cells) + 0.5) * (b - a) / self.cells for a, b in self.box]
        mesh = np.meshgrid(*axes, indexing="ij")
        v = self.potential(np.column_stack([m.ravel() for m in mesh])).reshape(mesh[0].shape)
        return v - v.min()


def mixture(
    name: str, centers: np.ndarray, sd: float, box: tuple, normal: int = 0, cells: int = 400
) -> OnAGrid:
    """Equal weights, normal components of standard deviation ``sd``."""

    def logs(x):
        return -0.5 * np.sum((x[:, None] - centers) ** 2, axis=2) / sd**2

    def potential(x):
        return -np.logaddexp.reduce(logs(x), axis=1)

    def gradient(x):
        weights = np.exp(logs(x) + potential(x)[:, None])
        return (x - weights @ centers) / sd**2

    return OnAGrid(name, potential, gradient, box, cells, normal)


MULLER = np.array(
    [
        [-200, -1, 0, -10, 1, 0],
        [-100, -1, 0, -10, 0, 0.5],
        [-170, -6.5, 11, -6.5, -0.5, 1.5],
        [15, 0.7, 0.6, 0.7, -1, 1],
    ]
)


def muller(temperature: float) -> OnAGrid:
    """The potential of Müller and Brown (1979) over kT."""

    def terms(x):
        height, a, b, c, x0, y0 = MULLER.T
        u, v = x[:, :1] - x0, x[:, 1:] - y0
        values = height * np.exp(a * u**2 + b * u * v + c * v**2) / temperature
        return values, values * (2 * a * u + b * v), values * (b * u + 2 * c * v)

    def potential(x):
        return np.minimum(terms(x)[0].sum(axis=1), 1e3)

    def gradient(x):
        _, along, across = terms(x)
        return np.column_stack([along.sum(axis=1), across.sum(axis=1)])

    return OnAGrid(
        f"Müller-Brown, kT = {temperature:g}", potential, gradient, ((-2.2, 1.6), (-1.2, 2.6))
    )


def line(name: str, potential: Callable, slope: Callable, reach: float, normal: int = 0) -> OnAGrid:
    """A density on the line."""
    return OnAGrid(
        name,
        lambda x: potential(x[:, 0]),
        lambda x: slope(x[:, 0])[:, None],
        ((-reach, reach),),
        4000,
        normal,
    )


def quartic(barrier: float) -> OnAGrid:
    """V = b (x² - 1)²."""
    return line(
        f"quartic wells, barrier {barrier:g}",
        lambda x: barrier * (x**2 - 1) ** 2,
        lambda x: 4 * barrier * x * (x**2 - 1),
        2.6,
    )


def problems() -> Iterator[Problem]:
    """All of them; those with a heavy tail have a gap at the edge of a continuous spectrum."""
    for dim in (1, 2, 5, 10, 15, 20, 30):
        yield Normal(dim)
    triangle = 1.6 * np.array([[0.0, 1.2], [-1.1, -0.7], [1.1, -0.7]])
    yield mixture("three Gaussians", triangle, 0.6, ((-4.8, 4.8), (-4.2, 5.0)))
    yield mixture("two Gaussians", np.array([[-2.5], [2.5]]), 1.0, ((-8.0, 8.0),), cells=4000)
    yield mixture(
        "two Gaussians x N(0, I9)", np.array([[-2.5], [2.5]]), 1.0, ((-8.0, 8.0),), 9, 4000
    )
    yield muller(40.0)
    yield muller(20.0)
    yield quartic(2.0)
    yield quartic(5.0)
    yield line("hyperbolic", lambda x: np.sqrt(1 + x**2), lambda x: x / np.sqrt(1 + x**2), 40.0)
    yield line("Student-t, 5", lambda x: 3 * np.log1p(x**2 / 5), lambda x: 6 * x / (5 + x**2), 60.0)


@dataclass(frozen=True)
class Outcome:
    """One fit."""

    problem: str
    samples: int
    seed: int
    score: bool
    gap: float
    true_gap: float
    worst: float  # the largest factor between an eigenvalue and the truth
    modes: int
    warned: bool
    seconds: float

    @property
    def silent(self) -> bool:
        """Wrong without a word."""
        return self.worst > FACTOR and not self.warned


def outcome(problem: Problem, n: int, seed: int, with_score: bool) -> Outcome:
    """Fit at the defaults, except for the number of components."""
    x, truth = problem.sample(np.random.default_rng([seed, n]), n), problem.eigenvalues(COUNT)
    found, begun = np.empty(0), time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            score = problem.score if with_score else None
            found = DiffusionMap(COUNT, score_function=score, random_state=seed).fit(x).eigenvalues_
            warned = bool(caught)
        except ValueError:
            warned = True
    seconds = time.process_time() - begun
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = np.maximum(found / truth[: len(found)], truth[: len(found)] / found)
    worst = float(np.max(np.where(found > 0, factors, np.inf), initial=1.0))
    gap = float(found[0]) if len(found) else np.nan
    return Outcome(
        problem.name, n, seed, with_score, gap, float(truth[0]), worst, len(found), warned, seconds
    )


GROUPS = (
    ("N(0, I_d), d = 1 to 30", "N(0"),
    ("two and three Gaussians", "two Gaussians|three Gaussians"),
    ("two Gaussians × N(0, I9)", "two Gaussians x N(0, I9)"),
    ("quartic wells, barriers 2 and 5", "quartic"),
    ("Müller–Brown, kT = 40 and 20", "Müller"),
    ("hyperbolic", "hyperbolic"),
    ("Student-t, 5 degrees of freedom", "Student"),
)


def group_of(problem: str) -> str:
    """The row of the table in which a density is counted."""
    fitting = [
        (len(start), name)
        for name, starts in GROUPS
        for start in starts.split("|")
        if problem.startswith(start)
    ]
    return max(fitting)[1]


def counts(outcomes: list[Outcome]) -> str:
    """Markdown: how many fits were wrong, and how many of these silently."""
    lines = [
        "| density | n | score | fits | warned | wrong | silently | false alarms | largest factor "
        "|",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, _ in GROUPS:
        for n in sorted({o.samples for o in outcomes}):
            for score in (False, True):
                these = [
                    o
                    for o in outcomes
                    if (group_of(o.problem), o.samples, o.score) == (name, n, score)
                ]
                if these:
                    wrong, warned = [o.worst > FACTOR for o in these], sum(o.warned for o in these)
                    false = sum(o.warned and o.worst <= FACTOR for o in these)
                    worst = max(o.worst for o in these)
                    lines.append(
                        f"| {name} | {n:,} | {'yes' if score else 'no'} | {len(these)} | {warned} "
                        f"| {sum(wrong)} | {sum(o.silent for o in these)} | {false} | "
                        f"{worst:.{2 if worst < 99.5 else 3}g} |"
                    )
    right, warned = (
        sum(o.worst <= FACTOR and o.warned >= least for o in outcomes) for least in (False, True)
    )
    lines.append(f"\nOf {right} right fits, {warned} have a warning.")
    return "\n".join(lines)


def beside_samples(outcomes: list[Outcome]) -> str:
    """Markdown: mean relative error of the first eigenvalue, over the seeds with both fits."""
    sizes = sorted({o.samples for o in outcomes})
    lines = [
        "| density | "
        + " | ".join(f"n = {n:,}: samples alone | with the score" for n in sizes)
        + " |",
        "| --- |" + 2 * len(sizes) * " ---: |",
    ]
    found = {(o.problem, o.samples, o.score, o.seed): abs(o.gap / o.true_gap - 1) for o in outcomes}
    for problem in dict.fromkeys(o.problem for o in outcomes):
        cells = []
        for n in sizes:
            pairs = [
                (found[problem, n, False, seed], found[problem, n, True, seed])
                for name, size, score, seed in found
                if (name, size, score) == (problem, n, True) and (problem, n, False, seed) in found
            ]
            cells += [f"{mean:.3g}" for mean in np.mean(pairs, axis=0)] if pairs else ["", ""]
        lines.append(f"| {problem} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def read(path: Path) -> list[Outcome]:
    """Earlier fits."""
    return [
        Outcome(
            row["problem"],
            int(row["samples"]),
            int(row["seed"]),
            row["score"] == "True",
            *(float(row[name]) for name in ("gap", "true_gap", "worst")),
            int(row["modes"]),
            row["warned"] == "True",
            float(row["seconds"]),
        )
        for row in read_rows(path)
    ]


def write(outcomes: list[Outcome], path: Path) -> None:
    write_rows(path, [*Outcome.__dataclass_fields__], (vars(o).values() for o in outcomes))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=200)
    parser.add_argument("--samples", default="500,2000,10000")
    parser.add_argument("--only", default="")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--max-time", type=float, default=np.inf, help="seconds")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    outcomes, end = read(args.output), time.monotonic() + args.max_time
    done = {(o.problem, o.samples, o.seed, o.score) for o in outcomes}
    chosen = [problem for problem in problems() if args.only.casefold() in problem.name.casefold()]
    for n in map(int, args.samples.split(",")):
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            for problem in chosen:
                for with_score in (False, True):
                    if (
                        (problem.name, n, seed, with_score) not in done
                        and time.monotonic() < end
                        and not args.report
                    ):
                        outcomes.append(outcome(problem, n, seed, with_score))
                        write(outcomes, args.output)
    print(counts(outcomes), beside_samples(outcomes), sep="\n\n")


if __name__ == "__main__":
    main()
