import math
from importlib.metadata import version

import arviz as az
import numpy as np
import pytest
from scipy.stats import norm

import kmc
from kmc.errors import EvaluationError
from kmc.model.model import Model
from tests.grids import slow_except

pytestmark = pytest.mark.arviz

ARVIZ = int(version("arviz").split(".")[0])


def log_density(x):
    value = -0.5 * float(x @ x) - 0.1 * float(x[0]) ** 4
    return value, {"twice": 2 * x, "value": value, "count": 3}


def sampled(function, **options):
    options = {"dim": 3, "draws": 60, "seed": 1, "progress": False, **options}
    if isinstance(function, Model):
        del options["dim"]
    return kmc.sample(function, **options)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
@pytest.mark.parametrize(
    ("sampler", "independent_runs"),
    slow_except(
        {
            "kernel-hmc": (kmc.KernelHMC(), 2),
            "adaptive": ("adaptive-metropolis", 2),
            "random-walk": ("random-walk", 1),
        },
        {"kernel-hmc", "adaptive"},
    ),
)
def test_blobs_belong_to_their_draws(sampler, independent_runs):
    idata = sampled(
        log_density,
        sampler=sampler,
        independent_runs=independent_runs,
        warmup=100,
        save_warmup=True,
    )
    for phase in ("", "warmup_"):
        blobs = idata[f"{phase}blobs"]
        np.testing.assert_array_equal(blobs["twice"], 2 * idata[f"{phase}posterior"]["x"].values)
        np.testing.assert_array_equal(blobs["value"], idata[f"{phase}sample_stats"]["lp"])
        assert np.all(blobs["count"] == 3) and blobs["count"].dtype.kind == "i"
        assert list(idata[f"{phase}posterior"].data_vars) == ["x"]
    assert idata.blobs["twice"].dims == ("chain", "draw", "twice_dim_0")
    assert idata.blobs["value"].dims == ("chain", "draw")


Y = np.random.default_rng(5).normal([[0.5], [1.0]], 1.0, (2, 12))


def pointwise(x):
    each = -0.5 * np.log(2 * np.pi) - 0.5 * (Y - x[:2, None]) ** 2
    return float(each.sum() - 0.5 * x @ x), each


def one_likelihood(x):
    value, each = pointwise(x)
    return value, {"log_likelihood": each, "fitted": x[:2]}


def two_likelihoods(x):
    value, each = pointwise(x)
    return value, {"log_likelihood": {"first": each[0], "second": each[1]}}


def test_loo_of_a_log_likelihood_works_as_it_stands():
    idata = sampled(one_likelihood, sampler="adaptive-metropolis", draws=800, save_warmup=True)
    assert idata.log_likelihood["log_likelihood"].shape == (4, 800, 2, 12)
    assert "log_likelihood" in idata["warmup_log_likelihood"] and list(
        idata["blobs"].data_vars
    ) == ["fitted"]
    found = az.loo(idata)
    # The posterior is normal, so that what is left out can be integrated: the exact leave-one-out
    # density.
    totals = Y.sum(axis=1, keepdims=True) - Y
    # of 11 observations and the prior
    exact = norm(totals / 12, np.sqrt(1 + 1 / 12)).logpdf(Y).sum()
    assert float(found.elpd_loo if ARVIZ < 1 else found.elpd) == pytest.approx(exact, abs=0.3)


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_several_log_likelihoods_have_names_and_survive_a_store(tmp_path):
    options = {"sampler": "adaptive-metropolis", "independent_runs": 2, "warmup": 60}
    idata = sampled(two_likelihoods, store=tmp_path / "run.zarr", **options)
    for result in (idata, kmc.load(tmp_path / "run.zarr")):
        assert set(result.log_likelihood.data_vars) == {"first", "second"}
        assert result.log_likelihood["first"].dims == ("chain", "draw", "first_dim_0")
        np.testing.assert_array_equal(
            result.log_likelihood["second"], idata.log_likelihood["second"]
        )
    x = idata.posterior["x"].values
    expected = -0.5 * np.log(2 * np.pi) - 0.5 * (Y[1] - x[..., 1:2]) ** 2
    np.testing.assert_allclose(idata.log_likelihood["second"], expected)
    longer = kmc.extend(tmp_path / "run.zarr", draws=10, target=two_likelihoods, progress=False)
    assert longer.log_likelihood["first"].shape == (4, 70, 12)
    assert (
        len(az.loo(longer, var_name="second", pointwise=True)["loo_i" if ARVIZ < 1 else "elpd_i"])
        == 12
    )


@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
def test_a_noisy_state_has_the_blobs_of_its_own_estimate():
    rng = np.random.default_rng(0)

    def noisy(x):
        value = -0.5 * float(x @ x) + 0.5 * rng.standard_normal()
        return value, {"value": value}

    idata = sampled(
        Model(noisy, dim=2, noisy=True), sampler="adaptive-metropolis", save_warmup=True, warmup=100
    )
    np.testing.assert_array_equal(idata.blobs["value"], idata.sample_stats["lp"])
    np.testing.assert_array_equal(idata.warmup_blobs["value"], idata.warmup_sample_stats["lp"])


@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
def test_blobs_change_no_draw_and_may_be_absent_where_the_density_is_zero():
    def bare(x):
        return -math.inf if x[0] < 0 else log_density(x)[0]

    def half(x):
        return -math.inf if x[0] < 0 else log_density(x)

    options = {
        "sampler": "adaptive-metropolis",
        "initial": np.abs(np.random.default_rng(0).normal(size=(4, 3))),
    }
    with_blobs, without = sampled(half, **options), sampled(bare, **options)
    np.testing.assert_array_equal(with_blobs.posterior["x"], without.posterior["x"])
    assert not hasattr(without, "blobs")
    np.testing.assert_array_equal(with_blobs.blobs["value"], with_blobs.sample_stats["lp"])


@pytest.mark.parametrize(
    ("later", "message"),
    [
        (
            (0.0, {"a": np.zeros(3)}),
            r"the blobs a \(3,\), but its first value came with the blobs a \(2,\)",
        ),
        ((0.0, {"b": np.zeros(2)}), r"the blobs b \(2,\), but"),
        (0.0, r"no blobs, but its first value came with the blobs a \(2,\)"),
    ],
)
def test_names_and_shapes_stay_the_same(later, message):
    calls = []

    def changing(x):
        calls.append(x)
        return (0.0, {"a": np.zeros(2)}) if len(calls) < 30 else later

    with pytest.raises(EvaluationError, match=message) as caught:
        sampled(changing, sampler="random-walk")
    np.testing.assert_array_equal(caught.value.position, calls[29])
    assert caught.value.idata.posterior is not None


@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
def test_whole_numbers_become_real_ones_when_they_must():
    idata = sampled(
        lambda x: (-0.5 * float(x @ x), {"sum": 0 if x[0] > 0 else float(x[0])}),
        sampler="random-walk",
    )
    np.testing.assert_array_equal(
        idata.blobs["sum"], np.minimum(idata.posterior["x"].values[..., 0], 0)
    )
