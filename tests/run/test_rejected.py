"""What is told about points where the function failed."""

import json
import pickle
import warnings

import numpy as np
import pytest

import kmc
from kmc.run.rejected import Rejected
from kmc.targets.evaluate import Evaluation
from tests.run.streams import Disorder

MODEL = kmc.Model(lambda p: 0.0, parameters={"level": kmc.Real(2), "rate": kmc.Interval(0, 5)})
EMPTY = np.empty((0, 3))
SETTINGS = {"max_evaluations": 400, "draws": None, "seed": 1, "progress": False}


def noted(points, fails, model=MODEL):
    """A record of evaluations of which some fail."""
    rejected = Rejected(model)
    rejected.note(points, [Evaluation(np.nan, None, "ValueError: no") if one else Evaluation(0.0) for one in fails])
    return rejected


def test_the_parameter_that_rejected_points_share_is_named():
    points = np.random.default_rng(0).standard_normal((500, 3))
    rate = MODEL.constrain(points)["rate"]
    found = noted(points, rate > 3.77).summary(EMPTY, 500)
    assert found.n_failed == np.sum(rate > 3.77) > 20
    assert found.common == "all of them have rate > 3.77, and no other evaluation has"
    assert noted(points, points[:, 1] < -1.002).summary(EMPTY, 500).common.startswith("all of them have level[1] < -1,")


@pytest.mark.parametrize("n", [1, 3, 50])
def test_no_parameter_is_named_by_chance(n):
    rng = np.random.default_rng(n)
    for _ in range(20):
        assert noted(rng.standard_normal((500, 3)), np.arange(500) < n).summary(EMPTY, 500).common == ""


def test_points_near_the_draws_come_first_and_are_counted_apart():
    rng = np.random.default_rng(1)
    draws, far = rng.standard_normal((1000, 3)), 30 + rng.standard_normal((100, 3))
    fails = np.arange(1100) % 50 == 0
    rejected = noted(np.vstack([draws, far]), fails)
    assert abs(rejected.summary(draws, 1100).near - 0.02) < 4 * np.sqrt(0.02 / 950)
    listed = rejected.facts(draws)["rejected"]
    assert len(listed) == 20 and max(abs(one["parameters"]["level"]).max() for one in listed) < 5
    assert noted(np.vstack([draws, far]), np.arange(1100) >= 1000).summary(draws, 1100).near == 0.0


def test_of_many_some_are_kept_and_all_are_counted():
    points = np.random.default_rng(2).standard_normal((30_000, 3))
    rejected = noted(points, np.ones(30_000, bool))
    assert rejected.n_failed == 30_000 and len(rejected.facts(EMPTY)["rejected"]) == 20
    assert len(pickle.dumps(rejected.state())) < 500_000


def test_a_record_continues_from_its_state():
    points = np.random.default_rng(3).standard_normal((5000, 3))
    fails = points[:, 0] > 1.0
    half = noted(points[:2500], fails[:2500])
    other = Rejected(MODEL)
    other.restore(pickle.loads(pickle.dumps(half.state())))
    evaluations = [Evaluation(np.nan) if one else Evaluation(0.0) for one in fails]
    for record in (half, other):
        record.note(points[2500:], evaluations[2500:])
    assert half.summary(points, 5000) == other.summary(points, 5000)
    assert str(half.facts(points)) == str(other.facts(points))


class Crashing:
    """It raises at one call in so many."""

    def __init__(self, every):
        self.every, self.calls = every, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls % self.every == 0:
            raise RuntimeError("no steady state")
        return -0.5 * float(x @ x)


@pytest.mark.parametrize("executor", [None, "stream"])
@pytest.mark.parametrize("on_error", ["reject", "retry"])
def test_a_run_goes_on_where_calls_fail(on_error, executor):
    executor = Disorder(1) if executor else None
    model = kmc.Model(Crashing(100), dim=2, on_error=on_error)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        idata = kmc.sample(model, executor=executor, **SETTINGS)
    attrs, rejecting, n = idata.attrs, on_error == "reject", model.log_density.calls // 100
    assert attrs["n_evaluations"] > 390 and n >= 3
    assert attrs["n_failed"] == (n if rejecting else 0) and attrs["n_retried"] == (0 if rejecting else n)
    assert any("RuntimeError: no steady state" in str(one.message) for one in said) == rejecting
    assert len(json.loads(attrs.get("rejected", "[]"))) == (n if rejecting else 0)


def test_a_run_without_any_value_says_why():
    with pytest.raises(ValueError, match=r"start points.*taken as -inf where it failed: \d+ times NaN"):
        kmc.sample(lambda x: np.nan, dim=2, **SETTINGS)


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_failed_calls_are_told_from_nan_after_a_resume(tmp_path):
    def half(x):
        if x[0] > 1.5:
            raise RuntimeError("no")
        return np.nan if x[0] < -1.5 else -0.5 * float(x @ x)

    model = kmc.Model(half, dim=2, on_error="reject")
    expected = kmc.sample(model, **SETTINGS)
    path = tmp_path / "run.zarr"
    for n in (100, 300, 1000):
        idata = kmc.sample(model, store=path, resume=True, callback=lambda p, n=n: p.n_evaluations > n, **SETTINGS)
    assert expected.attrs["n_failed"] > 0 and expected.attrs["n_nonfinite"] > 0
    for name in ("n_failed", "n_nonfinite"):
        assert idata.attrs[name] == expected.attrs[name]
