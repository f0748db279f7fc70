"""Known values among the parameters."""

import dataclasses

import numpy as np
import pytest

import kmc
from kmc.model.evaluate import evaluate_point

SETTINGS = {"sampler": "random-walk", "draws": 30, "warmup": 5, "seed": 1, "progress": False}
PRIORS = {"a": kmc.Normal(0, 1), "b": kmc.Uniform(0, 5), "c": kmc.Real(2)}


def difference(p):
    return -0.5 * (p["a"] - p["b"]) ** 2 - np.sum((p["c"] - p["a"]) ** 2)


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
@pytest.mark.parametrize("given", [3.0, 3, kmc.Fixed(3.0)])
def test_a_number_is_not_sampled(given, tmp_path):
    model = kmc.Model(difference, parameters=PRIORS | {"b": given})
    assert model.dim == 3 and list(model.dims) == ["a", "c"]
    x = np.array([0.2, 1.0, -1.0])
    assert model.call(x) == difference({"a": 0.2, "b": 3.0, "c": x[1:]})
    idata = kmc.sample(model, store=tmp_path / "run.zarr", **SETTINGS)
    for found in (idata, kmc.load(tmp_path / "run.zarr")):
        assert set(found.posterior.data_vars) == {"a", "c"} and set(found.prior.data_vars) == {"a"}
        assert float(found.constant_data["b"]) == 3.0
    by_hand = kmc.Model(
        lambda p: difference(p | {"b": 3.0}), parameters={"a": PRIORS["a"], "c": PRIORS["c"]}
    )
    expected = kmc.sample(by_hand, **SETTINGS)
    np.testing.assert_array_equal(idata.posterior["a"], expected.posterior["a"])


def test_parameters_can_be_fixed_later():
    initial = {"a": [0.0, 1.0], "b": [1.0, 2.0], "c": np.ones((2, 2))}
    model = kmc.Model(
        log_likelihood=difference,
        log_prior=lambda p: -p["b"],
        parameters=PRIORS,
        initial=initial,
        dims={"c": ["city"]},
        coords={"city": ["Rome", "Oslo"]},
    )
    fixed = model.fix(b=3.0)
    assert fixed.dim == model.dim - 1 and fixed.dims == {"a": (), "c": ("city",)}
    np.testing.assert_array_equal(fixed.initial, model.initial[:, [0, 2, 3]])
    value, blobs, _ = evaluate_point(fixed, np.zeros(3))
    assert blobs["log_prior"] == -3.0 + kmc.Normal(0, 1).distribution.logpdf(0)
    assert value == blobs["total_log_likelihood"] + blobs["log_prior"]
    both = fixed.fix(c=[1.0, 2.0])
    assert both.dim == 1 and both.data["constant_data"]["c"][0] == ("city",)
    assert model.fix(c=[1.0, 2.0], b=3.0).call(np.zeros(1))[0] == both.call(np.zeros(1))[0]
    assert dataclasses.is_dataclass(both) and model.dim == 4  # the model itself is unchanged


def test_a_vectorized_function_gets_a_row_for_each_point():
    seen = {}

    def log_density(p):
        seen.update(p)
        return -(p["a"] ** 2)

    model = kmc.Model(
        log_density, parameters={"a": kmc.Real(), "b": 3.0, "c": kmc.Fixed([1, 2])}, vectorized=True
    )
    model.call(np.zeros((4, 1)))
    assert seen["b"].tolist() == [3.0] * 4 and seen["c"].shape == (4, 2)


def test_the_function_may_modify_its_arrays():
    def log_density(p):
        p["c"] += 1.0
        return -(p["a"] ** 2) - p["c"].sum()

    model = kmc.Model(log_density, parameters={"a": kmc.Real(), "c": kmc.Fixed([1, 2])})
    assert model.call(np.zeros(1)) == model.call(np.zeros(1)) == -5.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"d": 1.0}, "'d' is not a parameter: expected some of a, b, c"),
        ({"b": 9.0}, "'b' has the value 9.0 .*: expected numbers between 0 and 5"),
        ({"c": 1.0}, r"'c' has values of shape \(1,\): expected real numbers of shape \(n, 2\)"),
        ({"b": np.nan}, "value=nan: expected a finite number"),
        ({"a": 0.0, "b": 1.0, "c": [0.0, 0.0]}, "expected at least one that is not fixed"),
    ],
)
def test_what_cannot_be_fixed(values, message):
    with pytest.raises(ValueError, match=message):
        kmc.Model(difference, parameters=PRIORS).fix(**values)


def test_a_vector_has_no_names_to_fix():
    with pytest.raises(TypeError, match="for models with parameters by name"):
        kmc.Model(lambda x: 0.0, dim=2).fix(b=3.0)


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_predictive_draws_know_fixed_values():
    idata = kmc.sample(kmc.Model(difference, parameters=PRIORS | {"b": 3.0}), **SETTINGS)
    found = kmc.predictive(idata, lambda p, rng: {"y": p["a"] + p["b"]})
    np.testing.assert_allclose(found["posterior_predictive"]["y"], idata.posterior["a"] + 3.0)
