"""Models of a log-likelihood and a log-prior."""

import dataclasses

import cloudpickle
import numpy as np
import pytest
from scipy import stats

import kmc

pytestmark = pytest.mark.arviz

DATA = np.random.default_rng(0).normal(1.0, 1.0, 20)


def pointwise(x, data=DATA):
    return stats.norm.logpdf(data, x[0])


def log_prior(x):
    return stats.norm.logpdf(x[0], 0.0, 2.0)


@pytest.mark.slow
def test_the_parts_are_kept_and_arviz_takes_the_likelihood():
    import arviz

    model = kmc.Model(log_likelihood=pointwise, log_prior=log_prior, dim=1)
    idata = kmc.sample(model, draws=None, max_evaluations=800, seed=1, progress=False)
    x = idata["posterior"]["x"].values[..., 0]
    np.testing.assert_allclose(idata["blobs"]["log_prior"], stats.norm.logpdf(x, 0, 2))
    likelihood = idata["log_likelihood"]["log_likelihood"].values
    np.testing.assert_allclose(likelihood, stats.norm.logpdf(DATA, x[..., None]))
    np.testing.assert_allclose(idata["blobs"]["total_log_likelihood"], likelihood.sum(axis=2))
    np.testing.assert_allclose(
        idata["sample_stats"]["lp"],
        idata["blobs"]["total_log_likelihood"] + idata["blobs"]["log_prior"],
    )
    assert arviz.loo(idata).n_data_points == 20

    n, precision = 20, 20 + 0.25
    exact = (
        -0.5 * n * np.log(2 * np.pi)
        - 0.5 * np.log(4 * precision)
        - 0.5 * (DATA @ DATA - DATA.sum() ** 2 / precision)
    )
    found = kmc.evidence(idata)
    assert abs(float(found["log_evidence"][0]) - exact) < 4 * float(found["se"][0]) < 0.2
    mean, variance = DATA.sum() / precision, 1 / precision
    divergence = 0.5 * ((variance + mean**2) / 4 - 1 - np.log(variance / 4))
    assert abs(float(found["kl_divergence"][0]) - divergence) < 4 * float(
        found["se_kl_divergence"][0]
    )


def test_the_likelihood_is_not_evaluated_where_the_prior_is_zero():
    def never(x):
        raise AssertionError

    model = kmc.Model(log_likelihood=never, log_prior=lambda x: -np.inf, dim=2)
    assert model.call(np.zeros(2)) == -np.inf


def test_numbers_dicts_blobs_arguments_and_declared_priors():
    model = kmc.Model(
        log_likelihood=lambda p, shift: (
            {"y": np.array([p["a"], shift]), "z": np.zeros(3)},
            {"extra": 1.0},
        ),
        parameters={"a": kmc.Normal(0, 1)},
        args=(2.0,),
    )
    value, blobs = model.call(np.array([0.5]))
    assert value == 2.5 and blobs["extra"] == 1.0 and set(blobs["log_likelihood"]) == {"y", "z"}
    number = kmc.Model(log_likelihood=lambda x: -1.0, log_prior=lambda x: -2.0, dim=1)
    value, blobs = number.call(np.zeros(1))
    assert value == -3.0 and "log_likelihood" not in blobs and blobs["log_prior"] == -2.0


def test_many_points_at_once():
    one = kmc.Model(log_likelihood=pointwise, log_prior=log_prior, dim=1)
    many = kmc.Model(
        log_likelihood=lambda x: stats.norm.logpdf(DATA, x),
        log_prior=lambda x: stats.norm.logpdf(x[:, 0], 0.0, 2.0),
        dim=1,
        vectorized=True,
    )
    points = np.array([[0.0], [1.5]])
    values, blobs = many.call(points)
    np.testing.assert_allclose(values, [one.call(row)[0] for row in points])
    assert blobs["log_likelihood"].shape == (2, 20)


def test_a_model_of_parts_can_be_copied_and_pickled():
    model = kmc.Model(log_likelihood=pointwise, log_prior=log_prior, dim=1)
    x = np.ones(1)
    for copy in (
        dataclasses.replace(model, on_error="reject"),
        cloudpickle.loads(cloudpickle.dumps(model)),
    ):
        assert copy.call(x)[0] == model.call(x)[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"log_density": log_prior, "log_prior": log_prior},
            r"log_density=.* with log_likelihood and log_prior",
        ),
        ({"log_prior": log_prior}, r"log_likelihood=None: expected a function of the parameters"),
        ({"log_likelihood": 3, "log_prior": log_prior}, r"log_likelihood=3: expected a function"),
        (
            {"log_likelihood": pointwise, "log_prior": "normal"},
            r"log_prior='normal': expected a function",
        ),
        ({}, r"log_density=None is not callable"),
    ],
)
def test_bad_parts(arguments, message):
    with pytest.raises(TypeError, match=message):
        kmc.Model(dim=1, **arguments)
