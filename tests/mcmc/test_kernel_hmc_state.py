"""The state of kernel HMC, one step at a time; what it has in common with others is in test_sampler_state.py."""

import json
from dataclasses import replace

import numpy as np
import pytest

import kmc
from kmc.mcmc import KernelHMC, SamplerSetup
from kmc.mcmc.base import MOVES
from kmc.surrogates import FitOptions

FIT = FitOptions(n_basis=20, bandwidths=(1.2, 2.0))
SMALL = KernelHMC(min_warmup_evaluations=200, post_freeze_burn_in=5, fit=FIT)
CLOUD = np.random.default_rng(9).standard_normal((12, 2))


def density(x):
    return -0.5 * np.sum(x**2, axis=1)


def start(options=SMALL, chains=2, **setup):
    initial = np.random.default_rng(0).standard_normal((chains, 2))
    fields = {"draws": 50, "warmup": None, "max_evaluations": 600, "seed": np.random.SeedSequence(3)}
    return options.start(
        SamplerSetup(dim=2, chains=chains, initial=initial, initial_log_density=density(initial), **(fields | setup))
    )


def drive(process, sweeps=None):
    """Records of that many sweeps, or of all of warm-up."""
    records = []
    while process.warming_up if sweeps is None else len(records) < sweeps:
        record = process.advance(density(process.propose()))
        if record is not None:
            records.append(record)
    return records


# The start


def test_it_asks_first_for_a_cloud_around_the_start():
    process = start()
    cloud = process.propose()
    assert cloud.shape == (8, 2)  # twice as many as walkers
    np.testing.assert_array_equal(process.propose_again(), cloud)
    assert process.advance(density(cloud)) is None and len(process.trainer.history) == 2 + 8


def test_walkers_begin_at_the_best_points():
    process = start()
    cloud = process.propose()
    process.advance(density(cloud))
    known = np.sort(np.concatenate([process.setup.initial_log_density, density(cloud)]))[::-1]
    np.testing.assert_array_equal(process.walkers.log_density, known[:4])
    np.testing.assert_array_equal(process.mixture.archive, np.vstack([process.setup.initial, cloud]))


def test_values_that_are_nan_belong_to_another_mode():
    process = start(draws=None, max_evaluations=4000).another(start().setup, CLOUD, least=300)
    values = density(process.propose())
    values[::2] = np.nan
    process.advance(values)
    assert len(process.trainer.history) == 2 + 6
    points = process.propose()
    process.advance(np.full(len(points), np.nan))
    assert len(process.trainer.history) == 2 + 6 and not np.any(np.isnan(process.walkers.log_density))


def test_a_warm_up_of_another_mode_searches_for_none_itself():
    process = start().another(start().setup, CLOUD, least=77)
    np.testing.assert_array_equal(process.propose(), CLOUD)
    assert process.options == start().options._replace(search_share=0.0, min_warmup_evaluations=77)


# Warm-up and freeze


def test_evaluations_of_a_mode_that_was_none_are_learned():
    """Values that the surrogate got wrong by forty nats, as in the arm of a mode; afterwards it has them right."""
    process = start()
    drive(process, 60)
    n_fits, n_values = process.trainer.n_fits, len(process.trainer.history)
    x = np.random.default_rng(2).standard_normal((400, 2))
    raised = density(x) + 40.0
    process.relearn(x, raised)
    assert process.trainer.n_fits == n_fits + 1 and len(process.trainer.history) == n_values + 400
    error = process.mixture.surrogate.log_density(x) - raised
    assert np.median(np.abs(error)) < 1.0


def test_warm_up_ends_with_the_options_of_the_main_phase():
    process = start(replace(SMALL, archive_probability=0.3, single_move_probability=0.2, tempered_probability=0.25))
    assert process.density is None and not process.frozen
    drive(process)
    mixture = process.mixture
    found = mixture.archive_probability, mixture.single_move_probability, mixture.tempered_probability
    assert found == (0.3, 0.2, 0.25) and process.frozen
    assert mixture.longest_chain == 2 * mixture.shortest_chain
    at = process.walkers.x
    np.testing.assert_allclose(process.density.log_density(at), mixture.surrogate.log_density(at))


def test_the_main_phase_has_one_walker_for_each_chain():
    process = start()
    assert len(process.walkers) == 4
    drive(process)
    assert len(process.walkers) == 2
    x, value = process.state()
    assert value == density(x[None])[0]


@pytest.mark.parametrize("times", [1, 3])
def test_chains_begin_where_the_frozen_surrogate_has_mass(times):
    """Walkers that came from far away late in warm-up have left states that are no draws of anything."""
    process = start()
    while process.mixture.surrogate is None:
        process.advance(density(process.propose()))
    walkers = len(process._betas)
    for x in np.linspace(60.0, 30.0, times * len(process.trainer._visits)):
        deep = np.full((walkers, 2), x)
        process.trainer.visit(deep, density(deep), process._betas)
    process.finish()
    assert np.all(process.walkers.log_density > -20.0)
    np.testing.assert_array_equal(process.walkers.log_density, density(process.walkers.x))


@pytest.mark.parametrize(("burn_in", "sweeps"), [(0, 0), (5, 5)])
def test_sweeps_after_the_freeze_are_warm_up(burn_in, sweeps):
    process = start(replace(SMALL, post_freeze_burn_in=burn_in))
    frozen = 0
    while process.warming_up:
        before = process.frozen
        record = process.advance(density(process.propose()))
        frozen += before and record is not None
    assert frozen == sweeps


def test_warm_up_can_be_ended_at_any_time():
    process = start(max_evaluations=None)
    drive(process, 3)
    process.end_warmup()
    assert len(drive(process)) <= 1 + 5 and process.mixture.surrogate is None  # no values for a fit
    moves = {MOVES[m] for record in drive(process, 20) for m in record.stats["move"]}
    assert moves <= {"differential-evolution", "snooker"}


def test_nothing_is_learned_after_the_freeze_but_with_vanishing_adaptation():
    vanishing = replace(SMALL, adaptation="vanishing", first_refit=10)
    for options, learns in ((SMALL, False), (vanishing, True)):
        process = start(options)
        drive(process)
        n, mixture = len(process.trainer.history), process.mixture
        drive(process, 12)
        assert (len(process.trainer.history) > n) == learns == (process.mixture is not mixture)
        assert (process.density is None) == learns


# What it reports


def test_reports():
    process = start()
    before = process.report()
    assert before["n_refits"] == 0 and "surrogate_loo_sd" not in before and "n_history" not in before
    drive(process)
    report = process.report()
    json.dumps(report)
    assert report["n_refits"] == process.trainer.n_fits > 0 and report["n_probes"] > 0
    assert report["inner_chain_length"] == process.mixture.longest_chain
    assert report["surrogate_loo_sd"] == process.mixture.surrogate.loo_sd
    assert report["noise_sd"] is None and "surrogate_wall" not in report and "mode_masses" not in report


def test_a_history_is_counted_apart():
    x = np.random.default_rng(5).standard_normal((300, 2))
    process = start(history=(x, density(x)))
    drive(process)
    assert process.report()["n_history"] == 300 and process.setup.history is None


# Gradients at some points


class Counted:
    """The gradient in the half-space x_0 > 0."""

    def __init__(self, factor=1.0):
        self.factor, self.points = factor, []

    def __call__(self, x):
        self.points.append(x)
        return -self.factor * x if x[0] > 0 else None


def started_with(gradients, **setup):
    return start(replace(SMALL, gradients=gradients), **setup)


def drive_to_the_freeze(process):
    points = []
    while process.warming_up:
        points.append(process.propose())
        process.advance(density(points[-1]))
    return np.vstack(points)


def test_gradients_are_asked_for_at_evaluated_points_of_warm_up():
    gradient = Counted()
    process = started_with(gradient)
    points = drive_to_the_freeze(process)
    facts, n = process.report(), len(gradient.points)
    assert 20 < n == len({tuple(x) for x in gradient.points}) == facts["n_gradients"] + facts["n_gradients_missing"]
    evaluated = {tuple(x) for x in np.vstack([process.setup.initial, points])}
    assert all(tuple(x) in evaluated for x in gradient.points)
    assert facts["n_gradients"] == sum(x[0] > 0 for x in gradient.points)
    assert facts["gradient_error"] < 1e-3
    drive(process, 20)
    assert len(gradient.points) == n
    known = process.trainer.history.gradients
    np.testing.assert_array_equal(known[~np.isnan(known[:, 0])], -process.trainer.history.x[~np.isnan(known[:, 0])])


def test_a_fit_has_enough_gradients_at_some_time():
    process = start(replace(SMALL, gradients=np.negative, fit=replace(FIT, max_values=40)))
    drive_to_the_freeze(process)
    assert 20 <= process.report()["n_gradients"] < 40  # 20 that count; some of the first were too deep


def test_no_gradient_of_deep_points():
    process = started_with(np.negative)
    x = np.array([[0.0, 0.0], [0.5, 0.0], [30.0, 0.0], [0.0, 0.1]])
    assert process.trainer.needs_gradient(x, density(x)).tolist() == [True, True, False, True]
    assert process.trainer.needs_gradient(x, np.full(4, -np.inf)).tolist() == [False] * 4


def test_gradients_make_the_first_fit_earlier():
    def first_fit(gradients):
        process = started_with(gradients)
        while process.mixture.surrogate is None:
            process.advance(density(process.propose()))
        return process.trainer.n_own

    assert first_fit(np.negative) < 60 < 120 <= first_fit(None)


def test_a_gradient_of_the_wrong_sign_is_seen_at_the_start():
    process = started_with(Counted(-1.0))
    with pytest.warns(kmc.KmcWarning, match="The gradient disagrees with differences"):
        process.advance(density(process.propose()))
    assert process.report()["gradient_error"] > 1


def test_a_function_without_any_gradient_changes_no_draw():
    def draws(**options):
        sampler = replace(SMALL, **options)
        idata = kmc.sample(lambda x: -0.5 * x @ x, dim=2, sampler=sampler, max_evaluations=500, seed=2, progress=False)
        return idata.posterior["x"].values

    np.testing.assert_array_equal(draws(), draws(gradients=lambda x: None))


def test_a_run_with_gradients_is_resumed(tmp_path):
    """With a function that cannot be pickled."""
    sampler = replace(SMALL, gradients=lambda x: -x if x[1] > 0 else None)
    options = {"dim": 2, "sampler": sampler, "max_evaluations": 400, "seed": 3, "progress": False}
    expected = kmc.sample(lambda x: -0.5 * x @ x, **options)
    path = tmp_path / "run.zarr"
    kmc.sample(lambda x: -0.5 * x @ x, store=path, callback=lambda record: record.draw >= 15, **options)
    resumed = kmc.sample(lambda x: -0.5 * x @ x, store=path, resume=True, **options)
    np.testing.assert_array_equal(resumed.posterior["x"].values, expected.posterior["x"].values)
    assert resumed.attrs["n_gradients"] == expected.attrs["n_gradients"]
