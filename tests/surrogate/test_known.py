"""What is known of a log-density is left out of the regression where that predicts better, and
added again.
"""

import numpy as np
import pytest
from scipy import stats

import kmc
from kmc.run.structure import added
from kmc.surrogate.coordinates.transport import APART, IDENTITY
from kmc.surrogate.process import Seen, condition_again, first_fit, fit_again
from kmc.surrogate.regression import STARTS
from tests.oracles import differences

MODELS = {
    "intervals": {"a": kmc.Interval(-1.0, 3.0), "b": kmc.Interval(0.0, 1.0, shape=2)},
    "a bound": {"a": kmc.Positive(), "b": kmc.Real()},
    "priors": {
        "a": kmc.LogNormal(0, 1),
        "b": kmc.Beta(2, 5),
        "c": kmc.StudentT(3, 0, 2),
        "d": kmc.Uniform(-1, 4),
    },
    "of scipy": {"a": stats.gamma(2.0), "b": kmc.Real()},
}


def model_of(parameters):
    return kmc.Model(log_likelihood=lambda p: 0.0, parameters=parameters)


@pytest.mark.parametrize("name", MODELS)
def test_prior_and_jacobian_are_known(name):
    model = model_of(MODELS[name])
    x = np.random.default_rng(3).uniform(-2.5, 2.5, (200, model.dim))
    values, gradients = added(model).splines.values_and_gradients(x)
    np.testing.assert_allclose(values, model.log_added(x), atol=2e-2)
    for row, gradient in zip(x[:20], gradients):
        np.testing.assert_allclose(gradient, differences.gradient(model.log_added, row), atol=5e-2)


@pytest.mark.parametrize(
    "parameters",
    [
        {"x": kmc.Real(shape=2)},
        {"x": kmc.Simplex(3)},
    ],
    ids=["nothing", "no sum"],
)
def test_what_is_no_sum_of_functions_is_not_known(parameters):
    assert added(model_of(parameters)) is None


def test_a_model_without_names_has_nothing_known():
    assert added(kmc.Model(lambda x: -x @ x, dim=2)) is None


def log_prior(p):
    return stats.t(3).logpdf(p["a"]) + stats.gamma(2.0).logpdf(p["b"])


OF_FUNCTIONS = {
    "names": kmc.Model(
        log_likelihood=lambda p: 0.0,
        log_prior=log_prior,
        parameters={"a": kmc.Real(), "b": kmc.Positive()},
    ),
    "a vector": kmc.Model(
        log_likelihood=lambda x: 0.0, log_prior=lambda x: stats.t(3).logpdf(x).sum(), dim=2
    ),
    "vectorized": kmc.Model(
        log_likelihood=lambda x: np.zeros(len(x)),
        log_prior=lambda x: stats.t(3).logpdf(x).sum(axis=1),
        dim=2,
        vectorized=True,
    ),
}


@pytest.mark.parametrize("name", OF_FUNCTIONS)
def test_a_function_that_is_a_sum_over_numbers_is_known(name):
    model = OF_FUNCTIONS[name]
    x = np.random.default_rng(3).uniform(-2.5, 2.5, (200, 2))
    values, gradients = added(model).splines.values_and_gradients(x)
    np.testing.assert_allclose(values, model.log_prior_apart(x), atol=2e-2)
    slopes = [
        differences.gradient(lambda row: model.log_prior_apart(row[None])[0], row) for row in x[:20]
    ]
    np.testing.assert_allclose(gradients[:20], slopes, atol=0.1)


def no_number(x):
    raise RuntimeError("outside of the table")


@pytest.mark.parametrize(
    "function", [lambda x: -((x[0] - x[1]) ** 2), no_number, lambda x: -np.inf]
)
def test_other_functions_are_learned(function):
    assert added(kmc.Model(log_likelihood=lambda x: 0.0, log_prior=function, dim=2)) is None


# The regression of a log-likelihood that depends on a sum of parameters, with a prior that no
# quadratic describes.

PRIORS = model_of(
    {"a": kmc.Interval(-1.0, 1.0), "b": kmc.LogNormal(0, 1), "c": kmc.StudentT(2, 0, 1)}
)


def density(x):
    return PRIORS.log_added(x) - 0.5 * (x.sum(axis=1) - 1.0) ** 2 / 0.1


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(4)
    x = rng.uniform(-6.0, 6.0, (60, 3))
    seen = Seen(x, density(x), x, np.full(x.shape, np.nan), known=added(PRIORS))
    return seen, fit_again(seen, first_fit(seen, rng), STARTS[0], rng)


def test_the_likelihood_prefers_what_is_known(fitted):
    seen, process = fitted
    assert process.transport == APART and process.temperature == 1.0
    fresh = np.random.default_rng(5).uniform(-6.0, 6.0, (2000, 3))
    fresh = fresh[density(fresh) > seen.values.max() - 10.0]
    errors = process.log_density(fresh) - density(fresh)
    assert len(fresh) > 50 and np.std(errors) < 0.05
    np.testing.assert_allclose(
        process.heights(fresh), process.log_density(fresh) - process.highest, atol=0.05
    )


def test_it_stays_known_when_values_are_added(fitted):
    seen, process = fitted
    again = condition_again(seen, process, np.random.default_rng(1))
    x = seen.points[seen.values > seen.values.max() - 30.0]
    assert len(x) > 20 and again.transport == APART
    np.testing.assert_allclose(again.log_density(x), process.log_density(x), atol=0.05)


def test_a_normal_prior_need_not_be_told():
    """A quadratic has it already: another description has to be better to be taken."""
    rng = np.random.default_rng(6)
    model = model_of({"x": kmc.Normal(0, 1, shape=2)})
    x = rng.standard_normal((40, 2))
    values = model.log_added(x) - 0.5 * np.sum((x - 1.0) ** 2, axis=1)
    seen = Seen(x, values, x, np.full(x.shape, np.nan), known=added(model))
    found = fit_again(seen, first_fit(seen, rng), STARTS[0], rng)
    np.testing.assert_allclose(found.log_density(x), values, atol=1e-3)
    assert found.transport in (IDENTITY, APART)


def test_gradients_of_the_whole_log_density_are_used():
    """Those of the prior are taken away where it is apart."""
    rng = np.random.default_rng(7)
    x = rng.uniform(-1.0, 1.0, (12, 3))
    slopes = np.array([differences.gradient(lambda at: density(at[None])[0], row) for row in x])
    seen = Seen(x, density(x), x, slopes, known=added(PRIORS))
    process = fit_again(seen, first_fit(seen, rng), STARTS[0], rng)
    fresh = rng.uniform(-1.0, 1.0, (500, 3))
    assert process.temperature == 1.0 and process.transport == APART
    assert np.std(process.log_density(fresh) - density(fresh)) < 0.1
