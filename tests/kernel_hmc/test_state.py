"""Runs of the sampler by rounds of learning, through kmc.sample."""

import arviz
import numpy as np
import pytest

import kmc
from kmc.kernel_hmc.sampler import LearnedHMC
from kmc.targets.toys import Banana, Bimodal, Gaussian

QUIET = {"sampler": LearnedHMC(), "draws": None, "progress": False}


def run(target, dim, initial, **options):
    return kmc.sample(lambda x: target(x), dim=dim, initial=initial, **{**QUIET, **options})


def test_a_normal_is_learned_from_a_tenth_and_the_draws_are_right():
    target = Gaussian(4, 0.9, 10.0)
    sd = np.sqrt(np.diag(target.covariance))
    start = 3 * sd * np.random.default_rng(0).standard_normal((8, 4))
    idata = run(target, 4, start, max_evaluations=800, seed=1)
    x = idata["posterior"]["x"].values
    assert idata.attrs["n_evaluations"] <= 800
    assert idata.attrs["n_evaluations_warmup"] < 200
    ess = arviz.ess(arviz.convert_to_dataset(x))["x"].values
    assert ess.min() > 300
    z = (x.reshape(-1, 4).mean(axis=0) / sd) * np.sqrt(ess)
    assert np.abs(z).max() < 4
    np.testing.assert_allclose(x.reshape(-1, 4).std(axis=0) / sd, 1.0, atol=4 / np.sqrt(2 * ess.min()))


def test_every_draw_has_the_value_of_the_function():
    target = Banana(2)
    start = np.array([10.0, 4.0]) * np.random.default_rng(2).standard_normal((8, 2))
    idata = run(target, 2, start, max_evaluations=400, seed=2)
    x, lp = idata["posterior"]["x"].values, idata["sample_stats"]["lp"].values
    np.testing.assert_array_equal(lp, [[target(row) for row in chain] for chain in x])


def test_weights_of_two_modes_are_those_of_the_target():
    target = Bimodal(3, separation=9.0, weight=0.3)
    start = target.sample(np.random.default_rng(3), 12)
    idata = run(target, 3, start, max_evaluations=1200, seed=3)
    upper = idata["posterior"]["x"].values.sum(axis=2) > 0
    error = np.sqrt(0.21 / float(arviz.ess(arviz.convert_to_dataset(upper.astype(float)))["x"]))
    assert error < 0.05
    assert abs(upper.mean() - 0.3) < 4 * error


@pytest.mark.parametrize("executor", [None, 2])
def test_the_seed_determines_the_draws_for_any_number_of_workers(executor):
    target = Gaussian(2, 0.5, 1.0)
    start = np.random.default_rng(4).standard_normal((8, 2))
    one = run(target, 2, start, max_evaluations=150, seed=5)
    other = kmc.sample(target, dim=2, initial=start, max_evaluations=150, seed=5, executor=executor, **QUIET)
    np.testing.assert_array_equal(one["posterior"]["x"], other["posterior"]["x"])


def test_read_outs_take_the_frozen_surrogate():
    target = Gaussian(3, 0.5, 1.0)
    start = 2 * np.random.default_rng(6).standard_normal((8, 3))
    idata = run(target, 3, start, max_evaluations=600, seed=7)
    found = kmc.evidence(idata, seed=1)
    x = np.zeros((1, 3))
    expected = 1.5 * np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(target.covariance)[1] + float(target(x[0]))
    assert abs(float(found["log_evidence"][0]) - expected) < 4 * float(found["se"][0]) + 1e-3
    assert kmc.expectations(idata, seed=1).attrs["corrected"]


def test_a_half_space_without_density_is_no_place_of_draws():
    def half(x):
        return -0.5 * float(x @ x) if x[0] > -0.5 else -np.inf

    start = np.abs(np.random.default_rng(8).standard_normal((8, 2)))
    idata = run(half, 2, start, max_evaluations=800, seed=9)
    x = idata["posterior"]["x"].values[..., 0]
    assert x.min() > -0.5
    axis, _, end = idata.attrs["surrogate_wall"].partition(" > ")
    assert axis == "x[0]" and abs(float(end) + 0.5) < 0.1 and 0.02 < idata.attrs["surrogate_wall_share"] < 0.8
    truth = np.exp(-0.125) / np.sqrt(2 * np.pi) / 0.6914624612740131  # mean of a normal above -1/2
    ess = float(arviz.ess(arviz.convert_to_dataset(x))["x"])
    assert ess > 250
    assert abs(x.mean() - truth) < 4 * x.std() / np.sqrt(ess)


def test_ask_and_tell_gives_the_draws_of_a_run():
    target = Gaussian(2, 0.5, 1.0)
    start = np.random.default_rng(10).standard_normal((8, 2))
    state = LearnedHMC().start(initial=start, max_evaluations=120, seed=11)
    while not state.done:
        state.tell([target(x) for x in state.ask()])
    one = run(target, 2, start, max_evaluations=120, seed=11)
    draws = one["posterior"]["x"].values  # at most one fewer, for a run evaluates its best start twice
    np.testing.assert_array_equal(state.positions[:, : draws.shape[1]], draws)


def test_noise_of_the_values_is_found_and_no_reason_to_learn_on():
    rng = np.random.default_rng(21)
    noisy = kmc.Model(lambda x: -0.5 * float(x @ x) + rng.standard_normal() - 0.5, dim=3, noisy=True)
    start = np.random.default_rng(22).standard_normal((8, 3))
    idata = kmc.sample(noisy, initial=start, max_evaluations=1000, seed=23, **QUIET)
    facts = idata["posterior"].attrs
    assert facts["noise_sd"] == pytest.approx(1.0, abs=4.0 / np.sqrt(2.0 * facts["n_evaluations_warmup"]))
    assert facts["n_evaluations_warmup"] < 300
    x = idata["posterior"]["x"].values
    ess = float(arviz.ess(arviz.convert_to_dataset(x))["x"].min())
    assert np.abs(x.mean(axis=(0, 1))).max() < 4.0 / np.sqrt(ess)
