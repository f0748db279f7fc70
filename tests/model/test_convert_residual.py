"""Least squares: ``kmc.from_residual``, ``lmfit.Parameters``, and starts at fits."""

import numpy as np
import pytest
from scipy import optimize, stats

import kmc

RNG = np.random.default_rng(0)
T = np.linspace(0.0, 3.0, 40)
Y = 2.0 * np.exp(-1.2 * T) + 0.5 + 0.1 * RNG.standard_normal(T.size)
LINE = np.column_stack([np.ones(8), np.arange(8.0)])
DATA = LINE @ [1.0, 2.0] + 0.3 * RNG.standard_normal(8)
QUIET = {"draws": None, "seed": 1, "progress": False}


def line(x):
    return DATA - LINE @ x


def curve(x):
    return Y - x[0] * np.exp(-x[1] * T) - x[2]


def decay(p):
    """A residual as lmfit's users write it."""
    return Y - p["f"] * p["a"] * np.exp(-p["k"] * T) - p["c"]


@pytest.fixture
def lmfit():
    return pytest.importorskip("lmfit")


@pytest.fixture
def parameters(lmfit):
    made = lmfit.Parameters()
    made.add("a", value=1.0, min=0)
    made.add("k", value=0.5, min=0, max=10)
    made.add("c", value=1.0)
    made.add("f", value=1.0, vary=False)
    made.add("half", expr="log(2)/k")
    return made


@pytest.mark.slow
def test_an_unknown_scale_gives_the_t_distribution_of_least_squares():
    fit = optimize.least_squares(line, [0.0, 0.0])
    idata = kmc.sample(kmc.from_residual(line, 2), initial=fit, max_evaluations=1500, **QUIET)
    x = idata.posterior["x"].values
    scale = np.linalg.inv(LINE.T @ LINE) * 2 * fit.cost / 6
    slope = stats.t(6, loc=fit.x[1], scale=np.sqrt(scale[1, 1]))
    u = slope.cdf(x[..., 1])
    ess = 0.3 * u.size
    assert u.mean() == pytest.approx(0.5, abs=4 / np.sqrt(12 * ess))
    assert u.std() == pytest.approx(
        np.sqrt(1 / 12), abs=4 * np.sqrt(1 / 180 / ess) / (2 * np.sqrt(1 / 12))
    )


def test_a_known_scale_gives_the_likelihood_with_its_constants():
    expected = stats.norm(0, 0.3).logpdf(line(np.array([1.1, 2.0]))).sum()
    for sigma in (0.3, np.full(8, 0.3)):
        found = kmc.from_residual(line, 2, sigma=sigma).call(np.array([1.1, 2.0]))
        assert found[0] == pytest.approx(expected, rel=1e-12)
    named = {"x": kmc.Normal(0, 5, shape=2), "s": kmc.HalfNormal(1)}
    sampled = kmc.from_residual(lambda p: line(p["x"]), named, sigma="s")
    assert sampled.call(np.array([1.1, 2.0, np.log(0.3)]))[0] == pytest.approx(expected, rel=1e-12)


def test_an_unknown_scale_is_integrated_out():
    from scipy.integrate import quad

    x = np.array([1.1, 2.0])
    integral = quad(
        lambda s: np.exp(stats.norm(0, s).logpdf(line(x)).sum()) / s, 0.02, 20, points=[0.3, 1.0]
    )[0]
    model = kmc.from_residual(line, 2)
    assert model.call(x)[0] == pytest.approx(np.log(integral), rel=1e-6)
    assert "sigma" in model.without_prior  # so that the evidence is NaN


def test_parameters_of_lmfit(parameters):
    model = kmc.from_residual(decay, parameters, sigma=0.1)
    assert model.parameters == {
        "a": kmc.LowerBound(0),
        "k": kmc.Interval(0, 10),
        "c": kmc.Real(),
        "f": model.parameters["f"],
    }
    value, blobs = model.call(model.start_points({"a": [2.0], "k": [1.2], "c": [0.5]}, 1)[0])
    assert value == pytest.approx(stats.norm(0, 0.1).logpdf(curve([2.0, 1.2, 0.5])).sum(), rel=1e-9)
    assert blobs["half"] == pytest.approx(np.log(2) / 1.2)
    points = model.constrain(model.initial_points(np.random.default_rng(1), 200))
    medians = {name: float(np.median(values)) for name, values in points.items()}
    error = 1.25 * 0.3 / np.sqrt(200)  # of the median, relative to it, by a sd of 0.3
    assert medians == pytest.approx({"a": 1.0, "k": 0.5, "c": 1.0}, rel=4 * error)
    assert parameters["a"].value == 1.0  # not changed by calls
    assert set(model.fix(c=0.5).dims) == {"a", "k"}


@pytest.mark.slow
def test_a_fit_by_lmfit_is_continued(lmfit, parameters):
    recorded = kmc.record(decay)
    fit = lmfit.minimize(recorded, parameters)
    idata = kmc.sample(
        kmc.from_residual(decay, parameters),
        initial=fit,
        history=recorded,
        max_evaluations=800,
        **QUIET,
    )
    assert 10 < idata.attrs["n_history"] <= fit.nfev + 1
    for name in fit.var_names:
        draws = idata.posterior[name].values
        assert abs(draws.mean() - fit.params[name].value) < fit.params[name].stderr
        assert draws.std() == pytest.approx(fit.params[name].stderr, rel=0.25)
    np.testing.assert_allclose(idata.blobs["half"], np.log(2) / idata.posterior["k"])


def test_a_fit_without_a_covariance(lmfit, parameters):
    fit = lmfit.minimize(decay, parameters, method="nelder")
    fit.covar = None
    with pytest.raises(
        ValueError,
        match="initial is a fit of a, k, c with covar=None: expected one of a, k, c with",
    ):
        kmc.sample(kmc.from_residual(decay, parameters), initial=fit, max_evaluations=99, **QUIET)


def test_start_points_have_the_covariance_of_the_fit():
    fit = optimize.least_squares(curve, [1.0, 1.0, 1.0])
    covariance = np.linalg.inv(fit.jac.T @ fit.jac) * 2 * fit.cost / (T.size - 3)
    x = kmc.from_residual(curve, 3).start_points(fit, 2000)
    assert np.all(np.abs(x.mean(axis=0) - fit.x) < 4 * np.sqrt(np.diag(covariance) / 2000))
    np.testing.assert_allclose(np.cov(x.T) / covariance, 1.0, atol=4 * np.sqrt(2 / 2000) * 3)
    narrow = {"a": kmc.Interval(0, float(fit.x[0])), "k": kmc.Positive(), "c": kmc.Real()}
    inside = kmc.Model(lambda p: 0.0, parameters=narrow).start_points(fit, 50)
    assert np.isfinite(inside).all()


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning", "ignore:divide by zero")
def test_recorded_calls_of_a_log_density_are_a_history():
    recorded = kmc.record(lambda p: -0.5 * (p["a"] ** 2 + np.log(p["b"]) ** 2))
    optimize.minimize(
        lambda x: -recorded({"a": x[0], "b": max(x[1], 0.0)}), [3.0, 2.0], method="Nelder-Mead"
    )
    recorded({"a": 0.0, "b": 0.0})  # on the bound: left out
    model = kmc.Model(recorded, parameters={"a": kmc.Normal(0, 2), "b": kmc.Positive()})
    n = len(recorded.values)
    assert n == len(recorded.points) > 40
    idata = kmc.sample(model, history=recorded, draws=10, warmup=10, seed=1, progress=False)
    assert n - 20 < idata.attrs["n_history"] < n


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: kmc.from_residual(line, 2, sigma=-1),
            ValueError,
            "sigma=.*: expected positive numbers",
        ),
        (
            lambda: kmc.from_residual(line, 2, sigma="s"),
            ValueError,
            "sigma='s': expected a number, or the name",
        ),
        (
            lambda: kmc.from_residual(DATA, 2),
            TypeError,
            "expected a function that returns an array of residuals",
        ),
        (
            lambda: kmc.from_residual(line, 2, sigma=np.ones((8, 8))).call(np.zeros(2)),
            ValueError,
            "sigma has the shape",
        ),
        (lambda: kmc.record(3), TypeError, "f=3: expected a function"),
        (
            lambda: kmc.sample(
                kmc.from_residual(line, 2),
                initial=optimize.least_squares(curve, [1.0, 1.0, 1.0]),
                **QUIET,
                max_evaluations=99,
            ),
            ValueError,
            "initial is a fit of 3 numbers .*: expected one by scipy.optimize.least_squares of 2 "
            "numbers",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_recorded_objective_that_is_no_density():
    recorded = kmc.record(line)
    optimize.least_squares(recorded, [0.0, 0.0])
    with pytest.raises(
        TypeError, match="(?s)history has the value .* expected what the model's function returns"
    ):
        kmc.sample(
            lambda x: -float(line(x) @ line(x)),
            dim=2,
            history=recorded,
            max_evaluations=99,
            **QUIET,
        )
