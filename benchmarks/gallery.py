"""Sixteen models from public galleries, against references: ``python benchmarks/gallery.py --help``.

Each model is sampled as a user would do it, from its default starts, with the default sampler. A run is *wrong* if the
mean of a variable is off by more than .1 sd, or its sd by more than a tenth, and by more than three standard errors (of
the run and of the reference together); variables that range over magnitudes are compared by their logs. The
verdict is "right", "right, warned", "warned" (wrong, with a warning) or "SILENTLY WRONG". Rows are written to
results/gallery.csv as they are made, and the table of all of them to results/gallery.md.

References are in results/gallery.json; ``--references`` recomputes them. They are exact if all but two variables
can be integrated out, otherwise by importance sampling in few dimensions, and by PyMC's NUTS in many.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gallery_models as others
import numpy as np
from scipy import optimize, stats
from scipy.special import betaln, logsumexp

import kmc
from kmc.run.arguments import as_model
from kmc.targets.evaluate import evaluate_point, evaluate_rows

RESULTS = Path(__file__).parent / "results"
REFERENCES, ROWS, TABLE = (RESULTS / f"gallery.{ending}" for ending in ("json", "csv", "md"))
COLUMNS = (
    *("model", "evaluations", "seed", "d", "verdict", "mean_error", "mean_error_se", "sd_ratio", "sd_error_se"),
    *("worst", "ess_per_1000", "n_nonfinite", "seconds", "warnings"),
)
LARGEST_BIAS, LARGEST_SD_ERROR, LARGEST_ERROR = 0.1, 0.1, 3.0  # true sds, fraction of the true sd, standard errors
BLOCK = 5_000  # points per vectorized evaluation

Draws = dict[str, np.ndarray]
Moments = dict[str, list[float]]


@dataclass(frozen=True)
class Entry:
    """A model of the gallery.

    Attributes
    ----------
    make : callable
        Makes the argument of :func:`kmc.sample`.
    refer : callable
        Makes the reference: for each column its mean and sd, and their standard errors.
    shown : sequence of str
        The variables that are compared.
    logs, angles : sequence of str
        Those that are compared by their log, and by their cosine and sine.
    """

    make: Callable[[], Any]
    refer: Callable[[Entry], dict[str, Any]]
    shown: Sequence[str]
    logs: Sequence[str] = ()
    angles: Sequence[str] = ()

    def columns(self, values: Draws, leading: int) -> Draws:
        """Arrays (..., *shape) of variables as arrays (...) with names; `...` are the ``leading`` axes."""
        found: Draws = {}
        for name in self.shown:
            value = np.log(values[name]) if name in self.logs else values[name]
            label = f"log {name}" if name in self.logs else name
            flat = value.reshape(*value.shape[:leading], -1)
            for i in range(flat.shape[-1]):
                found[label if flat.shape[-1] == 1 else f"{label}[{i}]"] = flat[..., i]
        for name in self.angles:
            found[f"cos {name}"], found[f"sin {name}"] = np.cos(found[name]), np.sin(found[name])
            del found[name]
        return found


# References


def nuts(entry: Entry) -> dict[str, Any]:
    """By PyMC's own sampler."""
    import pymc as pm
    from arviz import rhat

    with entry.make():
        trace = pm.sample(1500, tune=1000, chains=4, cores=1, target_accept=0.95, random_seed=1, progressbar=False)
    columns = entry.columns({name: trace.posterior[name].values for name in entry.shown}, 2)
    worst = max(float(rhat(column)) for column in columns.values())
    return {"method": f"NUTS, 4 x 1500 draws, R-hat {worst:.3f}", "moments": moments(columns)}


def importance(entry: Entry, make: Callable[[], Any] | None = None, draws: int = 100_000) -> dict[str, Any]:
    """By importance sampling with a Student-t around the mode, in unconstrained coordinates."""
    model, rng = as_model((make or entry.make)(), None), np.random.default_rng(1)

    def log_density(points: np.ndarray) -> np.ndarray:
        made = evaluate_rows(model, points) if model.vectorized else [evaluate_point(model, x) for x in points]
        return np.nan_to_num([evaluation.value for evaluation in made], nan=-np.inf, neginf=-np.inf)

    def drawn(n: int, location: np.ndarray, shape: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
        proposal = stats.multivariate_t(location, shape, df=5)
        x = np.reshape(proposal.rvs(n, random_state=rng), (n, model.dim))
        values = np.concatenate([log_density(block) for block in np.array_split(x, max(n // BLOCK, 1))])
        logs = power * values - proposal.logpdf(x)
        return x, np.exp(logs - logsumexp(logs))

    spread = model.initial_points(rng, BLOCK)
    if spread is None:
        spread = rng.uniform(-2.0, 2.0, (BLOCK, model.dim))
    start = spread[np.argmax(log_density(spread))]
    mode = optimize.minimize(
        lambda x: -max(log_density(x[None])[0], -1e9), start, method="Nelder-Mead", options={"maxfev": 4000}
    ).x
    location, shape = mode, 0.01 * np.eye(model.dim)
    for power in (0.05, 0.2, 0.5, 1.0, 1.0, 1.0):
        x, weights = drawn(min(2 * BLOCK, draws), location, shape, power)
        location = weights @ x
        shape = (weights[:, None] * (x - location)).T @ (x - location)
    x, weights = drawn(draws, location, 1.2 * shape, 1.0)
    size = 1.0 / np.sum(weights**2)
    found = {}
    for name, column in entry.columns(model.constrain(x), 1).items():
        mean = weights @ column
        square = (column - mean) ** 2
        sd = np.sqrt(weights @ square)
        error = np.sqrt(weights**2 @ square)
        found[name] = [mean, sd, error, np.sqrt(weights**2 @ (square - sd**2) ** 2) / (2 * sd)]
    return {"method": f"importance sampling, {size:,.0f} effective draws", "moments": found}


def exact_schools(entry: Entry) -> dict[str, Any]:
    """Eight schools: given tau, all else is Gaussian."""
    from gallery_pymc import EFFECTS, ERRORS

    log_tau = np.linspace(-12, 8, 20001)
    tau = np.exp(log_tau)[:, None]
    precision = 1.0 / (ERRORS**2 + tau**2)
    variance = 1.0 / (1.0 / 25 + precision.sum(axis=1))
    mu = variance * (precision * EFFECTS).sum(axis=1)
    evidence = 0.5 * (np.log(precision).sum(axis=1) - (precision * EFFECTS**2).sum(axis=1) + mu**2 / variance)
    logs = evidence + 0.5 * np.log(variance) + stats.halfcauchy(scale=5).logpdf(tau[:, 0]) + log_tau
    shrinkage = tau**2 / (tau**2 + ERRORS**2)
    theta = shrinkage * EFFECTS + (1 - shrinkage) * mu[:, None]
    own = shrinkage * ERRORS**2 + (1 - shrinkage) ** 2 * variance[:, None]
    means = {"mu": mu, "log tau": log_tau} | {f"theta[{i}]": theta[:, i] for i in range(8)}
    variances = {"mu": variance, "log tau": 0.0 * mu} | {f"theta[{i}]": own[:, i] for i in range(8)}
    return integrated(logs, means, variances)


def exact_baseball(entry: Entry) -> dict[str, Any]:
    """Baseball: given phi and kappa, the abilities are Beta variables, and the hits beta-binomial."""
    from gallery_pymc import AT_BATS, HITS

    phi, kappa_log = (
        grid.ravel() for grid in np.meshgrid(np.linspace(1e-3, 1 - 1e-3, 1500), np.linspace(1e-3, 25, 2500))
    )
    kappa = np.exp(kappa_log)
    a, b = phi * kappa, (1 - phi) * kappa
    logs = -1.5 * kappa_log
    means, variances = {"phi": phi, "kappa_log": kappa_log}, {"phi": 0.0 * phi, "kappa_log": 0.0 * phi}
    for i, hits in enumerate(HITS):
        logs = logs + betaln(a + hits, b + AT_BATS - hits) - betaln(a, b)
        means[f"thetas[{i}]"] = mean = (a + hits) / (kappa + AT_BATS)
        variances[f"thetas[{i}]"] = mean * (1 - mean) / (kappa + AT_BATS + 1)
    return integrated(logs, means, variances)


def exact_radon(entry: Entry) -> dict[str, Any]:
    """Radon: given the two sds, all else is Gaussian."""
    from gallery_pymc import houses

    county, floor, y = houses()
    counties = county.max() + 1
    design = np.column_stack([np.zeros(len(y)), floor, np.eye(counties)[county]])  # center, slope, intercepts
    to_center = np.column_stack([-np.ones(counties), np.zeros(counties), np.eye(counties)])
    log_spread, log_noise = (g.ravel() for g in np.meshgrid(np.linspace(-8, 2, 400), np.linspace(-0.8, 0.3, 100)))
    spread, noise = np.exp(log_spread), np.exp(log_noise)
    wide = np.diag([0.01, 0.01] + [0.0] * counties)  # the priors N(0, 10)
    precision = wide + (to_center.T @ to_center) / spread[:, None, None] ** 2
    precision += (design.T @ design) / noise[:, None, None] ** 2
    covariance = np.linalg.inv(precision)
    slope = (design.T @ y) / noise[:, None] ** 2
    center = np.einsum("nij,nj->ni", covariance, slope)
    logs = 0.5 * (np.sum(center * slope, axis=1) - y @ y / noise**2 - np.linalg.slogdet(precision)[1])
    logs += (1 - len(y)) * log_noise - noise + (1 - counties) * log_spread - spread
    own = np.diagonal(covariance, axis1=1, axis2=2)
    names = ["center", "slope", *(f"intercept[{i}]" for i in range(counties))]
    means = {"log spread": log_spread, "log noise": log_noise} | dict(zip(names, center.T, strict=True))
    variances = {"log spread": 0.0 * spread, "log noise": 0.0 * spread} | dict(zip(names, own.T, strict=True))
    return integrated(logs, means, variances)


def integrated(logs: np.ndarray, means: Draws, variances: Draws) -> dict[str, Any]:
    """The moments of mixtures over a regular grid, with the log-densities there."""
    weights = np.exp(logs - logsumexp(logs))
    found = {}
    for name, own in means.items():
        mean = weights @ own
        found[name] = [mean, np.sqrt(weights @ (variances[name] + (own - mean) ** 2)), 0.0, 0.0]
    return {"method": "quadrature", "moments": found}


def moments(columns: Draws) -> Moments:
    """Mean and sd of each column (chain, draw), and their standard errors."""
    from arviz import ess

    found = {}
    for name, column in columns.items():
        mean, sd = column.mean(), column.std()
        square = (column - mean) ** 2
        error = sd / np.sqrt(float(ess(column, method="mean")))
        found[name] = [mean, sd, error, square.std() / np.sqrt(float(ess(square, method="mean"))) / (2 * sd)]
    return found


# The gallery


def pymc_entry(name: str, refer: Callable, shown: Sequence[str], logs: Sequence[str] = ()) -> Entry:
    """A model of gallery_pymc.py, which imports PyMC."""

    def make() -> Any:
        import gallery_pymc

        return getattr(gallery_pymc, name)()

    return Entry(make, refer, shown, logs)


GALLERY = {
    "schools, centered": pymc_entry("schools_centered", exact_schools, ("mu", "tau", "theta"), ("tau",)),
    "schools, non-centered": pymc_entry("schools_noncentered", exact_schools, ("mu", "tau", "theta"), ("tau",)),
    "baseball": pymc_entry("baseball", exact_baseball, ("phi", "kappa_log", "thetas")),
    "radon": pymc_entry("radon", exact_radon, ("center", "spread", "intercept", "slope", "noise"), ("spread", "noise")),
    "logistic regression": pymc_entry("logistic_regression", importance, ("intercept", "slope")),
    "robust regression": pymc_entry(
        "robust_regression", importance, ("intercept", "slope", "scale", "freedom"), ("scale", "freedom")
    ),
    "changepoint": pymc_entry("changepoint", importance, ("switch", "early", "late")),
    "mixture": pymc_entry("mixture", importance, ("share", "mean", "sd")),
    "stochastic volatility": pymc_entry(
        "stochastic_volatility", nuts, ("step", "walk", "freedom"), ("step", "freedom")
    ),
    "Gaussian process": pymc_entry("gaussian_process", importance, ("length", "height", "noise"), ("height", "noise")),
    "logistic growth": Entry(others.logistic_growth, importance, ("rate", "capacity", "noise")),
    "SIR": Entry(others.sir, importance, ("contact", "recovery", "excess"), ("excess",)),
    "FitzHugh-Nagumo": Entry(others.fitzhugh_nagumo, importance, ("a", "b", "c", "noise")),
    "Hodgkin-Huxley": Entry(others.hodgkin_huxley, importance, ("factor",)),
    "line": Entry(others.line, importance, ("m", "b", "log_f")),
    "orbit": Entry(
        others.orbit,
        partial(importance, make=partial(others.orbit, phase=kmc.Real())),  # one mode, wherever the circle is cut
        ("height", "period", "phase", "shift"),
        angles=("phase",),
    ),
}


# Runs


def run(name: str, reference: Moments, evaluations: int, seed: int) -> dict[str, Any]:
    """A row."""
    entry = GALLERY[name]
    target = entry.make()
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = kmc.sample(target, draws=None, max_evaluations=evaluations, seed=seed, progress=False)
    row: dict[str, Any] = {"model": name, "evaluations": evaluations, "seed": seed}
    row["seconds"] = round(time.perf_counter() - start, 1)
    row["warnings"] = " ".join(json.loads(idata.attrs["warnings"]))
    row["n_nonfinite"] = idata.attrs["n_nonfinite"]
    row["d"] = idata["unconstrained_posterior"]["x"].shape[-1]
    columns = entry.columns({shown: idata.posterior[shown].values for shown in entry.shown}, 2)
    return row | judged(columns, reference, evaluations, bool(row["warnings"]))


def judged(columns: Draws, reference: Moments, evaluations: int, warned: bool) -> dict[str, Any]:
    """The quality of draws (chain, draw) by name, and whether they are right."""
    from arviz import ess

    if next(iter(columns.values())).shape[1] < 10:
        return {"verdict": "warned" if warned else "SILENTLY WRONG", "worst": "no draws"}
    size = min(float(ess(column)) for column in columns.values())
    errors = {}
    for name, (mean, sd, mean_error, sd_error) in moments(columns).items():
        true_mean, true_sd, mean_doubt, sd_doubt = reference[name]
        bias, ratio = (mean - true_mean) / true_sd, sd / true_sd
        errors[name] = (
            bias,
            abs(mean - true_mean) / np.hypot(mean_error, mean_doubt),
            ratio,
            abs(sd - true_sd) / np.hypot(sd_error, sd_doubt),
        )
    excess = {  # beyond 1: wrong
        name: max(
            min(abs(bias) / LARGEST_BIAS, mean_se / LARGEST_ERROR),
            min(abs(ratio - 1) / LARGEST_SD_ERROR, sd_se / LARGEST_ERROR),
        )
        for name, (bias, mean_se, ratio, sd_se) in errors.items()
    }
    worst = max(excess, key=lambda name: np.nan_to_num(excess[name], nan=np.inf))
    wrong = not excess[worst] <= 1
    bias, mean_se, ratio, sd_se = errors[worst]
    return {
        "verdict": ("warned" if warned else "SILENTLY WRONG") if wrong else ("right, warned" if warned else "right"),
        "worst": worst,
        "mean_error": round(bias, 3),
        "mean_error_se": round(mean_se, 2),
        "sd_ratio": round(ratio, 3),
        "sd_error_se": round(sd_se, 2),
        "ess_per_1000": round(1000 * size / evaluations, 1),
    }


def table(rows: Sequence[dict[str, str]], references: dict[str, Any]) -> str:
    """Markdown."""
    lines = [
        "| model | d | evaluations | seed | verdict | worst variable | mean off, sd (standard errors) | "
        "sd over the true one (standard errors) | ESS per 1,000 | not finite | warnings |",
        "| --- | ---: | ---: | ---: | --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    order = {name: i for i, name in enumerate(GALLERY)}
    for row in sorted(rows, key=lambda row: (order[row["model"]], int(row["evaluations"]), int(row["seed"]))):
        lines.append(
            "| {model} | {d} | {evaluations} | {seed} | {verdict} | {worst} | {mean_error} ({mean_error_se}) | "
            "{sd_ratio} ({sd_error_se}) | {ess_per_1000} | {n_nonfinite} | {warnings} |".format(**row)
        )
    methods = [f"- {name}: {references[name]['method']}" for name in GALLERY if name in references]
    return "\n".join(
        [
            "# Models from galleries",
            "",
            "Made by `python benchmarks/gallery.py`; its docstring says what the columns are.",
            "",
            *lines,
            "",
            "References:",
            "",
            *methods,
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Make references or rows, and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="model", help=f"of {', '.join(GALLERY)}; default: all")
    parser.add_argument("--references", action="store_true", help="make the references instead of running kmc")
    parser.add_argument("--evaluations", type=int, nargs="+", default=[8000, 20000], help="budgets (default: both)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="default: 1")
    options = parser.parse_args(arguments)
    if unknown := set(options.models) - set(GALLERY):
        parser.error(f"unknown model {', '.join(sorted(unknown))}: choose from {', '.join(GALLERY)}")
    names = options.models or list(GALLERY)
    references = json.loads(REFERENCES.read_text()) if REFERENCES.exists() else {}
    if options.references:
        for name in names:
            references[name] = GALLERY[name].refer(GALLERY[name])
            print(name, references[name]["method"], flush=True)
            REFERENCES.write_text(_json(references))
        return
    rows = {_key(row): row for row in csv.DictReader(ROWS.open())} if ROWS.exists() else {}
    for name in names:
        for evaluations in options.evaluations:
            for seed in options.seeds:
                row = run(name, references[name]["moments"], evaluations, seed)
                print(*(f"{column}={row.get(column)}" for column in COLUMNS), flush=True)
                row = {column: str(row.get(column, "")) for column in COLUMNS}
                rows[_key(row)] = row
                with ROWS.open("w", newline="") as file:
                    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(rows.values())
                TABLE.write_text(table(list(rows.values()), references))


def _key(row: dict[str, str]) -> tuple[str, ...]:
    return row["model"], row["evaluations"], row["seed"]


def _json(references: dict[str, Any]) -> str:
    """A line for each model, with six digits."""
    kept = {
        name: {
            "method": references[name]["method"],
            "moments": {
                column: [float(f"{number:.6g}") for number in numbers]
                for column, numbers in references[name]["moments"].items()
            },
        }
        for name in GALLERY
        if name in references
    }
    return "{\n" + ",\n".join(f'"{name}": {json.dumps(entry)}' for name, entry in kept.items()) + "\n}\n"


if __name__ == "__main__":
    main()
