"""Runs that start in some modes and must keep all."""

import json

import numpy as np
import pytest
from scipy.stats import chi2

import kmc
from kmc.surrogates import FitOptions
from tests.grids import slow_except
from tests.mcmc.modes import Mixture, far, starts
from tests.values import check_values

SEARCHING = kmc.KernelHMC(min_search_budget=1000)


def run(target, initial, budget, seed=1, sampler=SEARCHING, **options):
    options |= {"sampler": sampler, "seed": seed, "max_evaluations": budget}
    idata = kmc.sample(target, target.dim, initial=initial, draws=None, progress=False, **options)
    n = target.n
    check_values(idata, target, target.dim)
    target.n = n
    return idata


def weight_error(idata, target, mode=0):
    """Error of the weight of a mode, in standard errors by ArviZ's effective sample size."""
    import arviz as az

    inside = (target.labels(idata.posterior["x"].values) == mode).astype(float)
    assert 0.0 < inside.mean() < 1.0
    ess = float(az.ess({"inside": inside})["inside"])
    p = target.weights[mode]
    return (inside.mean() - p) / np.sqrt(p * (1 - p) / ess), ess


@pytest.mark.parametrize("dim", slow_except([2, 5], {2}))
def test_two_far_modes_that_starts_cover_keep_their_weights(dim):
    target = far(dim)
    idata = run(target, starts(target, np.random.default_rng(dim)), 1000 if dim == 2 else 3000)
    error, ess = weight_error(idata, target)
    assert abs(error) < np.sqrt(chi2.isf(1e-5, 1))
    assert ess > (100 if dim == 2 else 300)
    assert idata.attrs["n_modes"] >= 2  # the search may take one mode for two
    assert json.loads(idata.attrs["warnings"]) == []


@pytest.mark.slow
def test_a_mode_that_one_start_has_seen_is_not_lost():
    target = far(3, weights=(0.4, 0.6), widths=(0.2, 1.0))
    rng = np.random.default_rng(5)
    wide = target.centers[1] + rng.standard_normal((3, 3))
    idata = run(target, np.vstack([wide, target.centers[:1]]), 3000)
    error, _ = weight_error(idata, target)
    assert abs(error) < np.sqrt(chi2.isf(1e-5, 1)) or json.loads(idata.attrs["warnings"])


@pytest.mark.slow
def test_a_narrow_mode_far_away_is_found_from_starts_all_over_the_box():
    """All starts lead to the wide mode; the other one is seen, hundreds of nats deep, from points of the box alone."""
    target = far(5, widths=(1.0, 0.5), apart=13.0)
    initial = np.random.default_rng(0).uniform(-6.0, 6.0, (8, 5))
    idata = kmc.sample(target, dim=5, initial=initial, draws=None, max_evaluations=6000, seed=2, progress=False)
    assert idata.attrs["n_modes"] == 2 and abs(weight_error(idata, target)[0]) < 4.0


@pytest.mark.slow
def test_a_narrow_mode_inside_a_wide_one_has_its_weight():
    """There is no gap between them, and no single surrogate represents both."""
    target = Mixture([0.6, 0.4], np.zeros((2, 3)), [1.0, 0.1])
    sampler = kmc.KernelHMC(min_search_budget=1000, fit=FitOptions(n_basis=30, bandwidths=(1.2, 2.0)))
    idata = run(target, starts(target, np.random.default_rng(1)), 2500, sampler=sampler)
    error, ess = weight_error(idata, target)
    assert abs(error) < np.sqrt(chi2.isf(1e-5, 1))
    assert ess > 300
    assert idata.attrs["n_modes"] == 2


@pytest.mark.slow
def test_searches_can_be_switched_off_and_cost_no_more_than_their_share():
    target = far(2)
    initial = starts(target, np.random.default_rng(2), per_mode=4)[:5]
    off = run(target, initial, 1500, sampler=kmc.KernelHMC(search_share=0.0))
    assert "n_modes" not in off.attrs
    idata = run(target, initial, 1500)
    assert idata.attrs["n_evaluations"] == target.n - off.attrs["n_evaluations"]
    assert idata.attrs["n_evaluations_warmup"] < 0.75 * 1500


def short(**options):
    target = far(2)
    return run(target, starts(target, np.random.default_rng(3)), 1500, **options).posterior["x"].values


@pytest.fixture(scope="module")
def whole():
    """Draws of a short run among two modes."""
    return short()


@pytest.mark.slow
def test_a_run_of_several_modes_is_reproducible(whole):
    np.testing.assert_array_equal(short(), whole)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
@pytest.mark.parametrize("stop", [510, 560])  # in the warm-up of the first mode, and of the second
def test_it_resumes_bit_for_bit_within_the_warm_ups_of_modes(tmp_path, whole, stop):
    store = tmp_path / "run.zarr"
    stopped = short(store=store, callback=lambda progress: progress.n_evaluations > stop)
    assert stopped.shape[1] == 0
    np.testing.assert_array_equal(short(store=store, resume=True), whole)
