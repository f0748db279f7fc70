"""Graph Laplacians on a circle with a von Mises density: right within a tenth, or a refusal in
words, in bounded time.

python benchmarks/spectral_circle.py [--samples 300,1000,3000,10000,30000] [--concentrations
0,1,2,3,4] [--seeds 2]

The truth is the generator of Langevin dynamics on the circle, by finite volumes. Fits that
results/spectral_circle.csv lacks are made and added to it, until --max-time seconds have passed;
then the table of all of them is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import time
import warnings
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
from csv_rows import read_rows, write_rows
from scipy import linalg

from kmc.spectral import GraphLaplacian

RESULTS = Path(__file__).parent / "results" / "spectral_circle.csv"
TOLERANCE = 0.1


def truth(concentration: float, count: int = 4, cells: int = 1000) -> np.ndarray:
    """The first eigenvalues of -f'' - (log p)' f' for p ∝ exp(κ cos θ)."""
    angle = 2 * np.pi * np.arange(cells) / cells
    v = -concentration * np.cos(angle)
    # rates to the next cell, and back
    up = np.exp((v - np.roll(v, -1)) / 2) * (cells / (2 * np.pi)) ** 2
    down = np.exp((np.roll(v, -1) - v) / 2) * (cells / (2 * np.pi)) ** 2
    matrix = np.diag(up + np.roll(down, 1))
    rows, following = np.arange(cells), np.roll(np.arange(cells), -1)
    matrix[rows, following] = matrix[following, rows] = -np.sqrt(up * down)
    return linalg.eigvalsh(matrix, subset_by_index=[1, count])


def sample(concentration: float, n: int, seed: int) -> np.ndarray:
    """(n, 2) points on the unit circle."""
    angle = np.random.default_rng([seed, n]).vonmises(0.0, concentration, n)
    return np.column_stack([np.cos(angle), np.sin(angle)])


@dataclass(frozen=True)
class Outcome:
    """One fit."""

    concentration: float
    samples: int
    seed: int
    first: float  # eigenvalue; NaN for a refusal
    true_first: float
    warned: bool
    refused: bool
    seconds: float

    @property
    def verdict(self) -> str:
        """Right, or what was said."""
        if self.refused:
            return "refused"
        right = abs(self.first / self.true_first - 1) <= TOLERANCE
        return ("right" if right else "off") + (
            ", warned" if self.warned else "" if right else ", silent"
        )


def outcome(concentration: float, n: int, seed: int) -> Outcome:
    """At the defaults, for two eigenfunctions."""
    x, expected = sample(concentration, n, seed), float(truth(concentration)[0])
    begun, first = time.process_time(), np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.suppress(ValueError):
            first = float(GraphLaplacian(n_components=2).fit(x).eigenvalues_[0])
    seconds = time.process_time() - begun
    return Outcome(
        concentration, n, seed, first, expected, bool(caught), bool(np.isnan(first)), seconds
    )


def read(path: Path) -> list[Outcome]:
    """Earlier fits."""
    return [
        Outcome(
            float(row["concentration"]),
            int(row["samples"]),
            int(row["seed"]),
            float(row["first"]),
            float(row["true_first"]),
            row["warned"] == "True",
            row["refused"] == "True",
            float(row["seconds"]),
        )
        for row in read_rows(path)
    ]


def write(outcomes: list[Outcome], path: Path) -> None:
    write_rows(path, [*Outcome.__dataclass_fields__], (astuple(one) for one in outcomes))


def table(outcomes: list[Outcome]) -> str:
    """Markdown."""
    lines = ["| κ | n | λ1 (truth) | verdicts | s |", "| ---: | ---: | --- | --- | ---: |"]
    for key in sorted({(one.concentration, one.samples) for one in outcomes}):
        these = [one for one in outcomes if (one.concentration, one.samples) == key]
        found = ", ".join(f"{one.first:.3g}" for one in these)
        lines.append(
            f"| {key[0]:g} | {key[1]:,} | {found} ({these[0].true_first:.3g}) | "
            f"{'; '.join(one.verdict for one in these)} | {max(one.seconds for one in these):.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", default="300,1000,3000,10000,30000")
    parser.add_argument("--concentrations", default="0,1,2,3,4")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--max-time", type=float, default=np.inf, help="seconds")
    parser.add_argument("--report", action="store_true", help="run nothing")
    args = parser.parse_args()
    outcomes, end = read(args.output), time.monotonic() + args.max_time
    done = {(one.concentration, one.samples, one.seed) for one in outcomes}
    for n in map(int, args.samples.split(",")):
        for seed in range(args.seeds):
            for concentration in map(float, args.concentrations.split(",")):
                if (
                    (concentration, n, seed) not in done
                    and time.monotonic() < end
                    and not args.report
                ):
                    outcomes.append(outcome(concentration, n, seed))
                    write(outcomes, args.output)
    print(table(outcomes))


if __name__ == "__main__":
    main()
