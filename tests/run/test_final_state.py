"""Runs without a store are continued from their results."""

import arviz
import numpy as np
import pytest

import kmc
from kmc.run.final_state import GROUP
from tests.grids import slow_except
from tests.run.store.runs import SAMPLERS, Interrupted, Stop, groups, log_density, settings
from tests.run.streams import Disorder

pytestmark = pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
MORE = {"target": log_density, "progress": False}


def same_draws(found, expected):
    """Everything except the state, which a run with a store has elsewhere, and the time."""
    assert set(groups(found)) - {GROUP} == set(groups(expected)) - {GROUP}
    for name, group in groups(expected).items():
        for variable in group.data_vars if name != GROUP else ():
            np.testing.assert_array_equal(found[name][variable], group[variable])
    different = {key for key, value in expected.attrs.items() if found.attrs.get(key) != value}
    assert different <= {"created_at", "sampling_time"}


@pytest.mark.parametrize("name", slow_except(list(SAMPLERS), {"delayed", "kernel-hmc", "nystrom"}))
def test_the_draws_are_those_of_a_store(tmp_path, name):
    asked = settings(name, max_evaluations=None, warmup=10)
    result = kmc.sample(log_density, **asked)
    kmc.sample(log_density, store=tmp_path / "run.zarr", **asked)
    expected = kmc.extend(tmp_path / "run.zarr", draws=25, **MORE)
    same_draws(kmc.extend(result, draws=25, **MORE), expected)
    same_draws(kmc.extend(kmc.extend(result, draws=10, **MORE), draws=15, **MORE), expected)
    n = result.posterior.sizes["draw"]
    np.testing.assert_array_equal(expected.posterior["x"][:, :n], result.posterior["x"])


@pytest.mark.slow
def test_a_budget_and_chains_on_their_own(tmp_path):
    """Values of chains that were ahead are not evaluated again."""
    asked = settings("kernel-hmc", draws=None, chains=3)
    result = kmc.sample(log_density, executor=Disorder(1), **asked)
    kmc.sample(log_density, store=tmp_path / "run.zarr", **asked)
    expected = kmc.extend(tmp_path / "run.zarr", max_evaluations=50, **MORE)
    found = kmc.extend(result, max_evaluations=50, executor=Disorder(2), **MORE)
    np.testing.assert_array_equal(found.posterior["x"], expected.posterior["x"])
    assert found.attrs["n_evaluations"] == expected.attrs["n_evaluations"]


def named(p):
    value = -0.5 * (p["a"] ** 2 + np.sum(p["b"] ** 2))
    return value, {"twice": 2 * p["a"], "log_likelihood": {"y": np.full(3, value / 3)}}


@pytest.mark.slow
def test_named_parameters_blobs_independent_runs_and_files(tmp_path):
    model = kmc.Model(
        named, parameters={"a": kmc.Positive(), "b": kmc.Normal(0, 1, shape=2), "c": 2.0}
    )
    asked = settings(
        "kernel-hmc", dim=None, max_evaluations=None, warmup=20, chains=2, independent_runs=2
    )
    kmc.sample(model, store=tmp_path / "run.zarr", **asked)
    expected = kmc.extend(tmp_path / "run.zarr", draws=20, target=model, progress=False)
    result = kmc.sample(model, **asked)
    result.to_netcdf(str(tmp_path / "run.nc"))
    same_draws(
        kmc.extend(arviz.from_netcdf(tmp_path / "run.nc"), draws=20, target=model, progress=False),
        expected,
    )


def test_a_run_that_was_stopped_is_continued():
    asked = settings("random-walk", max_evaluations=None, warmup=10, draws=60)
    whole = kmc.sample(log_density, **asked)
    part = kmc.sample(log_density, callback=lambda progress: progress.draw >= 20, **asked)
    found = kmc.extend(part, draws=60 - part.posterior.sizes["draw"], **MORE)
    np.testing.assert_array_equal(found.posterior["x"], whole.posterior["x"])


def test_what_cannot_be_continued(tmp_path):
    asked = settings("random-walk", max_evaluations=None, warmup=10)
    result = kmc.sample(log_density, **asked)
    with pytest.raises(ValueError, match="draws=None and max_evaluations=None"):
        kmc.extend(result, **MORE)
    with pytest.raises(ValueError, match="target=None: a result does not hold the log-density"):
        kmc.extend(result, draws=5)
    with pytest.raises(ValueError, match="target is another function than that of result: at x"):
        kmc.extend(result, draws=5, target=lambda x: 2 * log_density(x), progress=False)
    with pytest.raises(ValueError, match="result is of a run with dim=2, and this one has 3"):
        kmc.extend(result, draws=5, target=kmc.Model(log_density, dim=3), progress=False)
    with pytest.raises(ValueError, match="result has 20 draws of 2 chains: expected all 40 of 2"):
        kmc.extend(result.sel(draw=slice(0, 19)), draws=5, **MORE)
    with pytest.raises(ValueError, match=r"result has the chains \[1\]: expected all"):
        kmc.extend(result.sel(chain=[1]), draws=5, **MORE)
    with pytest.raises(TypeError, match="result=list: expected what kmc.sample returned"):
        kmc.extend([result], draws=5, **MORE)
    for other in (
        kmc.sample(log_density, store=tmp_path / "run.zarr", **asked),
        kmc.sample(log_density, save_surrogate=False, **asked),
        kmc.sample(Interrupted(60, KeyboardInterrupt()), **asked),
    ):
        with pytest.raises(ValueError, match="result has no final state: .*path of the store"):
            kmc.extend(other, draws=5, **MORE)
    with pytest.raises(kmc.EvaluationError) as caught:
        kmc.sample(Interrupted(60, Stop()), **asked)
    assert GROUP not in groups(caught.value.idata)


def test_a_result_of_somebody_else_needs_trust():
    result = kmc.sample(log_density, **settings("random-walk", max_evaluations=None, warmup=10))
    result[GROUP].attrs["signature"] = "0" * 64
    with pytest.raises(ValueError, match="not made by you on this machine.*trust=True"):
        kmc.extend(result, draws=5, **MORE)
    assert kmc.extend(result, draws=5, trust=True, **MORE).posterior.sizes["draw"] == 45
