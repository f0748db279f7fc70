"""Stan models: a stand-in with the interface that BridgeStan documents, and a real model where one
can be compiled.
"""

import json
import math
import pickle
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import kmc
from kmc.model.evaluate import Evaluator, evaluate_point

DATA = {"y": [1.0, 3.0]}


class StandIn:
    """The behavior of a bridgestan.StanModel of this program, written from BridgeStan's
    documentation.

    data { vector[2] y; } parameters { real mu; real<lower=0> tau; matrix[2, 3] m; } transformed
    parameters { vector[2] t = mu + tau * y; } model { if (mu > 5) reject("mu is ", mu); mu ~
    normal(0, 1); tau ~ exponential(1); to_vector(m) ~ normal(0, 1); } generated quantities { real
    new = normal_rng(mu, tau); }

    Names are column-major, parameters come first, then transformed parameters, then generated
    quantities.
    """

    def __init__(self, model_lib, data=None, *, seed=1234, warn=True):
        self.lib_path, self.data, self.seed = str(model_lib), data or "", seed
        self.y = np.array(json.loads(data)["y"])

    def param_unc_num(self):
        return 8

    def param_num(self, *, include_tp=False, include_gq=False):
        return 8 + 2 * include_tp + include_gq

    def param_names(self, *, include_tp=False, include_gq=False):
        names = ["mu", "tau", "m.1.1", "m.2.1", "m.1.2", "m.2.2", "m.1.3", "m.2.3"]
        return names + ["t.1", "t.2"] * include_tp + ["new"] * include_gq

    def new_rng(self, seed):
        return SimpleNamespace(generator=np.random.default_rng(seed))

    def log_density(self, theta_unc, *, propto=True, jacobian=True):
        assert (
            theta_unc.flags.c_contiguous
            and theta_unc.shape == (8,)
            and theta_unc.dtype == np.float64
        )
        if theta_unc[0] > 5:
            raise RuntimeError(f"Exception: mu is {theta_unc[0]}")
        return (
            -0.5 * theta_unc[0] ** 2
            - np.exp(theta_unc[1])
            + jacobian * theta_unc[1]
            - 0.5 * np.sum(theta_unc[2:] ** 2)
        )

    def param_constrain(self, theta_unc, *, include_tp=False, include_gq=False, rng=None):
        assert (
            theta_unc.flags.c_contiguous
            and theta_unc.shape == (8,)
            and theta_unc.dtype == np.float64
        )
        if include_gq and rng is None:
            raise ValueError("Error: must specify rng when including generated quantities")
        mu, tau = theta_unc[0], np.exp(theta_unc[1])
        parts = [[mu, tau], theta_unc[2:]]
        if include_tp:
            parts.append(mu + tau * self.y)
        if include_gq:
            if mu < -5:
                raise RuntimeError("Exception: normal_rng: ...")
            parts.append([rng.generator.normal(mu, tau)])
        return np.concatenate(parts)


@pytest.fixture
def bridgestan(monkeypatch):
    module = ModuleType("bridgestan")
    module.StanModel = StandIn
    monkeypatch.setitem(sys.modules, "bridgestan", module)


@pytest.fixture
def model():
    return kmc.from_stan(StandIn("schools.so", json.dumps(DATA)))


def test_the_density_has_the_jacobian(model):
    x = np.linspace(-1, 1, 8)
    assert model.dim == 8
    assert model.call(x) + model.log_jacobian(x) == model.space.model.log_density(x, jacobian=True)


def test_arrays_have_their_declared_shapes(model):
    points = np.random.default_rng(0).normal(size=(5, 8))
    draws = model.constrain(np.asfortranarray(points))
    assert {name: values.shape for name, values in draws.items()} == {
        "mu": (5,), "tau": (5,), "m": (5, 2, 3), "t": (5, 2), "new": (5,)
    }  # fmt: skip
    np.testing.assert_allclose(draws["tau"], np.exp(points[:, 1]))
    np.testing.assert_array_equal(draws["m"][3], points[3, 2:].reshape(2, 3, order="F"))
    np.testing.assert_allclose(
        draws["t"], draws["mu"][:, None] + draws["tau"][:, None] * np.array(DATA["y"])
    )
    assert model.dims["m"] == ("m_dim_0", "m_dim_1") and model.coords["m_dim_1"].tolist() == [
        0,
        1,
        2,
    ]
    assert model.constrain(points[:0])["m"].shape == (0, 2, 3)


def test_generated_quantities_are_random_and_repeat(model):
    points = np.zeros((400, 8))
    first, again = model.constrain(points)["new"], model.constrain(points)["new"]
    np.testing.assert_array_equal(first, again)
    assert abs(first.mean()) < 4 / 20 and abs(first.var() - 1) < 4 * np.sqrt(2 / 400)
    assert not np.any(model.constrain(points + 1e-9)["new"] == first)


def test_where_stan_gives_up_the_density_is_zero(model):
    x = np.full(8, 6.0)
    with pytest.warns(kmc.KmcWarning, match=r"Stan rejected a point.*mu is 6"):
        assert model.call(x) == -np.inf
    assert model.call(x) == -np.inf  # and says so once: a second warning would be an error


def test_nonfinite_values_and_failures_are_rejected(model):
    class Failing(StandIn):
        def log_density(self, theta_unc, *, propto=True, jacobian=True):
            return np.nan

    failing = Failing("schools.so", json.dumps(DATA))
    assert math.isnan(evaluate_point(kmc.from_stan(failing), np.zeros(8)).value)
    with pytest.raises(
        kmc.EvaluationError, match=r'NaN.*sample kmc.from_stan\(model, nonfinite="reject"\)'
    ):
        evaluate_point(kmc.from_stan(failing, nonfinite="raise"), np.zeros(8))
    failing.log_density = None
    with pytest.raises(
        kmc.EvaluationError, match=r'sample kmc.from_stan\(model, on_error="reject"\)'
    ):
        evaluate_point(kmc.from_stan(failing), np.zeros(8))
    assert Evaluator(kmc.from_stan(failing, on_error="reject"))(np.zeros((1, 8))) == -np.inf


def test_generated_quantities_that_fail_are_missing(model):
    points = np.zeros((2, 8))
    points[1, 0] = -6.0
    with pytest.warns(kmc.KmcWarning, match="generated quantities"):
        draws = model.constrain(points)
    assert np.isnan(draws["new"]).tolist() == [False, True]
    np.testing.assert_array_equal(draws["mu"], [0.0, -6.0])


@pytest.mark.parametrize("data", [DATA, {"y": np.array(DATA["y"])}, json.dumps(DATA)])
def test_from_a_path(data, bridgestan, model):
    made = kmc.from_stan("schools.so", data)
    x = np.linspace(-1, 1, 8)
    assert made.call(x) == model.call(x)
    np.testing.assert_array_equal(made.constrain(x[None])["t"], model.constrain(x[None])["t"])


def test_it_can_be_sent_elsewhere(bridgestan, model):
    arrived = pickle.loads(pickle.dumps(model))
    x = np.linspace(-1, 1, 8)
    assert arrived.call(x) == model.call(x)
    np.testing.assert_array_equal(
        arrived.constrain(x[None])["new"], model.constrain(x[None])["new"]
    )


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_end_to_end(model):
    idata = kmc.sample(model, sampler="random-walk", draws=20, warmup=0, seed=1, progress=False)
    assert idata.posterior["m"].dims == ("chain", "draw", "m_dim_0", "m_dim_1")
    # a step from a start in [-2, 2]
    assert np.all(np.abs(idata.unconstrained_posterior["x"][:, 0]) < 4)
    np.testing.assert_allclose(
        idata.posterior["t"][..., 0], idata.posterior["mu"] + idata.posterior["tau"]
    )


def test_data_and_a_model_that_has_its_own(model):
    with pytest.raises(ValueError, match="data is given"):
        kmc.from_stan(model.space.model, DATA)


def test_something_else_is_refused():
    with pytest.raises(TypeError, match=r"model=3: expected a bridgestan.StanModel or the path"):
        kmc.from_stan(3)


PROGRAM = """
data { vector[2] y; }
parameters { real mu; real<lower=0> tau; matrix[2, 3] m; }
transformed parameters { vector[2] t = mu + tau * y; }
model { mu ~ normal(0, 1); tau ~ exponential(1); to_vector(m) ~ normal(0, 1); }
generated quantities { real new = normal_rng(mu, tau); }
"""


def test_a_real_model(tmp_path, model):
    """The stand-in behaves like BridgeStan."""
    bridgestan = pytest.importorskip("bridgestan")
    if not bridgestan.compile.get_bridgestan_path(download=False):
        pytest.skip("BridgeStan's sources are not installed, so no model can be compiled")
    path = tmp_path / "model.stan"
    path.write_text(PROGRAM)
    real = kmc.from_stan(path, DATA)
    points = np.random.default_rng(0).normal(size=(5, 8))
    differences = [real.call(x) - model.call(x) for x in points]
    np.testing.assert_allclose(differences, differences[0], atol=1e-10)
    expected = model.constrain(points)
    for name, values in real.constrain(points).items():
        assert name == "new" or np.allclose(values, expected[name])
