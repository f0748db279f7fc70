"""Spectra of Markov chains beside those of deeptime: ``python benchmarks/spectral_chains.py
--help``.

Chains on the line whose transition operator is known from a fine grid: random-walk Metropolis on a
double well and on four wells, and the overdamped Langevin dynamics in the same four wells that
deeptime's tutorials use (Prinz et al. 2011). kmc chooses its settings automatically. Each peer gets
several settings, and the one with the smallest error *compared with the truth* is shown.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np
from scipy import linalg

COUNT = 5


@numba.njit(cache=True)
def double_well(x):
    """Two wells with a barrier of 2 between them."""
    return 2.0 * (x**2 - 1.0) ** 2


@numba.njit(cache=True)
def four_wells(x):
    """Prinz et al. (2011), "Markov models of molecular kinetics"."""
    bumps = (
        0.8 * np.exp(-80 * x**2)
        + 0.2 * np.exp(-80 * (x - 0.5) ** 2)
        + 0.5 * np.exp(-40 * (x + 0.5) ** 2)
    )
    return 4.0 * (x**8 + bumps)


@numba.njit(cache=True)
def four_wells_slope(x):
    bumps = 0.8 * np.exp(-80 * x**2) * -160 * x + 0.2 * np.exp(-80 * (x - 0.5) ** 2) * -160 * (
        x - 0.5
    )
    return 4.0 * (8 * x**7 + bumps + 0.5 * np.exp(-40 * (x + 0.5) ** 2) * -80 * (x + 0.5))


@dataclass(frozen=True)
class RandomWalk:
    """Random-walk Metropolis at exp(-V) with normal steps."""

    name: str
    potential: Callable
    step: float
    reach: float

    def simulate(self, n: int, seed: int) -> np.ndarray:
        """(n, 1) states, after a thousandth of them as burn-in."""
        return _walk(self.potential, self.step, n + n // 1000, np.random.default_rng(seed))[
            -n:, None
        ]

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Grid, the largest eigenvalues after 1, and their eigenfunctions on the grid."""
        x = np.linspace(-self.reach, self.reach, 1201)
        v = self.potential(x)
        jumps = (
            np.exp(-0.5 * ((x[:, None] - x) / self.step) ** 2)
            * (x[1] - x[0])
            / (self.step * np.sqrt(2 * np.pi))
        )
        move = jumps * np.minimum(1.0, np.exp(v[:, None] - v))
        np.fill_diagonal(move, 0.0)
        np.fill_diagonal(move, 1.0 - move.sum(axis=1))
        root = np.exp(-0.5 * v)
        return _top(x, root[:, None] * move / root, root)


@dataclass(frozen=True)
class Langevin:
    """dx = -V' dt + √2 dw, observed every ``substeps`` Euler steps of ``h``."""

    name: str = "4 wells, Langevin"
    reach: float = 1.25
    h: float = 1e-5
    substeps: int = 500

    def simulate(self, n: int, seed: int) -> np.ndarray:
        """(n, 1) states."""
        return _euler(0.7, self.h, self.substeps, n, np.random.default_rng(seed))[:, None]

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The spectrum in continuous time, by a generator on a grid that is reversible with respect
        to exp(-V).
        """
        x = np.linspace(-self.reach, self.reach, 1601)
        v, width = four_wells(x), x[1] - x[0]
        up, down = np.exp(-np.diff(v) / 2) / width**2, np.exp(np.diff(v) / 2) / width**2
        out = np.append(up, 0.0) + np.append(0.0, down)
        rows = len(x) - 1 - COUNT, len(x) - 2
        rates, vectors = linalg.eigh_tridiagonal(
            -out, np.sqrt(up * down), select="i", select_range=rows
        )
        values = np.exp(self.h * self.substeps * rates)
        return x, values[::-1], vectors[:, ::-1] / np.exp(-0.5 * v)[:, None]


CHAINS = (
    RandomWalk("double well, random walk", double_well, 0.25, 2.3),
    RandomWalk("4 wells, random walk", four_wells, 0.1, 1.3),
    Langevin(),
)


def truth_on_the_data(chain, x: np.ndarray) -> np.ndarray:
    """Eigenvalues of the true eigenfunctions on these data: the best possible result with this
    sampling noise.
    """
    grid, _, functions = chain.spectrum
    modes = np.column_stack([np.interp(x[:, 0], grid, f) for f in functions.T])
    modes -= modes.mean(axis=0)
    now, then = modes[:-1], modes[1:]
    cross = now.T @ then
    return linalg.eigh(cross + cross.T, now.T @ now + then.T @ then, eigvals_only=True)[::-1]


def kmc_operator(x: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    from kmc.spectral import TransitionOperator

    yield TransitionOperator(random_state=seed).fit(x).eigenvalues_


def markov_state_model(x: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """Reversible, with 50 cells of equal numbers of samples."""
    yield next(iter(markov_state_models(x, seed)))


def markov_state_models(x: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """Reversible, with cells of equal numbers of samples, and with cells of equal width."""
    from deeptime.markov import TransitionCountEstimator
    from deeptime.markov.msm import MaximumLikelihoodMSM

    for count in (50, 100, 200):
        for edges in (
            np.quantile(x, np.linspace(0, 1, count + 1)),
            np.linspace(x.min(), x.max(), count + 1),
        ):
            cells = np.searchsorted(edges[1:-1], x[:, 0])
            counts = (
                TransitionCountEstimator(lagtime=1, count_mode="sliding")
                .fit_fetch(cells)
                .submodel_largest()
            )
            yield (
                MaximumLikelihoodMSM(reversible=True)
                .fit_fetch(counts)
                .eigenvalues(COUNT + 1)[1:]
                .real
            )


def tica(x: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """On monomials up to degree 5, and up to 10."""
    from deeptime.decomposition import TICA

    for degree in (5, 10):
        features = (x / np.abs(x).max()) ** np.arange(1, degree + 1)
        yield np.sort(TICA(lagtime=1).fit(features).fetch_model().singular_values)[::-1]


def kernel_edmd(x: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """On 1000 pairs, evenly spaced: its matrices have as many rows."""
    from deeptime.decomposition import KernelEDMD
    from deeptime.kernels import GaussianKernel

    first = np.linspace(0, len(x) - 2, 1000).astype(int)
    for factor in (0.125, 0.25, 0.5):
        for epsilon in (1e-5, 1e-3):
            kernel = GaussianKernel(factor * np.median(np.abs(x - x.mean())) * 2)
            found = (
                KernelEDMD(kernel, epsilon=epsilon, n_eigs=COUNT + 1)
                .fit((x[first], x[first + 1]))
                .fetch_model()
            )
            yield np.sort(found.eigenvalues.real)[::-1][1:]


METHODS = {
    "kmc TransitionOperator": kmc_operator,
    "deeptime MSM, 50 cells": markov_state_model,
    "deeptime MSM, best of 6": markov_state_models,
    "deeptime TICA, best of 2": tica,
    "deeptime KernelEDMD, best of 6": kernel_edmd,
}


def errors(found: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Largest error of the first eigenvalues (missing ones are 0), and relative error of the
    slowest time scale.
    """
    values = np.zeros(len(truth))
    values[: len(found)] = found[: len(truth)]
    slow = np.log(truth[0]) / np.log(values[0]) - 1 if 0 < values[0] < 1 else np.inf
    return float(np.abs(values - truth).max()), float(abs(slow))


def run(chain, n: int, seeds: int) -> dict[str, np.ndarray]:
    """Errors and processor seconds of every method, (seeds, 3) each."""
    _, truth, _ = chain.spectrum
    rows: dict[str, list] = {name: [] for name in ("true eigenfunctions, same data", *METHODS)}
    for seed in range(seeds):
        x = chain.simulate(n, seed)
        rows["true eigenfunctions, same data"].append(
            (*errors(truth_on_the_data(chain, x), truth), np.nan)
        )
        for name, method in METHODS.items():
            begun = time.process_time()
            found = [errors(values, truth) for values in method(x, seed)]
            rows[name].append((*min(found), (time.process_time() - begun) / len(found)))
    return {name: np.array(row) for name, row in rows.items()}


def table(n: int, seeds: int) -> str:
    """Markdown: for each chain and method the median over seeds, and the worst."""
    lines = [
        "| chain | method | largest error of 5 eigenvalues | error of the slowest time scale | "
        "seconds a fit |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for chain in CHAINS:
        scale = -1 / np.log(chain.spectrum[1][0])
        for name, rows in run(chain, n, seeds).items():
            middle, worst = np.median(rows, axis=0), rows.max(axis=0)
            seconds = "" if np.isnan(middle[2]) else f"{middle[2]:.1f}"
            lines.append(
                f"| {chain.name} (t = {scale:.1f}) | {name} | {middle[0]:.4f} ({worst[0]:.4f}) | "
                f"{middle[1]:.1%} ({worst[1]:.1%}) | {seconds} |"
            )
            print(lines[-1], file=sys.stderr)
    return "\n".join(lines)


@numba.njit(cache=True)
def _walk(potential, step, n, rng):
    x, out = 1.0, np.empty(n)
    v = potential(x)
    for t in range(n):
        y = x + step * rng.normal()
        w = potential(y)
        if np.log(rng.random()) < v - w:
            x, v = y, w
        out[t] = x
    return out


@numba.njit(cache=True)
def _euler(x, h, substeps, n, rng):
    out, noise = np.empty(n), np.sqrt(2 * h)
    for t in range(n):
        for _ in range(substeps):
            x += -h * four_wells_slope(x) + noise * rng.normal()
        out[t] = x
    return out


def _top(x, symmetric, root):
    size = len(x)
    values, vectors = linalg.eigh(
        symmetric + symmetric.T, subset_by_index=[size - 1 - COUNT, size - 2]
    )
    return x, values[::-1] / 2, vectors[:, ::-1] / root[:, None]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=1_000_000, help="samples of each chain")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(table(options.samples, options.seeds))


if __name__ == "__main__":
    main()
