"""An interrupted run resumes to the same draws, bit for bit."""

import warnings

import numpy as np
import pytest

import kmc
from tests.grids import slow_except
from tests.run.store.runs import SAMPLERS, Interrupted, Stop, assert_same, log_density, settings

pytestmark = pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")


class Uninterrupted(dict):
    """Results without a store, by sampler: made when they are first asked for."""

    def __missing__(self, name):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self[name] = kmc.sample(log_density, save_warmup=True, **settings(name))
        return self[name]


@pytest.fixture(scope="module")
def uninterrupted():
    """Results without a store, by sampler."""
    return Uninterrupted()


def resumed(path, name, **others):
    return kmc.sample(
        log_density, store=path, resume=True, save_warmup=True, **settings(name, **others)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_except(list(SAMPLERS), {"random-walk", "kernel-hmc"}))
def test_a_store_changes_nothing(tmp_path, uninterrupted, name):
    path = tmp_path / "run.zarr"
    assert_same(resumed(path, name), uninterrupted[name])  # there is nothing to resume yet
    assert_same(resumed(path, name), uninterrupted[name])  # and here it is finished


@pytest.mark.parametrize("k", slow_except([1, 61, 143], {143}))
@pytest.mark.parametrize(
    "name", slow_except(list(SAMPLERS), {"random-walk", "delayed", "kernel-hmc"})
)
@pytest.mark.usefixtures("often")
def test_exceptions(tmp_path, uninterrupted, name, k):
    path = tmp_path / "run.zarr"
    failing = Interrupted(k, Stop())
    with pytest.raises(kmc.EvaluationError):
        kmc.sample(failing, store=path, **settings(name))
    counting = Interrupted(0, Stop())
    result = kmc.sample(counting, store=path, resume=True, save_warmup=True, **settings(name))
    assert_same(result, uninterrupted[name])
    # no more is evaluated again than one sweep
    assert counting.calls + k - 1 <= result.attrs["n_evaluations"] + 8


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    slow_except(
        ["adaptive-metropolis", "kameleon", "langevin", "delayed", "kernel-hmc", "nystrom"],
        {"delayed", "kernel-hmc"},
    ),
)
def test_from_the_history_alone(tmp_path, uninterrupted, name, no_snapshots):
    path = tmp_path / "run.zarr"
    with pytest.raises(kmc.EvaluationError):
        kmc.sample(Interrupted(140, Stop()), store=path, **settings(name))
    assert_same(resumed(path, name), uninterrupted[name])


@pytest.mark.parametrize("snapshots", [True, False])
def test_values_that_were_rejected_are_counted_once(tmp_path, request, snapshots):
    request.getfixturevalue("often" if snapshots else "no_snapshots")

    def holes(x):
        return np.nan if x[0] > 1 else log_density(x)

    options = {"dim": 2}
    expected = kmc.sample(kmc.Model(holes, **options), **settings("random-walk", dim=None))
    path = tmp_path / "run.zarr"
    with pytest.raises(kmc.EvaluationError) as caught:
        failing = kmc.Model(Interrupted(61, Stop(), holes), **options)
        kmc.sample(failing, store=path, **settings("random-walk", dim=None))
    assert 0 < caught.value.idata.attrs["n_nonfinite"] < expected.attrs["n_nonfinite"]
    result = kmc.sample(
        kmc.Model(holes, **options), store=path, resume=True, **settings("random-walk", dim=None)
    )
    assert_same(result, expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", slow_except(["random-walk", "kernel-hmc", "nystrom"], {"kernel-hmc"})
)
def test_ctrl_c_again_and_again(tmp_path, uninterrupted, name):
    path = tmp_path / "run.zarr"
    for k in (30, 50, 40, 20):
        partial = kmc.sample(
            Interrupted(k, KeyboardInterrupt()), store=path, resume=True, **settings(name)
        )
        kept = kmc.load(path)
        assert kept.posterior.sizes["draw"] == partial.posterior.sizes["draw"]
        assert "unfinished" in kept.attrs
    assert_same(resumed(path, name), uninterrupted[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adaptive-metropolis", "kernel-hmc"])
def test_callbacks(tmp_path, uninterrupted, name):
    path, seen = tmp_path / "run.zarr", []
    kmc.sample(log_density, store=path, callback=lambda record: record.draw == 12, **settings(name))
    assert kmc.load(path).posterior.sizes["draw"] == 12
    assert_same(resumed(path, name, callback=seen.append), uninterrupted[name])
    # earlier records are not repeated
    assert next(record.draw for record in seen if record.phase == "sampling") == 13


def test_an_exception_of_the_callback(tmp_path, uninterrupted):
    def callback(record):
        if record.draw == 5:
            raise Stop

    with pytest.raises(Stop):
        kmc.sample(
            log_density, store=tmp_path / "run.zarr", callback=callback, **settings("random-walk")
        )
    assert_same(resumed(tmp_path / "run.zarr", "random-walk"), uninterrupted["random-walk"])


@pytest.mark.parametrize("k", slow_except([40, 190], {190}))
@pytest.mark.parametrize(
    "options",
    slow_except(
        {
            "runs": {"independent_runs": 2, "chains": 4},
            "budget": {"draws": None},
            "starts": {"initial": np.eye(2) * 3},
        },
        {"runs"},
    ),
)
@pytest.mark.parametrize(
    "name", slow_except(["adaptive-metropolis", "kernel-hmc"], {"adaptive-metropolis"})
)
def test_independent_runs_budgets_and_starts(tmp_path, name, options, k, often):
    asked = settings(name, save_warmup=True, **options)
    reference = kmc.sample(log_density, **asked)
    with pytest.raises(kmc.EvaluationError):
        kmc.sample(Interrupted(k, Stop()), store=tmp_path / "run.zarr", **asked)
    assert_same(
        kmc.sample(log_density, store=tmp_path / "run.zarr", resume=True, **asked), reference
    )


def with_blobs(x):
    value = -0.5 * float(x @ x)
    return (value, {"square": x**2, "count": np.int64(3)}) if x[0] < 1.5 else -np.inf


def named():
    return kmc.Model(
        lambda p: (-p["rate"] - 0.5 * np.sum(p["mean"] ** 2), {"twice": 2 * p["rate"]}),
        parameters={"rate": kmc.Positive(), "mean": kmc.Real()},
        dims={"mean": ["school"]},
        coords={"school": ["A", "B"]},
    )


@pytest.mark.parametrize("k", slow_except([4, 130], {130}))
@pytest.mark.parametrize(
    "model", slow_except({"blobs": kmc.Model(with_blobs, dim=2), "named": named()}, {"named"})
)
@pytest.mark.parametrize(
    "name", slow_except(["adaptive-metropolis", "kernel-hmc"], {"adaptive-metropolis"})
)
def test_blobs_and_names(tmp_path, name, model, k, often):
    asked = {**settings(name, save_warmup=True), "dim": None}
    reference = kmc.sample(model, **asked)
    calls = []

    def stop(record):
        calls.append(record)
        return record.n_evaluations >= k

    kmc.sample(model, store=tmp_path / "run.zarr", callback=stop, **asked)
    result = kmc.sample(model, store=tmp_path / "run.zarr", resume=True, **asked)
    assert_same(result, reference)
    assert_same(kmc.load(tmp_path / "run.zarr"), result)


@pytest.mark.parametrize("start", [0, 40])
def test_blobs_where_most_points_have_none(tmp_path, monkeypatch, start):
    """Whole commits without a blob: before the first one, and later."""
    monkeypatch.setattr("kmc.run.store.recorder.COMMIT_SECONDS", 0.0)
    monkeypatch.setattr("kmc.run.store.recorder.SHARE", float("inf"))

    def rarely(x):
        return (-0.5 * float(x @ x), {"twice": 2 * x}) if np.abs(x).max() < 0.3 else -np.inf

    initial = np.vstack([np.full((start, 2), 9.0), np.zeros((2, 2))])
    asked = settings(
        "random-walk", warmup=0, initial=initial, sampler=kmc.RandomWalkMetropolis(scale=1.0)
    )
    reference = kmc.sample(rarely, **asked)
    kmc.sample(
        rarely, store=tmp_path / "run.zarr", callback=lambda record: record.draw == 30, **asked
    )
    assert_same(kmc.sample(rarely, store=tmp_path / "run.zarr", resume=True, **asked), reference)


class Noise:
    """An estimate that differs at each call."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def __call__(self, x):
        return log_density(x) + 0.5 * self.rng.standard_normal() - 0.125


@pytest.mark.parametrize("name", slow_except(["random-walk", "kernel-hmc"], {"random-walk"}))
def test_estimates_are_kept(tmp_path, name, often):
    asked = {**settings(name), "dim": None}
    reference = kmc.sample(kmc.Model(Noise(), dim=2, noisy=True), save_warmup=True, **asked)
    noise = Noise()
    model = kmc.Model(Interrupted(122, Stop(), noise), dim=2, noisy=True)
    with pytest.raises(kmc.EvaluationError):
        kmc.sample(model, store=tmp_path / "run.zarr", **asked)
    n = kmc.load(tmp_path / "run.zarr").attrs["n_evaluations"]
    noise.rng = np.random.default_rng(0)
    noise.rng.standard_normal(n)  # the sweep that failed left no trace
    result = kmc.sample(model, store=tmp_path / "run.zarr", resume=True, save_warmup=True, **asked)
    assert_same(result, reference)


@pytest.mark.parametrize(
    "name", slow_except(["adaptive-metropolis", "kernel-hmc"], {"adaptive-metropolis"})
)
def test_proposals_are_kept_for_a_surrogate_only(tmp_path, name):
    kmc.sample(log_density, store=tmp_path / "run.zarr", **settings(name))
    assert (tmp_path / "run.zarr" / "draws" / "trace" / "proposal").exists() == (
        name == "kernel-hmc"
    )
