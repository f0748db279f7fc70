"""Models whose simulator and likelihood are apart."""

import dataclasses
import pickle
import warnings
from itertools import pairwise

import arviz as az
import numpy as np
import pytest
import scipy.stats

import kmc
from kmc.likelihoods import Custom, Normal, Poisson
from tests.values import groups as groups_of

T = np.linspace(0.0, 3.0, 12)
DATA = 2.0 * np.exp(-1.2 * T) + 0.1 * np.random.default_rng(0).standard_normal(12)
PRIORS = {"start": kmc.HalfNormal(5), "rate": kmc.HalfNormal(2), "sigma": kmc.HalfNormal(1)}
ON_DRAWS = ("log_likelihood", "outputs", "posterior_predictive")


def decay(p):
    return p["start"] * np.exp(-p["rate"] * T)


def both(p):
    return {"level": decay(p), "total": np.array([p["start"] / p["rate"]])}


def fragile(p):
    if p["rate"] > 1.4:
        raise RuntimeError("no convergence")
    return decay(p)


def log_likelihood(p):
    z = (DATA - decay(p)) / p["sigma"]
    return -0.5 * z * z - 0.5 * np.log(2.0 * np.pi) - np.log(p["sigma"])


def model(
    simulator=decay,
    likelihood=None,
    *,
    inputs=None,
    parameters=PRIORS,
    save_outputs=True,
    **options,
):
    return kmc.Model(
        simulator=simulator,
        inputs=inputs,
        likelihood=Normal(DATA, sd="sigma") if likelihood is None else likelihood,
        parameters=parameters,
        save_outputs=save_outputs,
        **options,
    )


def sampled(of, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kmc.KmcWarning)
        return kmc.sample(of, **{"max_evaluations": 300, "seed": 1, "progress": False} | options)


def quick(of, **options):
    return sampled(
        of,
        **{"sampler": "random-walk", "draws": 40, "warmup": 60, "max_evaluations": None} | options,
    )


def same(one, other, groups=("posterior", *ON_DRAWS)):
    return all(one[group].equals(other[group]) for group in groups)


def elpd(idata):
    found = az.loo(idata)
    return float(found.elpd if hasattr(found, "elpd") else found.elpd_loo)  # ArviZ >= 1, and before


@pytest.fixture(scope="module")
def result():
    return sampled(model())


@pytest.mark.slow
def test_the_draws_are_those_of_the_same_log_likelihood(result):
    written_out = sampled(kmc.Model(log_likelihood=log_likelihood, parameters=PRIORS))
    for name in PRIORS:
        one, other = result["posterior"][name], written_out["posterior"][name]
        error = np.sqrt(2.0 / float(kmc.summary(written_out)["ess_bulk"][name]))
        assert abs(float(one.mean() - other.mean())) < 4.0 * error * float(other.std())
    x = np.array([0.3, 0.1, -1.0])
    assert model().call(x)[0] == pytest.approx(
        kmc.Model(log_likelihood=log_likelihood, parameters=PRIORS).call(x)[0]
    )


def test_results_have_data_outputs_and_simulated_data(result):
    assert {"observed_data", *ON_DRAWS} <= groups_of(result)
    np.testing.assert_array_equal(result["observed_data"]["y"], DATA)
    shape = (*result["posterior"]["rate"].shape, 12)
    assert all(result[group]["y"].shape == shape for group in ON_DRAWS)
    assert all(result[group]["y"].dims == ("chain", "draw", "y_dim_0") for group in ON_DRAWS)
    draws = {
        name: variable.values[..., None] for name, variable in result["posterior"].data_vars.items()
    }
    np.testing.assert_allclose(result["outputs"]["y"], decay(draws), rtol=1e-12)
    np.testing.assert_allclose(
        result["log_likelihood"]["y"],
        scipy.stats.norm(decay(draws), draws["sigma"]).logpdf(DATA),
        rtol=1e-9,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        result["log_likelihood"]["y"].sum("y_dim_0"),
        result["blobs"]["total_log_likelihood"],
        rtol=1e-9,
    )
    # simulated data are normal around the outputs, and new at each draw, also where a chain has not
    # moved
    z = (
        (result["posterior_predictive"]["y"] - result["outputs"]["y"])
        / result["posterior"]["sigma"]
    ).values
    assert abs(z.mean()) < 4.5 / np.sqrt(z.size) and abs(z.var() - 1.0) < 4.5 * np.sqrt(
        2.0 / z.size
    )
    assert len(np.unique(result["posterior_predictive"]["y"])) == z.size


@pytest.mark.slow
def test_arviz_takes_the_result(result):
    assert np.isfinite(elpd(result))
    if hasattr(az, "plot_ppc"):
        pytest.importorskip("matplotlib").use("agg")
        az.plot_ppc(result, num_pp_samples=5)
    else:
        az.plot_ppc_dist(result, num_samples=5)


def test_a_seed_gives_the_same_simulated_data_and_another_gives_others():
    one, again, other = quick(model()), quick(model()), quick(model(), seed=2)
    assert same(one, again)
    assert not one["posterior_predictive"].equals(other["posterior_predictive"])


def test_chains_of_independent_runs_have_their_own_data():
    found = quick(model(), independent_runs=2, chains=4)
    predicted = (found["posterior_predictive"]["y"] - found["outputs"]["y"]) / found["posterior"][
        "sigma"
    ]
    assert all(not np.allclose(one, other) for one, other in pairwise(predicted.values))


def test_without_outputs():
    found = quick(model(save_outputs=False))
    assert not {"outputs", "posterior_predictive"} & groups_of(found)
    assert {"log_likelihood", "observed_data"} <= groups_of(found)
    assert found["posterior"].equals(quick(model())["posterior"])


def test_named_outputs_with_dimensions_and_labels():
    likelihoods = {"level": Normal(DATA, "sigma"), "total": Poisson([2])}
    of = model(both, likelihoods, dims={"level": ["time"]}, coords={"time": T})
    found = quick(of)
    for group in ON_DRAWS:
        assert found[group]["level"].dims == ("chain", "draw", "time")
        assert found[group]["total"].dims == ("chain", "draw", "total_dim_0")
        np.testing.assert_array_equal(found[group]["time"], T)
    np.testing.assert_array_equal(found["observed_data"]["time"], T)
    assert (
        found["posterior_predictive"]["total"].dtype.kind
        == found["observed_data"]["total"].dtype.kind
        == "i"
    )
    fixed = of.fix(sigma=0.1)
    assert quick(fixed)["outputs"]["level"].dims == ("chain", "draw", "time")
    replaced = dataclasses.replace(of, dim=None, on_error="reject")
    assert quick(replaced)["outputs"]["level"].dims == ("chain", "draw", "time")


def test_the_simulator_gets_its_inputs_and_may_change_them():
    seen = []

    def vandal(p):
        seen.append(sorted(p))
        out = p["start"] * np.exp(-p["rate"][0] * T)
        p["rate"][:] = np.nan
        p.clear()
        return out

    parameters = {
        "start": kmc.HalfNormal(5),
        "rate": kmc.HalfNormal(2, shape=1),
        "sigma": kmc.HalfNormal(1),
    }
    value, blobs = model(vandal, parameters=parameters).call(np.zeros(3))
    expected = scipy.stats.norm(np.exp(-T), 1.0).logpdf(DATA).sum()
    assert value == pytest.approx(expected) and seen == [["rate", "start"]]
    np.testing.assert_allclose(blobs["outputs.y"], np.exp(-T))
    of = model(
        decay, Normal(DATA, 0.1, observe=lambda y, p: y + p["sigma"]), inputs=["start", "rate"]
    )
    assert of.simulation.inputs == ("start", "rate")
    assert of.call(np.zeros(3))[0] == pytest.approx(
        scipy.stats.norm(np.exp(-T) + 1.0, 0.1).logpdf(DATA).sum()
    )


def test_further_arguments_go_to_the_simulator():
    of = model(
        lambda p, at, scale: scale * p["start"] * np.exp(-p["rate"] * at),
        args=(T,),
        kwargs={"scale": 2.0},
    )
    np.testing.assert_allclose(of.call(np.zeros(3))[1]["outputs.y"], 2.0 * np.exp(-T))


def test_fixed_parameters_are_inputs_and_scales():
    of = model().fix(sigma=0.1, start=2.0)
    value = of.call(np.zeros(1))[0]
    assert of.dim == 1 and of.simulation.inputs == ("start", "rate")
    assert value == pytest.approx(scipy.stats.norm(2.0 * np.exp(-T), 0.1).logpdf(DATA).sum())
    found = quick(of)
    assert set(found["posterior"].data_vars) == {"rate"} and set(
        found["constant_data"].data_vars
    ) == {"start", "sigma"}
    assert np.isfinite(found["posterior_predictive"]["y"]).all()


def test_missing_data():
    gaps = np.where(np.arange(12) == 4, np.nan, DATA)
    broken = model(lambda p: np.where(np.arange(12) == 4, np.nan, decay(p)), Normal(gaps, "sigma"))
    found = quick(broken)
    assert (
        found["log_likelihood"]["y"].shape[2:] == (11,)
        and np.isfinite(found["log_likelihood"]["y"]).all()
    )
    assert found["log_likelihood"]["y"].dims[2] == "y_observed"
    assert found.attrs["n_nonfinite"] == 0
    assert np.isnan(found["posterior_predictive"]["y"].values[..., 4]).all()
    assert np.isnan(found["observed_data"]["y"].values[4])
    whole = quick(model(decay, Normal(gaps, "sigma")))
    assert whole["posterior"].equals(found["posterior"])
    assert np.isfinite(whole["posterior_predictive"]["y"]).all()
    assert np.isfinite(elpd(found))


def test_a_custom_likelihood_has_no_simulated_data():
    def laplace(y, values):
        return -np.abs(DATA - y) / values[0] - np.log(2.0 * values[0])

    found = quick(model(decay, Custom(laplace, ["sigma"])))
    assert not {"posterior_predictive", "observed_data"} & groups_of(found)
    assert found["log_likelihood"]["y"].shape[2:] == found["outputs"]["y"].shape[2:] == (12,)


def test_a_simulator_that_raises_here_and_there():
    found = quick(model(fragile, on_error="reject"))
    assert found.attrs["n_failed"] > 0 and float(found["posterior"]["rate"].max()) <= 1.4
    assert "RuntimeError: no convergence" in found.attrs["rejected"]
    assert all(np.isfinite(found[group]["y"]).all() for group in ON_DRAWS)
    with pytest.raises(kmc.EvaluationError, match="simulator raised RuntimeError: no convergence"):
        quick(model(fragile))


def test_nan_where_there_are_data():
    def undefined(p):
        return decay(p) if p["rate"] < 1.4 else np.full(12, np.nan)

    found = quick(model(undefined))
    assert found.attrs["n_nonfinite"] > 0 and float(found["posterior"]["rate"].max()) <= 1.4
    with pytest.raises(kmc.EvaluationError, match="returned NaN"):
        quick(model(undefined, nonfinite="raise"))


@pytest.mark.parametrize(
    ("simulator", "likelihood", "said"),
    [
        (
            lambda p: decay(p)[:3],
            None,
            r"the output 'y': the outputs have the shape \(3,\): expected \(12,\)",
        ),
        (lambda p: {"y": decay(p)}, None, r"simulator returned a dict of 'y': expected an array"),
        (lambda p: "abc", None, r"simulator returned 'abc' as 'y': expected numbers"),
        (lambda p: None, None, r"simulator returned None as 'y': expected numbers"),
        (
            decay,
            {"level": Normal(DATA, 1.0)},
            r"simulator returned ndarray: expected a dict of 'level', as likelihood",
        ),
        (
            both,
            {"level": Normal(DATA, 1.0)},
            r"a dict of 'level', 'total': expected a dict of 'level'",
        ),
        (
            both,
            {"level": Normal(DATA, 1.0), "total": Poisson([1, 2])},
            r"the output 'total': .* shape \(1,\): .*\(2,\)",
        ),
    ],
)
def test_what_the_simulator_returned_is_named(simulator, likelihood, said):
    with pytest.raises(kmc.EvaluationError, match=said):
        quick(model(simulator, likelihood))


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (
            {"log_density": decay},
            TypeError,
            r"simulator and log_density=.*: expected simulator=, likelihood= and par",
        ),
        (
            {"log_likelihood": decay},
            TypeError,
            r"simulator and log_likelihood=.*: expected simulator=",
        ),
        (
            {"prior_transform": decay},
            TypeError,
            r"simulator and prior_transform=.*: expected simulator=",
        ),
        (
            {"parameters": None, "dim": 3},
            TypeError,
            r"parameters=None: a model with simulator= has parameters by name",
        ),
        (
            {"noisy": True},
            ValueError,
            r"noisy=True and simulator: expected a simulator that returns the same outputs",
        ),
        (
            {"vectorized": True},
            ValueError,
            r"vectorized=True and simulator: expected a simulator of one point",
        ),
        (
            {"simulator": None},
            TypeError,
            r"simulator=None: expected a function of a dict of its inputs",
        ),
        ({"likelihood": 3}, TypeError, r"likelihood=3: expected a likelihood of kmc\.likelihoods"),
        (
            {"likelihood": Normal},
            TypeError,
            r"likelihood=<class .*Normal'>: expected a likelihood of kmc\.likelihoods",
        ),
        ({"likelihood": {}}, ValueError, r"likelihood=\{\} is empty"),
        ({"likelihood": {"a/b": Normal(DATA, 1)}}, ValueError, r"likelihood has the name 'a/b'"),
        ({"likelihood": {"y": 3}}, TypeError, r"likelihood\['y'\]=3: expected a likelihood"),
        (
            {"likelihood": Normal(DATA, "s")},
            ValueError,
            r"likelihood names 's', which is not a parameter: expected some",
        ),
        ({"inputs": "rate"}, TypeError, r"inputs='rate': expected a list of parameters' names"),
        (
            {"inputs": ["r"]},
            ValueError,
            r"inputs has 'r', which is not a parameter: expected some of 'start', 'rate'",
        ),
        (
            {"save_outputs": 1},
            TypeError,
            r"save_outputs=1: pass True to keep the simulator's outputs",
        ),
        (
            {"dims": {"y": ["a", "b"]}},
            ValueError,
            r"dims\['y'\]=\['a', 'b'\]: expected a name for each dimension",
        ),
        ({"dims": {"z": ["a"]}}, ValueError, r"dims has 'z', which is not a parameter"),
        (
            {"dims": {"y": ["time"]}, "coords": {"time": [1, 2]}},
            ValueError,
            r"coords\['time'\] has the shape \(2,\): expected \(12,\), as the data of the output "
            r"'y'",
        ),
    ],
)
def test_bad_arguments_are_named(options, error, said):
    with pytest.raises(error, match=said):
        model(**options)


def test_other_data_take_the_place_of_the_old_ones():
    missing = np.where(T > 2.0, np.nan, np.minimum(DATA, 1.5))
    again = model(
        both, {"level": Normal(missing, "sigma", upper=1.5), "total": Poisson(observed=[2])}
    ).with_data({"level": np.minimum(2 * DATA, 1.5), "total": [3]})
    as_new = Normal(np.where(T > 2.0, np.nan, np.minimum(2 * DATA, 1.5)), "sigma", upper=1.5)
    new = model(both, {"level": as_new, "total": Poisson([3])})
    x = np.array([0.3, -0.2, 0.1])
    assert again.call(x)[0] == new.call(x)[0]
    with pytest.raises(TypeError, match="likelihood of 'y' is a Custom: expected one of data"):
        model(likelihood=Custom(lambda y, _: -(y**2), [])).with_data({"y": DATA})


@pytest.mark.slow
def test_calibration_draws_the_data_by_the_likelihood():
    def simulate(p, rng):
        return {"y": Normal(DATA, "sigma").draw(decay(p), p, rng)}

    options = {
        "n": 3,
        "seed": 1,
        "sampler": "random-walk",
        "draws": 40,
        "warmup": 60,
        "progress": False,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kmc.KmcWarning)
        found = kmc.simulation_based_calibration(model(), **options)
        expected = kmc.simulation_based_calibration(model(), simulate, **options)
    assert found["ranks"].equals(expected["ranks"])
    assert found["ranks"]["rate"].shape == (1, 3)


def test_the_model_pickles():
    again = pickle.loads(
        pickle.dumps(model(both, {"level": Normal(DATA, "sigma"), "total": Poisson([2])}))
    )
    assert np.isfinite(again.call(np.zeros(3))[0])


def test_a_store_has_all_groups_and_its_run_is_resumed(tmp_path):
    whole = quick(model(), draws=60)
    part = quick(model(), draws=60, store=tmp_path / "run", max_evaluations=400)
    assert len(part["posterior"]["draw"]) < 60
    resumed = quick(model(), draws=60, store=tmp_path / "run", resume=True)
    loaded = kmc.load(tmp_path / "run")
    for group in ("posterior", "observed_data", *ON_DRAWS):
        assert resumed[group].equals(loaded[group])
    assert len(loaded["posterior"]["draw"]) == 60
    assert same(whole, resumed)


def test_a_result_is_extended():
    first = quick(model(), draws=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kmc.KmcWarning)
        longer = kmc.extend(first, target=model(), draws=20, progress=False)
    assert all(
        longer[group].isel(draw=slice(0, 30)).equals(first[group])
        for group in ("posterior", *ON_DRAWS)
    )
    z = (
        (longer["posterior_predictive"]["y"] - longer["outputs"]["y"])
        / longer["posterior"]["sigma"]
    ).values
    assert z.shape[1] == 50 and len(np.unique(z)) == z.size
