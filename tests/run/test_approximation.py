"""A cheap simulator of the same outputs: the surrogate learns the difference."""

import warnings

import numpy as np
import pytest

import kmc
from kmc.model.evaluate import evaluate_point

TIMES = np.linspace(0.0, 4.0, 9)
OPTIONS = {"chains": 4, "seed": 3, "progress": False}
TRUE = {"start": 3.0, "rate": 0.7}
PRIORS = {"start": kmc.LogNormal(0.0, 2.0), "rate": kmc.LogNormal(0.0, 2.0)}


def decay(p):
    return p["start"] * np.exp(-p["rate"] * TIMES)


def few_steps(p):
    """The same by Euler's method with steps of 1/10."""
    return p["start"] * (1.0 - 0.1 * p["rate"]) ** (10 * TIMES)


def model_of(approximation=None, simulator=decay):
    data = decay(TRUE) + 0.1 * np.random.default_rng(0).standard_normal(9)
    likelihood = kmc.likelihoods.Normal(data, sd=0.1)
    return kmc.Model(
        simulator=simulator, likelihood=likelihood, parameters=PRIORS, approximation=approximation
    )


@pytest.fixture(scope="module")
def truth():
    """Means and standard deviations of the parameters, by a grid."""
    model = model_of()
    start, rate = np.meshgrid(np.linspace(2.5, 3.5, 120), np.linspace(0.5, 0.9, 120), indexing="ij")
    points = np.log(np.column_stack([start.ravel(), rate.ravel()]))
    values = np.array([evaluate_point(model, x).log_density for x in points]) - points.sum(
        axis=1
    )  # of the parameters themselves
    weights = np.exp(values - values.max())
    weights /= weights.sum()
    x = np.exp(points)
    mean = weights @ x
    return mean, np.sqrt(weights @ (x - mean) ** 2)


def sampled(model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kmc.KmcWarning)
        return kmc.sample(model, draws=None, **{**OPTIONS, **options})


def worst_error(idata, truth, model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kmc.KmcWarning)
        found = kmc.expectations(
            idata, model=model, max_surrogate_draws=4_000, quantiles=(), progress=False
        )
    return np.max(np.abs(found["mean"].values - truth[0]) / truth[1])


@pytest.mark.slow
def test_far_starts_need_few_simulations(truth):
    def error(model):
        return np.median(
            [
                worst_error(sampled(model, max_evaluations=24, seed=seed), truth, model)
                for seed in (5, 6, 7)
            ]
        )

    assert error(model_of(few_steps)) < 0.2 < error(model_of())


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda p: np.zeros(9), marks=pytest.mark.slow),
        lambda p: p["rate"] * np.cos(9.0 * TIMES),
    ],
)
def test_draws_are_exact_with_any_approximation(wrong, truth):
    idata = sampled(model_of(wrong), max_evaluations=600)
    for name, mean, sd in zip(PRIORS, *truth, strict=True):
        draws = idata.posterior[name].values
        assert abs(draws.mean() - mean) < 4 * sd / np.sqrt(150)  # effective draws, at least
        assert abs(draws.std() / sd - 1.0) < 4 / np.sqrt(2 * 150)


def test_an_approximation_that_fails_costs_its_points_alone(truth):
    def failing(p):
        if p["rate"] > 1.0:
            raise ArithmeticError("unstable")
        return few_steps(p)

    model = model_of(failing)
    assert worst_error(sampled(model, max_evaluations=40), truth, model) < 0.2


@pytest.mark.parametrize("broken", [lambda p: 1 / 0, lambda p: np.ones(3)])
def test_one_that_always_fails_is_named(broken):
    with pytest.warns(
        kmc.KmcWarning, match="approximation failed at all of .* points, the last time with"
    ):
        idata = kmc.sample(model_of(broken), draws=None, max_evaluations=40, **OPTIONS)
    assert idata.attrs["n_evaluations"] > 30


def test_it_is_a_function():
    with pytest.raises(
        TypeError, match=r"approximation=3: expected a function like the simulator, but cheap"
    ):
        model_of(3)
    with pytest.raises(TypeError, match="simulator and log_density="):
        kmc.Model(lambda x: 0.0, dim=2, approximation=few_steps)


@pytest.mark.slow
def test_a_resumed_run_has_the_same_draws(tmp_path):
    model, calls = model_of(few_steps), []
    whole = sampled(model, max_evaluations=30)

    def stopping(p):
        calls.append(1)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return decay(p)

    sampled(model_of(few_steps, stopping), max_evaluations=30, store=tmp_path / "run.zarr")
    resumed = sampled(model, max_evaluations=30, store=tmp_path / "run.zarr", resume=True)
    np.testing.assert_array_equal(resumed.posterior["rate"].values, whole.posterior["rate"].values)
