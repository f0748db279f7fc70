"""kmc as a sampler of pyPESTO.

Call ``pypesto.sample.sample(problem, n_samples, KmcSampler({"seed": 1}))``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kmc
from kmc.plugins import missing, sample, support

try:
    from pypesto.result import McmcPtResult
    from pypesto.sample import Sampler
except ImportError as error:
    raise missing("pyPESTO") from error


class KmcSampler(Sampler):
    """Sample within the bounds of a problem.

    Options are those of :func:`kmc.sample`, and the attribute ``idata`` is its result; after an
    error in the objective, it is an attribute of the error. pyPESTO's trace has the draws of all
    chains as one, without warm-up, and the values that the run has evaluated.
    """

    @classmethod
    def default_options(cls) -> dict[str, Any]:
        """Return the defaults of kmc.sample."""
        return {
            "sampler": "kernel-hmc",
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
        """Set the problem, and points (d,) or (k, d) to start from, besides random ones."""
        self.problem = problem
        names = [problem.x_names[i] for i in problem.x_free_indices]
        bounds = zip(problem.lb, problem.ub, strict=True)
        self._supports = {name: support(*each) for name, each in zip(names, bounds, strict=True)}
        self._starts = np.empty((0, len(names))) if x0 is None else np.atleast_2d(x0)

    def sample(self, n_samples: int, beta: float = 1.0) -> None:
        """Make at least `n_samples` draws of the posterior to the power `beta`, over all chains."""
        chains = self.options["chains"]
        self.beta = beta
        model = kmc.Model(self._log_density, parameters=self._supports)
        initial = self._initial(model, 2 * chains)
        self.idata = sample(model, initial=initial, draws=-(-n_samples // chains), **self.options)

    def get_samples(self) -> McmcPtResult:
        """Return the draws, without evaluating the objective again."""
        x = np.stack(
            [self.idata["posterior"][name].values.ravel() for name in self._supports], axis=-1
        )
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

    def _initial(self, model: kmc.Model, k: int) -> dict[str, np.ndarray]:
        """Return the given points, moved off the bounds, and k random ones."""
        low, high = np.asarray(self.problem.lb), np.asarray(self.problem.ub)
        off = 1e-6 * np.where(np.isfinite(high - low), high - low, 1.0)
        given = np.clip(self._starts, low + off, high - off).T
        drawn = model.constrain(
            np.random.default_rng(self.options["seed"]).uniform(-2.0, 2.0, (k, len(low)))
        )
        return {
            name: np.concatenate([each, drawn[name]])
            for name, each in zip(drawn, given, strict=True)
        }
