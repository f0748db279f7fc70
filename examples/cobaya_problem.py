"""A cobaya model
==============

Sampled by kmc: ``python examples/cobaya_problem.py --help``.

The sampler's name in cobaya's input is ``kmc.plugins.cobaya.Kmc``; cobaya's result has the draws,
with their derived parameters. The likelihood is a line through points.

Fifty draws through the points:

.. image:: /pictures/cobaya_problem.png
   :alt: Scattered points that rise, and a bundle of lines through them
"""

# sphinx_gallery_thumbnail_path = 'pictures/cobaya_problem.png'

from __future__ import annotations

import argparse
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from cobaya.run import run

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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--evaluations", type=int, default=4000, help="of the posterior (default: 4000)"
    )
    options = parser.parse_args(arguments)
    limits = {"max_evaluations": options.evaluations, "draws": None, "seed": 1}
    _, sampler = run(INFO | {"sampler": {"kmc.plugins.cobaya.Kmc": limits}})
    sample = sampler.products()["sample"]
    for name in INFO["params"]:
        print(f"{name:10s} {sample[name].mean():8.3f} +- {sample[name].std():.3f}")
    _, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    intercept, slope = (sample[name].to_numpy() for name in ("intercept", "slope"))
    for k in np.linspace(0, len(slope) - 1, 50).astype(int):
        ax.plot(
            X[[0, -1]],
            intercept[k] + slope[k] * X[[0, -1]],
            color="#4a8fa1",
            alpha=0.2,
            linewidth=1,
        )
    ax.plot(X, Y, ".", color="#22262b")
    ax.set(xlabel="x", ylabel="y")
    return sample


if __name__ == "__main__":
    main()
    plt.show()
