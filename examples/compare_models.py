"""Do hares limit their own growth?
================================

Two models of the pelts are compared: ``python examples/compare_models.py --help``.

The equations of Lotka and Volterra let hares grow without bound where there are no lynx. A second
model adds a term:

    u' = (alpha - limit u - beta v) u,    v' = (-gamma + delta u) v,

with hares u and lynx v, and limit = 0 in the first one. Both are compared by the marginal
likelihood (``kmc.evidence``) and by leave-one-out cross-validation (``arviz.compare``). Neither
needs an evaluation more than the draws.

The data are those of ``kernelmc demo``: ``kmc/model/lotka_volterra.py`` has their source.
"""

from __future__ import annotations

import argparse
from typing import Any

import arviz as az
import numpy as np
from numba import njit
from scipy import stats

import kmc
from kmc.model import lotka_volterra

LOG_PELTS = np.log(lotka_volterra.PELTS)
STEPS = 25  # of the solver, for each year
RATE, INTERACTION = stats.truncnorm(-2, np.inf, 1.0, 0.5), stats.truncnorm(-1, np.inf, 0.05, 0.05)
PRIORS: dict[str, Any] = {
    "alpha": RATE,
    "beta": INTERACTION,
    "gamma": RATE,
    "delta": INTERACTION,
    "first": kmc.LogNormal(np.log(10), 1.0, shape=2),  # thousands of pelts in 1900
    "sigma": kmc.LogNormal(-1.0, 1.0, shape=2),
}
"""Those of the demo; the data are log-normal around the solution."""


@njit(cache=True)
def log_populations(alpha, beta, gamma, delta, limit, p, q):
    """log u and log v in the years 1900 to 1920 by Runge and Kutta's method, (21, 2)."""
    path = np.empty((21, 2))
    path[0] = p, q
    h = 1.0 / STEPS
    for i in range(1, 21):
        for _ in range(STEPS):
            a1, b1 = alpha - limit * np.exp(p) - beta * np.exp(q), delta * np.exp(p) - gamma
            x, y = p + 0.5 * h * a1, q + 0.5 * h * b1
            a2, b2 = alpha - limit * np.exp(x) - beta * np.exp(y), delta * np.exp(x) - gamma
            x, y = p + 0.5 * h * a2, q + 0.5 * h * b2
            a3, b3 = alpha - limit * np.exp(x) - beta * np.exp(y), delta * np.exp(x) - gamma
            x, y = p + h * a3, q + h * b3
            a4, b4 = alpha - limit * np.exp(x) - beta * np.exp(y), delta * np.exp(x) - gamma
            p += h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
            q += h / 6 * (b1 + 2 * b2 + 2 * b3 + b4)
        path[i] = p, q
    return path


def solution(parameters: dict[str, Any]) -> np.ndarray:
    """Log populations (21, 2)."""
    rates = (parameters[name] for name in ("alpha", "beta", "gamma", "delta"))
    return log_populations(*rates, parameters.get("limit", 0.0), *np.log(parameters["first"]))


def log_likelihood(parameters: dict[str, Any]) -> Any:
    """The log-density of each of the 42 counts; -inf where the solution overflows."""
    center = solution(parameters)
    if not np.all(np.isfinite(center)):
        return np.full(LOG_PELTS.size, -np.inf)
    z = (LOG_PELTS - center) / parameters["sigma"]
    return (-0.5 * z**2 - np.log(parameters["sigma"]) - LOG_PELTS - 0.5 * np.log(2 * np.pi)).ravel()


def simulate(parameters: dict[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Counts (21, 2) that the model could have produced."""
    return {
        "pelts": np.exp(solution(parameters) + parameters["sigma"] * rng.standard_normal((21, 2)))
    }


def model(limited: bool, seed: int, chains: int = 4) -> kmc.Model:
    """The model with or without the term; chains start where the demo's do."""
    parameters = {**PRIORS, **({"limit": kmc.HalfNormal(0.01)} if limited else {})}
    rng = np.random.default_rng(seed)
    start = np.exp(lotka_volterra.initial(rng, chains))
    initial = dict(zip(("alpha", "beta", "gamma", "delta"), start.T)) | {
        "first": start[:, 4:6],
        "sigma": start[:, 6:],
    }
    if limited:
        initial["limit"] = 0.01 * rng.random(chains)
    return kmc.Model(log_likelihood=log_likelihood, parameters=parameters, initial=initial)


def main(arguments: list[str] | None = None) -> None:
    """Sample both posteriors and compare the models."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--evaluations", type=int, default=6000, help="budget for each model (default: 6000)"
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    options = parser.parse_args(arguments)
    runs = {
        name: kmc.sample(
            model(name == "limited", options.seed),
            draws=None,
            max_evaluations=options.evaluations,
            seed=options.seed,
        )
        for name in ("unlimited", "limited")
    }
    print(kmc.summary(runs["limited"]))
    found = kmc.evidence(runs, seed=options.seed)
    for name in runs:
        one = found.sel(run=name)
        print(
            f"{name:10s} log evidence {float(one['log_evidence']):8.2f} ± {float(one['se']):.2f}, "
            f"prior to posterior {float(one['kl_divergence']):.1f} nats"
        )
    factor = float(found["log_bayes_factor"].sel(run="limited", reference="unlimited"))
    error = float(found["se_log_bayes_factor"].sel(run="limited", reference="unlimited"))
    print(f"log Bayes factor of the limited model: {factor:.2f} ± {error:.2f}")
    print(az.compare(runs))
    for name, run in runs.items():
        largest = kmc.predictive(run, simulate, seed=options.seed)["posterior_predictive"][
            "pelts"
        ].max("pelts_dim_0")
        low, high = np.quantile(largest.values[..., 0], [0.05, 0.95])
        print(f"{name:10s} largest count of hares: 90 % in [{low:.0f}, {high:.0f}]; observed 77")
    picture(runs)


def picture(runs: dict[str, Any]) -> None:
    """Hares by twenty draws of each model, and their counts."""
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    for (name, run), color in zip(runs.items(), ("#7fb3bf", "#c8553d"), strict=True):
        draws = run.posterior.stack(sample=("chain", "draw"))
        for k in np.linspace(0, draws.sizes["sample"] - 1, 20).astype(int):
            one = {key: variable.values[..., k] for key, variable in draws.data_vars.items()}
            hares = np.exp(solution(one)[:, 0])
            ax.plot(
                1900 + np.arange(21),
                hares,
                color=color,
                alpha=0.5,
                linewidth=1,
                label=name if k == 0 else None,
            )
    ax.plot(1900 + np.arange(21), lotka_volterra.PELTS[:, 0], "o", color="#33373d", label="counts")
    ax.set(xlabel="year", ylabel="pelts of hares (thousands)")
    ax.legend(frameon=False)
    plt.show()


if __name__ == "__main__":
    main()
