"""The cost of a run, shown at its start."""

import itertools
import time
import warnings

import numpy as np
import pytest

import kmc
from kmc.errors import KmcWarning
from kmc.run import budget


def normal(x):
    return -0.5 * float(x @ x)


def planned(**options):
    run = kmc.iterate(normal, **{"dim": 2, "seed": 1} | options)
    return next(run).planned_evaluations


def test_a_budget_is_the_plan():
    assert planned(max_evaluations=5000) == 5000
    assert planned(max_evaluations=5000, draws=None) == 5000


def test_without_a_budget_draws_and_warmup_are():
    assert planned() == 4 + (int(0.6 * 8000) + 5 * 4) + 4000
    assert planned(draws=100) == 4 + (int(0.6 * 1500) + 5 * 4) + 400
    assert planned(draws=100, warmup=30) == 4 + (30 * 4 + 5 * 4) + 400
    assert (
        planned(draws=100, sampler=kmc.KernelHMC(learning_share=0.2, burn_in=10))
        == 4 + (300 + 10 * 4) + 400
    )
    assert planned(sampler="random-walk", draws=100, warmup=30) == 4 + 4 * (30 + 100)
    assert planned(max_evaluations=None, draws=None, max_time=9.0) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"draws": 60}, {"draws": 20, "warmup": 30}, {"draws": 30, "sampler": "random-walk"}]
)
@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
def test_no_run_takes_more_than_was_planned(options):
    records = list(
        kmc.iterate(
            normal,
            dim=2,
            seed=1,
            sampler=options.pop("sampler", kmc.KernelHMC()),
            **options,
        )
    )
    assert records[-1].n_evaluations <= 1.05 * records[0].planned_evaluations


def test_a_budget_that_fits_no_surrogate_is_said_at_the_start():
    def never(x):
        raise AssertionError("the warning comes first")

    with warnings.catch_warnings():
        warnings.simplefilter("error", KmcWarning)
        with pytest.raises(
            KmcWarning,
            match=r"max_evaluations=3000 is few for 50 parameters: most posteriors .* at least "
            r"4,028\.",
        ):
            kmc.sample(never, dim=50, max_evaluations=3000, progress=False)
        with pytest.raises(
            KmcWarning, match="divided among 2 independent runs, is few for 2 .* at least 136"
        ):
            kmc.iterate(never, dim=2, max_evaluations=40, independent_runs=2)
        kmc.iterate(normal, dim=50, max_evaluations=4028)
        kmc.iterate(normal, dim=2, max_evaluations=68)
        kmc.iterate(normal, dim=50, max_evaluations=3000, sampler="random-walk")
        kmc.iterate(normal, dim=50, max_evaluations=3000, warmup=10)
        kmc.iterate(normal, dim=50, max_evaluations=3000, history=(np.eye(50), np.full(50, -0.5)))


pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")


@pytest.fixture
def log_density(monkeypatch):
    now = [0.0]

    def function(x):
        now[0] += 1.0
        return -0.5 * float(x @ x)

    monkeypatch.setattr(budget.time, "monotonic", lambda: now[0])
    return function


OPTIONS = {"dim": 2, "seed": 1, "progress": False}


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["kernel-hmc", "adaptive-metropolis", "random-walk"])
def test_a_run_stops_when_its_time_is_over_and_keeps_its_draws(log_density, sampler):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", kmc.KmcWarning)
        idata = kmc.sample(log_density, sampler=sampler, draws=10_000, max_time=600, **OPTIONS)
    assert 600 <= idata.attrs["n_evaluations"] < 610  # the sweep under way ends
    assert idata["posterior"].sizes["draw"] > 50
    # a share of one half, and what follows the freeze
    assert idata.attrs["n_evaluations_warmup"] < 400
    assert idata.attrs["stopped_by"] == "max_time"
    assert any("max_time was reached after" in str(warning.message) for warning in caught)


def test_a_clock_that_jumps_changes_nothing(monkeypatch):
    """Durations are those of monotonic clocks."""
    options = OPTIONS | {"sampler": "random-walk", "draws": 200, "max_time": 60}
    calm = kmc.sample(lambda x: -0.5 * float(x @ x), **options)
    jumps = itertools.cycle([1e9, -1e9, 0.0])
    monkeypatch.setattr(time, "time", lambda now=time.time: now() + next(jumps))
    idata = kmc.sample(lambda x: -0.5 * float(x @ x), **options)
    np.testing.assert_array_equal(idata["posterior"]["x"], calm["posterior"]["x"])
    assert (
        idata["posterior"].sizes["draw"] == 200
        and 0 <= idata["posterior"].attrs["sampling_time"] < 60
    )


def test_draws_are_those_of_the_same_run_without_a_limit_as_far_as_they_go(log_density):
    options = OPTIONS | {"sampler": "random-walk", "draws": 100, "warmup": 10}
    whole = kmc.sample(log_density, **options)
    same = kmc.sample(log_density, max_time=10_000, **options)
    part = kmc.sample(log_density, max_time=200, **options)["posterior"]["x"]
    np.testing.assert_array_equal(same["posterior"]["x"], whole["posterior"]["x"])
    assert "stopped_by" not in same.attrs
    np.testing.assert_array_equal(part, whole["posterior"]["x"][:, : part.shape[1]])
    assert 30 < part.shape[1] < 100


def test_too_little_time_for_any_draw(log_density):
    idata = kmc.sample(log_density, max_time=30, **OPTIONS)
    assert idata["posterior"].sizes["draw"] == 0
    assert "raise max_time" in idata.attrs["warnings"]


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["kernel-hmc", "random-walk"])
def test_a_store_is_resumed_and_extended_with_time_anew(log_density, tmp_path, sampler):
    path = tmp_path / "run.zarr"
    options = OPTIONS | {"sampler": sampler, "draws": 150, "store": path}
    first = kmc.sample(log_density, max_time=400, **options)["posterior"]["x"]
    assert 0 < first.shape[1] < 150
    second = kmc.sample(log_density, max_time=100, resume=True, **options)["posterior"]["x"]
    assert 0 < second.shape[1] - first.shape[1] <= 27
    whole = kmc.sample(log_density, resume=True, **options)
    assert whole["posterior"].sizes["draw"] == 150 and "stopped_by" not in whole.attrs
    for part in first, second:
        np.testing.assert_array_equal(part, whole["posterior"]["x"][:, : part.shape[1]])
    longer = kmc.extend(path, draws=1000, max_time=100, target=log_density, progress=False)
    assert (
        longer.attrs["stopped_by"] == "max_time" and 150 < longer["posterior"].sizes["draw"] < 200
    )


@pytest.mark.slow
def test_a_run_whose_warm_up_the_clock_cut_is_replayed_from_its_history(
    log_density, tmp_path, monkeypatch
):
    from kmc.run.store.recorder import Recorder

    options = OPTIONS | {"draws": 100, "store": tmp_path / "run.zarr"}
    first = kmc.sample(log_density, max_time=400, **options)["posterior"]["x"]
    monkeypatch.setattr(Recorder, "_state", lambda self: None)  # as after a change of version
    whole = kmc.sample(log_density, resume=True, **options)["posterior"]["x"]
    np.testing.assert_array_equal(first, whole[:, : first.shape[1]])


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (0, ValueError),
        (-1.0, ValueError),
        (np.inf, ValueError),
        ("60", TypeError),
        (True, TypeError),
    ],
)
def test_invalid_max_time(log_density, value, error):
    with pytest.raises(error, match=r"max_time=.*number of seconds"):
        kmc.sample(log_density, max_time=value, **OPTIONS)
    with pytest.raises(ValueError, match="max_time=None: give at least one"):
        kmc.sample(log_density, draws=None, **OPTIONS)
