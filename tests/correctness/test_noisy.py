"""Noisy targets: whole samplers that are told the log of an unbiased estimate of the density.

A stationary state is a point of the target together with the noise of its estimate, which has the
density g(w) e^w where fresh noise has g(w): normal noise N(-v/2, v) becomes N(+v/2, v). The noise
here is larger on one side than on the other, so that mistakes do not cancel.
"""

import copy
from functools import cache

import arviz as az
import numpy as np
import pytest

import kmc
from kmc.kernel_hmc.sampler import KernelHMC
from kmc.model.toys import Gaussian
from kmc.samplers.adaptive_metropolis import AdaptiveMetropolis
from kmc.samplers.base import SamplerSetup
from kmc.samplers.random_walk import RandomWalkMetropolis
from kmc.samplers.walkers import Walkers
from tests.correctness.invariance import MANY, SIZE, case
from tests.grids import slow_except

SWEEPS = 8
TARGETS = pytest.mark.parametrize("name", slow_except(["bimodal", "log-gamma"], {"log-gamma"}))


def variance(one, x):
    """Of the noise at the rows of x."""
    side = (x[:, 0] - np.median(one.states[:, 0])) / one.scale[0]
    return 0.5 + 3.0 / (1.0 + np.exp(-2.0 * side))


def estimates(one, x, rng, kept=False):
    """Of log-densities at the rows of x: fresh ones, or those that stationary states have kept."""
    v = variance(one, x)
    return one.values(x) + rng.normal(0.5 * v if kept else -0.5 * v, np.sqrt(v))


@cache
def frozen_process(name):
    """Kernel HMC after learning from the noisy target; it has one chain."""
    one, rng = case(name), np.random.default_rng(7)
    starts = one.states[:4]
    setup = SamplerSetup(
        dim=one.dim,
        chains=1,
        initial=starts,
        initial_log_density=estimates(one, starts, rng),
        draws=None,
        warmup=None,
        max_evaluations=1000,
        seed=np.random.SeedSequence(3),
        noisy=True,
    )
    process = KernelHMC(
        learning_share=0.2, archive_probability=0.2, tempered_probability=0.3
    ).start(setup)
    while process.warming_up:
        process.advance(estimates(one, process.propose(), rng))
    assert process.report()["noise_sd"] > 0.5
    process.mixture = process.mixture._replace(shortest_chain=1, longest_chain=4)
    return process


def kernel_hmc(name, noise):
    """Copies of that process, each with its one chain at one of the rows."""
    one = case(name)

    def step(rng, x):
        after = np.empty_like(x)
        for i, value in enumerate(estimates(one, x, noise, kept=True)):
            process = copy.copy(frozen_process(name))
            process.walkers = Walkers([rng], x[i : i + 1], np.array([value]))
            for _ in range(SWEEPS):
                record = process.advance(estimates(one, process.propose(), noise))
            after[i] = record.position[0]
        return after

    return step


def random_walk(name, noise):
    """The process of random-walk Metropolis, with as many chains as there are rows."""
    one = case(name)

    def step(rng, x):
        kept = estimates(one, x, noise, kept=True)
        seed = np.random.SeedSequence(int(rng.integers(2**31)))
        setup = SamplerSetup(one.dim, len(x), x, kept, SWEEPS, 0, None, seed, noisy=True)
        process = RandomWalkMetropolis(scale=0.5 * one.scale / np.sqrt(one.dim)).start(setup)
        for _ in range(SWEEPS):
            record = process.advance(estimates(one, process.propose(), noise))
        after = np.empty_like(x)
        after[np.argsort(-kept, kind="stable")] = record.position  # chains begin at the best
        return after

    return step


SAMPLERS = {"kernel-hmc": kernel_hmc, "random-walk": random_walk}
EACH = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)


@TARGETS
@EACH
def test_the_target_is_invariant(sampler, name):
    case(name).check(sampler(name, np.random.default_rng(4)))


@pytest.mark.slow
@TARGETS
@EACH
def test_a_recomputed_estimate_is_detected(sampler, name, monkeypatch):
    """The present state's estimate is recomputed before each decision, "Monte Carlo within
    Metropolis".
    """
    one, noise, right = case(name), np.random.default_rng(5), Walkers.decide
    frozen_process(name)  # the error is introduced after warm-up

    def decide(self, *arguments, **options):
        self.log_density = estimates(one, self.x, noise)
        return right(self, *arguments, **options)

    monkeypatch.setattr(Walkers, "decide", decide)
    with pytest.raises(AssertionError, match="the distribution has changed"):
        one.check(
            sampler(name, np.random.default_rng(4)), size=SIZE if name == "log-gamma" else MANY
        )


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
@pytest.mark.parametrize(
    ("sampler", "evaluations"),
    slow_except(
        {
            "kernel-hmc": (KernelHMC(), 1000),
            "adaptive-metropolis": (AdaptiveMetropolis(), 12_000),
            "random-walk": (RandomWalkMetropolis(), 12_000),
        },
        {"random-walk"},
    ),
)
def test_moments_of_whole_runs(sampler, evaluations):
    """Means and squares within 4.5 standard errors, which raises a false alarm in one of 30,000
    runs.
    """
    normal, rng = Gaussian(2, correlation=0.8, spread=2.0), np.random.default_rng(8)

    def estimate(x):
        sd = 0.5 + 0.7 / (1.0 + np.exp(-2.0 * x[0]))
        return normal(x) + sd * rng.standard_normal() - 0.5 * sd**2

    idata = kmc.sample(
        kmc.Model(estimate, 2, noisy=True),
        sampler=sampler,
        draws=None,
        max_evaluations=evaluations,
        seed=9,
        progress=False,
    )
    x = np.asarray(idata.posterior["x"])
    exact = normal.sample(np.random.default_rng(10), 200_000)
    for i, j in [(0, None), (1, None), (0, 0), (0, 1), (1, 1)]:
        drawn, known = (y[..., i] if j is None else y[..., i] * y[..., j] for y in (x, exact))
        error = (drawn.mean() - known.mean()) / known.std()
        assert abs(error) * np.sqrt(float(az.ess(drawn, method="mean"))) < 4.5
