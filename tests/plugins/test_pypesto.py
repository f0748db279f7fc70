"""pyPESTO's mixture of two normal densities has its moments, and nothing is evaluated twice."""

import numpy as np
import pytest

pypesto = pytest.importorskip("pypesto")

import pypesto.sample  # noqa: F811
from scipy import stats

import kmc
from kmc.plugins.pypesto import KmcSampler

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.arviz,
]  # budgets are small, and pyPESTO has warnings of its own

WEIGHTS, MEANS, VARIANCES = np.array([0.3, 0.7]), np.array([-1.5, 2.5]), np.array([0.1, 0.2])


class Counted:
    """The negative log-density of the sampler study in pyPESTO's documentation, with its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return -np.log(np.sum(WEIGHTS * stats.norm.pdf(x[0], MEANS, np.sqrt(VARIANCES))))


def test_sampler_study():
    function = Counted()
    problem = pypesto.Problem(
        pypesto.Objective(fun=function), lb=-4, ub=5, x_names=["x"], copy_objective=False
    )
    sampler = KmcSampler({"seed": 1, "progress": False})
    result = pypesto.sample.sample(problem, 2001, sampler, x0=np.array([0.5])).sample_result
    assert function.calls == sampler.idata.attrs["n_evaluations"]
    x = result.trace_x[0, :, 0]
    table = kmc.summary(sampler.idata).loc["x"]
    assert len(x) == 2004 and result.burn_in == 0
    mean = WEIGHTS @ MEANS
    assert abs(x.mean() - mean) < 4 * table["mcse_mean"] < 0.5
    assert (
        abs(x.std() - np.sqrt(WEIGHTS @ (VARIANCES + (MEANS - mean) ** 2))) < 4 * table["mcse_sd"]
    )
    assert result.trace_neglogpost[0, 7] == pytest.approx(function(x[7:8]))


def test_priors_and_fixed_parameters():
    prior = {"index": 0, "density_fun": lambda x: -0.5 * x**2, "type": "standard"}
    objective = pypesto.Objective(fun=lambda x: 0.5 * (x[0] - x[1] - x[2]) ** 2)
    priors = pypesto.objective.NegLogParameterPriors([prior | {"index": 1}, prior | {"index": 2}])
    problem = pypesto.Problem(
        pypesto.objective.AggregatedObjective([objective, priors]),
        lb=[-9, -9, -9],
        ub=[9, 9, 9],
        x_fixed_indices=[1],
        x_fixed_vals=[3.0],
        x_priors_defs=priors,
    )
    result = pypesto.sample.sample(
        problem, 40, KmcSampler({"seed": 1, "progress": False})
    ).sample_result
    free = result.trace_x[0, 5]
    assert free.shape == (2,)
    assert result.trace_neglogprior[0, 5] == pytest.approx(0.5 * 9 + 0.5 * free[1] ** 2)
    assert result.trace_neglogpost[0, 5] == pytest.approx(problem.objective(free))


def test_open_bounds_failed_calls_and_a_resumed_run(tmp_path):
    def failing(x):
        return np.nan if x[0] > 1 else np.inf if x[0] < -1 else 0.5 * np.sum(x**2)

    problem = pypesto.Problem(
        pypesto.Objective(fun=failing), lb=[-np.inf, 0.0], ub=[np.inf, np.inf]
    )
    options = {"seed": 1, "progress": False, "store": tmp_path / "run", "resume": True}
    first, again = (
        pypesto.sample.sample(problem, 40, KmcSampler(options), x0=[[0.0, 0.0]]).sample_result
        for _ in range(2)
    )
    assert np.all(np.abs(first.trace_x[0, :, 0]) <= 1) and np.all(first.trace_x[0, :, 1] > 0)
    np.testing.assert_array_equal(first.trace_x, again.trace_x)


def test_an_interrupted_warm_up():
    calls = []

    def interrupted(x):
        calls.append(x)
        if len(calls) == 100:
            raise KeyboardInterrupt
        return 0.5 * np.sum(x**2)

    problem = pypesto.Problem(pypesto.Objective(fun=interrupted), lb=[-5, -5], ub=[5, 5])
    with pytest.raises(RuntimeError, match="within warm-up") as error:
        pypesto.sample.sample(problem, 40, KmcSampler({"seed": 1, "progress": False}))
    assert error.value.idata.attrs["n_evaluations"] >= 99


def test_options_are_those_of_kmc():
    with pytest.raises(KeyError, match="draws"):
        KmcSampler({"draws": 10})
    assert KmcSampler.default_options().keys() <= set(kmc.sample.__code__.co_varnames)
