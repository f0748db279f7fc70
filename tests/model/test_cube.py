"""``kmc.Model(prior_transform=, log_likelihood=, dim=)``: models of nested samplers."""

import math

import numpy as np
import pytest
from scipy import stats

import kmc
from tests.grids import slow_except

QUIET = {"seed": 1, "progress": False}


def transform(u):
    """Uniform on (-5, 15), and exponential of mean 2."""
    return np.array([20 * u[0] - 5, stats.expon(scale=2).ppf(u[1])])


def log_likelihood(x):
    return stats.norm(x[0], 1.0).logpdf(3.0) - x[1]


LOG_Z = math.log(1 / 20) + math.log(
    0.5 / 1.5
)  # a uniform prior that is much wider; and the integral of two exponentials


@pytest.fixture(scope="module")
def model():
    return kmc.Model(log_likelihood=log_likelihood, prior_transform=transform, dim=2)


@pytest.mark.slow
@pytest.mark.parametrize("by", slow_except(["surrogate", "ladder"], ["surrogate"]))
def test_draws_and_evidence(model, by):
    options = {"draws": None, "max_evaluations": 1500}
    if by == "ladder":
        options = {
            "sampler": kmc.Tempered(temperatures=(1, 3, 10, math.inf)),
            "draws": 300,
            "warmup": 200,
        }
    idata = kmc.sample(model, **options, **QUIET)
    x = idata.posterior["x"].values
    ess = 0.2 * x[..., 0].size
    assert abs(x[..., 0].mean() - 3.0) < 4 / np.sqrt(ess)
    assert abs(x[..., 1].mean() - 2 / 3) < 4 * (2 / 3) / np.sqrt(ess)
    found = kmc.evidence(idata, progress=False)
    assert found.attrs["warnings"] == []
    assert abs(float(found["log_evidence"][0]) - LOG_Z) < 4 * float(found["se"][0]) < 0.6
    prior = idata["prior"]["x"].values[0]
    assert (
        prior[:, 1].mean() == pytest.approx(2.0, abs=4 * 2 / np.sqrt(500))
        and prior[:, 0].min() > -5
    )


def test_rows_of_a_vectorized_model(model):
    many = kmc.Model(
        log_likelihood=lambda x: np.array([log_likelihood(row) for row in x]),
        prior_transform=lambda u: transform(u.T).T,
        dim=2,
        vectorized=True,
    )
    z = np.array([[0.0, 0.0], [40.0, -40.0], [0.3, 1.0]])
    np.testing.assert_allclose(many.constrain(z)["x"], model.constrain(z)["x"])
    np.testing.assert_allclose(many.call(z)[0], [model.call(row)[0] for row in z])
    assert np.all(np.isfinite(model.constrain(z)["x"]))  # also where Φ(z) is 0 or 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"parameters": {"a": kmc.Real()}},
            TypeError,
            "prior_transform and parameters: expected prior_transform=",
        ),
        ({"log_prior": lambda x: 0.0}, TypeError, "prior_transform and log_prior: expected"),
        (
            {"prior_transform": 3},
            TypeError,
            "prior_transform=3 and log_likelihood=.*: expected two functions",
        ),
        ({"log_likelihood": None}, TypeError, "log_likelihood=None: expected two functions"),
        ({"dim": 0}, ValueError, "dim=0 is not positive"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        kmc.Model(
            **{
                "log_likelihood": log_likelihood,
                "prior_transform": transform,
                "dim": 2,
                **arguments,
            }
        )


def test_what_a_transform_must_return():
    short = kmc.Model(log_likelihood=log_likelihood, prior_transform=lambda u: u[:1], dim=2)
    with pytest.raises(
        ValueError, match=r"prior_transform returned an array of shape \(1,\): expected \(2,\)"
    ):
        kmc.sample(short, draws=10, **QUIET)


def test_a_record_has_no_unconstrained_points(model):
    with pytest.raises(
        TypeError, match="the model has a space of its own: pass unconstrained points"
    ):
        kmc.sample(model, history=kmc.record(log_likelihood), draws=10, **QUIET)
