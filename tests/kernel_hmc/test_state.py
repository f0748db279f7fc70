"""Runs of the sampler by rounds of learning, through kmc.sample."""

import json

import arviz
import numpy as np
import pytest

import kmc
from kmc.kernel_hmc.sampler import KernelHMC
from kmc.model.toys import Banana, Bimodal, Gaussian
from kmc.posterior.results import read
from kmc.samplers.base import SamplerSetup
from tests.grids import slow_except

pytestmark = pytest.mark.usefixtures("few_particles")
QUIET = {"sampler": KernelHMC(), "draws": None, "progress": False}


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
    np.testing.assert_allclose(
        x.reshape(-1, 4).std(axis=0) / sd, 1.0, atol=4 / np.sqrt(2 * ess.min())
    )


@pytest.mark.slow
def test_weights_of_two_modes_are_those_of_the_target():
    target = Bimodal(3, separation=9.0, weight=0.3)
    start = target.sample(np.random.default_rng(3), 12)
    idata = run(target, 3, start, max_evaluations=1200, seed=3)
    upper = idata["posterior"]["x"].values.sum(axis=2) > 0
    error = np.sqrt(0.21 / float(arviz.ess(arviz.convert_to_dataset(upper.astype(float)))["x"]))
    assert error < 0.05
    assert abs(upper.mean() - 0.3) < 4 * error


@pytest.mark.parametrize("executor", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_the_seed_determines_the_draws_for_any_number_of_workers(executor):
    target = Gaussian(2, 0.5, 1.0)
    start = np.random.default_rng(4).standard_normal((8, 2))
    one = run(target, 2, start, max_evaluations=150, seed=5)
    other = kmc.sample(
        target, dim=2, initial=start, max_evaluations=150, seed=5, executor=executor, **QUIET
    )
    np.testing.assert_array_equal(one["posterior"]["x"], other["posterior"]["x"])


@pytest.mark.slow
def test_a_half_space_without_density_is_no_place_of_draws():
    def half(x):
        return -0.5 * float(x @ x) if x[0] > -0.5 else -np.inf

    start = np.abs(np.random.default_rng(10).standard_normal((8, 2)))
    idata = run(half, 2, start, max_evaluations=800, seed=11)
    x = idata["posterior"]["x"].values[..., 0]
    assert x.min() > -0.5
    axis, _, end = idata.attrs["surrogate_wall"].partition(" > ")
    assert (
        axis == "x[0]"
        and abs(float(end) + 0.5) < 0.1
        and 0.02 < idata.attrs["surrogate_wall_share"] < 0.8
    )
    truth = np.exp(-0.125) / np.sqrt(2 * np.pi) / 0.6914624612740131  # mean of a normal above -1/2
    ess = float(arviz.ess(arviz.convert_to_dataset(x))["x"])
    assert ess > 250
    assert abs(x.mean() - truth) < 4 * x.std() / np.sqrt(ess)


def test_ask_and_tell_gives_the_draws_of_a_run():
    target = Gaussian(2, 0.5, 1.0)
    start = np.random.default_rng(10).standard_normal((8, 2))
    state = KernelHMC().start(initial=start, max_evaluations=120, seed=11)
    while not state.done:
        state.tell([target(x) for x in state.ask()])
    one = run(target, 2, start, max_evaluations=120, seed=11)
    # at most one fewer, for a run evaluates its best start twice
    draws = one["posterior"]["x"].values
    np.testing.assert_array_equal(state.positions[:, : draws.shape[1]], draws)


@pytest.mark.slow
def test_noise_of_the_values_is_found_and_no_reason_to_learn_on():
    rng = np.random.default_rng(21)
    noisy = kmc.Model(
        lambda x: -0.5 * float(x @ x) + rng.standard_normal() - 0.5, dim=3, noisy=True
    )
    start = np.random.default_rng(22).standard_normal((8, 3))
    idata = kmc.sample(noisy, initial=start, max_evaluations=1000, seed=23, **QUIET)
    facts = idata["posterior"].attrs
    assert facts["noise_sd"] == pytest.approx(
        1.0, abs=4.0 / np.sqrt(2.0 * facts["n_evaluations_warmup"])
    )
    assert facts["n_evaluations_warmup"] < 300
    x = idata["posterior"]["x"].values
    ess = float(arviz.ess(arviz.convert_to_dataset(x))["x"].min())
    assert np.abs(x.mean(axis=(0, 1))).max() < 4.0 / np.sqrt(ess)


# One step at a time; what the state has in common with others is in
# tests/samplers/test_sampler_state.py


def density(x):
    return -0.5 * np.sum(x**2, axis=1)


def started(options=None, chains=2, **setup):
    initial = np.random.default_rng(0).standard_normal((chains, 2))
    fields = {
        "draws": 50,
        "warmup": None,
        "max_evaluations": 600,
        "seed": np.random.SeedSequence(3),
    }
    return (options or KernelHMC()).start(
        SamplerSetup(
            dim=2,
            chains=chains,
            initial=initial,
            initial_log_density=density(initial),
            **(fields | setup),
        )
    )


def drive(state, sweeps=None):
    """Points that were asked for in that many sweeps, or in all of warm-up, and the steps."""
    points, steps = [np.empty((0, 2))], []
    while state.warming_up if sweeps is None else len(steps) < sweeps:
        points.append(state.propose())
        step = state.advance(density(points[-1]))
        if step is not None:
            steps.append(step)
    return np.vstack(points), steps


@pytest.mark.parametrize("burn_in", slow_except([0, 3], [3]))
def test_sweeps_after_the_freeze_are_warm_up(burn_in):
    state = started(KernelHMC(burn_in=burn_in))
    _, steps = drive(state)
    assert len(steps) == burn_in and all(step.warmup for step in steps)
    _, steps = drive(state, 3)
    assert not any(step.warmup for step in steps)


@pytest.mark.slow
def test_nothing_is_learned_after_the_freeze():
    state = started()
    assert state.density is None
    drive(state)
    (x, values), mixture, report = state.evaluated, state.mixture, state.report()
    points, _ = drive(state, 12)
    assert len(points) > 12
    assert state.mixture is mixture and state.report() == report
    np.testing.assert_array_equal(state.evaluated[0], x)
    np.testing.assert_array_equal(values, density(x))
    z = np.random.default_rng(1).standard_normal((5, 2))
    np.testing.assert_array_equal(state.density.log_density(z), mixture.surrogate.log_density(z))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "setup", "most"), [({"learning_share": 0.05}, {}, 30), ({}, {"warmup": 20}, 40)]
)
def test_learning_ends_with_its_share_or_what_was_asked_for(options, setup, most):
    """Later points test the surrogate and are starts of chains, ten and one for each dimension, or
    are elsewhere.
    """
    state = started(KernelHMC(burn_in=0, **options), **setup)
    spent = len(state.setup.initial)
    while state.warming_up:
        points = state.propose()
        spent += len(points)
        # which takes more values to learn
        state.advance(density(points) + np.sin(9.0 * points[:, 0]))
    assert most <= spent <= most + 10 + 2 + 2 + 2


def test_warm_up_ends_when_it_should():
    state = started()
    state.advance(density(state.propose()))
    state.end_warmup()
    points, _ = drive(state)
    # a batch, tests, exchanges, steps beyond, and the burn-in
    assert len(points) <= 4 + 12 + 2 + 2 + 5 * 2


def test_what_it_reports():
    state = started()
    before = state.report()
    assert "n_refits" not in before and "surrogate_loo_sd" not in before
    drive(state)
    report = state.report()
    json.dumps(report)
    assert report["n_refits"] > 0
    assert report["surrogate_n_values"] == len(state.evaluated[1])
    assert report["inner_chain_length"] == state.mixture.longest_chain
    assert report["leapfrog_step_size"] == state.mixture.inner.step_size
    assert 0 <= report["surrogate_loo_sd"] < 0.5 and report["surrogate_driver"] is None
    assert report["noise_sd"] is None and "surrogate_wall" not in report


@pytest.mark.slow
def test_a_history_is_learned_from_and_no_state():
    x = np.random.default_rng(5).standard_normal((30, 2))
    state = started(KernelHMC(learning_share=0.1), history=(x, density(x) + 3.0, None))
    points, steps = drive(state)
    assert state.setup.history is None and state.report()["n_history"] == 30
    np.testing.assert_array_equal(state.evaluated[0][:30], x)
    assert {tuple(row) for row in steps[0].position} <= {tuple(row) for row in points}
    np.testing.assert_allclose(steps[0].log_density, density(steps[0].position))


# Gradients at some points


class Counted:
    """The gradient in the half-space x_0 > 0."""

    def __init__(self, factor=1.0):
        self.factor, self.points = factor, []

    def __call__(self, x):
        self.points.append(x)
        return -self.factor * x if x[0] > 0 else None


@pytest.mark.slow
def test_gradients_are_asked_for_at_evaluated_points_of_learning():
    gradient = Counted()
    state = started(KernelHMC(gradients=gradient))
    points, _ = drive(state)
    facts, n = state.report(), len(gradient.points)
    # Those at the start points are needed once more, for the check.
    assert len({tuple(x) for x in gradient.points}) == n - 2
    assert 8 < n == facts["n_gradients"] + facts["n_gradients_missing"]
    evaluated = {tuple(x) for x in np.vstack([state.setup.initial, points])}
    assert all(tuple(x) in evaluated for x in gradient.points)
    assert facts["n_gradients"] == sum(x[0] > 0 for x in gradient.points)
    assert facts["gradient_error"] < 1e-3
    drive(state, 20)
    assert len(gradient.points) == n
    known = np.isfinite(state._learning.gradients[:, 0])
    assert known.sum() > 3
    np.testing.assert_array_equal(state._learning.gradients[known], -state.evaluated[0][known])


def test_a_gradient_of_the_wrong_sign_is_seen_at_the_start():
    state = started(KernelHMC(gradients=lambda x: x))
    with pytest.warns(kmc.KmcWarning, match="The gradient disagrees with differences"):
        state.advance(density(state.propose()))
    assert state.report()["gradient_error"] > 1


@pytest.mark.slow
def test_a_function_without_any_gradient_changes_no_draw():
    """All start points are without one, so that nothing is checked."""
    start = np.random.default_rng(8).standard_normal((4, 2))
    one, other = (
        run(
            lambda x: -0.5 * float(x @ x),
            2,
            start,
            max_evaluations=120,
            seed=2,
            sampler=KernelHMC(gradients=gradients),
        )
        for gradients in (None, lambda x: None)
    )
    np.testing.assert_array_equal(one["posterior"]["x"], other["posterior"]["x"])
    assert other.attrs["n_gradients"] == 0 < other.attrs["n_gradients_missing"]


@pytest.mark.slow
def test_a_run_with_gradients_is_resumed(tmp_path):
    """With a function that cannot be pickled."""
    sampler = KernelHMC(gradients=lambda x: -x if x[1] > 0 else None)
    start, path = np.random.default_rng(9).standard_normal((4, 2)), tmp_path / "run.zarr"
    options = {
        "dim": 2,
        "initial": start,
        "max_evaluations": 150,
        "seed": 3,
        **QUIET,
        "sampler": sampler,
    }
    expected = kmc.sample(lambda x: -0.5 * x @ x, **options)
    kmc.sample(
        lambda x: -0.5 * x @ x, store=path, callback=lambda record: record.draw >= 5, **options
    )
    resumed = kmc.sample(lambda x: -0.5 * x @ x, store=path, resume=True, **options)
    np.testing.assert_array_equal(resumed["posterior"]["x"], expected["posterior"]["x"])
    assert resumed.attrs["n_gradients"] == expected.attrs["n_gradients"]


def test_chains_start_at_draws_that_were_as_predicted():
    """The others may be where the surrogate has mass and the density has none: a chain could be
    stuck there.
    """
    start = np.random.default_rng(20).standard_normal((8, 2))
    setup = SamplerSetup(
        dim=2,
        chains=4,
        initial=start,
        initial_log_density=-0.5 * np.sum(start**2, axis=1),
        draws=None,
        warmup=10,
        max_evaluations=None,
        seed=np.random.SeedSequence(21),
    )
    state = KernelHMC().start(setup)
    while state.walkers is None:
        points = state.propose()
        values = -0.5 * np.sum(points**2, axis=1)
        if state.mixture is not None:  # the tests of the frozen surrogate
            deep = points[:8]
            values[:8] -= 1e3
        state.advance(values)
    assert not any(np.any(np.all(deep == x, axis=1)) for x in state.walkers.x)


@pytest.mark.parametrize(
    ("b", "sd", "seed"),
    slow_except([(0.03, 4.0, 1), (0.03, 4.0, 2), (0.1, 14.0, 1), (0.1, 14.0, 2)], [(0.03, 4.0, 2)]),
)
def test_the_ends_of_a_ridge_beyond_all_evaluations_are_not_cut_off(b, sd, seed):
    """They were, without a warning, where the regression knew them: at 2.5 standard deviations by
    tens of nats.
    """
    target = Banana(2, b)
    start = 2.0 * np.array([10.0, sd]) * np.random.default_rng(seed).standard_normal((4, 2))
    idata = run(target, 2, start, max_evaluations=1000, seed=seed)
    (surrogate,) = (
        one.density for one in read(idata, kmc.Model(target, dim=2), "result").replicates
    )
    x = target.sample(np.random.default_rng(4), 4000)
    off = np.array([target(row) for row in x]) - surrogate.log_density(x)
    far = np.abs(x[:, 0]) > 2.3 * x[:, 0].std()
    assert far.sum() > 50 and np.quantile(off[far] - np.median(off), 0.9) < 1.0
