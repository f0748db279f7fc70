"""Slow time scales from trajectories, beside Markov state models: in equilibrium, far from it, and
with a rare state.

python benchmarks/trajectories.py [--runs 0:50] [--only prinz] [--report]

Truths are those of the generator on a grid (finite volumes). kmc runs at its defaults, but for the
lagtime and the number of modes. The peers are two reversible Markov state models of deeptime with
50 and 200 k-means cells; the better one *by the truth* is compared. The autocorrelation of the
exact eigenfunction on the same data shows what is left to chance. Runs are added to
results/trajectories.csv; --report prints the table.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numba
import numpy as np
from spectral_chains import four_wells, four_wells_slope
from spectral_defaults import OnAGrid, line

RESULTS = Path(__file__).parent / "results" / "trajectories.csv"
CELLS = (50, 200)
WITHIN = 2.0  # standard errors


@numba.njit(cache=True)
def prinz_slope(x, y):
    return four_wells_slope(x), 0.0


@numba.njit(cache=True)
def triple_slope(x, y):
    """Three wells in the plane: Metzner, Schütte and Vanden-Eijnden (2006), at kT = 1."""
    a, b = 3 * np.exp(-(x**2) - (y - 1 / 3) ** 2), -3 * np.exp(-(x**2) - (y - 5 / 3) ** 2)
    c, d = -5 * np.exp(-((x - 1) ** 2) - y**2), -5 * np.exp(-((x + 1) ** 2) - y**2)
    along = -2 * (x * a + x * b + (x - 1) * c + (x + 1) * d) + 0.8 * x**3
    across = -2 * ((y - 1 / 3) * a + (y - 5 / 3) * b + y * c + y * d) + 0.8 * (y - 1 / 3) ** 3
    return along, across


@numba.njit(cache=True)
def quartic_slope(x, y):
    return 12 * x * (x**2 - 1), 0.0


RARE = np.array([-1.2, 1.0, 3.4])
SHARES = np.array([0.55, 0.4465, 0.0035])


@numba.njit(cache=True)
def rare_slope(x, y):
    """Three normal wells, the last with a share of .005, and a little in between."""
    p, q = 0.0, 0.0
    for k in range(4):
        center, width = (RARE[k], 0.35) if k < 3 else (1.0, 1.3)
        share = SHARES[k] if k < 3 else 0.012
        one = share / width * np.exp(-0.5 * ((x - center) / width) ** 2)
        p += one
        q += one * (x - center) / width**2
    return q / p, 0.0


def rare_potential(x):
    wells = sum(s / 0.35 * np.exp(-0.5 * ((x - c) / 0.35) ** 2) for s, c in zip(SHARES, RARE))
    return -np.log(wells + 0.012 / 1.3 * np.exp(-0.5 * ((x - 1.0) / 1.3) ** 2))


def triple_potential(z):
    x, y = z.T
    return (
        3 * np.exp(-(x**2) - (y - 1 / 3) ** 2)
        - 3 * np.exp(-(x**2) - (y - 5 / 3) ** 2)
        - 5 * np.exp(-((x - 1) ** 2) - y**2)
        - 5 * np.exp(-((x + 1) ** 2) - y**2)
        + 0.2 * x**4
        + 0.2 * (y - 1 / 3) ** 4
    )


@dataclass(frozen=True)
class System:
    """Overdamped Langevin dynamics, observed every ``substeps`` Euler steps of ``h``."""

    name: str
    grid: OnAGrid
    slope: Callable
    h: float
    substeps: int
    length: int
    trajectories: int = 1
    start: tuple[float, ...] | None = None  # None: from the stationary distribution
    lagtime: int = 1
    modes: int = 2
    rare: tuple[float, ...] | None = None  # centers of the states, the last one rare

    def simulate(self, seed: int) -> list[np.ndarray]:
        """Trajectories (length, d)."""
        rng = np.random.default_rng([seed, 16])
        d = len(self.grid.box)
        starts = self.grid.sample(rng, self.trajectories)
        if self.start is not None:
            starts[:] = self.start
        full = np.zeros((self.trajectories, 2))
        full[:, :d] = starts
        found = _euler(self.slope, full, self.h, self.substeps, self.length, d == 2, rng)
        return [np.ascontiguousarray(path[:, :d]) for path in found]

    @cached_property
    def timescales(self) -> np.ndarray:
        """True ones, in samples."""
        return 1 / (self.grid.eigenvalues(3) * self.h * self.substeps)


SYSTEMS = (
    System(
        "prinz",
        line("prinz", four_wells, four_wells_slope, 1.25),
        prinz_slope,
        1e-5,
        500,
        20_000,
        lagtime=5,
    ),
    System(
        "triple well",
        OnAGrid("triple", triple_potential, triple_potential, ((-2.6, 2.6), (-2.2, 3.2)), 200),
        triple_slope,
        1e-3,
        50,
        20_000,
        lagtime=5,
    ),
    System(
        "off equilibrium",
        line("quartic", lambda x: 3 * (x**2 - 1) ** 2, lambda x: 12 * x * (x**2 - 1), 2.6),
        quartic_slope,
        1e-3,
        20,
        100,
        400,
        (-1.0,),
        5,
        1,
    ),
    System(
        "rare state",
        line("rare", rare_potential, lambda x: x, 6.0),
        rare_slope,
        1e-3,
        50,
        20_000,
        lagtime=2,
        rare=tuple(RARE),
    ),
)


@dataclass(frozen=True)
class Outcome:
    """One data set."""

    system: str
    run: int
    truth: float  # slowest time scale, in samples
    kmc: float
    std_error: float
    msm_50: float
    msm_200: float
    exact: float  # by the autocorrelation of the exact eigenfunction, whose mean is known
    found_rare: float  # whether the rare state is a set of its own; NaN where there is none
    warned: bool
    seconds: float

    def error(self, name: str) -> float:
        """|log| of the ratio to the truth."""
        value = getattr(self, name)
        return abs(np.log(value / self.truth)) if value > 0 else np.inf

    @property
    def within(self) -> bool:
        """Whether the truth is in the stated band."""
        return abs(self.kmc - self.truth) <= WITHIN * self.std_error


def outcome(system: System, run: int) -> Outcome:
    """Fit kmc and the two Markov state models to the same trajectories."""
    from kmc.spectral import TransitionOperator

    x, begun = system.simulate(run), time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        operator = TransitionOperator(system.lagtime, system.modes, random_state=run).fit(x)
    seconds, found = time.process_time() - begun, np.nan
    if system.rare is not None:
        try:
            sets = operator.predict(np.array(system.rare)[:, None], len(system.rare))
            found = float(len(set(sets.tolist())) == len(sets))
        except ValueError:
            found = 0.0
    slowest, error = operator.timescales_[0], operator.timescale_errors_[0]
    models = [markov_state_model(x, system.lagtime, cells, run) for cells in CELLS]
    truth, exact = system.timescales[0], by_exact_function(system, x)
    return Outcome(
        system.name, run, truth, slowest, error, *models, exact, found, bool(caught), seconds
    )


def by_exact_function(system: System, x: list[np.ndarray]) -> float:
    """The slowest time scale if the eigenfunction ψ, and that its mean is zero, were known: from E
    ψ(x_t) ψ(x_t+τ).
    """
    values, lag = [system.grid.slowest_function(path) for path in x], system.lagtime
    first, second = (
        np.concatenate([v[:-lag] for v in values]),
        np.concatenate([v[lag:] for v in values]),
    )
    return float(-lag / np.log(first @ second / (first @ first)))


def markov_state_model(x: list[np.ndarray], lagtime: int, cells: int, seed: int) -> float:
    """The slowest time scale."""
    from deeptime.clustering import KMeans
    from deeptime.markov import TransitionCountEstimator
    from deeptime.markov.msm import MaximumLikelihoodMSM

    clusters = KMeans(cells, max_iter=20, fixed_seed=seed).fit_fetch(np.concatenate(x)[::5])
    steps = [clusters.transform(path) for path in x]
    counts = TransitionCountEstimator(lagtime, "sliding").fit_fetch(steps).submodel_largest()
    return float(MaximumLikelihoodMSM(reversible=True).fit_fetch(counts).timescales(1)[0])


@numba.njit(cache=True)
def _euler(slope, starts, h, substeps, n, plane, rng):
    out, noise = np.empty((len(starts), n, 2)), np.sqrt(2 * h)
    for k in range(len(starts)):
        x, y = starts[k]
        for t in range(n):
            out[k, t] = x, y
            for _ in range(substeps):
                sx, sy = slope(x, y)
                x += -h * sx + noise * rng.normal()
                if plane:
                    y += -h * sy + noise * rng.normal()
    return out


def report(outcomes: list[Outcome]) -> str:
    """Markdown: a row for each system."""
    lines = [
        "| system | truth | runs | kmc: median error | MSM, 50 cells | MSM, 200 cells | exact "
        "function | kmc nearer than both | truth within two errors | rare state found | s |",
        "| --- |" + 10 * " ---: |",
    ]
    for system in SYSTEMS:
        these = [one for one in outcomes if one.system == system.name]
        if not these:
            continue
        medians = [
            np.median([one.error(name) for one in these])
            for name in ("kmc", "msm_50", "msm_200", "exact")
        ]
        nearer = np.mean(
            [one.error("kmc") < min(one.error("msm_50"), one.error("msm_200")) for one in these]
        )
        rare = "" if system.rare is None else f"{np.mean([one.found_rare for one in these]):.0%}"
        lines.append(
            f"| {system.name} | {these[0].truth:.1f} | {len(these)} | "
            + " | ".join(f"{median:.1%}" for median in medians)
            + f" | {nearer:.0%} | {np.mean([one.within for one in these]):.0%} | {rare} | "
            f"{np.median([one.seconds for one in these]):.1f} |"
        )
    return "\n".join(lines)


def differences(outcomes: list[Outcome]) -> str:
    """Markdown: the mean error of kmc minus that of the Markov state model with the smaller mean,
    on the same data.
    """
    lines = ["| system | better model | mean error of kmc minus its own |", "| --- | --- | ---: |"]
    for system in SYSTEMS:
        these = [one for one in outcomes if one.system == system.name]
        if len(these) > 1:
            errors = {
                name: np.array([one.error(name) for one in these])
                for name in ("kmc", "msm_50", "msm_200")
            }
            better = min(("msm_50", "msm_200"), key=lambda name: errors[name].mean())
            apart = errors["kmc"] - errors[better]
            spread = apart.std(ddof=1) / np.sqrt(len(apart))
            lines.append(
                f"| {system.name} | {better[4:]} cells | {apart.mean():.4f} ± {spread:.4f} |"
            )
    return "\n".join(lines)


def read(path: Path = RESULTS) -> list[Outcome]:
    """Earlier runs."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            Outcome(
                row["system"],
                int(row["run"]),
                *(float(row[name]) for name in list(row)[2:9]),
                row["warned"] == "True",
                float(row["seconds"]),
            )
            for row in csv.DictReader(file)
        ]


def write(outcomes: list[Outcome], path: Path = RESULTS) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*Outcome.__dataclass_fields__])
        for one in outcomes:
            writer.writerow([f"{v:.5g}" if isinstance(v, float) else v for v in vars(one).values()])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", default="0:50")
    parser.add_argument("--only", default="")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    outcomes = read()
    done = {(one.system, one.run) for one in outcomes}
    if not args.report:
        for run in range(*map(int, args.runs.split(":"))):
            for system in SYSTEMS:
                if args.only in system.name and (system.name, run) not in done:
                    outcomes.append(outcome(system, run))
                    write(outcomes)
    print(report(outcomes), differences(outcomes), sep="\n\n")


if __name__ == "__main__":
    main()
