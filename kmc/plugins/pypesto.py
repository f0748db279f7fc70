"""kmc as a sampler of pyPESTO: ``pypesto.sample.sample(problem, n_samples, KmcSampler({"seed": 1}))``."""

from __future__ import annotations

from typing import Any

import numpy as np

import kmc
from kmc.plugins import missing, support

try:
    from pypesto.result import McmcPtResult
    from pypesto.sample import Sampler
except ImportError as error:
    raise missing("pypesto") from error


class KmcSampler(Sampler):
    """Samples by kernel HMC within the bounds of a problem.

    Options are those of :func:`kmc.sample`, and the attribute ``idata`` is its result. pyPESTO's trace has the draws of
    all chains as one, without warm-up, and the values that the run has evaluated.
    """

    @classmethod
    def default_options(cls) -> dict[str, Any]:
        """Return the defaults of kmc.sample."""
        return {
            "chains": 4,
            "warmup": None,
            "max_evaluations": None,
            "max_time": None,
            "seed": None,
            "progress": True,
            "executor": None,
            "store": None,
            "resume": False,
        }

    def initialize(self, problem: Any, x0: Any = None) -> None:
        """Set the problem; start points are random, and include x0 if it is given."""
        self.problem = problem
        names = [problem.x_names[i] for i in problem.x_free_indices]
        self._supports = {
            name: support(*bounds) for name, bounds in zip(names, zip(problem.lb, problem.ub), strict=True)
        }
        self._starts = np.empty((0, len(names))) if x0 is None else np.atleast_2d(x0)

    def sample(self, n_samples: int, beta: float = 1.0) -> None:
        """Make at least that many draws, over all chains."""
        chains = self.options["chains"]
        self.beta = beta
        model = kmc.Model(self._log_density, parameters=self._supports, initial=self._initial(2 * chains))
        self.idata = kmc.sample(model, draws=-(-n_samples // chains), **self.options)

    def get_samples(self) -> McmcPtResult:
        """Return the draws, without evaluating the objective again."""
        x = np.stack([self.idata["posterior"][name].values.ravel() for name in self._supports], axis=-1)
        log_density = self.idata["sample_stats"]["constrained_lp"].values.ravel()
        prior = self.problem.x_priors
        return McmcPtResult(
            trace_x=x[None],
            trace_neglogpost=-log_density[None] / self.beta,
            trace_neglogprior=np.array([[0.0 if prior is None else prior(row) for row in x]]),
            betas=[self.beta],
            burn_in=0,
        )

    def _log_density(self, parameters: dict[str, float]) -> float:
        return -self.beta * float(self.problem.objective(np.array(list(parameters.values()))))

    def _initial(self, k: int) -> dict[str, np.ndarray]:
        """Return those given, moved off the bounds, and k random points in the middle nine tenths."""
        low, high = np.asarray(self.problem.lb), np.asarray(self.problem.ub)
        rng = np.random.default_rng(self.options["seed"])
        drawn = low + (high - low) * rng.uniform(0.05, 0.95, (k, len(low)))
        points = np.vstack([self._starts, drawn])
        points = np.clip(points, low + 1e-6 * (high - low), high - 1e-6 * (high - low))
        return dict(zip(self._supports, points.T, strict=True))
