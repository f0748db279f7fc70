"""``kmc.predictive``, and draws from a user's prior."""

import numpy as np
import pytest

import kmc

pytestmark = pytest.mark.arviz

QUICK = {"draws": 40, "warmup": 0, "sampler": "random-walk", "seed": 1, "progress": False}


def draw(rng, n):
    return {"mu": rng.normal(3.0, 0.1, n), "sd": rng.gamma(2.0, size=(n, 2))}


def simulate(parameters, rng):
    return {"y": rng.normal(parameters["mu"], parameters["sd"]), "n": rng.poisson(4)}


@pytest.fixture(scope="module")
def model():
    return kmc.Model(
        log_likelihood=lambda p: -0.5 * (p["mu"] - 3.0) ** 2 * np.ones(4),
        log_prior=lambda p: float(-np.sum(p["sd"])),
        parameters={"mu": kmc.Real(), "sd": kmc.Positive(shape=2)},
        prior=draw,
    )


@pytest.fixture(scope="module")
def idata(model):
    return kmc.sample(model, **QUICK)


def test_chains_start_at_draws_of_the_prior(model):
    points = model.constrain(model.initial_points(np.random.default_rng(0), 50))
    assert np.all(np.abs(points["mu"] - 3.0) < 1) and points["sd"].shape == (50, 2)
    expected = draw(np.random.default_rng(0), 50)
    np.testing.assert_allclose(points["sd"], expected["sd"])


def test_the_result_has_draws_of_the_prior(idata):
    assert idata["prior"]["sd"].shape == (1, 500, 2) and idata["prior"]["sd"].dims == (
        "chain",
        "draw",
        "sd_dim_0",
    )
    assert abs(float(idata["prior"]["mu"].mean()) - 3.0) < 0.05
    assert idata["log_likelihood"]["log_likelihood"].shape == (4, 40, 4)


def test_both_groups_are_simulated(idata):
    found = kmc.predictive(idata, simulate, seed=3)
    assert found["posterior_predictive"]["y"].shape == (4, 40, 2)
    assert found["prior_predictive"]["y"].shape == (1, 500, 2)
    assert found["posterior_predictive"]["n"].dtype.kind == "i"
    again = kmc.predictive(idata, simulate, seed=3)
    np.testing.assert_array_equal(again["prior_predictive"]["y"], found["prior_predictive"]["y"])
    replayed = kmc.predictive(idata, lambda p, rng: p["mu"])
    np.testing.assert_array_equal(replayed["posterior_predictive"]["y"], idata["posterior"]["mu"])


def test_a_vector_and_a_store(tmp_path):
    model = kmc.Model(
        lambda x: -0.5 * x @ x, dim=2, prior=lambda rng, n: rng.standard_normal((n, 2))
    )
    idata = kmc.sample(model, store=tmp_path / "run.zarr", **QUICK)
    found = kmc.predictive(tmp_path / "run.zarr", lambda x, rng: x.sum())
    np.testing.assert_allclose(
        found["posterior_predictive"]["y"], idata["posterior"]["x"].sum("x_dim_0")
    )
    np.testing.assert_allclose(found["prior_predictive"]["y"], idata["prior"]["x"].sum("x_dim_0"))


def test_a_model_without_a_prior_has_no_such_groups():
    idata = kmc.sample(lambda x: -0.5 * x @ x, dim=1, **QUICK)
    found = kmc.predictive(idata, lambda x, rng: x)
    assert not hasattr(found, "prior_predictive") and found["posterior_predictive"]["y"].shape == (
        4,
        40,
        1,
    )
    with pytest.raises(ValueError, match=r"prior=None: give kmc.Model"):
        kmc.Model(lambda x: 0.0, dim=1).prior_draws(np.random.default_rng(0), 3)


@pytest.mark.parametrize(
    ("prior", "error", "message"),
    [
        (3, TypeError, r"prior=3: expected a function of a Generator"),
        (lambda rng, n: np.zeros((n, 3)), ValueError, r"prior\(rng, 4\) has shape \(4, 3\)"),
        (
            lambda rng, n: np.full((n, 2), np.nan),
            ValueError,
            r"prior\(rng, 4\)\[0\]=.*expected finite",
        ),
        (
            lambda rng, n: np.zeros((1, 2)),
            ValueError,
            r"prior\(rng, 4\) returned 1 draws: expected 4",
        ),
        (lambda rng, n: "many", TypeError, r"prior\(rng, 4\)='many': expected real numbers"),
    ],
)
def test_bad_priors(prior, error, message):
    with pytest.raises(error, match=message):
        kmc.Model(lambda x: 0.0, dim=2, prior=prior).initial_points(np.random.default_rng(0), 4)


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (None, TypeError, r"f=None: expected a function"),
        (
            lambda p, rng: "a",
            TypeError,
            r"returned 'a' at a draw of the posterior: expected real numbers",
        ),
        (lambda p, rng: {}, ValueError, r"f returned an empty dict"),
        (
            lambda p, rng: {"y": np.zeros(1 + (p["mu"] > 3))},
            ValueError,
            r"y of shape .* and before y of shape",
        ),
        (
            lambda p, rng: {"y" if p["mu"] > 3 else "z": 0.0},
            ValueError,
            r"expected the same names and shapes",
        ),
    ],
)
def test_bad_functions(idata, f, error, message):
    with pytest.raises(error, match=message):
        kmc.predictive(idata, f)


def test_bad_results():
    with pytest.raises(TypeError, match=r"result=float: expected what kmc.sample returned"):
        kmc.predictive(3.0, simulate)
    idata = kmc.sample(lambda x: -0.5 * x @ x, dim=1, **QUICK)
    assert kmc.predictive(idata.isel(draw=[0]), lambda x, rng: x)["posterior_predictive"][
        "y"
    ].shape == (4, 1, 1)
    with pytest.raises(
        ValueError,
        match=r"posterior of dimensions \('chain', 'x_dim_0'\): expected 'chain' and 'draw'",
    ):
        kmc.predictive(idata.isel(draw=0), lambda x, rng: x)
    with pytest.raises(ValueError, match="result has no draws"):
        kmc.predictive(idata.isel(draw=slice(0, 0)), lambda x, rng: x)
