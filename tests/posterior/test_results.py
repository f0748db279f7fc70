"""Results that were joined along their chains, or of which parts were left out, are read as what
they are.
"""

import dataclasses
import warnings

import numpy as np
import pytest
import xarray

import kmc
from kmc.posterior.evidence import Part, _divergence
from kmc.posterior.results import read
from kmc.run.frozen_surrogates import decoded
from tests.posterior.curved import MODEL, log_density

pytestmark = [pytest.mark.usefixtures("few_particles"), pytest.mark.arviz]
FEW = {"max_surrogate_draws": 4_000}
QUICK = {"dim": 2, "draws": None, "max_evaluations": 900, "progress": False}


def joined(results):
    """As users join them: ``arviz.concat`` with ArviZ < 1, ``xarray.concat`` with ArviZ >= 1."""
    import arviz

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of xarray, about results of different length
        if hasattr(arviz, "concat"):
            return arviz.concat(results, dim="chain")
        return xarray.concat(results, dim="chain", join="outer")


@pytest.fixture(scope="module")
def runs():
    """Two runs of different length, the second of two independent runs."""
    first = kmc.sample(log_density, **{**QUICK, "max_evaluations": 1100}, seed=5)
    return [
        first,
        kmc.sample(log_density, **{**QUICK, "max_evaluations": 1400}, seed=6, independent_runs=2),
    ]


@pytest.mark.slow
def test_joined_runs_have_a_surrogate_each(runs, tmp_path):
    import arviz

    runs[0].to_netcdf(tmp_path / "first.nc")
    both = joined([arviz.from_netcdf(tmp_path / "first.nc"), runs[1]])
    assert both["posterior"].sizes["chain"] == 8
    assert np.isnan(both["posterior"]["x"].values).any()  # the shorter one
    expected = kmc.expectations(runs, **FEW)
    assert kmc.expectations(both, **FEW).equals(expected)
    assert expected.attrs["n_draws"] == sum(4 * run["posterior"].sizes["draw"] for run in runs)
    again = read(joined([both, runs[0]]), None).replicates
    assert [len(one.draws) for one in again] == [4, 2, 2, 4]
    for one in (again[0], again[3]):
        np.testing.assert_array_equal(one.draws, runs[0]["posterior"]["x"].values)
        np.testing.assert_array_equal(
            one.density.log_density(one.proposals[1]), runs[0]["proposals"]["surrogate"][1]
        )


@pytest.mark.slow
def test_evidence_and_draws_of_joined_runs(runs):
    both = joined(runs)
    found, apart = kmc.evidence(both), kmc.evidence(runs)
    assert abs(float(found["log_evidence"][0]) - np.log(4 * np.pi)) < 5 * float(found["se"][0])
    assert float(found["se"][0]) < float(apart["se"].min())
    many = kmc.resample(both, draws=500)["posterior"]
    assert many.attrs["total_variation_bound"] < 0.3
    assert many["x"].shape == (4, 500, 2)


def test_the_divergence_of_joined_runs_is_over_the_draws_that_there_are():
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((4, 50, 3)), 1.0 + rng.standard_normal((2, 30, 3))
    both = np.concatenate(
        [first, np.pad(second, ((0, 0), (0, 20), (0, 0)), constant_values=np.nan)]
    )
    known = Part(0.0, 0.0, 0.0, "", np.empty((3, 1)))

    def found(values):
        group = xarray.Dataset({"y": (("chain", "draw", "site"), values)})
        return np.array(_divergence(xarray.DataTree.from_dict({"log_likelihood": group}), known))

    shares = np.array([200, 60]) / 260
    means, errors = np.transpose([found(first), found(second)])
    np.testing.assert_allclose(found(both), [shares @ means, np.linalg.norm(shares * errors)])
    assert means[0] < shares @ means < means[1]


@pytest.mark.parametrize("readout", [kmc.expectations, kmc.evidence, kmc.resample])
def test_parts_of_a_run(idata, readout):
    part = idata.isel(chain=[0, 2, 3])
    with pytest.raises(
        ValueError,
        match=r"result: its chains have the indices \[0, 2, 3\] .*keep all chains of a run",
    ):
        readout(part)
    with pytest.raises(ValueError, match=r"result lacks draws between others"):
        readout(idata.isel(draw=slice(None, None, 2)))


@pytest.mark.slow
def test_the_first_draws_may_be_left_out(runs):
    found = kmc.expectations(runs[0].isel(draw=slice(20, None)), **FEW)
    assert found.attrs["n_draws"] == 4 * (runs[0]["posterior"].sizes["draw"] - 20)
    assert np.all(np.abs(found["mean"].values) < 5 * found["mcse"].values)
    assert np.all(found["mcse"] < 0.6 * found["plain_mcse"])


def test_joined_ladders_are_refused():
    model = kmc.Model(
        log_likelihood=lambda p: -0.5 * p["m"] ** 2, parameters={"m": kmc.Normal(0, 2)}
    )
    one = kmc.sample(model, sampler="tempered", draws=40, warmup=40, seed=1, progress=False)
    with pytest.raises(ValueError, match=r"result has 8 chains, and its run has chains=4"):
        kmc.evidence(joined([one, one]))


@pytest.mark.slow
def test_only_the_parameters_need_a_model(named, monkeypatch):
    """As for a run of a PyMC or Stan model, whose results cannot say how parameters are
    constrained.
    """

    def unknown(group):
        return [dataclasses.replace(part, constrain=None) for part in decoded(group)]

    monkeypatch.setattr("kmc.posterior.results.decoded", unknown)
    for readout in (kmc.expectations, kmc.resample):
        with pytest.raises(
            ValueError, match="model=None: only the model knows how the parameters of result are"
        ):
            readout(named)
    found = kmc.expectations(named, model=MODEL, quantiles=(), **FEW)
    np.testing.assert_allclose(found["plain_mean"].values[2], named["posterior"]["b"].mean())
    assert found.attrs["corrected"] == 1
    assert kmc.plot_surrogate(named).shape[0] == 2
    # which is all that kmc.evidence and kmc.plot_transport take
    assert len(read(named, None).replicates) == 1
