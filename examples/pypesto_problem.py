"""A sampler for pyPESTO
=====================

``python examples/pypesto_problem.py --help``.

``KmcSampler`` is used like pyPESTO's own samplers, ``pypesto.sample.sample(problem, n_samples, KmcSampler())``, and
its result is a pyPESTO result. The problem is exponential decay, with parameters on the logarithmic scale.

Fifty of 2,000 draws, which took 11 seconds, through the data:

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
from pypesto.result import McmcPtResult

import kmc


class KmcSampler(pypesto.sample.Sampler):
    """Samples a pyPESTO problem by kmc, within its bounds; all chains are returned as one.

    Options are those of :func:`kmc.sample`; ``idata`` is its return value.
    """

    @classmethod
    def default_options(cls) -> dict[str, Any]:
        """Of kmc.sample."""
        return {"chains": 4, "warmup": None, "max_evaluations": None, "seed": None, "progress": True, "executor": None}

    def initialize(self, problem: pypesto.Problem, x0: Any = None) -> None:
        """Set the problem; start points are random, and include x0 if it is given."""
        self.problem, self.idata = problem, None
        names = [problem.x_names[i] for i in problem.x_free_indices]
        self.supports = {n: kmc.Interval(*b) for n, b in zip(names, zip(problem.lb, problem.ub), strict=True)}
        self.starts = [] if x0 is None else list(np.atleast_2d(x0))

    def sample(self, n_samples: int, beta: float = 1.0) -> None:
        """Make at least that many draws, over all chains."""
        chains = self.options["chains"]

        def log_density(parameters: dict[str, float]) -> float:
            return -beta * float(self.problem.objective(np.array(list(parameters.values()))))

        model = kmc.Model(log_density, parameters=self.supports, initial=self._initial())
        self.idata = kmc.sample(model, draws=-(-n_samples // chains), **self.options)

    def get_samples(self) -> McmcPtResult:
        """The draws so far."""
        x = np.stack([self.idata.posterior[name].values.ravel() for name in self.supports], axis=-1)
        priors = self.problem.x_priors
        return McmcPtResult(
            trace_x=x[None],
            trace_neglogpost=np.array([[self.problem.objective(row) for row in x]]),
            trace_neglogprior=np.array([[0.0 if priors is None else priors(row) for row in x]]),
            betas=[1.0],
            burn_in=0,
        )

    def _initial(self) -> dict[str, np.ndarray]:
        """Two points for each chain, in the middle nine tenths of the bounds."""
        low, high = np.asarray(self.problem.lb), np.asarray(self.problem.ub)
        rng = np.random.default_rng(self.options["seed"])
        drawn = low + (high - low) * rng.uniform(0.05, 0.95, (2 * self.options["chains"], len(low)))
        points = np.clip(np.vstack([*self.starts, drawn]), low + 1e-6 * (high - low), high - 1e-6 * (high - low))
        return dict(zip(self.supports, points.T, strict=True))


TIMES = np.linspace(0.0, 4.0, 20)
DATA = 2.0 * np.exp(-0.7 * TIMES) + 0.1 * np.random.default_rng(1).standard_normal(len(TIMES))
TRUTH = {"log_height": np.log(2.0), "log_rate": np.log(0.7)}


def problem() -> pypesto.Problem:
    """Decay from an unknown height at an unknown rate, observed with noise of sd .1."""

    def negative_log_likelihood(x: np.ndarray) -> float:
        return 0.5 * float(np.sum(((DATA - np.exp(x[0] - np.exp(x[1]) * TIMES)) / 0.1) ** 2))

    objective = pypesto.Objective(fun=negative_log_likelihood)
    return pypesto.Problem(objective, lb=[-3.0, -3.0], ub=[3.0, 3.0], x_names=list(TRUTH))


def main(arguments: list[str] | None = None) -> Any:
    """Sample the decay and print pyPESTO's result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000, help="over all chains (default: 2000)")
    options = parser.parse_args(arguments)
    result = pypesto.sample.sample(problem(), options.draws, KmcSampler({"seed": 1}), x0=np.zeros(2))
    trace = result.sample_result.trace_x[0]
    for name, draws in zip(TRUTH, trace.T, strict=True):
        print(f"{name:10s} {draws.mean():8.3f} +- {draws.std():.3f}   truth {TRUTH[name]:.3f}")
    _, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    for height, rate in trace[np.linspace(0, len(trace) - 1, 50).astype(int)]:
        ax.plot(TIMES, np.exp(height - np.exp(rate) * TIMES), color="#4a8fa1", alpha=0.2, linewidth=1)
    ax.plot(TIMES, DATA, ".", color="#22262b")
    ax.set(xlabel="time", ylabel="concentration")
    return result


if __name__ == "__main__":
    main()
    plt.show()
