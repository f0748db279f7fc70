"""Simulation-based calibration of the samplers: parameters from the prior, data from the
parameters, a run.

Among the draws of the run the parameters that made the data must have a uniform rank, and so must
every function of parameters and data: Talts, Betancourt, Simpson, Vehtari and Gelman (2018),
"Validating Bayesian inference algorithms with simulation-based calibration"; for the log-likelihood
as such a function, Modrák et al. (2025), Bayesian Analysis 20. Draws are thinned to five from each
of four chains, ten or more sweeps apart, as ranks ask for independent ones.

Where the tolerances come from. A rank among L draws plus a uniform number, divided by L + 1, is a
uniform u; so is |2u - 1|, whose mean tells draws that are too narrow or too wide. Means of N
uniform numbers have the standard error 1 / sqrt(12 N) and lighter tails than a normal; the whole
distribution is compared by Kolmogorov and Smirnov. All comparisons of a test together raise a false
alarm with probability ``LEVEL``.

Sixteen replications detect a shift of the draws by two posterior standard deviations, or a spread
that is wrong by a factor of ten; twenty-four detect one and a half, and four. Finer errors are left
to the other files of this folder, and to the benchmarks.
"""

import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy import stats

import kmc
from benchmarks.targets import LotkaVolterra
from kmc.model import lotka_volterra
from tests.values import check_values

LEVEL = 2e-5
KEPT = 5  # draws of each chain
CHAINS = 4


class NormalMean:
    """Three observations y_i ~ N(x, S) of an unknown mean x ~ N(0, I) in the plane, S known."""

    dim, budget, size = 2, 600, 20
    _root = np.linalg.cholesky(np.array([[1.0, 0.6], [0.6, 1.0]]))

    def draw(self, rng, n):
        """Parameters from the prior, shape (n, 2)."""
        return rng.standard_normal((n, 2))

    def data(self, rng, x):
        """Observations, whitened by S."""
        return np.linalg.solve(self._root, (x + rng.standard_normal((3, 2)) @ self._root.T).T).T

    def log_prior(self, x):
        """Up to a constant."""
        return -0.5 * float(x @ x)

    def log_likelihood(self, x, data):
        """Up to a constant."""
        residuals = data - np.linalg.solve(self._root, x)
        return -0.5 * float(np.sum(residuals**2))

    def gradient(self, x, data):
        """Of both together."""
        residuals = data - np.linalg.solve(self._root, x)
        return -x + np.linalg.solve(self._root.T, residuals.sum(axis=0))


class GammaPoisson:
    """Four counts of each of two rates, which are Gamma(2) with mean 2; the parameters are the
    rates' logarithms.
    """

    dim, budget, size = 2, 600, 24

    def draw(self, rng, n):
        """Parameters from the prior, shape (n, 2)."""
        return np.log(rng.gamma(2.0, size=(n, 2)))

    def data(self, rng, x):
        """Counts, shape (4, 2)."""
        return rng.poisson(np.exp(x), (4, 2))

    def log_prior(self, x):
        """A density of the logarithms."""
        return float(np.sum(2.0 * x - np.exp(x)))

    def log_likelihood(self, x, data):
        """Up to a constant; zero density beyond what can be computed."""
        return (
            float(np.sum(data.sum(axis=0) * x - len(data) * np.exp(x)))
            if np.max(x) < 50
            else -math.inf
        )


@dataclass(frozen=True)
class Demo:
    """The demo's likelihood in four parameters, log alpha, log gamma and the two log sds; the
    others are known.

    The priors are normal around published values with sd .2, so that the data look like pelts and a
    small budget is enough. The solver of the benchmarks takes its place, as it is 40 times as fast.
    """

    dim, budget, size = 4, 750, 16
    free = np.array([0, 2, 6, 7])
    sd = 0.2
    _fast: LotkaVolterra = field(default_factory=LotkaVolterra)

    def full(self, x):
        """All eight parameters."""
        out = LotkaVolterra.guess.copy()
        out[self.free] = x
        return out

    def draw(self, rng, n):
        """Parameters from the prior, shape (n, 4)."""
        return LotkaVolterra.guess[self.free] + self.sd * rng.standard_normal((n, 4))

    def data(self, rng, x):
        """Log pelts, shape (21, 2)."""
        full = self.full(x)
        path = np.log(lotka_volterra.predict(full))
        return path + np.exp(full[6:]) * rng.standard_normal(path.shape)

    def log_prior(self, x):
        """Up to a constant."""
        return -0.5 * float(np.sum(((x - LotkaVolterra.guess[self.free]) / self.sd) ** 2))

    def log_likelihood(self, x, data):
        """Up to a constant."""
        full = self.full(x)
        if np.max(np.abs(full)) > 50:
            return -math.inf
        self._fast._data = data
        return self._fast(full) - _prior_of_demo(full)


def _prior_of_demo(x):
    """What the demo's posterior adds to its likelihood, up to a constant."""
    rates = np.exp(x[:4])
    z = (rates - [1.0, 0.05, 1.0, 0.05]) / [0.5, 0.05, 0.5, 0.05]
    return float(
        np.sum(x[:4])
        - 0.5 * (z @ z + np.sum((x[4:6] - math.log(10)) ** 2) + np.sum((x[6:] + 1) ** 2))
    )


SAMPLERS = {
    "adaptive-metropolis": ("adaptive-metropolis", 800),
    "adaptive-langevin": (kmc.AdaptiveLangevin(kmc.scores.GaussianScore()), 1500),
    "delayed-acceptance": (kmc.DelayedAcceptance(estimator=kmc.scores.GaussianScore()), 1500),
    "kameleon": (kmc.Kameleon(max_states=200), 2500),
    "tempered": (kmc.Tempered(temperatures=(1, 2, 4)), 4500),
}
"""Besides the default; each with a budget for which twenty of its draws are nearly independent."""

SCORE = kmc.scores.GaussianScore()
OPTIONS = {
    "random walk": (kmc.RandomWalkMetropolis(), 3000),
    "score HMC": (
        kmc.ScoreHMC(SCORE, max_states=100, warmup_sampler=kmc.AdaptiveMetropolis()),
        1500,
    ),
    "score HMC, updates online": (
        kmc.ScoreHMC(
            SCORE,
            "vanishing",
            max_states=100,
            schedule=0.5,
            warmup_sampler=kmc.AdaptiveMetropolis(),
        ),
        1500,
    ),
    "steps of an estimator": (kmc.AdaptiveMetropolis(estimator=SCORE), 800),
    "covariance of the position": (kmc.AdaptiveLangevin(SCORE, covariance="hessian"), 1500),
    "updates online": (kmc.AdaptiveLangevin(SCORE, schedule=1.0), 1500),
    "moves from outside": (kmc.KernelHMC(moves=[(kmc.moves.Snooker(), 0.3)]), 600),
}
"""The same for samplers without a name of their own, and for options that change proposals."""

MODELS = {"normal mean": NormalMean, "gamma-poisson": GammaPoisson, "demo": Demo}


def replicated_runs(
    name: str,
    seed: int = 0,
    sampler: Any = "kernel-hmc",
    budget: int | None = None,
    with_gradient: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Truths (n, q) and draws (n, L, q) of the model's parameters and of its log-likelihood.

    ``with_gradient``: the sampler is a function of the gradient.
    """
    model, truths, draws = MODELS[name](), [], []
    for child in np.random.SeedSequence(seed).spawn(model.size):
        rng = np.random.default_rng(child)
        truth = model.draw(rng, 1)[0]
        data = model.data(rng, truth)

        def posterior(x, data=data):
            return model.log_prior(x) + model.log_likelihood(x, data)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", kmc.KmcWarning)  # the budgets are small
            idata = kmc.sample(
                posterior,
                dim=model.dim,
                initial=model.draw(rng, CHAINS),
                draws=None,
                chains=CHAINS,
                max_evaluations=budget or model.budget,
                sampler=sampler(lambda x, data=data: model.gradient(x, data))
                if with_gradient
                else sampler,
                seed=rng,
                progress=False,
            )
        check_values(idata, posterior, model.dim)
        x = np.asarray(idata.posterior["x"])
        rows = np.linspace(x.shape[1] - 1, 0, KEPT, endpoint=False).astype(int)
        assert rows[0] - rows[1] >= 10
        kept = x[:, rows].reshape(-1, model.dim)
        truths.append([*truth, model.log_likelihood(truth, data)])
        draws.append([[*row, model.log_likelihood(row, data)] for row in kept])
    return np.array(truths), np.array(draws)


def check_ranks(truths: np.ndarray, draws: np.ndarray) -> None:
    """The ranks of the truths among the draws could be uniform; see the head of this file."""
    n, most = draws.shape[:2]
    ranks = np.sum(draws < truths[:, None], axis=1)
    u = (ranks + np.random.default_rng(1).random(ranks.shape)) / (most + 1)
    columns = np.hstack([u, np.abs(2 * u - 1)])
    z = (columns.mean(axis=0) - 0.5) * math.sqrt(12 * n)
    p = [2 * stats.norm.sf(abs(value)) for value in z] + [
        stats.kstest(column, "uniform").pvalue for column in u.T
    ]
    level = LEVEL / len(p)
    print(f"p-values from {min(p):.2g} (allowed: {level:.1e})")  # pytest -s shows it
    assert min(p) > level, (
        f"the ranks are not uniform: means are off by {np.round(z, 1)} standard errors, "
        f"p-values from {min(p):.1e} (allowed: {level:.1e})"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_ranks_are_uniform(name):
    """The ranks of the same draws are not uniform if these are shifted, too narrow or too wide."""
    truths, draws = replicated_runs(name)
    check_ranks(truths, draws)
    center, sd = draws.mean(axis=1, keepdims=True), draws.std(axis=1, keepdims=True)
    for wrong in (
        draws + 2.0 * sd,
        center + 0.1 * (draws - center),
        center + 10.0 * (draws - center),
    ):
        with pytest.raises(AssertionError, match="the ranks are not uniform"):
            check_ranks(truths, wrong)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [*SAMPLERS, *OPTIONS])
def test_ranks_of_other_samplers_are_uniform(sampler):
    options, budget = (SAMPLERS | OPTIONS)[sampler]
    check_ranks(*replicated_runs("normal mean", 1, options, budget))


@pytest.mark.slow
def test_ranks_with_a_gradient_of_each_posterior_are_uniform():
    check_ranks(
        *replicated_runs(
            "normal mean", 2, lambda gradient: kmc.KernelHMC(gradients=gradient), 600, True
        )
    )


def test_uniform_ranks_pass_and_level_is_kept():
    """With exact posterior draws instead of runs, none of a hundred checks fails."""
    for seed in range(100):
        rng = np.random.default_rng([3, seed])
        center = rng.standard_normal((60, 1, 3))
        draws = center + rng.standard_normal((60, CHAINS * KEPT, 3))
        check_ranks((center + rng.standard_normal((60, 1, 3)))[:, 0], draws)


def test_the_fast_likelihood_is_that_of_the_demo():
    """Up to a constant; the fixed steps of the fast solver leave errors of some 1e-4."""
    model, rng = Demo(), np.random.default_rng(4)
    points = model.draw(rng, 3)
    data = lotka_volterra._LOG_PELTS
    fast = np.array([model.log_likelihood(x, data) for x in points])
    slow = np.array(
        [
            lotka_volterra.log_density(model.full(x)) - lotka_volterra._log_prior(model.full(x))
            for x in points
        ]
    )
    np.testing.assert_allclose(fast - fast[0], slow - slow[0], rtol=0, atol=5e-3)
