"""A pyPESTO problem
=================

Sampled by kmc: ``python examples/pypesto_problem.py --help``.

``kmc.plugins.pypesto.KmcSampler`` is used like pyPESTO's own samplers,
``pypesto.sample.sample(problem, n_samples, KmcSampler())``, and its result is a pyPESTO result. The
problem is exponential decay, with parameters on the logarithmic scale.

Fifty of 2,000 draws through the data:

.. image:: /pictures/pypesto_problem.png
   :alt: Noisy data of a decay from two to zero, and a narrow bundle of curves through them
"""

# sphinx_gallery_thumbnail_path = 'pictures/pypesto_problem.png'

from __future__ import annotations

import argparse
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pypesto
import pypesto.sample

from kmc.plugins.pypesto import KmcSampler

TIMES = np.linspace(0.0, 4.0, 20)
DATA = 2.0 * np.exp(-0.7 * TIMES) + 0.1 * np.random.default_rng(1).standard_normal(len(TIMES))
TRUTH = {"log_height": np.log(2.0), "log_rate": np.log(0.7)}


def problem() -> pypesto.Problem:
    """Decay from an unknown height at an unknown rate, observed with noise of standard deviation
    0.1.
    """

    def negative_log_likelihood(x: np.ndarray) -> float:
        return 0.5 * float(np.sum(((DATA - np.exp(x[0] - np.exp(x[1]) * TIMES)) / 0.1) ** 2))

    objective = pypesto.Objective(fun=negative_log_likelihood)
    return pypesto.Problem(objective, lb=[-3.0, -3.0], ub=[3.0, 3.0], x_names=list(TRUTH))


def main(arguments: list[str] | None = None) -> Any:
    """Sample the decay and print pyPESTO's result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=2000, help="over all chains (default: 2000)")
    options = parser.parse_args(arguments)
    result = pypesto.sample.sample(
        problem(), options.draws, KmcSampler({"seed": 1}), x0=np.zeros(2)
    )
    trace = result.sample_result.trace_x[0]
    for name, draws in zip(TRUTH, trace.T, strict=True):
        print(f"{name:10s} {draws.mean():8.3f} +- {draws.std():.3f}   truth {TRUTH[name]:.3f}")
    _, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    for height, rate in trace[np.linspace(0, len(trace) - 1, 50).astype(int)]:
        ax.plot(
            TIMES, np.exp(height - np.exp(rate) * TIMES), color="#4a8fa1", alpha=0.2, linewidth=1
        )
    ax.plot(TIMES, DATA, ".", color="#22262b")
    ax.set(xlabel="time", ylabel="concentration")
    return result


if __name__ == "__main__":
    main()
    plt.show()
