import numpy as np
import pytest
from scipy import stats

from kmc.scores.gaussian import GaussianScore
from tests.jit_states import evaluate
from tests.oracles import differences

RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 3)) @ np.array(
    [[1.0, 0.5, 0.0], [0.0, 0.7, -0.2], [0.0, 0.0, 2.0]]
) + [1.0, 0.0, -3.0]
WEIGHTS = RNG.random(50)
POINTS = RNG.standard_normal((7, 3))


def test_it_is_the_normal_density_of_the_moments():
    estimator = GaussianScore().fit(X, weights=WEIGHTS)
    mean, covariance = np.average(X, axis=0, weights=WEIGHTS), np.cov(X.T, aweights=WEIGHTS, ddof=0)
    np.testing.assert_allclose(estimator.mean_, mean, rtol=1e-13)
    np.testing.assert_allclose(estimator.covariance_, covariance, rtol=1e-12)
    expected = stats.multivariate_normal(mean, covariance).logpdf(POINTS)
    np.testing.assert_allclose(estimator.log_density(POINTS), expected, rtol=1e-12)


def test_derivatives_are_finite_differences():
    estimator = GaussianScore().fit(X)
    np.testing.assert_allclose(
        estimator.gradient(POINTS), differences.gradients(estimator.log_density, POINTS), atol=1e-11
    )
    np.testing.assert_allclose(
        estimator.laplacian(POINTS),
        differences.laplacians(estimator.log_density, POINTS),
        atol=1e-9,
    )


def test_the_objective_is_least_at_the_fit():
    """Score matching of a Gaussian is maximum likelihood, where the objective is -tr(P)/2
    (Hyvärinen 2005).
    """
    estimator = GaussianScore().fit(X)
    best = estimator.objective(X)
    assert best == pytest.approx(-0.5 * np.trace(np.linalg.inv(np.cov(X.T, ddof=0))), rel=1e-12)
    assert estimator.score(X) == -best
    for shift in np.vstack([np.eye(3), -np.eye(3)]):
        assert GaussianScore().fit(X + 0.1 * shift).objective(X) > best
    for factor in (0.9, 1.1):
        assert (
            GaussianScore().fit(X.mean(axis=0) + factor * (X - X.mean(axis=0))).objective(X) > best
        )


@pytest.mark.parametrize("sizes", [[50], [4, 46], [30, 1, 1, 18], [10] * 5])
def test_a_stream_is_one_fit(sizes):
    estimator = GaussianScore()
    for part in np.split(np.arange(50), np.cumsum(sizes)[:-1]):
        estimator.partial_fit(X[part], weights=WEIGHTS[part])
    whole = GaussianScore().fit(X, weights=WEIGHTS)
    np.testing.assert_allclose(estimator.mean_, whole.mean_, rtol=1e-12)
    np.testing.assert_allclose(estimator.covariance_, whole.covariance_, rtol=1e-11, atol=1e-13)
    assert estimator.n_samples_seen_ == 50


def test_a_stream_far_from_zero_keeps_its_digits():
    """Sums of squares about zero would have lost all of them at 1e8."""
    x = X + 1e8
    estimator = GaussianScore()
    for start in range(0, 50, 10):
        estimator.partial_fit(x[start : start + 10])
    np.testing.assert_allclose(
        estimator.covariance_, np.cov((x - 1e8).T, ddof=0), rtol=1e-7, atol=1e-8
    )


def test_a_fit_begins_anew_and_a_stream_goes_on_from_it():
    estimator = GaussianScore().partial_fit(5.0 * X).fit(X[:20])
    np.testing.assert_array_equal(estimator.mean_, GaussianScore().fit(X[:20]).mean_)
    np.testing.assert_allclose(
        estimator.partial_fit(X[20:]).covariance_, GaussianScore().fit(X).covariance_, rtol=1e-12
    )


def test_a_block_without_weights_has_ones():
    estimator = GaussianScore().partial_fit(X[:20], weights=np.full(20, 3.0)).partial_fit(X[20:])
    expected = GaussianScore().fit(np.vstack([X[:20], X[:20], X[:20], X[20:]]))
    np.testing.assert_allclose(estimator.covariance_, expected.covariance_, rtol=1e-12)


def test_values_are_refused():
    """They would not change the fit."""
    for fit in (GaussianScore().fit, GaussianScore().partial_fit):
        with pytest.raises(TypeError, match="unexpected keyword argument 'values'"):
            fit(X, values=np.zeros(len(X)))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X[:1], "minimum of 2"),
        (X[:3], "covariance of the 3 samples in 3 dimensions is singular .*: use more samples"),
        (np.column_stack([X, X[:, 0]]), "singular"),
        (np.column_stack([X, np.zeros(50)]), "column 3 of X is constant"),
        (np.ones((5, 2)), "all 5 samples in X are equal"),
    ],
)
def test_samples_in_a_plane_are_an_error(x, message):
    with pytest.raises(ValueError, match=message):
        GaussianScore().fit(x)


def test_the_point_says_the_same():
    estimator = GaussianScore().fit(X)
    for x, value, expected in zip(
        POINTS, estimator.log_density(POINTS), estimator.gradient(POINTS)
    ):
        found, gradient = evaluate(estimator.jit_state(), x)
        assert found == pytest.approx(value, rel=1e-13)
        np.testing.assert_allclose(gradient, expected, atol=1e-13)
