"""The sampler benchmark's problems: their truths, starts and noise, and its counting of
evaluations.
"""

from __future__ import annotations

import math

import metrics
import numpy as np
import peers
import pytest
import targets

pytestmark = pytest.mark.arviz

EXACT = [name for name, make in targets.DENSITIES.items() if hasattr(make(), "sample")]
DRAWS = 20_000


@pytest.fixture
def rng():
    return np.random.default_rng(4)


@pytest.mark.parametrize("name", targets.TARGETS)
def test_truth_belongs_to_the_density(name, rng):
    task = targets.problem(name)  # raises where the stored log-density is another one
    assert task.truth.mean.shape == task.truth.sd.shape == (task.dim,)
    assert np.all(task.truth.quantiles[0] < task.truth.quantiles[1])
    assert np.all(task.truth.slopes > 0)
    starts = task.initial(rng, 7)
    assert starts.shape == (7, task.dim)
    assert all(math.isfinite(task.log_density(x)) for x in starts)


@pytest.mark.parametrize("name", EXACT)
def test_closed_forms_agree_with_exact_draws(name, rng):
    density, truth = targets.DENSITIES[name](), targets.problem(name).truth
    x = density.sample(rng, DRAWS)
    for p, quantile in zip(targets.TAILS, truth.quantiles, strict=True):
        below = (x <= quantile).mean(0)
        assert np.abs(below - p).max() < 4.5 * math.sqrt(p * (1 - p) / DRAWS)
    error = truth.sd / math.sqrt(DRAWS)
    assert np.all(np.abs(x.mean(0) - truth.mean) < 4.5 * error)
    light = truth.kurtosis < 20  # where a sd can be estimated at all
    spread = np.sqrt((truth.kurtosis[light] - 1) / 4 / DRAWS)
    assert np.all(np.abs(x.std(0)[light] / truth.sd[light] - 1) < 5 * spread)


def test_noise_leaves_the_density_unbiased():
    task = targets.problem("noisy-gaussian-10d")
    x = task.truth.mean
    box, again = task.black_box(3), task.black_box(3)
    noise = np.array([box(x) for _ in range(DRAWS)]) - task.log_density(x)
    assert again(x) - task.log_density(x) == pytest.approx(noise[0])
    assert noise.std() == pytest.approx(1, abs=0.03)
    assert np.exp(noise).mean() == pytest.approx(1, abs=5 * math.sqrt((math.e - 1) / DRAWS))


def test_independent_draws_are_right_and_half_of_them_wrong(rng):
    truth = targets.problem("gaussian-10d").truth
    draws = targets.DENSITIES["gaussian-10d"]().sample(rng, 4000).reshape(4, 1000, 10)
    assert not metrics.wrong(metrics.quality(draws, truth))
    assert metrics.wrong(metrics.quality(0.8 * draws, truth))
    assert metrics.wrong(metrics.quality(draws + 0.3 * truth.sd, truth))
    assert metrics.wrong({"bias_excess": math.nan, "width_excess": -1.0})


def test_the_evaluation_beyond_the_budget_raises():
    counted = peers.Counted(lambda x: 0.0, 3)
    for _ in range(3):
        counted(np.zeros(2))
    with pytest.raises(peers.BudgetSpent):
        counted(np.zeros(2))
    assert counted.evaluations == 3


@pytest.mark.parametrize(
    "method", [method for method in peers.METHODS if not method.startswith("kmc")]
)
def test_peers_keep_to_their_budget(method):
    task, budget = targets.problem("banana-2d"), 1003
    try:
        runs = peers.METHODS[method](task, 1, budget)
    except peers.Unavailable as reason:
        pytest.skip(str(reason))
    for run in runs:
        assert budget - 25 < run.evaluations <= budget
        assert run.draws.ndim == 3 and run.draws.shape[2] == 2
        assert np.isfinite(run.draws).all()
