"""The best evaluation, log-densities without Jacobians, and what is told about points where the
function failed.
"""

import json
import pickle
import warnings

import numpy as np
import pytest
from scipy import stats

import kmc
from kmc.model.evaluate import Evaluation
from kmc.run.evaluation_summary import Rejected
from tests.run.streams import Disorder

OPTIONS = {"draws": 40, "warmup": 40, "sampler": "random-walk", "seed": 1, "progress": False}
pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")

MODEL = kmc.Model(lambda p: 0.0, parameters={"level": kmc.Real(2), "rate": kmc.Interval(0, 5)})
EMPTY = np.empty((0, 3))
SETTINGS = {"max_evaluations": 400, "draws": None, "seed": 1, "progress": False}


class Counted:
    """A log-likelihood that keeps all points and values."""

    def __init__(self):
        self.seen = []

    def __call__(self, p):
        value = -0.5 * float(np.sum((p["b"] - 1.0) ** 2)) - p["a"]
        self.seen.append((value + log_prior(p), p["a"], *p["b"]))
        return value


def log_prior(p):
    return stats.halfnorm.logpdf(p["a"], 0, 2) + stats.norm.logpdf(p["b"]).sum(axis=-1)


def model(function, **options):
    return kmc.Model(
        function, parameters={"a": kmc.HalfNormal(2), "b": kmc.Normal(0, 1, shape=2)}, **options
    )


@pytest.mark.parametrize("independent_runs", [1, 2])
def test_the_best_of_all_evaluations_is_recorded(independent_runs):
    counted = Counted()
    idata = kmc.sample(model(counted), independent_runs=independent_runs, **OPTIONS)
    value, a, *b = max(counted.seen)
    found = kmc.best(idata).evaluation
    assert found.parameters["a"] == a and found.parameters["b"].tolist() == b
    assert found.log_density == pytest.approx(value, rel=1e-12)
    assert found.log_prior == pytest.approx(log_prior(found.parameters), rel=1e-12)
    assert found.total_log_likelihood == pytest.approx(value - found.log_prior, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["kernel-hmc", "random-walk", "adaptive-metropolis"])
@pytest.mark.parametrize("vectorized", [False, True])
def test_each_draw_has_the_parts_of_its_log_density(sampler, vectorized):
    def likelihood(p):
        return -0.5 * np.sum((p["b"] - 1.0) ** 2, axis=-1) - p["a"]

    options = {
        **OPTIONS,
        "sampler": sampler,
        "max_evaluations": 900,
        "warmup": None,
        "save_warmup": True,
    }
    idata = kmc.sample(model(likelihood, vectorized=vectorized), **options)
    for phase in ("", "warmup_"):
        draws, blobs = idata[f"{phase}posterior"], idata[f"{phase}blobs"]
        p = {"a": draws["a"].values, "b": draws["b"].values}
        np.testing.assert_allclose(blobs["log_prior"], log_prior(p), rtol=1e-10)
        np.testing.assert_allclose(blobs["total_log_likelihood"], likelihood(p), rtol=1e-10)
        lp = idata[f"{phase}sample_stats"]
        np.testing.assert_allclose(lp["constrained_lp"], log_prior(p) + likelihood(p), rtol=1e-9)
        np.testing.assert_allclose(lp["lp"], lp["constrained_lp"] + np.log(p["a"]), rtol=1e-9)


def test_parameters_without_names_or_constraints_have_no_further_variables():
    idata = kmc.sample(lambda x: -0.5 * float(x @ x), dim=2, **OPTIONS)
    assert "constrained_lp" not in idata["sample_stats"] and not hasattr(idata, "blobs")
    assert json.loads(idata.attrs["best"]).keys() == {"parameters", "log_density"}


def test_a_store_has_them_too_and_a_resumed_run_remembers_the_best(tmp_path):
    whole = kmc.sample(model(Counted()), **OPTIONS)
    options = {**OPTIONS, "store": tmp_path / "run.zarr"}
    kmc.sample(model(Counted()), **options, callback=lambda progress: progress.n_evaluations > 250)
    resumed = kmc.sample(model(Counted()), **options, resume=True)
    for found in (resumed, kmc.load(tmp_path / "run.zarr")):
        assert found.attrs["best"] == whole.attrs["best"]
        np.testing.assert_array_equal(
            found["sample_stats"]["constrained_lp"], whole["sample_stats"]["constrained_lp"]
        )
        np.testing.assert_array_equal(found["blobs"]["log_prior"], whole["blobs"]["log_prior"])


def test_a_prior_of_ones_own_is_added_to_declared_ones_and_blobs_of_its_name_are_kept():
    parameters = {"a": kmc.Normal(0, 1), "c": kmc.Real()}
    both = kmc.Model(
        log_likelihood=lambda p: -1.0,
        log_prior=lambda p: stats.norm.logpdf(p["c"]),
        parameters=parameters,
    )
    idata = kmc.sample(both, **OPTIONS)
    draws = idata["posterior"]
    expected = stats.norm.logpdf(draws["a"]) + stats.norm.logpdf(draws["c"])
    np.testing.assert_allclose(idata["blobs"]["log_prior"], expected, rtol=1e-12)
    np.testing.assert_array_equal(idata["blobs"]["total_log_likelihood"], -1.0)
    own = kmc.Model(lambda p: (-(p["c"] ** 2), {"log_prior": 7.0}), parameters=parameters)
    np.testing.assert_array_equal(kmc.sample(own, **OPTIONS)["blobs"]["log_prior"], 7.0)


BOX = {"a": kmc.Interval(0, 1)}
UNIT = {"a": kmc.Uniform(0, 1)}


def warned(target, **options):
    idata = kmc.sample(target, **{**OPTIONS, **options})
    return "not-a-logarithm" in json.loads(idata.attrs["warning_codes"])


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (lambda x: float(np.exp(-0.5 * x @ x)), {"dim": 2}),
        (
            lambda x: float(stats.norm.pdf(x, 0, 0.1).prod()),
            {"dim": 2, "initial": np.full((4, 2), 0.3)},
        ),
        (kmc.Model(lambda x: stats.norm.pdf(x).prod(axis=1), dim=3, vectorized=True), {}),
        (kmc.Model(lambda p: float(stats.norm.pdf(p["a"])), parameters={"a": kmc.Real()}), {}),
        (kmc.Model(lambda p: float(np.exp(-50 * (p["a"] - 0.5) ** 2)), parameters=BOX), {}),
        (
            kmc.Model(lambda p: 1e-40 * float(np.exp(-50 * (p["a"] - 0.5) ** 2)), parameters=UNIT),
            {},
        ),
        (
            kmc.Model(
                log_likelihood=lambda x: np.exp(-x @ x), log_prior=lambda x: -0.5 * x @ x, dim=1
            ),
            {},
        ),
    ],
)
@pytest.mark.parametrize("independent_runs", [1, 2])
def test_a_density_in_place_of_its_logarithm_has_one_warning(target, options, independent_runs):
    assert warned(target, **options, max_evaluations=300, independent_runs=independent_runs)


def test_the_default_sampler_has_it_too():
    model = kmc.Model(lambda p: float(stats.norm.pdf(p["a"])), parameters={"a": kmc.Real()})
    assert warned(model, sampler="kernel-hmc", warmup=4, draws=None, max_evaluations=60)


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (lambda x: -0.5 * float(x @ x), {"dim": 2}),
        (lambda x: 0.0 if np.all(np.abs(x) < 1) else -np.inf, {"dim": 2}),
        (lambda x: 0.5 * float(x[0]) if 0 < x[0] < 1 else -np.inf, {"dim": 1}),
        (
            lambda x: float(stats.norm.logpdf(x, 0, 1e-9).sum()),
            {"dim": 2, "initial": 1e-9 * np.eye(4, 2)},
        ),
        (kmc.Model(lambda p: 0.0, parameters={**BOX, "b": kmc.Simplex(3)}), {}),
        (kmc.Model(lambda p: 0.0, parameters={"a": kmc.Normal(0, 1)}), {}),
        (kmc.Model(lambda p: float(stats.beta.logpdf(p["a"], 2, 2)), parameters=BOX), {}),
        (kmc.Model(lambda p: 1.0 - abs(p["a"] - 0.9), parameters={"a": kmc.Positive()}), {}),
    ],
)
def test_a_log_density_is_not_taken_for_a_density(target, options):
    assert not warned(target, **options, max_evaluations=600)


def test_a_resumed_run_remembers_that_values_were_negative(tmp_path):
    calls, values = [], {}

    def sign_of_logarithm(x):
        calls.append(x)
        value = -0.5 * float(x @ x) if len(calls) < 200 else float(np.exp(-0.5 * x @ x))
        return values.setdefault(x.tobytes(), value)

    options = {**OPTIONS, "dim": 2, "store": tmp_path / "run.zarr"}
    kmc.sample(sign_of_logarithm, **options, callback=lambda progress: progress.n_evaluations > 250)
    assert len(calls) < 300 and not warned(sign_of_logarithm, **options, resume=True)


def noted(points, fails, model=MODEL):
    """A record of evaluations of which some fail."""
    rejected = Rejected(model)
    rejected.note(
        points,
        [Evaluation(np.nan, None, "ValueError: no") if one else Evaluation(0.0) for one in fails],
    )
    return rejected


def test_the_parameter_that_rejected_points_share_is_named():
    points = 2.0 * np.random.default_rng(0).standard_normal((500, 3))
    rate = MODEL.constrain(points)["rate"]
    found = noted(points, rate > 3.8).summary(EMPTY, 500)
    assert found.n_failed == np.sum(rate > 3.8) > 20
    assert found.common == "all of them have rate > 3.8, and no other evaluation has"
    assert (
        noted(points, points[:, 1] < -1.002)
        .summary(EMPTY, 500)
        .common.startswith("all of them have level[1] < -1,")
    )


@pytest.mark.parametrize("n", [1, 3, 50])
def test_no_parameter_is_named_by_chance(n):
    rng = np.random.default_rng(n)
    for _ in range(20):
        assert (
            noted(rng.standard_normal((500, 3)), np.arange(500) < n).summary(EMPTY, 500).common
            == ""
        )


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


class Crashing:
    """It raises at one call in so many."""

    def __init__(self, every):
        self.every, self.calls = every, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls % self.every == 0:
            raise RuntimeError("no steady state")
        return -0.5 * float(x @ x)


@pytest.mark.slow
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
    assert attrs["n_failed"] == (n if rejecting else 0) and attrs["n_retried"] == (
        0 if rejecting else n
    )
    assert any("RuntimeError: no steady state" in str(one.message) for one in said) == rejecting
    assert len(json.loads(attrs.get("rejected", "[]"))) == (n if rejecting else 0)


def test_a_run_without_any_value_says_why():
    with pytest.raises(
        ValueError, match=r"start points.*taken as -inf where it failed: \d+ times NaN"
    ):
        kmc.sample(lambda x: np.nan, dim=2, **SETTINGS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_failed_calls_are_told_from_nan_after_a_resume(tmp_path):
    def half(x):
        if x[0] > 1.5:
            raise RuntimeError("no")
        return np.nan if x[0] < -1.5 else -0.5 * float(x @ x)

    model = kmc.Model(half, dim=2, on_error="reject")
    settings = {**SETTINGS, "max_evaluations": 200}
    expected = kmc.sample(model, **settings)
    path = tmp_path / "run.zarr"
    for n in (100, 1000):
        idata = kmc.sample(
            model, store=path, resume=True, callback=lambda p, n=n: p.n_evaluations > n, **settings
        )
    assert expected.attrs["n_failed"] > 0 and expected.attrs["n_nonfinite"] > 0
    for name in ("n_failed", "n_nonfinite"):
        assert idata.attrs[name] == expected.attrs[name]
