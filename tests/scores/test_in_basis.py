"""Streams, landmarks and other common parts of the estimators in a finite basis."""

import numpy as np
import pytest

from kmc.kernels import Exponential, Gaussian
from kmc.linalg import ridge_solution
from kmc.scores.in_basis import check_smooth
from kmc.scores.lite_and_finite import FiniteKEF, LiteKEF
from kmc.scores.nystrom import NystromKEF
from kmc.scores.sums import Samples, accumulate_sums

X = np.random.default_rng(4).standard_normal((400, 2)) @ [[1.0, 0.5], [0.0, 0.8]]
POINTS = np.random.default_rng(5).standard_normal((20, 2))
ESTIMATORS = [NystromKEF, LiteKEF, FiniteKEF]
FIXED = {"regularization": 1e-2, "n_basis": 15, "random_state": 0}


@pytest.mark.parametrize("kind", [NystromKEF, LiteKEF])
def test_a_doubled_stream_is_a_fit_to_all_of_it(kind):
    stream = kind(**FIXED).partial_fit(X[:100]).partial_fit(X[100:150]).partial_fit(X[150:200])
    batch = kind(**FIXED).fit(X[:200])
    assert stream.n_samples_seen_ == batch.n_samples_seen_ == 200
    np.testing.assert_allclose(stream.gradient(POINTS), batch.gradient(POINTS), rtol=1e-10)


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("with_values", [False, True])
def test_between_doublings_forms_are_added(kind, with_values):
    """With basis and base density of the first block, the solution is that of all samples, with
    their weights.
    """
    values = -0.5 * np.sum(X**2, axis=1) if with_values else None
    weights = np.random.default_rng(6).uniform(3.0, 7.0, 400)
    stream = kind(**FIXED)
    for rows in (slice(0, 250), slice(250, 320), slice(320, 400)):
        stream.partial_fit(X[rows], None if values is None else values[rows], weights[rows])
    samples = Samples(X, stream.center_, weights, values, 1.0)
    objective = accumulate_sums(stream.basis_, samples, stream.base_density_).objective()
    (penalty,) = (
        matrix
        for name, matrix in stream._penalties(stream.basis_).items()
        if name == stream.penalty_
    )
    expected = ridge_solution(objective.matrix, -objective.linear, penalty, 1e-2)
    np.testing.assert_allclose(
        stream.coefficients_, expected, rtol=1e-5, atol=1e-8 * np.abs(expected).max()
    )


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_stream_goes_on_from_a_fit(kind):
    begun = kind(**FIXED).fit(X[:250]).partial_fit(X[250:])
    whole = kind(**FIXED).partial_fit(X[:250]).partial_fit(X[250:])
    np.testing.assert_allclose(begun.gradient(POINTS), whole.gradient(POINTS), rtol=1e-9)


def test_values_for_every_block_or_none():
    with pytest.raises(ValueError, match="values: give log-densities for every block"):
        LiteKEF(**FIXED).partial_fit(X[:50]).partial_fit(X[50:60], values=np.zeros(10))


@pytest.mark.parametrize("landmarks", ["uniform", "pivoted-cholesky", "k-means"])
@pytest.mark.parametrize("kind", [NystromKEF, LiteKEF])
def test_landmarks(kind, landmarks):
    estimator = kind(**(FIXED | {"landmarks": landmarks, "base": "uniform"})).fit(X)
    assert estimator.landmarks_.shape == (15, 2)
    truth = -X @ np.linalg.inv(np.array([[1.0, 0.5], [0.5, 0.89]]))
    zero = 0.5 * np.mean(np.sum(truth**2, axis=1))
    divergence = 0.5 * np.mean(np.sum((estimator.gradient(X) - truth) ** 2, axis=1))
    assert divergence < 0.2 * zero


def test_landmarks_of_the_user_are_in_the_coordinates_of_x():
    given = X[:7] + 0.1
    estimator = LiteKEF(**(FIXED | {"landmarks": given})).fit(X)
    np.testing.assert_array_equal(estimator.landmarks_, given)


def test_log_densities_sharpen_the_fit():
    """Sixty samples of N(0, I) whose log-density is known say more than sixty samples."""
    x = np.random.default_rng(8).standard_normal((60, 2))
    options = {
        "base": "uniform",
        "random_state": 0,
        "regularization": 1e-2,
        "bandwidth": 2.0,
        "value_weight": 100.0,
    }
    error = {
        known: np.abs(
            NystromKEF(**options)
            .fit(x, values=-0.5 * np.sum(x**2, axis=1) if known else None)
            .gradient(x)
            + x
        ).mean()
        for known in (False, True)
    }
    assert error[True] < 0.25 * error[False]


def test_smoothness_is_named():
    check_smooth(Gaussian(), 3)
    with pytest.raises(ValueError, match=r"Exponential\(bandwidth=1.0.*0 derivatives"):
        check_smooth(Exponential(), 2)
