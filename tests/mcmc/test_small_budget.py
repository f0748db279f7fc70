"""Budgets of a few hundred evaluations."""

import numpy as np
import pytest

import kmc
from kmc.mcmc import SamplerSetup
from kmc.mcmc.small_budget import burn_in, first_fit


def setup(warmup=None, chains=4):
    return SamplerSetup(
        2, chains, np.zeros((chains, 2)), np.zeros(chains), None, warmup, 200, np.random.SeedSequence(0)
    )


def normal(x):
    return -0.5 * float(x @ x)


def test_the_first_fit_is_earlier():
    assert first_fit(2, 200) == 33 and first_fit(5, 300) == 50
    assert first_fit(2, None) == first_fit(2, 2000) == first_fit(2, 300) == kmc.surrogates.values_needed(2)
    assert first_fit(5, 200) == 42 and first_fit(6, 200) == 56  # two values for each term of a quadratic
    assert first_fit(8, 200) == 180 and first_fit(8, 270) == 90  # as hardly any would be left for learning
    assert first_fit(50, 3000) == kmc.surrogates.values_needed(50)


def test_burn_in_is_a_sixteenth_of_the_budget_at_most():
    assert burn_in(15, 200, setup()) == 3 and burn_in(15, 2000, setup()) == burn_in(15, None, setup()) == 15
    assert burn_in(15, 200, setup(warmup=7)) == 7
    assert burn_in(15, 200, setup(chains=20)) == 0 and burn_in(15, 200, setup()._replace(dim=10)) == 15


def test_burn_in_of_many_chains_is_no_more_evaluations():
    assert [burn_in(15, None, setup(chains=chains)) for chains in (4, 16, 20, 64, 256)] == [15, 15, 12, 5, 5]
    assert burn_in(3, None, setup(chains=64)) == 3


def test_two_hundred_evaluations_are_enough_for_a_surrogate():
    idata = kmc.sample(normal, dim=2, draws=None, max_evaluations=200, seed=1, progress=False)
    assert "surrogate" in idata and idata["posterior"].sizes["draw"] >= 20
    mean = idata["posterior"]["x"].mean(("chain", "draw"))
    assert np.all(np.abs(mean) < 5 / np.sqrt(idata["posterior"].sizes["draw"]))


@pytest.mark.slow
def test_two_hundred_evaluations_in_five_dimensions():
    idata = kmc.sample(normal, dim=5, draws=None, max_evaluations=200, seed=1, progress=False)
    with pytest.warns(kmc.KmcWarning, match="the stated errors are rough"):
        found = kmc.expectations(idata, quantiles=(), max_surrogate_draws=8000)
    assert found.attrs["corrected"] == 1
    assert np.all(np.abs(found["mean"]) < 0.1) and np.all(np.abs(found["sd"] - 1) < 0.1)
