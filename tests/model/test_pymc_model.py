"""PyMC models: the density is PyMC's, and so are names, dimensions and starts."""

import json
import pickle
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

import kmc
from kmc.model.evaluate import evaluate_point

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pm = pytest.importorskip("pymc")

import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS", "ignore::FutureWarning"),
    pytest.mark.packages,
]

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
QUICK = "FAST_COMPILE"


@pytest.fixture(autouse=True)
def quick_compilation():
    """Of what PyMC itself compiles; the runs that a fixture makes for several tests have PyTensor's
    own mode.
    """
    with pytensor.config.change_flags(mode=QUICK):
        yield


class Slow(Op):
    """2 x, computed by something that gives no gradient and lets other threads run meanwhile."""

    def make_node(self, x):
        x = pt.as_tensor_variable(x)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        time.sleep(0.001)
        outputs[0][0] = np.asarray(2.0 * inputs[0])


def eight_schools():
    with pm.Model(coords={"school": list("ABCDEFGH"), "unused": [1, 2]}) as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        z = pm.Normal("z", dims="school")
        theta = pm.Deterministic("theta", mu + tau * z, dims="school")
        errors = pm.Data("errors", ERRORS, dims="school")
        pm.Normal("y", theta, errors, observed=EFFECTS, dims="school")
    return model


def everything():
    """Transforms that change the number of values, a potential, imputed values, bounds that depend
    on a variable.
    """
    with pm.Model() as model:
        low = pm.Normal("low", initval=-1.5)
        pm.Uniform("between", low, 3.0, shape=(2, 2))
        pm.Dirichlet("share", np.ones(3))
        pm.LogNormal("scale", shape=2)
        pm.Normal("gap", low, 1.0, observed=np.array([1.0, np.nan, 2.0, np.nan]))
        pm.Potential("bump", -(low**4))
    return model


def black_box():
    with pm.Model() as model:
        rate = pm.Normal("rate", 1.0, 0.5)
        pm.Normal("y", Slow()(rate), 0.5, observed=1.4)
    return model


def point_of(model, x):
    """PyMC's point, a dict, from a vector."""
    start = model.initial_point(0)
    ends = np.cumsum([np.size(start[value.name]) for value in model.value_vars])[:-1]
    parts = zip(model.value_vars, np.split(x, ends), strict=True)
    return {value.name: part.reshape(np.shape(start[value.name])) for value, part in parts}


@pytest.mark.parametrize("make", [eight_schools, everything, black_box])
def test_the_density_is_pymcs(make):
    theirs = make()
    model = kmc.from_pymc(theirs, mode=QUICK)
    expected = theirs.compile_logp(mode=QUICK)
    for x in np.random.default_rng(0).normal(size=(5, model.dim)):
        found = evaluate_point(model, x).log_density
        assert found == pytest.approx(float(expected(point_of(theirs, x))), rel=1e-12)


def test_numba_mode():
    theirs = eight_schools()
    x = np.linspace(-1, 1, 10)
    expected = float(theirs.compile_logp(mode=QUICK)(point_of(theirs, x)))
    assert kmc.from_pymc(theirs, mode="NUMBA").call(x) == pytest.approx(expected, rel=1e-10)


def test_draws_have_pymcs_names_and_values():
    theirs = everything()
    model = kmc.from_pymc(theirs, mode=QUICK)
    points = np.random.default_rng(1).normal(size=(4, model.dim))
    points[2] = points[0]
    draws = model.constrain(points)
    shown = [v for v in theirs.unobserved_value_vars if not v.name.endswith("__")]
    assert list(draws) == [v.name for v in shown] == list(model.dims)
    expected = theirs.compile_fn(
        shown, inputs=theirs.value_vars, on_unused_input="ignore", mode=QUICK
    )
    for i, x in enumerate(points):
        for value, name in zip(expected(point_of(theirs, x)), draws, strict=True):
            np.testing.assert_allclose(draws[name][i], value, rtol=1e-12)
    np.testing.assert_allclose(draws["share"].sum(axis=1), 1.0)
    assert draws["between"].shape == (4, 2, 2) and model.dims["between"] == (
        "between_dim_0",
        "between_dim_1",
    )
    assert {name: values.shape[1:] for name, values in model.constrain(points[:0]).items()} == {
        name: values.shape[1:] for name, values in draws.items()
    }


def test_intervals_are_those_with_fixed_bounds():
    with everything() as theirs:
        pm.Uniform("phase", 0, 2 * np.pi, shape=2)
        pm.Truncated("cut", pm.Normal.dist(), lower=-1, upper=4)
        pm.Truncated("above", pm.Normal.dist(), lower=-1)
        pm.Uniform("several", [0.0, 0.0], [1.0, 2.0])
    model = kmc.from_pymc(theirs, mode=QUICK)
    assert model.space_extras.intervals == {"phase": (0.0, 2 * np.pi), "cut": (-1.0, 4.0)}
    points = np.random.default_rng(1).normal(size=(4, model.dim))
    values, shown = model.constrain(points), model.space_extras.within_intervals(points)
    assert set(shown) == {"phase", "cut"}
    for name in shown:
        np.testing.assert_allclose(shown[name], values[name], rtol=1e-12)


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_an_interval_that_cuts_an_angle_is_warned_of():
    with pm.Model() as theirs:
        angle = pm.Uniform("angle", 0, 2 * np.pi)
        pm.Potential("misfit", 30 * pt.cos(angle))
    start = np.log(
        [[0.1], [6.2], [0.05], [6.1]] / (2 * np.pi - np.array([[0.1], [6.2], [0.05], [6.1]]))
    )
    options = {"sampler": "random-walk", "draws": 400, "warmup": 100, "seed": 1, "progress": False}
    idata = kmc.sample(kmc.from_pymc(theirs, mode=QUICK), initial=start, **options)
    (sentence,) = [said for said in json.loads(idata.attrs["warnings"]) if "both ends" in said]
    assert "move the interval by half its length, to (-3.14159, 3.14159)" in sentence


def test_starts_are_pymcs_with_jitter():
    theirs = everything()
    model = kmc.from_pymc(theirs, mode=QUICK)
    start = theirs.initial_point(0)
    center = np.concatenate([np.ravel(start[value.name]) for value in theirs.value_vars])
    points = model.initial_points(np.random.default_rng(2), 400)
    assert center[0] == -1.5  # the initial value that the model asks for
    assert stats.kstest((points - center).ravel(), stats.uniform(-1, 2).cdf).pvalue > 1e-3


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_starts_of_zero_density_are_drawn_again():
    with pm.Model() as theirs:
        x = pm.Normal("x", shape=2)
        pm.Potential("half", pt.switch(x[0] > 0, 0.0, -np.inf))
    idata = kmc.sample(
        theirs,
        sampler="random-walk",
        draws=5,
        warmup=0,
        chains=8,
        seed=1,
        progress=False,
        max_evaluations=200,
    )
    first = idata.posterior["x"].values[:, 0]
    assert np.all(first[:, 0] > 0)
    assert len(np.unique(first, axis=0)) == 8  # each chain has a point of its own
    assert idata.attrs["n_evaluations"] > 8 + 8 * 5  # and those that were thrown away are counted


@pytest.fixture(scope="module")
def schools_idata():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kmc.sample(
            eight_schools(),
            sampler="adaptive-metropolis",
            warmup=2000,
            draws=6000,
            seed=3,
            progress=False,
        )


def schools_moments():
    """E[mu], E[tau] and E[theta] by quadrature: given tau all else is Gaussian, up to the data's
    evidence.
    """
    log_tau = np.linspace(-8, 6, 4001)
    tau = np.exp(log_tau)[:, None]
    precision = 1.0 / (ERRORS**2 + tau**2)
    variance = 1.0 / (1.0 / 25 + precision.sum(axis=1))
    mu = variance * (precision * EFFECTS).sum(axis=1)
    evidence = 0.5 * (
        np.log(precision).sum(axis=1) - (precision * EFFECTS**2).sum(axis=1) + mu**2 / variance
    )
    log_weight = (
        evidence + 0.5 * np.log(variance) + stats.halfcauchy(scale=5).logpdf(tau[:, 0]) + log_tau
    )
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    shrinkage = tau**2 / (tau**2 + ERRORS**2)
    theta = shrinkage * EFFECTS + (1 - shrinkage) * mu[:, None]
    return weight @ mu, weight @ tau[:, 0], weight @ theta


def test_eight_schools_end_to_end(schools_idata):
    from arviz import ess

    posterior = schools_idata.posterior
    size = ess(posterior)
    mu, tau, theta = schools_moments()
    for name, expected in (("mu", mu), ("tau", tau), ("theta", theta)):
        draws = posterior[name].stack(sample=("chain", "draw"))
        error = draws.std("sample") / np.sqrt(size[name])
        assert np.all(size[name] > 100)
        np.testing.assert_array_less(abs(draws.mean("sample") - expected) / error, 4)


def test_results_are_laid_out_as_pymcs(schools_idata):
    posterior = schools_idata.posterior
    assert set(posterior.data_vars) == {"mu", "tau", "z", "theta"}
    assert posterior["theta"].dims == ("chain", "draw", "school")
    assert posterior["school"].values.tolist() == list("ABCDEFGH")
    assert "unused" not in posterior.coords
    np.testing.assert_allclose(
        posterior["theta"], posterior["mu"] + posterior["tau"] * posterior["z"]
    )
    np.testing.assert_array_equal(schools_idata.observed_data["y"], EFFECTS)
    np.testing.assert_array_equal(schools_idata.constant_data["errors"].sel(school="C"), 16.0)
    assert schools_idata.unconstrained_posterior["x"].shape == (4, 6000, 10)
    np.testing.assert_allclose(
        schools_idata.unconstrained_posterior["x"][..., 1], np.log(posterior["tau"])
    )


def test_data_are_those_of_the_moment():
    theirs = eight_schools()
    model = kmc.from_pymc(theirs, mode=QUICK)
    x = np.zeros(10)
    before = model.call(x)
    theirs.set_data("errors", 2 * ERRORS)
    assert model.call(x) == before
    np.testing.assert_array_equal(model.space.data["constant_data"]["errors"][1], ERRORS)
    assert kmc.from_pymc(theirs, mode=QUICK).call(x) != before


def test_a_model_of_named_dimensions():
    pmd = pytest.importorskip("pymc.dims")
    with pm.Model(coords={"group": ["a", "b", "c"]}) as theirs:
        mu = pmd.Normal("mu")
        scale = pmd.HalfNormal("scale", dims="group")
        pmd.Deterministic("product", mu * scale)
    model = kmc.from_pymc(theirs, mode=QUICK)
    x = np.array([0.5, 0.1, 0.2, 0.3])
    assert model.call(x) == pytest.approx(
        float(theirs.compile_logp(mode=QUICK)(point_of(theirs, x))), rel=1e-12
    )
    assert model.dims["product"] == ("group",)
    np.testing.assert_allclose(model.constrain(x[None])["product"], 0.5 * np.exp([[0.1, 0.2, 0.3]]))


def test_a_frozen_model():
    optimization = pytest.importorskip("pymc.model.transform.optimization")
    if not hasattr(optimization, "freeze_model"):
        pytest.skip("before PyMC 6 models are not frozen")
    # which has an order of variables of its own
    theirs = optimization.freeze_model(eight_schools())
    x = np.linspace(-1, 1, 10)
    expected = float(theirs.compile_logp(mode=QUICK)(point_of(theirs, x)))
    assert kmc.from_pymc(theirs, mode=QUICK).call(x) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("library", ["pickle", "cloudpickle"])
@pytest.mark.parametrize("make", [eight_schools, black_box])
def test_it_can_be_sent_elsewhere(make, library):
    library = pytest.importorskip(library)
    model = kmc.from_pymc(make(), mode=QUICK)
    arrived = pickle.loads(library.dumps(model))
    x = np.full(model.dim, 0.3)
    np.testing.assert_equal(arrived.call(x), model.call(x))
    for name, values in model.constrain(x[None]).items():
        np.testing.assert_array_equal(arrived.constrain(x[None])[name], values)


def test_threads_do_not_meet():
    model = kmc.from_pymc(black_box(), mode=QUICK)
    points = np.random.default_rng(4).normal(size=(200, 1))
    expected = [model.call(x) for x in points]
    with ThreadPoolExecutor(8) as pool:
        np.testing.assert_equal(list(pool.map(model.call, points)), expected)


def test_a_black_box_is_sampled():
    """N(1, .5²) prior and 1.4 = 2 rate + N(0, .5²): Gaussian, of mean .76 and variance .05."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = kmc.sample(
            black_box(),
            sampler="adaptive-metropolis",
            warmup=200,
            draws=400,
            seed=5,
            progress=False,
        )
    draws = idata.posterior["rate"].values
    from arviz import ess

    size = float(ess(idata.posterior)["rate"])
    assert abs(draws.mean() - 0.76) < 4 * np.sqrt(0.05 / size)
    assert abs(draws.var() / 0.05 - 1) < 4 * np.sqrt(2 / size)


def test_an_error_of_the_black_box_names_the_point():
    class Failing(Slow):
        def perform(self, node, inputs, outputs):
            raise RuntimeError("the simulator diverged")

    with pm.Model() as theirs:
        pm.Potential("p", Failing()(pm.Normal("x")))
    with pytest.raises(kmc.EvaluationError, match="the simulator diverged"):
        kmc.sample(kmc.from_pymc(theirs, mode=QUICK), progress=False)


def test_noisy_is_handed_on():
    assert kmc.from_pymc(black_box(), mode=QUICK, noisy=True).noisy


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_nonfinite_values_are_rejected_unless_they_raise():
    with pm.Model() as theirs:
        x = pm.Normal("x")
        pm.Potential("hole", pt.switch(x > 0.5, np.nan, 0.0))
    settings = {
        "sampler": "random-walk",
        "draws": 200,
        "warmup": 0,
        "initial": np.zeros((4, 1)),
        "progress": False,
    }
    with pytest.warns(kmc.KmcWarning, match=r"NaN or \+inf at \d+ of 805 evaluations"):
        idata = kmc.sample(theirs, seed=1, **settings)
    assert np.all(idata.posterior["x"] <= 0.5) and idata.attrs["n_nonfinite"] > 50
    with pytest.raises(
        kmc.EvaluationError,
        match=r'NaN.* at x = 0\..*sample kmc.from_pymc\(model, nonfinite="reject"\)',
    ):
        kmc.sample(kmc.from_pymc(theirs, mode=QUICK, nonfinite="raise"), seed=1, **settings)
    assert kmc.from_pymc(theirs, mode=QUICK, on_error="reject").on_error == "reject"


def test_discrete_variables_are_refused_by_name():
    with pm.Model() as theirs:
        pm.Poisson("count", 3)
        pm.Normal("x")
        pm.Bernoulli("flag", 0.5)
    with pytest.raises(ValueError, match=r"discrete free variables \('count', 'flag'\)"):
        kmc.sample(theirs, progress=False)


def test_a_model_without_free_variables_is_refused():
    with pm.Model() as theirs:
        pm.Normal("y", 0, 1, observed=1.0)
    with pytest.raises(ValueError, match="no free variables"):
        kmc.from_pymc(theirs)


def test_something_else_is_refused():
    with pytest.raises(TypeError, match=r"model=3: expected a pymc.Model"):
        kmc.from_pymc(3)
