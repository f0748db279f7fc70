"""Learning the outputs of a simulator, or the log-density alone: ``python benchmarks/structured.py --help``.

A cell is (target, learned, budget, seed): a run of the default sampler, from starts drawn from the prior unless the
target is a "near" one, of a model with a simulator and a likelihood. Learned are its outputs, their difference from
those of a cheap simulator (``approximation=``, a few Euler steps), or, with ``save_outputs=False``, the log-density.
Errors are those of kmc.expectations: the worst error of a mean in posterior standard deviations, and of a standard
deviation relative to its own. References are those of references.py, and a quadrature for the epidemic.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from csv_rows import append_row, number, read_rows, run_cells
from targets import _fitzhugh_nagumo, _lotka_volterra, problem

import kmc
from kmc.convergence import bulk_ess
from kmc.model import lotka_volterra

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "structured.csv"
KEY = ("target", "learned", "budget", "seed")
COLUMNS = (*KEY, "warmup", "mean_error", "sd_error", "stated", "ess_per_1000", "seconds", "calls", "said", "label")
LEARNED = {"outputs": True, "log-density": False, "difference": True}
OFF = 0.3  # standard deviations: such a mean is wrong


class Target(NamedTuple):
    """A model, as its outputs are kept or not; the coordinates of a draw; and their true means and sds."""

    model: Any
    coordinates: Any
    mean: np.ndarray
    sd: np.ndarray
    initial: Any = None  # draws start points (k, d) with a generator, if they are not from the prior


def positive_normal(mean, sd):
    """A normal prior above 0."""
    return kmc.TruncatedNormal(mean, sd, 0, np.inf)


def populations(p):
    """Predator and prey."""
    rates = np.array([p[name] for name in ("alpha", "beta", "gamma", "delta")])
    if not np.all(np.abs(np.log([*rates, *p["start"]])) < 50):
        return np.full(lotka_volterra.PELTS.shape, np.nan)
    with np.errstate(all="ignore"):
        return np.exp(_lotka_volterra(rates, *np.log(p["start"])))


def populations_in_steps(p, steps=5):
    """Predator and prey, by semi-implicit Euler steps, so many a year."""
    alpha, beta, gamma, delta = (p[name] for name in ("alpha", "beta", "gamma", "delta"))
    x, y, h = *np.log(p["start"]), 1.0 / steps
    path = [(x, y)]
    with np.errstate(all="ignore"):
        for _ in range(len(lotka_volterra.PELTS) - 1):
            for _ in range(steps):
                x += h * (alpha - beta * np.exp(y))
                y += h * (delta * np.exp(x) - gamma)
            path.append((x, y))
        return np.exp(path)


def voltages(p):
    """A neuron."""
    if p["c"] > np.exp(5):
        return np.full(problem("fitzhugh-nagumo").log_density._data.shape, np.nan)
    return _fitzhugh_nagumo(p["a"], p["b"], p["c"])


DAYS = np.linspace(0.0, 10.0, 21)


def infected(beta, gamma, steps=400):
    """Infected people of 500, by the classical Runge-Kutta method; for arrays of rates, a row for each."""
    s, i = 0.99 + 0.0 * beta, 0.01 + 0.0 * beta
    h, rows = DAYS[-1] / steps, [i]

    def flow(s, i):
        return -beta * s * i, beta * s * i - gamma * i

    for step in range(1, steps + 1):
        k1 = flow(s, i)
        k2 = flow(s + 0.5 * h * k1[0], i + 0.5 * h * k1[1])
        k3 = flow(s + 0.5 * h * k2[0], i + 0.5 * h * k2[1])
        k4 = flow(s + h * k3[0], i + h * k3[1])
        s = s + h / 6.0 * (k1[0] + 2.0 * k2[0] + 2.0 * k3[0] + k4[0])
        i = i + h / 6.0 * (k1[1] + 2.0 * k2[1] + 2.0 * k3[1] + k4[1])
        if step % (steps // (len(DAYS) - 1)) == 0:
            rows.append(i)
    return 500.0 * np.stack(rows, axis=-1)


def epidemic(p):
    """An epidemic."""
    return infected(p["beta"], p["gamma"])


@cache
def epidemic_by_quadrature(data):
    """Mean and standard deviation of the logarithms of both rates."""
    counts = np.array(data)
    beta, gamma = np.meshgrid(np.linspace(0.3, 0.9, 400), np.linspace(-0.9, -0.1, 400), indexing="ij")
    rate = infected(np.exp(beta), np.exp(gamma))
    level = np.sum(counts * np.log(rate) - rate, axis=-1) - 0.5 * (beta**2 + gamma**2)
    weight = np.exp(level - level.max())
    weight /= weight.sum()
    mean = np.array([np.sum(weight * x) for x in (beta, gamma)])
    return mean, np.array([np.sqrt(np.sum(weight * (x - m) ** 2)) for x, m in zip((beta, gamma), mean, strict=True)])


def predator_and_prey(save_outputs: bool) -> Target:
    """The demo, d = 8."""
    model = kmc.Model(
        simulator=populations,
        likelihood=kmc.likelihoods.LogNormal(lotka_volterra.PELTS, sd="sigma"),
        parameters={
            "alpha": positive_normal(1.0, 0.5),
            "beta": positive_normal(0.05, 0.05),
            "gamma": positive_normal(1.0, 0.5),
            "delta": positive_normal(0.05, 0.05),
            "start": kmc.LogNormal(np.log(10.0), 1.0, shape=2),
            "sigma": kmc.LogNormal(-1.0, 1.0, shape=2),
        },
        save_outputs=save_outputs,
    )
    truth = problem("demo").truth

    def coordinates(p):
        return np.log([p["alpha"], p["beta"], p["gamma"], p["delta"], *p["start"], *p["sigma"]])

    return Target(model, coordinates, truth.mean, truth.sd)


def neuron(save_outputs: bool) -> Target:
    """FitzHugh-Nagumo, d = 5."""
    target, truth = problem("fitzhugh-nagumo"), problem("fitzhugh-nagumo").truth
    model = kmc.Model(
        simulator=voltages,
        likelihood=kmc.likelihoods.Normal(target.log_density._data, sd="sigma"),
        parameters={
            "a": kmc.Normal(0, 1),
            "b": kmc.Normal(0, 1),
            "c": kmc.LogNormal(1, 1),
            "sigma": kmc.LogNormal(-1, 1, shape=2),
        },
        save_outputs=save_outputs,
    )
    return Target(model, lambda p: np.array([p["a"], p["b"], *np.log([p["c"], *p["sigma"]])]), truth.mean, truth.sd)


def epidemic_of_counts(save_outputs: bool) -> Target:
    """SIR with Poisson counts, d = 2."""
    counts = np.random.default_rng(0).poisson(infected(1.8, 0.6))
    model = kmc.Model(
        simulator=epidemic,
        likelihood=kmc.likelihoods.Poisson(counts),
        parameters={"beta": kmc.LogNormal(0, 1), "gamma": kmc.LogNormal(0, 1)},
        save_outputs=save_outputs,
    )
    truth = epidemic_by_quadrature(tuple(counts.tolist()))
    return Target(model, lambda p: np.log([p["beta"], p["gamma"]]), *truth)


def predator_and_prey_from_near(save_outputs: bool) -> Target:
    """The same, from start points around published values."""
    return predator_and_prey(save_outputs)._replace(initial=lambda rng: lotka_volterra.initial(rng, 16))


APPROXIMATIONS = {"predator-and-prey": populations_in_steps}

TARGETS = {
    "predator-and-prey": predator_and_prey,
    "predator-and-prey-near": predator_and_prey_from_near,
    "neuron": neuron,
    "epidemic": epidemic_of_counts,
}


def run_cell(label: str, name: str, learned: str, budget: int, seed: int) -> dict[str, Any]:
    """One row."""
    warnings.simplefilter("ignore")
    target, began = TARGETS[name](LEARNED[learned]), time.perf_counter()
    initial = None if target.initial is None else target.initial(np.random.default_rng(seed))
    options = {"draws": None, "max_evaluations": budget, "seed": seed, "progress": False}
    model = target.model
    if learned == "difference":
        model = replace(model, approximation=APPROXIMATIONS[name], dim=None)
    idata = kmc.sample(model, initial=initial, **options)
    seconds = time.perf_counter() - began
    found = kmc.expectations(idata, target.coordinates, model=model)
    draws = idata["unconstrained_posterior"]["x"].values
    return {
        "target": name,
        "learned": learned,
        "budget": budget,
        "seed": seed,
        "warmup": idata.attrs["n_evaluations_warmup"],
        "mean_error": float(np.max(np.abs(found["mean"].values - target.mean) / target.sd)),
        "sd_error": float(np.max(np.abs(found["sd"].values / target.sd - 1.0))),
        "stated": float(np.max(found["mcse"].values / target.sd)),
        "ess_per_1000": 1000.0 * float(np.min(bulk_ess(draws))) / budget if draws.shape[1] > 20 else 0.0,
        "seconds": seconds,
        "calls": idata.attrs["n_evaluations"],
        "said": " ".join(json.loads(idata.attrs["warning_codes"]) + ["rough"] * ("are rough" in str(found.attrs))),
        "label": label,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: medians over seeds, the number of runs that are off, and of those without a warning of the run."""
    head = ["target", "evaluations", "learned", "runs", "mean", "sd", "off (silent)", "per 1,000", "warm-up", "seconds"]
    lines = [" | ".join(head), " | ".join(["---"] * 3 + ["---:"] * 7)]
    for key in dict.fromkeys((row["target"], row["budget"], row["learned"]) for row in rows):
        own = [row for row in rows if (row["target"], row["budget"], row["learned"]) == key]
        off = [row for row in own if row["mean_error"] > OFF]
        silent = sum(not set(str(row["said"]).split()) - {"few-draws", "no-draws", "few-tail-draws"} for row in off)
        numbers = [f"{np.median([row[name] for row in own]):.3g}" for name in ("mean_error", "sd_error")]
        more = [f"{np.median([row[name] for row in own]):.3g}" for name in ("ess_per_1000", "warmup", "seconds")]
        lines.append(
            " | ".join([key[0], f"{key[1]:,}", key[2], str(len(own)), *numbers, f"{len(off)} ({silent})", *more])
        )
    return "\n".join(f"| {line} |" for line in lines)


def report(rows: list[dict[str, Any]]) -> str:
    """Markdown: the page."""
    rows = sorted(rows, key=lambda row: (row["target"], row["budget"], row["learned"]))
    labels = ", ".join(dict.fromkeys(row["label"] for row in rows))
    about = (
        "The same model with a simulator, from starts drawn from the prior, or near; the surrogate learns the "
        "simulator's outputs, their difference from those of a cheap simulator, or the log-density. Medians over seeds "
        "of the worst error of a mean, in posterior "
        "standard deviations, and of a standard deviation; runs with a mean that is off by "
        f"{OFF} or more, and those of them "
        "that say nothing but that they are short; effective draws per 1,000 evaluations. "
        f"kmc as of {labels}."
    )
    command = "    python benchmarks/structured.py --table > benchmarks/results/structured.md"
    return "\n\n".join(["# Outputs or the log-density", command, about, table(rows)])


def main() -> None:
    """Run missing cells, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=TARGETS, metavar="TARGET")
    parser.add_argument("--learned", nargs="+", default=list(LEARNED), choices=LEARNED)
    parser.add_argument("--budgets", nargs="+", type=int, default=[100, 200, 1000], help="evaluations")
    parser.add_argument("--seeds", nargs=2, type=int, default=[0, 5], metavar=("FIRST", "END"))
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--rerun", action="store_true", help="run these cells although the CSV has them")
    parser.add_argument("--table", action="store_true", help="run nothing: print the table of all that the CSV has")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the CSV")
    options = parser.parse_args()
    failures = []
    if not options.table:
        git = ["git", "-C", str(HERE.parent), "log", "-1", "--format=%h", "--", "kmc"]
        label = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
        known = {tuple(str(row[name]) for name in KEY) for row in read_rows(options.results)}
        cells = itertools.product(options.targets, options.learned, options.budgets, range(*options.seeds))
        cells = [cell for cell in cells if cell[1] != "difference" or cell[0] in APPROXIMATIONS]
        missing = [(label, *cell) for cell in cells if options.rerun or tuple(map(str, cell)) not in known]

        def finish(row):
            append_row(options.results, COLUMNS, row)
            return f"{row['mean_error']:.2f} {row['sd_error']:.2f} ({row['stated']:.2f}), {row['ess_per_1000']:.0f}"

        failures = run_cells(run_cell, missing, options.jobs, finish)
    rows = [{name: number(text) for name, text in row.items()} for row in read_rows(options.results)]
    print(report(rows), *failures, sep="\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
