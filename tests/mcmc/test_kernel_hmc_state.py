"""The state of kernel HMC, one step at a time; what it has in common with others is in test_sampler_state.py."""

import json
from dataclasses import replace

import numpy as np
import pytest

import kmc
from kmc.mcmc import KernelHMC, SamplerSetup
from kmc.surrogates import FitOptions

FIT = FitOptions(n_basis=20, bandwidths=(1.2, 2.0))
SMALL = KernelHMC(min_warmup_evaluations=200, post_freeze_burn_in=5, fit=FIT)


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


# Warm-up and freeze


@pytest.mark.parametrize(("burn_in", "sweeps"), [(0, 0), (5, 5)])
def test_sweeps_after_the_freeze_are_warm_up(burn_in, sweeps):
    process = start(replace(SMALL, post_freeze_burn_in=burn_in))
    frozen = 0
    while process.warming_up:
        before = process.frozen
        record = process.advance(density(process.propose()))
        frozen += before and record is not None
    assert frozen == sweeps


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
