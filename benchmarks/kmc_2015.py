"""Figures 3 and 5 of the paper on Kernel Hamiltonian Monte Carlo,
``python benchmarks/kmc_2015.py``.

Strathmann, Sejdinovic, Livingstone, Szabó and Gretton (2015), "Gradient-free Hamiltonian Monte
Carlo with efficient kernel exponential families", NIPS. Published numbers are means over the runs
that the authors have put beside their scripts (https://github.com/karlnapf/kamiltonian, commit
4ff11e8), and so are settings where the paper has none.

*Figure 3*: mixing on the banana in eight dimensions (b = .03). KMC and KAMH have learned from n
exact draws and do not adapt. HMC and KMC make 10 to 100 leapfrog steps of a size in [.6, 1.3]; KMC
takes the gradient of the finite estimator with n features. RW has steps of sd 1. KAMH is Kameleon's
proposal from those n draws, with ν tuned to an acceptance of 23 % in a pilot run. The authors' runs
have 100 iterations (their acceptance rates are multiples of .01), from (0, 3, 0, ...) without
burn-in, and so have these; the text of the paper has 2,000 after a burn-in, and their ESS per 1,000
is in the last column, from the same chains continued.

*Figure 5*: a standard normal in d dimensions. The acceptance probability, averaged over the points
of a path of 100 to 1,000 leapfrog steps of size .1 from an exact draw, along the finite estimator
of n draws with n features.

*As the authors'*: their scripts differ from the paper's text in what further methods repeat. "KMC
first accepted": the value at the start counts as -inf, so that the first proposal is always
accepted, as in their ``KMCRandomFeatsJob``. "KMC chosen as theirs": also with bandwidth and
regularization chosen together by their noisy cross-validation, ten generations of six candidates,
each with new features, the best of which wins. "KAMH their constants": γ, ν and the bandwidth of
``mcmc_banana_target.py`` in the coordinates of the target; "KAMH uncorrected": also accepted
without the densities of the proposal, as in their ``KameleonJob``. In figure 5 "KMC theirs" has σ =
.5 and λ = 8e-5 in each dimension, as their ``TrajectoryJob`` had when its results were stored
(commit 286c12c).

"finite" is the published estimator: Gaussian kernel, no base density; in figure 3 with its
bandwidth and regularization for n >= 500 and with cross-validated ones below, in figure 5 with
cross-validated ones. "defaults" is ``kmc.scores.FiniteKEF(n_basis=n)``, whose base density is a
Gaussian and whose other choices are cross-validated; it needs more than d draws. ESS of 100 draws
is coda's, as in the paper, and that of 2,000 draws of :mod:`kmc.convergence`.

Writes ``results/kmc_2015.csv``, one row for each run, and prints means; rows that exist are not run
again.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from csv_rows import append_row, read_rows
from scipy.linalg import solve_toeplitz
from scipy.spatial.distance import pdist

from kmc import convergence
from kmc.model.toys import Banana
from kmc.samplers.adapting import RobbinsMonro
from kmc.samplers.kameleon import Kameleon, KameleonProposer, Subsample, covariance_root, log_normal
from kmc.samplers.metropolis import Proposal, decide
from kmc.samplers.score_field import Field, plain_path
from kmc.scores import FiniteKEF
from kmc.surrogate.coordinates.whitening import Whitening

RESULTS = Path(__file__).parent / "results" / "kmc_2015.csv"
KEY = ("figure", "method", "dim", "n", "seed")
COLUMNS = (
    *KEY,
    "acceptance",
    "mean_norm",
    "least_ess",
    "mean_ess",
    "least_ess_per_1000",
    "seconds",
)
DRAWS, BURN_IN, LONG = 100, 400, 2000
# frequencies have the standard deviation σ²/2, σ = .46, in the authors' script
BANDWIDTH = 1.0 / (0.5 * 0.46**2)
Move = Callable[[np.ndarray], Proposal]
AUTHORS_KAMELEON = {
    50: (2, 1),
    100: (2, 1),
    200: (1, 1),
    500: (0.8, 0.5),
    1000: (0.8, 0.1),
    2000: (0.5, 0.1),
}
"""ν² and γ² by the number of draws."""
AS_AUTHORS = {  # the sizes for which results were not reproduced
    "KMC first accepted": (50, 100, 500),
    "KMC chosen as theirs": (50, 100),
    "KAMH their constants": (50, 100, 200, 500, 1000, 2000),
    "KAMH uncorrected": (50, 100, 200, 500, 1000, 2000),
}
SIZES, DIMENSIONS = (50, 100, 200, 500, 1000, 2000), (2, 8, 16, 32, 64)

PUBLISHED_3 = {  # acceptance, norm of the mean, least and mean ESS of 100 draws; 68 to 90 runs each
    ("HMC", 0): (0.777, 1.44, 25.3, 76.0),
    ("RW", 0): (0.208, 3.74, 2.7, 7.5),
    ("KMC finite", 50): (0.163, 24.8, 6.5, 20.5),
    ("KMC finite", 100): (0.450, 2.60, 12.8, 33.0),
    ("KMC finite", 200): (0.574, 2.22, 15.9, 44.2),
    ("KMC finite", 500): (0.556, 4.33, 19.4, 43.9),
    ("KMC finite", 1000): (0.657, 1.55, 23.4, 55.9),
    ("KMC finite", 2000): (0.713, 1.47, 25.7, 62.1),
    ("KAMH", 50): (0.175, 3.87, 3.0, 8.0),
    ("KAMH", 100): (0.167, 4.29, 2.9, 8.6),
    ("KAMH", 200): (0.155, 3.96, 2.8, 8.5),
    ("KAMH", 500): (0.227, 4.71, 3.2, 10.6),
    ("KAMH", 1000): (0.205, 4.07, 3.7, 11.4),
    ("KAMH", 2000): (0.164, 4.39, 3.6, 11.1),
}
PUBLISHED_5 = {  # acceptance for n = 50, 100, 200, 500, 1000, 2000; 50 to 60 runs each
    2: (0.87, 0.89, 0.92, 0.95, 0.96, 0.96),
    8: (0.51, 0.69, 0.84, 0.88, 0.88, 0.92),
    16: (0.03, 0.30, 0.61, 0.77, 0.80, 0.90),
    32: (0.01, 0.02, 0.12, 0.44, 0.63, 0.75),
    64: (0.01, 0.01, 0.01, 0.03, 0.13, 0.38),
}


# Figure 3


def banana_run(method: str, n: int, seed: int) -> dict[str, float]:
    """One chain."""
    target, rng = Banana(8), np.random.default_rng([3, n, seed])
    moves: dict[str, Callable[[], Move]] = {
        "HMC": lambda: path_move(lambda z, p, **k: plain_path(banana_gradient, z, p, **k), rng),
        "KMC finite": lambda: path_move(
            field_of(as_published(n, seed), target.sample(rng, n)).path, rng
        ),
        "KMC defaults": lambda: path_move(
            field_of(defaults(n, seed), target.sample(rng, n)).path, rng
        ),
        "RW": lambda: lambda x: Proposal(x + rng.standard_normal(8), 0.0, 0),
        "KMC first accepted": lambda: path_move(
            field_of(as_published(n, seed), target.sample(rng, n)).path, rng
        ),
        "KMC chosen as theirs": lambda: path_move(
            chosen_as_theirs(target.sample(rng, n), rng).path, rng
        ),
        "KAMH": lambda: kameleon_move(target, target.sample(rng, n), rng),
        "KAMH their constants": lambda: kameleon_as_theirs(target.sample(rng, n), rng),
        "KAMH uncorrected": lambda: kameleon_as_theirs(target.sample(rng, n), rng, corrected=False),
    }
    first = method in AS_AUTHORS and method.startswith("KMC")
    chain = Chain(target, moves[method](), rng, accept_first=first)
    draws, accepted = chain.run(DRAWS)
    sizes = np.array([spectral_ess(column) for column in draws.T])
    chain.run(BURN_IN)
    return {
        "acceptance": accepted,
        "mean_norm": float(np.linalg.norm(draws.mean(axis=0))),
        "least_ess": float(sizes.min()),
        "mean_ess": float(sizes.mean()),
        "least_ess_per_1000": 1000.0 / LONG * convergence.worst_bulk_ess(chain.run(LONG)[0][None]),
    }


class Chain:
    """A chain from (0, 3, 0, ...); ``accept_first``: the density there counts as zero."""

    def __init__(
        self, target: Banana, propose: Move, rng: np.random.Generator, *, accept_first: bool = False
    ):
        self._target, self._propose, self._rng = target, propose, rng
        self.x = np.zeros(target.dim)
        self.x[1] = 3.0
        self._value = -np.inf if accept_first else target(self.x)

    def run(
        self, n: int, learn: Callable[[float, int], None] | None = None
    ) -> tuple[np.ndarray, float]:
        """The next n draws, and the acceptance rate; ``learn`` is told the probability of each
        acceptance.
        """
        draws, moves = np.empty((n, len(self.x))), 0
        for i in range(n):
            proposal = self._propose(self.x)
            end = self._target(proposal.position) if proposal.moved else -np.inf
            accepted, rate = decide(self._rng, self._value, end, log_ratio=proposal.log_ratio)
            if accepted:
                self.x, self._value = proposal.position, end
            if learn is not None:
                learn(rate, i + 1)
            draws[i], moves = self.x, moves + accepted
        return draws, moves / n


def spectral_ess(x: np.ndarray) -> float:
    """Effective sample size of draws (n,) as ``effectiveSize`` of R's coda has it.

    n times the variance over the spectral density at zero of an autoregression, by the equations of
    Yule and Walker, whose order of at most 10 log10(n) has the least AIC; 0 if all draws are equal.
    """
    n, y = len(x), x - x.mean()
    if not np.any(y):
        return 0.0
    c = np.array([y[: n - lag] @ y[lag:] for lag in range(int(10 * np.log10(n)) + 1)]) / n
    best = np.inf, np.zeros(0), 0.0
    for order in range(len(c)):
        weights = solve_toeplitz(c[:order], c[1 : order + 1]) if order else np.zeros(0)
        innovation = float(c[0] - weights @ c[1 : order + 1])
        if innovation > 0 and (aic := n * np.log(innovation) + 2 * order) < best[0]:
            best = aic, weights, innovation
    _, weights, innovation = best
    density = innovation * n / (n - len(weights) - 1) / (1.0 - weights.sum()) ** 2
    return float(n * y.var(ddof=1) / density)


def banana_gradient(x: np.ndarray) -> np.ndarray:
    """Of the log-density of ``Banana(8)``."""
    out = -x
    bent = x[1] + 0.03 * (x[0] ** 2 - 100.0)
    out[0], out[1] = -0.01 * x[0] - 0.06 * x[0] * bent, -bent
    return out


def path_move(path: Callable[..., Any], rng: np.random.Generator) -> Move:
    """10 to 100 leapfrog steps of a size in [.6, 1.3]."""

    def propose(x):
        momentum, n_steps = rng.standard_normal(len(x)), int(rng.integers(10, 101))
        found = path(x, momentum, step_size=rng.uniform(0.6, 1.3), n_steps=n_steps)
        if found.diverging:
            return Proposal(x, 0.0, 0, moved=False)
        return Proposal(
            found.z, 0.5 * float(momentum @ momentum - found.momentum @ found.momentum), 0
        )

    return propose


def kameleon_move(target: Banana, draws: np.ndarray, rng: np.random.Generator) -> Move:
    """Kameleon's proposal from these draws, after a pilot run for ν."""
    proposer = KameleonProposer(Kameleon(), np.ones(draws.shape[1]), rng)
    proposer._subsample, proposer._factor = Subsample.of(draws, "median"), RobbinsMonro(0.234)
    Chain(target, lambda x: proposer.propose(rng, x), rng).run(BURN_IN, proposer._factor.learn)
    return lambda x: proposer.propose(rng, x)


def kameleon_as_theirs(
    draws: np.ndarray, rng: np.random.Generator, *, corrected: bool = True
) -> Move:
    """Kameleon's proposal in the target's coordinates, with the authors' constants; also without
    its densities.

    Their kernel is exp(-|x - y|² / s), where s is half of the median squared distance.
    """
    nu2, gamma2 = AUTHORS_KAMELEON[len(draws)]
    bandwidth = float(np.sqrt(0.25 * np.median(pdist(draws, "sqeuclidean"))))

    def root(x: np.ndarray) -> np.ndarray:
        return covariance_root(x, draws, bandwidth=bandwidth, gamma=gamma2**0.5, nu=nu2**0.5)

    def propose(x: np.ndarray) -> Proposal:
        forth = root(x)
        step = forth @ rng.standard_normal(len(x))
        log_ratio = log_normal(step, root(x + step)) - log_normal(step, forth) if corrected else 0.0
        return Proposal(x + step, log_ratio, 0)

    return propose


def chosen_as_theirs(draws: np.ndarray, rng: np.random.Generator) -> Field:
    """The finite estimator with the best σ and λ that a search like the authors' (CMA-ES) finds."""
    n, dim = draws.shape

    def moments(
        x: np.ndarray, frequencies: np.ndarray, phases: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """C and b of their score matching."""
        angles, squares = x @ frequencies + phases, np.sum(frequencies**2, axis=0)
        sines = np.sin(angles)
        c = 2.0 / n * (frequencies.T @ frequencies) * (sines.T @ sines) / len(x)
        return c, np.sqrt(2.0 / n) * squares * np.cos(angles).mean(axis=0)

    def objective(log_sigma: float, log_weight: float) -> float:
        frequencies = 0.5 * 4.0**log_sigma * rng.standard_normal((dim, n))
        phases, weight, held_out = rng.uniform(0.0, 2.0 * np.pi, n), 2.0**log_weight, 0.0
        for rows in np.array_split(rng.permutation(n), 5):
            c, b = moments(np.delete(draws, rows, axis=0), frequencies, phases)
            theta = np.linalg.solve(c + weight * np.eye(n), b)
            c, b = moments(draws[rows], frequencies, phases)
            held_out += 0.5 * float(theta @ c @ theta + weight * theta @ theta) - float(theta @ b)
        return held_out

    center = np.log2([0.46, 1e-6])
    best, found = np.inf, center
    for _ in range(10):
        candidates = center + rng.standard_normal((6, 2))
        values = np.array([objective(*candidate) for candidate in candidates])
        order = np.argsort(values)
        center = candidates[order[:3]].mean(axis=0)
        if values[order[0]] < best:
            best, found = values[order[0]], candidates[order[0]]
    estimator = FiniteKEF(
        "gaussian",
        bandwidth=2.0 / 4.0 ** found[0],
        regularization=2.0 ** found[1],
        n_basis=n,
        base="uniform",
        random_state=int(rng.integers(2**31)),
    )
    return field_of(estimator, draws)


def as_published(n: int, seed: int) -> FiniteKEF:
    """The estimator of figure 3."""
    options: dict[str, Any] = {"bandwidth": BANDWIDTH, "regularization": 1e-6}
    if n < 500:
        options = {"bandwidth": [0.5 * BANDWIDTH, BANDWIDTH, 2.0 * BANDWIDTH]}
    return FiniteKEF("gaussian", n_basis=n, base="uniform", random_state=seed, **options)


def defaults(n: int, seed: int) -> FiniteKEF:
    """Those of kmc."""
    return FiniteKEF(n_basis=n, random_state=seed)


def field_of(estimator: FiniteKEF, draws: np.ndarray) -> Field:
    """Fitted, in the coordinates of the draws."""
    dim = draws.shape[1]
    return Field.of(estimator.fit(draws), Whitening.of(np.zeros(dim), np.eye(dim)), in_z=True)


# Figure 5


def path_run(method: str, dim: int, n: int, seed: int) -> dict[str, float]:
    """One path."""
    rng = np.random.default_rng([5, dim, n, seed])
    draws = rng.standard_normal((n, dim))
    estimator = defaults(n, seed)
    if method == "KMC theirs":
        estimator = FiniteKEF(
            "gaussian", 8.0, regularization=8e-5, n_basis=n, base="uniform", random_state=seed
        )  # frequencies of sd σ²/2, σ = .5
    elif method == "KMC finite":
        widths = [0.5, 1.0, 2.0]
        estimator = FiniteKEF(
            "gaussian", [w * dim**0.5 for w in widths], n_basis=n, base="uniform", random_state=seed
        )
    field, n_steps = field_of(estimator, draws), int(rng.integers(100, 1001))
    z, momentum = rng.standard_normal(dim), rng.standard_normal(dim)
    energy = z @ z + momentum @ momentum
    rates = np.zeros(n_steps)
    for i in range(n_steps):
        found = field.path(z, momentum, step_size=0.1, n_steps=1)
        if found.diverging:
            break
        z, momentum = found.z, found.momentum
        rates[i] = np.exp(min(0.0, 0.5 * (energy - z @ z - momentum @ momentum)))
    return {"acceptance": float(rates.mean())}


# Rows and tables


def means(found: list[dict[str, str]], column: str, **where: Any) -> tuple[float, float, int]:
    """Mean, standard deviation and number of the rows with these keys; the ESS of a chain that
    never moved is zero.
    """
    values = [
        float(row[column])
        for row in found
        if all(row[key] == str(value) for key, value in where.items())
    ]
    if not values:
        return np.nan, np.nan, 0
    known = np.nan_to_num(values)
    return float(np.mean(known)), float(np.std(known)), len(values)


def table_3(found: list[dict[str, str]]) -> str:
    """Markdown: published and measured."""
    columns = ("acceptance", "mean_norm", "least_ess", "mean_ess", "least_ess_per_1000")
    lines = [
        "| method | n | seeds | acceptance, published / here | norm of the mean | least ESS | "
        "mean ESS | least ESS per 1,000 |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for method in ("HMC", "RW", "KMC finite", "KMC defaults", "KAMH", *AS_AUTHORS):
        published = (
            ("KMC finite" if method.startswith("KMC") else "KAMH")
            if method in AS_AUTHORS
            else method
        )
        for n in (0, *SIZES):
            here = [means(found, column, figure=3, method=method, n=n) for column in columns]
            if not here[0][2]:
                continue
            known = (*PUBLISHED_3.get((published, n), (np.nan,) * 4), np.nan)
            digits = (".2f", ".2f", ".1f", ".1f", ".0f")
            cells = [
                f"{'' if np.isnan(k) else format(k, d) + ' / '}{mean:{d}} ± {sd:{d}}"
                for k, (mean, sd, _), d in zip(known, here, digits, strict=True)
            ]
            lines.append(f"| {method} | {n or ''} | {here[0][2]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def table_5(found: list[dict[str, str]]) -> str:
    """Markdown: acceptance for dimensions (rows) and n (columns): published / finite / theirs /
    defaults.
    """
    lines = [
        "| d | " + " | ".join(f"n = {n}" for n in SIZES) + " |",
        "| ---: |" + " ---: |" * len(SIZES),
    ]
    for dim, published in PUBLISHED_5.items():
        cells = []
        for n, known in zip(SIZES, published, strict=True):
            here = [
                means(found, "acceptance", figure=5, method=method, dim=dim, n=n)
                for method in ("KMC finite", "KMC theirs", "KMC defaults")
            ]
            cells.append(
                " / ".join([f"{known:.2f}", *(f"{mean:.2f}" if k else "–" for mean, _, k in here)])
            )
        lines.append(f"| {dim} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--figures", nargs="+", type=int, default=[3, 5], choices=(3, 5))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--dimensions", nargs="+", type=int, default=list(DIMENSIONS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--methods", default="", help="only those whose name this matches, a regular expression"
    )
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no run after so long")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    cells = [(3, "HMC", 8, 0), (3, "RW", 8, 0)] if 3 in options.figures else []
    for n in options.sizes:
        if 3 in options.figures:
            cells += [(3, method, 8, n) for method in ("KMC finite", "KMC defaults", "KAMH")]
            cells += [(3, method, 8, n) for method, sizes in AS_AUTHORS.items() if n in sizes]
        if 5 in options.figures:
            cells += [
                (5, method, d, n)
                for method in ("KMC finite", "KMC theirs")
                for d in options.dimensions
            ]
            cells += [(5, "KMC defaults", d, n) for d in options.dimensions if d < n]
    cells = [cell for cell in cells if re.search(options.methods, cell[1])]
    known, begun = (
        {tuple(row[name] for name in KEY) for row in read_rows(RESULTS)},
        time.perf_counter(),
    )
    for seed in range(0 if options.report else options.seeds):
        for figure, method, dim, n in cells:
            key = (figure, method, dim, n, seed)
            if tuple(map(str, key)) in known or time.perf_counter() - begun > options.seconds:
                continue
            start = time.perf_counter()
            found = banana_run(method, n, seed) if figure == 3 else path_run(method, dim, n, seed)
            append_row(
                RESULTS,
                COLUMNS,
                {
                    **dict(zip(KEY, key, strict=True)),
                    **found,
                    "seconds": time.perf_counter() - start,
                },
            )
    print(table_3(read_rows(RESULTS)), table_5(read_rows(RESULTS)), sep="\n\n")


if __name__ == "__main__":
    main()
