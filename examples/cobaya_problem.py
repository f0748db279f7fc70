"""A cobaya model
==============

Sampled by kmc: ``python examples/cobaya_problem.py --help``.

``from_cobaya`` makes a model from the result of ``cobaya.model.get_model``: its sampled parameters with the bounds of
their priors, its posterior, and its derived parameters for each draw. The likelihood is a line through points.

Fifty draws of a run of 2,000 evaluations, which took 11 seconds, through the points:

.. image:: /pictures/cobaya_problem.png
   :alt: Scattered points that rise, and a bundle of lines through them
"""

# sphinx_gallery_thumbnail_path = 'pictures/cobaya_problem.png'

from __future__ import annotations

import argparse
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from cobaya.model import get_model

import kmc

STARTS = 32  # draws from the prior for the chains to choose from


def from_cobaya(model: Any, seed: int = 0) -> kmc.Model:
    """The posterior of a cobaya model."""
    names = list(model.parameterization.sampled_params())
    derived = list(model.parameterization.derived_params())

    def log_density(parameters: dict[str, float]) -> Any:
        posterior = model.logposterior(parameters, cached=False)
        value = float(posterior.logpost)
        if value == -np.inf or not derived:
            return value
        return value, dict(zip(derived, posterior.derived, strict=True))

    points = model.prior.sample(STARTS, random_state=np.random.default_rng(seed))
    return kmc.Model(
        log_density,
        parameters={name: support(*bounds) for name, bounds in zip(names, model.prior.bounds(), strict=True)},
        initial=dict(zip(names, points.T, strict=True)),
    )


def support(low: float, high: float) -> Any:
    """The support between two bounds, either of which may be infinite."""
    if np.isfinite(low) and np.isfinite(high):
        return kmc.Interval(low, high)
    if np.isfinite(low):
        return kmc.LowerBound(low)
    return kmc.UpperBound(high) if np.isfinite(high) else kmc.Real()


X = np.linspace(0.0, 1.0, 30)
Y = 1.0 + 2.0 * X + 0.3 * np.random.default_rng(1).standard_normal(len(X))
INFO = {
    "params": {
        "intercept": {"prior": {"dist": "norm", "loc": 0.0, "scale": 5.0}},
        "slope": {"prior": {"min": -10.0, "max": 10.0}},
        "noise": {"prior": {"min": 0.01, "max": 2.0}},
        "at_two": {"derived": "lambda intercept, slope: intercept + 2 * slope"},
    },
    "likelihood": {
        "line": {
            "external": lambda intercept, slope, noise: float(
                np.sum(-0.5 * ((Y - intercept - slope * X) / noise) ** 2 - np.log(noise))
            ),
            "input_params": ["intercept", "slope", "noise"],
        }
    },
}


def main(arguments: list[str] | None = None) -> Any:
    """Sample the line and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=4000, help="of the posterior (default: 4000)")
    options = parser.parse_args(arguments)
    target = from_cobaya(get_model(INFO))
    idata = kmc.sample(target, draws=None, max_evaluations=options.evaluations, seed=1)
    for name, draws in idata.posterior.data_vars.items():
        print(f"{name:10s} {float(draws.mean()):8.3f} +- {float(draws.std()):.3f}")
    _, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    intercept, slope = (idata.posterior[name].values.ravel() for name in ("intercept", "slope"))
    for k in np.linspace(0, len(slope) - 1, 50).astype(int):
        ax.plot(X[[0, -1]], intercept[k] + slope[k] * X[[0, -1]], color="#4a8fa1", alpha=0.2, linewidth=1)
    ax.plot(X, Y, ".", color="#22262b")
    ax.set(xlabel="x", ylabel="y")
    return idata


if __name__ == "__main__":
    main()
    plt.show()
