"""Peers of ``shapes.py`` that need a prior: nested sampling (dynesty, nautilus), preconditioned Monte Carlo (pocoMC).

The prior is a product of Student-t with three degrees of freedom around the true means, three true sds wide: more than
a user knows. Weighted draws are resampled: as many as their effective number (Kish), so that each counts once.
"""

from __future__ import annotations

import numpy as np
from peers import Counted, Run, peer_package
from scipy import special, stats

_DOF, _WIDER = 3, 3.0
_DEEPEST = -1e30  # in place of -inf, which these packages do not take


class Likelihood:
    """The density over the prior."""

    def __init__(self, problem, budget: int):
        truth = problem.task.truth
        self.center, self.scale = truth.center, _WIDER * truth.scale
        self.target = Counted(problem.log_density, budget + 10_000)  # packages stop themselves, a batch too late

    def __call__(self, x: np.ndarray) -> float:
        """The log-likelihood at a point, but for a constant."""
        z = (np.asarray(x) - self.center) / self.scale
        log_prior = -0.5 * (_DOF + 1) * np.log1p(z**2 / _DOF).sum()
        return max(float(self.target(np.asarray(x))) - float(log_prior), _DEEPEST)

    def from_cube(self, u: np.ndarray) -> np.ndarray:
        """Points from the unit cube."""
        return self.center + self.scale * special.stdtrit(_DOF, u)

    def run(self, x: np.ndarray, log_weights: np.ndarray, seed: int, setting: str) -> list[Run]:
        """The result, from weighted draws (n, d)."""
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        size = max(int(1 / np.sum(weights**2)), 1)
        rows = np.random.default_rng(seed).choice(len(x), 4 * (size // 4), p=weights)
        return [self.target.run(x[rows].reshape(4, -1, x.shape[1]), setting)]


def run_dynesty(problem, seed: int, budget: int) -> list[Run]:
    """Nested sampling, at most 50 live points in each dimension, multi-ellipsoidal bounds."""
    dynesty = peer_package("dynesty", "dynesty")
    likelihood = Likelihood(problem, budget)
    live = int(min(50 * problem.dim, max(budget // 20, 2 * problem.dim + 2)))
    rng = np.random.default_rng(seed)
    sampler = dynesty.NestedSampler(likelihood, likelihood.from_cube, problem.dim, nlive=live, rstate=rng)
    sampler.run_nested(maxcall=budget, dlogz=0.01, print_progress=False)
    results = sampler.results
    return likelihood.run(results.samples, results.logwt, seed, f"{live} live points")


def run_nautilus(problem, seed: int, budget: int) -> list[Run]:
    """Importance nested sampling with networks; a tenth of the budget are live points."""
    nautilus = peer_package("nautilus", "nautilus-sampler")
    likelihood = Likelihood(problem, budget)
    live = int(np.clip(budget // 10, 100, 2000))
    options = {"n_dim": problem.dim, "n_live": live, "pass_dict": False, "seed": seed}
    sampler = nautilus.Sampler(likelihood.from_cube, likelihood, **options)
    sampler.run(n_like_max=budget, verbose=False)
    x, log_weights, _ = sampler.posterior()
    return likelihood.run(x, log_weights, seed, f"{live} live points")


def run_pocomc(problem, seed: int, budget: int) -> list[Run]:
    """Preconditioned Monte Carlo with normalizing flows; it has no limit of evaluations, so a small population."""
    pocomc = peer_package("pocomc", "pocomc")
    likelihood = Likelihood(problem, 50 * budget)
    prior = [stats.t(_DOF, loc=m, scale=s) for m, s in zip(likelihood.center, likelihood.scale, strict=True)]
    sampler = pocomc.Sampler(pocomc.Prior(prior), likelihood, n_effective=256, n_active=128, random_state=seed)
    sampler.run(n_total=1024, n_evidence=0, progress=False)
    x, weights, *_ = sampler.posterior()
    return likelihood.run(x, np.log(np.maximum(weights, 1e-300)), seed, "256 effective particles")


WITH_PRIOR = {"dynesty": run_dynesty, "nautilus": run_nautilus, "pocomc": run_pocomc}
