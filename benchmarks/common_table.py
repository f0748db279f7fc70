"""Posteriors within a box from few evaluations, beside peers: ``python benchmarks/common_table.py
--help``.

Everybody gets the same log-density, the same box (six standard deviations to each side of a center
that is shifted by up to two), and the same number of evaluations; everything else is at its
default. The answers are the means, the standard deviations, the probabilities below the true 5 %
and 95 % quantiles, and the log of the integral over the box. kmc answers by ``kmc.expectations``
and ``kmc.evidence``, whether it has draws or not; a peer by its own draws and its own evidence. A
cell is (target, method, budget, seed); its row is appended to results/common_table.csv at once, and
existing rows are not run again.

A peer runs in this Python if it is installed there, or in the one that is named: ``--python
pyvbmc=/path/bin/python``, which needs kmc, too. It is stopped after ``--limit`` seconds, and the
cell counts as failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from csv_rows import append_row, number, read_rows, run_cells
from evidence import exact
from honesty_targets import TARGETS as HONESTY
from pages import head
from scipy import stats
from targets import DENSITIES, TAILS, Noisy, problem

import kmc
from kmc.model.toys import Banana, Gaussian

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "common_table.csv"
BUDGETS = (50, 100, 200, 300, 500, 1000)
METHODS = ("kmc", "pyvbmc", "gpry", "bobe", "alabi")
COLUMNS = (
    *(
        "target",
        "method",
        "budget",
        "seed",
        "evaluations",
        "mean_error",
        "sd_error",
        "tail_error",
        "evidence_error",
    ),
    *("said", "seconds", "failure", "version"),
)
WIDTH, SHIFT = 6.0, 2.0  # of the box, in standard deviations
WRONG = 0.3  # error of a mean or of the log of a standard deviation
PICTURE = "![Errors against evaluations, a panel for each target](../pictures/common-table.png)\n\n"
COLORS = "#c8553d", "#1f6478", "#6a4c93", "#8a6d3b", "#7a7f87"  # of the methods' lines
_DRAWS = 20_000


@dataclass(frozen=True)
class Target:
    """A log-density with its truth."""

    log_density: Callable[[np.ndarray], float]
    dim: int
    log_evidence: float
    # exact ones, if the truth is not stored
    draws: Callable[[np.random.Generator, int], np.ndarray] | None = None
    stored: Any = None  # the truth otherwise: mean, sd, quantiles
    noisy: bool = False

    @cached_property
    def sample(self) -> np.ndarray:
        """Exact draws (n, d), always the same."""
        assert self.draws is not None
        return self.draws(np.random.default_rng(3), 400_000)

    def box(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The bounds (d,) each."""
        mean, sd = (
            (self.stored.mean, self.stored.sd) if self.draws is None else moments(self.sample)
        )
        center = mean + sd * np.random.default_rng([seed, 8]).uniform(-SHIFT, SHIFT, self.dim)
        return center - WIDTH * sd, center + WIDTH * sd

    def truth(
        self, lower: np.ndarray, upper: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Mean, sd, the 5 % and 95 % quantiles (2, d), and the log of the integral, all within the
        box.
        """
        if self.draws is None:
            return self.stored.mean, self.stored.sd, self.stored.quantiles, self.log_evidence
        inside = np.all((self.sample > lower) & (self.sample < upper), axis=1)
        x = self.sample[inside]
        return (
            *moments(x),
            np.quantile(x, TAILS, axis=0),
            self.log_evidence + float(np.log(inside.mean())),
        )


def moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd."""
    return x.mean(axis=0), x.std(axis=0)


def _rosenbrock(x) -> float:
    return float(-((1 - x[0]) ** 2) - 100 * (x[1] - x[0] ** 2) ** 2)


def _rosenbrock_draws(rng, n):
    x = 1 + rng.standard_normal(n) / np.sqrt(2)
    return np.column_stack([x, x**2 + rng.standard_normal(n) / np.sqrt(200)])


class Lumpy:
    """A mixture of twelve unit normals around points that are normal with a standard deviation of
    1.5, in d = 4.
    """

    centers = 1.5 * np.random.default_rng(12).standard_normal((12, 4))

    def __call__(self, x) -> float:
        return float(
            np.logaddexp.reduce(stats.norm.logpdf(x - self.centers).sum(axis=1)) - np.log(12)
        )

    def sample(self, rng, n) -> np.ndarray:
        """Exact draws."""
        return self.centers[rng.integers(12, size=n)] + rng.standard_normal((n, 4))


def target(name: str) -> Target:
    """The target of that name."""
    if name == "rosenbrock-2d":
        return Target(_rosenbrock, 2, float(np.log(np.pi / 10)), _rosenbrock_draws)
    if name == "lumpy-4d":
        return Target(Lumpy(), 4, 0.0, Lumpy().sample)
    if name in ("cigar-5d", "banana-16d"):
        density = Gaussian(5, 0.99, 1.0) if name == "cigar-5d" else Banana(16)
        return Target(density, density.dim, 0.0, density.sample)
    if name == "noisy-banana-2d":
        return Target(Banana(2), 2, 0.0, Banana(2).sample, noisy=True)
    if name in ("eight-schools", "fitzhugh-nagumo", "pints-oscillator", "demo"):
        known = problem(name)
        log_evidence = HONESTY[name].log_evidence if name == "eight-schools" else exact(name)
        return Target(known.log_density, known.dim, log_evidence, stored=known.truth)
    density = DENSITIES[name]()
    return Target(density, density.dim, exact(name), density.sample)


TARGETS = (
    "rosenbrock-2d", "cigar-5d", "lumpy-4d", "student-t-5d", "noisy-banana-2d", "banana-2d",
    "banana-8d", "banana-16d", "gaussian-10d", "fitzhugh-nagumo", "pints-oscillator", "demo",
    "eight-schools", "bimodal-5d",
)  # fmt: skip


# Methods: each returns means, sds, probabilities below the quantiles (2, d), log-evidence, and
# whether it warned


def by_kmc(own: Target, log_density, lower, upper, limits, budget: int, seed: int) -> tuple:
    """The default sampler."""
    parameters = {
        f"x{i}": kmc.Interval(*bounds) for i, bounds in enumerate(zip(lower, upper, strict=True))
    }

    def function(p):
        return log_density(np.array([p[name] for name in parameters]))

    def quantities(p):
        x = np.stack([p[name] for name in parameters], axis=-1)
        return np.concatenate([x, x < limits[0], x < limits[1]], axis=-1)

    model = kmc.Model(function, parameters=parameters, noisy=own.noisy)
    idata = kmc.sample(model, draws=None, max_evaluations=budget, seed=seed, progress=False)
    found = kmc.expectations(
        idata, quantities, model=model, vectorized=True, seed=seed, progress=False
    )
    evidence = kmc.evidence(idata, model=model, prior_normalized=False, seed=seed, progress=False)
    d = own.dim
    mean, sd = found["mean"].values, found["sd"].values
    stated = np.concatenate(
        [found["mcse"].values[:d] / sd[:d], found["mcse_sd"].values[:d] / sd[:d]]
    )
    # An answer that says how large its error is has warned, if it says that it is large.
    said = [
        *json.loads(idata.attrs["warning_codes"]),
        *("errors" for _ in [0] if stated.max() > WRONG / 2),
    ]
    said = [code for code in said if code not in ("no-draws", "few-draws", "few-tail-draws")]
    said += ["rough" for sentence in found.attrs["warnings"] if "rough" in sentence]
    return (
        mean[:d],
        sd[:d],
        mean[d:].reshape(2, d),
        float(evidence["log_evidence"][0]),
        " ".join(said),
    )


def of_draws(x: np.ndarray, limits: np.ndarray) -> tuple:
    """Means, sds and probabilities from draws."""
    return *moments(x), np.array([(x < row).mean(axis=0) for row in limits])


def by_pyvbmc(own: Target, log_density, lower, upper, limits, budget: int, seed: int) -> tuple:
    """Variational Bayesian Monte Carlo (Acerbi 2018, 2020); the plausible box is the inner half."""
    from pyvbmc import VBMC

    np.random.seed(seed)  # noqa: NPY002 - PyVBMC draws from NumPy's global generator
    options: dict[str, Any] = {
        "max_fun_evals": budget,
        "display": "off",
        "specify_target_noise": own.noisy,
    }
    function = (
        (lambda x: (log_density(np.ravel(x)), 1.0))
        if own.noisy
        else (lambda x: log_density(np.ravel(x)))
    )
    quarter = (upper - lower) / 4
    x0 = np.random.default_rng(seed).uniform(lower + quarter, upper - quarter)
    run = VBMC(
        function,
        x0[None],
        lower[None],
        upper[None],
        (lower + quarter)[None],
        (upper - quarter)[None],
        options,
    )
    posterior, results = run.optimize()
    x, _ = posterior.sample(_DRAWS)
    return (
        *of_draws(x, limits),
        float(results["elbo"]),
        "" if results["success_flag"] else "not-converged",
    )


def by_gpry(own: Target, log_density, lower, upper, limits, budget: int, seed: int) -> tuple:
    """GPry (El Gammal et al. 2023); its prior is uniform in the box."""
    from gpry import Runner

    options = {"max_total": budget, "max_initial": max(budget // 2, 3 * own.dim)}
    run = Runner(
        lambda x: log_density(np.ravel(x)),
        bounds=np.column_stack([lower, upper]),
        checkpoint=None,
        options=options,
        seed=seed,
        plots=False,
        verbose=1,
    )
    run.run()
    run.generate_mc_sample()
    sample = run.last_mc_samples()
    weights = np.ones(len(sample["X"])) if sample["w"] is None else sample["w"]
    rows = np.random.default_rng(seed).choice(len(weights), _DRAWS, p=weights / weights.sum())
    log_evidence = run.last_mc_logZ()[0] + float(np.log(upper - lower).sum())
    return (
        *of_draws(sample["X"][rows], limits),
        float(log_evidence),
        "" if run.has_converged else "not-converged",
    )


def by_bobe(own: Target, log_density, lower, upper, limits, budget: int, seed: int) -> tuple:
    """BOBE; its prior is uniform in the box."""
    from BOBE import BOBE

    names = [f"x{i}" for i in range(own.dim)]
    with tempfile.TemporaryDirectory() as folder:
        run = BOBE(
            loglikelihood=lambda x: log_density(np.asarray(x, float)),
            param_list=names,
            param_bounds=np.array([lower, upper]),
            save=False,
            save_dir=folder,
            seed=seed,
            verbosity="ERROR",
        )
        results = run.run(max_evals=budget, do_final_ns=True)
    x, weights = np.asarray(results["samples"]["x"]), np.asarray(results["samples"]["weights"])
    rows = np.random.default_rng(seed).choice(len(weights), _DRAWS, p=weights / weights.sum())
    log_evidence = float(results["logz"]["mean"]) + float(np.log(upper - lower).sum())
    return (
        *of_draws(x[rows], limits),
        log_evidence,
        "" if results.get("converged", True) else "not-converged",
    )


def by_alabi(own: Target, log_density, lower, upper, limits, budget: int, seed: int) -> tuple:
    """alabi; half of the evaluations are its first design; it gives no evidence."""
    from alabi import SurrogateModel

    with tempfile.TemporaryDirectory() as folder:
        run = SurrogateModel(
            lnlike_fn=lambda x: log_density(np.ravel(x)),
            bounds=np.column_stack([lower, upper]).tolist(),
            savedir=folder,
            cache=False,
            verbose=False,
            random_state=seed,
        )
        run.init_samples(ntrain=budget // 2, ntest=0)
        run.init_gp()
        run.active_train(niter=budget - budget // 2)
        run.run_emcee()
        x = np.asarray(run.emcee_samples)
    return *of_draws(x, limits), np.nan, ""


BY = {"kmc": by_kmc, "pyvbmc": by_pyvbmc, "gpry": by_gpry, "bobe": by_bobe, "alabi": by_alabi}
PACKAGES = {"kmc": "kernelmc", "bobe": "BOBE"}


def cell(name: str, method: str, budget: int, seed: int) -> dict[str, Any]:
    """One row, of a method that is installed here."""
    warnings.simplefilter("ignore")
    own = target(name)
    lower, upper = own.box(seed)
    mean, sd, limits, log_evidence = own.truth(lower, upper)
    count, spent = 0, 0.0
    inner = (
        Noisy(own.log_density, np.random.default_rng([seed, 1])) if own.noisy else own.log_density
    )

    def log_density(x):
        nonlocal count, spent
        began = time.perf_counter()
        value = float(inner(np.asarray(x, float)))
        count, spent = count + 1, spent + time.perf_counter() - began
        return value

    row: dict[str, Any] = dict.fromkeys(COLUMNS, "")
    row |= {"target": name, "method": method, "budget": budget, "seed": seed}
    row["version"] = metadata.version(PACKAGES.get(method, method))
    began = time.perf_counter()
    try:
        center, scale, below, log_z, said = BY[method](
            own, log_density, lower, upper, limits, budget, seed
        )
    except Exception as error:  # whatever a peer raises is its result
        return row | {"failure": f"{type(error).__name__}: {error}"[:200], "evaluations": count}
    return row | {
        "evaluations": count,
        "mean_error": float(np.abs((center - mean) / sd).max()),
        "sd_error": float(np.abs(np.log(scale / sd)).max()),
        "tail_error": float(np.abs(below - TAILS[:, None]).max()),
        "evidence_error": abs(log_z - log_evidence),
        "said": said,
        "seconds": time.perf_counter() - began - spent,
    }


def run_cell(
    python: str, limit: float, name: str, method: str, budget: int, seed: int
) -> dict[str, Any]:
    """One row, computed by that Python."""
    row: dict[str, Any] = dict.fromkeys(COLUMNS, "")
    row |= {"target": name, "method": method, "budget": budget, "seed": seed}
    call = [python, __file__, "--cell", json.dumps([name, method, budget, seed])]
    threads = {f"{package}_NUM_THREADS": "1" for package in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    try:
        done = subprocess.run(
            call,
            capture_output=True,
            text=True,
            timeout=limit,
            env=os.environ | threads,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return row | {"failure": f"more than {limit:.0f} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("row ")]
    if not lines:
        return row | {"failure": (done.stderr.strip().splitlines() or ["no output"])[-1][:200]}
    return {**row, **json.loads(lines[-1][4:])}


# Tables


def worst(row: dict[str, Any]) -> float:
    """The largest error of a mean or of the log of a standard deviation; infinite if the cell
    failed.
    """
    errors = [row["mean_error"], row["sd_error"]]
    return (
        np.inf if row["failure"] or "" in errors or not np.isfinite(errors).all() else max(errors)
    )


def tables(rows: list[dict[str, Any]]) -> str:
    """Median errors over seeds by target and budget, and a summary of each method."""
    methods = [method for method in METHODS if any(row["method"] == method for row in rows)]
    budgets = sorted({row["budget"] for row in rows})
    parts = [
        "Largest error of a mean or of the log of an sd, in sds: medians over seeds. ∞: more "
        "than "
        "half failed.\n"
    ]
    parts.append("| target | evaluations | " + " | ".join(methods) + " |")
    parts.append("| --- | ---: |" + " ---: |" * len(methods))
    for name in TARGETS:
        for budget in budgets:
            groups = [
                [r for r in rows if (r["target"], r["budget"], r["method"]) == (name, budget, m)]
                for m in methods
            ]
            if any(groups):
                cells = [_shown([worst(row) for row in group]) for group in groups]
                parts.append(f"| {name} | {budget} | " + " | ".join(cells) + " |")
    parts += [
        "",
        f"Wrong: an error above {WRONG}. Evidence: the median error in nats. Own time: the median "
        f"in seconds.\n",
    ]
    parts.append(
        "| method | evaluations | cells | wrong and silent | wrong, warned or failed | evidence | "
        "own time |"
    )
    parts.append("| --- | ---: |" + " ---: |" * 5)
    for method in methods:
        for budget in budgets:
            group = [row for row in rows if (row["method"], row["budget"]) == (method, budget)]
            if not group:
                continue
            wrong = [row for row in group if worst(row) > WRONG]
            silent = sum(not row["failure"] and not row["said"] for row in wrong)
            known = [row for row in group if not row["failure"]]
            evidence = _shown(
                [row["evidence_error"] for row in known if row["evidence_error"] not in ("", "nan")]
            )
            seconds = _shown([row["seconds"] for row in known if row["seconds"] != ""])
            parts.append(
                f"| {method} | {budget} | {len(group)} | {silent} | {len(wrong) - silent} | "
                f"{evidence} | {seconds} |"
            )
    return "\n".join(parts)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw median errors against evaluations, a panel per target."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = [name for name in TARGETS if any(row["target"] == name for row in rows)]
    figure, axes = plt.subplots(
        -(-len(names) // 4), 4, figsize=(11, 2.3 * -(-len(names) // 4)), sharex=True, sharey=True
    )
    for ax, name in zip(axes.flat, names, strict=False):
        for method, color in zip(METHODS, COLORS, strict=True):
            own = [row for row in rows if (row["target"], row["method"]) == (name, method)]
            budgets = sorted({row["budget"] for row in own})
            errors = [
                np.median([worst(row) for row in own if row["budget"] == budget])
                for budget in budgets
            ]
            ax.plot(budgets, errors, "o-", color=color, label=method, markersize=3)
        ax.axhline(WRONG, color="#7a7f87", linewidth=0.8, linestyle=":")
        ax.set(title=name, xscale="log", yscale="log")
    for ax in axes.flat[len(names) :]:
        ax.set_axis_off()
    figure.supxlabel("evaluations")
    figure.supylabel("largest error of a mean or log sd")
    axes.flat[0].legend(fontsize=7)
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _shown(values: list[float]) -> str:
    if not values:
        return ""
    middle = float(np.median(np.nan_to_num(values, nan=np.inf, posinf=np.inf)))
    return f"{middle:.2g}" if np.isfinite(middle) else "∞"


def main() -> None:
    """Run the cells that are missing, and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--targets", nargs="+", default=list(TARGETS), choices=TARGETS, metavar="TARGET"
    )
    parser.add_argument("--methods", nargs="+", default=["kmc"], choices=METHODS, metavar="METHOD")
    parser.add_argument("--budgets", nargs="+", type=int, default=list(BUDGETS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for a cell")
    parser.add_argument(
        "--python",
        nargs="+",
        default=[],
        metavar="METHOD=PATH",
        help="the Python that runs a method",
    )
    parser.add_argument("--rerun", action="store_true", help="run cells again")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--cell", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        print("row", json.dumps(cell(*options.cell)))
        return
    pythons = dict(each.split("=", 1) for each in options.python)
    key = ("target", "method", "budget", "seed")
    rows = [
        {name: number(text) for name, text in row.items()} for row in read_rows(options.results)
    ]
    done = {tuple(row[name] for name in key) for row in rows}
    cells = [
        (pythons.get(method, sys.executable), options.limit, name, method, budget, seed)
        for seed in range(1, options.seeds + 1)
        for budget in options.budgets
        for name in options.targets
        for method in options.methods
        if options.rerun or (name, method, budget, seed) not in done
    ]

    def finish(row):
        append_row(options.results, COLUMNS, row)
        return f"{row['failure'] or round(worst(row), 3)} {row['said']}"

    failures = run_cells(run_cell, cells, options.jobs, finish)
    last = {}
    for row in read_rows(options.results):
        last[tuple(row[name] for name in key)] = {name: number(text) for name, text in row.items()}
    title = head(
        "How much is known after few evaluations?",
        "python benchmarks/common_table.py",
        ("common_table.csv",),
    )
    text = tables(list(last.values()))
    options.results.with_suffix(".md").write_text(f"{title}{PICTURE}{text}\n")
    draw(list(last.values()), options.results.parents[1] / "pictures" / "common-table.png")
    print(text, *failures, sep="\n")


if __name__ == "__main__":
    main()
