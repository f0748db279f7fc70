"""Budgets of a few hundred evaluations."""

import numpy as np
import pytest

import kmc
from kmc.mcmc import SamplerSetup
from kmc.mcmc.small_budget import burn_in, first_fit, long_warmup, start_search
from kmc.targets.toys import Banana


def setup(warmup=None, chains=4, dim=2, budget=200):
    initial = np.arange(chains * dim, dtype=float).reshape(chains, dim)
    values = 1000.0 * np.arange(chains)  # of very different height
    return SamplerSetup(dim, chains, initial, values, None, warmup, budget, np.random.SeedSequence(0))


def normal(x):
    return -0.5 * float(x @ x)


def test_the_first_fit_is_earlier():
    assert first_fit(2, 200) == 33 and first_fit(5, 300) == 50
    assert first_fit(2, None) == first_fit(2, 2000) == first_fit(2, 300) == kmc.surrogates.values_needed(2)
    assert first_fit(5, 200) == 42 and first_fit(6, 200) == 56  # two values for each term of a quadratic
    assert first_fit(8, 200) == 180 and first_fit(8, 270) == 90  # as hardly any would be left for learning
    assert first_fit(50, 3000) == kmc.surrogates.values_needed(50)


def test_there_is_a_search_if_the_budget_is_small():
    none = [start_search(setup(dim=5, budget=budget)) is None for budget in (200, 599, 600, 2000, None)]
    assert none == [False, False, True, True, True]
    assert start_search(setup(dim=3)) is None
    assert start_search(setup(dim=8, budget=700)) and start_search(setup(dim=30, budget=999))
    assert start_search(setup(dim=30, budget=1000)) is None
    assert start_search(setup(dim=20, budget=200)) is None  # hardly more than a cross of points
    assert start_search(setup(dim=5, chains=17)) is None and start_search(setup(dim=5, warmup=20)) is None
    assert start_search(setup(dim=5)._replace(noisy=True)) is None
    assert start_search(setup(dim=5)._replace(history=(np.zeros((3, 5)), np.zeros(3)))) is None


def test_there_is_none_if_start_points_are_of_similar_height():
    def similar(**options):
        return setup(**options)._replace(initial_log_density=np.array([0.0, -5.0, -15.0, -400.0]))

    assert start_search(similar(dim=5)) is None and start_search(similar(dim=8, budget=500)) is None
    assert start_search(similar(dim=8)) is not None  # without it the first fit would be at 180 of 200 evaluations


def test_after_a_search_fits_come_early_and_warm_up_is_long():
    assert first_fit(5, 200, searched=True) == 31 and first_fit(8, 500, searched=True) == 67
    assert burn_in(15, 400, setup()._replace(dim=8), searched=True) == 6
    assert long_warmup(setup(dim=8), searched=True) == (100, 133) and long_warmup(setup(dim=8)) is None


def test_after_an_early_fit_warm_up_is_long():
    ends = [long_warmup(setup(dim=5, budget=budget)) for budget in (130, 200, 228, 240, 300, 370)]
    assert ends == [(65, 70), (100, 133), (114, 114), (120, 125), (150, 182), (185, 246)]
    assert long_warmup(setup(dim=5, budget=2000)) is long_warmup(setup(budget=None)) is None
    assert long_warmup(setup(chains=17)) is None and long_warmup(setup()._replace(noisy=True)) is None
    assert long_warmup(setup()._replace(history=(np.zeros((3, 2)), np.zeros(3)))) is None


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


def test_a_bent_ridge_in_eight_dimensions_is_learned_from_two_hundred_evaluations():
    target = Banana(8, b=0.03)
    initial = 2 * target.sample(np.random.default_rng(4), 4)
    idata = kmc.sample(target, dim=8, initial=initial, draws=None, max_evaluations=200, seed=4, progress=False)
    assert idata.attrs["n_evaluations"] <= 200 and idata["posterior"].sizes["draw"] >= 10
    assert idata.attrs["surrogate_loo_sd"] < 1.0  # without a search there was no surrogate
