import math

import numpy as np
import pytest

import kmc
from kmc.errors import EvaluationError
from kmc.run.blobs import BlobStore
from kmc.run.executors import InProcess
from kmc.run.request import Request
from kmc.run.run import Run
from kmc.targets.model import Model


def log_density(x):
    value = -0.5 * float(x @ x) - 0.1 * float(x[0]) ** 4
    return value, {"twice": 2 * x, "value": value, "count": 3}


def sampled(function, **options):
    options = {"dim": 3, "draws": 60, "seed": 1, "progress": False, **options}
    if isinstance(function, Model):
        del options["dim"]
    return kmc.sample(function, **options)


@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
@pytest.mark.parametrize(
    ("sampler", "replicas"),
    [(kmc.KernelHMC(), 1), (kmc.KernelHMC(adaptation="vanishing"), 2), ("adaptive-metropolis", 2), ("random-walk", 1)],
    ids=["kernel-hmc", "vanishing", "adaptive", "random-walk"],
)
def test_blobs_belong_to_their_draws(sampler, replicas):
    idata = sampled(log_density, sampler=sampler, replicas=replicas, warmup=100, save_warmup=True)
    for group, stats in (("posterior", "sample_stats"), ("warmup_posterior", "warmup_sample_stats")):
        np.testing.assert_array_equal(idata[group]["twice"], 2 * idata[group]["x"].values)
        np.testing.assert_array_equal(idata[group]["value"], idata[stats]["lp"])
        assert np.all(idata[group]["count"] == 3) and idata[group]["count"].dtype.kind == "i"
    assert idata.posterior["twice"].dims == ("chain", "draw", "twice_dim_0")
    assert idata.posterior["value"].dims == ("chain", "draw")


@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
def test_a_noisy_state_has_the_blobs_of_its_own_estimate():
    rng = np.random.default_rng(0)

    def noisy(x):
        value = -0.5 * float(x @ x) + 0.5 * rng.standard_normal()
        return value, {"value": value}

    idata = sampled(Model(noisy, dim=2, noisy=True), save_warmup=True, warmup=100)
    np.testing.assert_array_equal(idata.posterior["value"], idata.sample_stats["lp"])
    np.testing.assert_array_equal(idata.warmup_posterior["value"], idata.warmup_sample_stats["lp"])


@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
def test_blobs_change_no_draw_and_may_be_absent_where_the_density_is_zero():
    def bare(x):
        return -math.inf if x[0] < 0 else log_density(x)[0]

    def half(x):
        return -math.inf if x[0] < 0 else log_density(x)

    options = {"sampler": "adaptive-metropolis", "initial": np.abs(np.random.default_rng(0).normal(size=(4, 3)))}
    with_blobs, without = sampled(half, **options), sampled(bare, **options)
    np.testing.assert_array_equal(with_blobs.posterior["x"], without.posterior["x"])
    assert "twice" not in without.posterior and np.all(with_blobs.posterior["value"] == with_blobs.sample_stats["lp"])


def test_only_current_states_are_kept_after_warmup():
    chains = 4
    seed, initial = np.random.SeedSequence(0), np.random.default_rng(0).normal(size=(chains, 3))
    model, sampler = Model(log_density, dim=3), kmc.AdaptiveMetropolis()
    request = Request(model, sampler, chains, 2, 40, 50, None, seed, initial)
    run = Run(request, InProcess())
    sizes = {record.phase: len(run.blobs) for record in run.sweeps()}
    assert sizes["warmup"] > 10 * chains
    assert sizes["done"] <= chains


@pytest.mark.parametrize(
    ("later", "message"),
    [
        ((0.0, {"a": np.zeros(3)}), r"the blobs a \(3,\), where its first value came with the blobs a \(2,\)"),
        ((0.0, {"b": np.zeros(2)}), r"the blobs b \(2,\), where"),
        (0.0, r"no blobs, where its first value came with the blobs a \(2,\)"),
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
    idata = sampled(lambda x: (-0.5 * float(x @ x), {"sum": 0 if x[0] > 0 else float(x[0])}), sampler="random-walk")
    np.testing.assert_array_equal(idata.posterior["sum"], np.minimum(idata.posterior["x"].values[..., 0], 0))


def test_a_store_without_blobs_is_empty():
    assert len(BlobStore(Model(log_density, dim=3))) == 0
