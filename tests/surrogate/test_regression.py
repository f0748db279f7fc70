"""The regression against a literal one, scikit-learn and finite differences."""

from dataclasses import replace

import numpy as np
import pytest

from kmc.surrogate.covariance import (
    Coordinates,
    Hyperparameters,
    covariance,
    scaled_coordinates,
    values_at,
)
from kmc.surrogate.regression import SETTINGS, Observations, Settings, condition, fit
from kmc.surrogate.regression import _posterior as posterior_of
from tests.oracles import gaussian_process as oracle

THETA = Hyperparameters(0.4, -1.2, 0.9, 0.3, -1.5, -0.7)
EXACT = Settings()
LOW_RANK = Settings(exact=1, landmarks=10_000)  # all points are landmarks


def coordinates_of(rng, dim, scales=()):
    whitening = np.eye(dim) + 0.3 * rng.standard_normal((dim, dim))
    metric = np.eye(dim) + 0.2 * rng.standard_normal((dim, dim))
    return Coordinates(rng.standard_normal(dim), whitening, metric, scales)


def problem(seed=0, n=14, k=3, dim=2, outputs=None, scales=()):
    rng = np.random.default_rng(seed)
    shape = (n,) if outputs is None else (n, outputs)
    slopes = (k, dim) if outputs is None else (k, dim, outputs)
    observations = Observations(
        points=rng.standard_normal((n, dim)),
        values=10 + rng.standard_normal(shape),
        noise=0.1 * rng.random(n),
        gradient_points=rng.standard_normal((k, dim)) if k else None,
        gradients=rng.standard_normal(slopes) if k else None,
        gradient_noise=0.2 * rng.random(k) if k else None,
    )
    return observations, coordinates_of(rng, dim, scales), rng.standard_normal((5, dim))


def literal(observations, coordinates):
    k = 0 if observations.gradient_points is None else len(observations.gradient_points)
    n, dim = observations.points.shape
    seen = oracle.functionals(
        observations.points, observations.gradient_points if k else [], coordinates
    )
    noise = np.exp(2 * THETA.noise) + observations.noises() ** 2
    K = oracle.covariances(seen, seen, THETA, coordinates) + np.diag(noise)
    return seen, K, np.append(np.ones(n), np.zeros(k * dim))


SCALES = pytest.mark.parametrize("scales", [(), ((0, 0.8), (1, -1.0))], ids=["quartic", "scales"])


@SCALES
@pytest.mark.parametrize(
    ("settings", "k"),
    [(EXACT, 0), (EXACT, 3), (LOW_RANK, 0)],
    ids=["exact", "with gradients", "low rank"],
)
def test_values_gradients_and_deviations_are_those_of_the_literal_regression(settings, k, scales):
    observations, coordinates, x = problem(k=k, scales=scales)
    fitted = condition(observations, coordinates, THETA, settings=settings)
    seen, K, ones = literal(observations, coordinates)
    there = oracle.functionals(x, x, coordinates)
    ones_there = np.append(np.ones(len(x)), np.zeros(x.size))
    y = observations.targets(coordinates)[:, 0]
    mean, covariance = oracle.predict(
        K,
        oracle.covariances(seen, there, THETA, coordinates),
        oracle.covariances(there, there, THETA, coordinates),
        y,
        ones,
        ones_there,
    )
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(fitted.values(x), mean[: len(x)], atol=2e-5)
    along_z = fitted.gradients(x) @ coordinates.inverse.T
    np.testing.assert_allclose(along_z.ravel(), mean[len(x) :], atol=2e-5)
    np.testing.assert_allclose(fitted.standard_deviations(x), sd[: len(x)], atol=2e-4)
    joint = fitted.conditional(x)
    found = joint.covariances()
    np.testing.assert_allclose(found, covariance[: len(x), : len(x)], atol=2e-4)


@SCALES
@pytest.mark.parametrize("k", [0, 3])
def test_the_likelihood_is_that_of_the_literal_regression(k, scales):
    observations, coordinates, _ = problem(k=k, scales=scales)
    _, K, ones = literal(observations, coordinates)
    expected = oracle.negative_log_likelihood(K, observations.targets(coordinates)[:, 0], ones)
    found = posterior_of(observations, coordinates, THETA, EXACT).negative_log_likelihood(THETA)[0]
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    "settings",
    [EXACT, LOW_RANK, Settings(exact=1, landmarks=6)],
    ids=["exact", "low rank", "few landmarks"],
)
@SCALES
@pytest.mark.parametrize(("k", "outputs"), [(0, None), (3, None), (2, 3)])
def test_the_gradient_of_the_likelihood_is_that_of_differences(settings, k, outputs, scales):
    observations, coordinates, _ = problem(k=k, outputs=outputs, scales=scales)
    posterior = posterior_of(observations, coordinates, THETA, settings)
    gradient = posterior.negative_log_likelihood(THETA)[1]

    def value(theta):
        return posterior.negative_log_likelihood(Hyperparameters(*theta))[0]

    h = 1e-5
    differences = [
        (value(THETA + h * e) - value(THETA - h * e)) / (2 * h) for e in np.eye(len(THETA))
    ]
    np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-6)


def test_the_low_rank_likelihood_is_exact_with_all_points_as_landmarks_and_else_a_bound():
    observations, coordinates, _ = problem(k=0)
    exact = posterior_of(observations, coordinates, THETA, EXACT).negative_log_likelihood(THETA)
    same = posterior_of(observations, coordinates, THETA, LOW_RANK).negative_log_likelihood(THETA)
    assert same[0] == pytest.approx(exact[0], abs=1e-5)
    np.testing.assert_allclose(same[1], exact[1], atol=1e-3)
    few = posterior_of(observations, coordinates, THETA, Settings(exact=1, landmarks=6))
    assert few.negative_log_likelihood(THETA)[0] > exact[0] + 0.1


def test_low_rank_predictions_come_near_to_the_exact_ones():
    rng = np.random.default_rng(3)
    points = rng.standard_normal((300, 2))
    values = np.sin(points[:, 0]) - points[:, 1] ** 2 + 0.01 * rng.standard_normal(300)
    observations = Observations(points, values)
    theta = Hyperparameters(1.0, -3.0, 0.5, 0.3, np.log(0.01))
    coordinates, x = scaled_coordinates(points), 0.7 * rng.standard_normal((50, 2))
    exact = condition(observations, coordinates, theta)
    fast = condition(observations, coordinates, theta, settings=Settings(exact=100, landmarks=250))
    np.testing.assert_allclose(fast.values(x), exact.values(x), atol=0.05)
    np.testing.assert_allclose(fast.gradients(x), exact.gradients(x), atol=0.1)
    np.testing.assert_allclose(
        fast.standard_deviations(x), exact.standard_deviations(x), rtol=0.5, atol=0.002
    )


def test_what_few_landmarks_do_not_explain_is_noise_not_a_fit_at_any_price():
    """Values of the model itself are predicted as well as the standard deviations say, without
    noise of their own.
    """
    rng = np.random.default_rng(4)
    points, theta = (
        rng.standard_normal((400, 6)),
        Hyperparameters(-1.0, -6.0, 3.0, 1.2, np.log(1e-4)),
    )
    coordinates = Coordinates(np.zeros(6), np.eye(6), np.eye(6))
    places = values_at(points, Coordinates(np.zeros(6), np.eye(6), np.eye(6)))
    values = np.linalg.cholesky(
        covariance(theta, places, places) + 1e-8 * np.eye(400)
    ) @ rng.standard_normal(400)
    known, new = slice(0, 300), slice(300, 400)
    settings = Settings(exact=1, landmarks=40)
    found = condition(
        Observations(points[known], values[known]), coordinates, theta, settings=settings
    )
    scores = (found.values(points[new]) - values[new]) / found.standard_deviations(points[new])
    assert 0.7 < scores.std() < 1.4


@pytest.mark.parametrize("settings", [EXACT, LOW_RANK, Settings(exact=1, landmarks=6)])
def test_outputs_share_one_factorization_and_are_predicted_as_alone(settings):
    observations, coordinates, x = problem(k=0, outputs=3)
    together = condition(observations, coordinates, THETA, settings=settings)
    for j in range(3):
        one = Observations(observations.points, observations.values[:, j], observations.noise)
        alone = condition(one, coordinates, THETA, settings=settings)
        np.testing.assert_allclose(together.values(x)[:, j], alone.values(x), rtol=1e-9)
        np.testing.assert_allclose(
            together.gradients(x)[..., j], alone.gradients(x), rtol=1e-7, atol=1e-9
        )


def test_predictions_are_those_of_scikit_learn():
    gp = pytest.importorskip("sklearn.gaussian_process")
    rng = np.random.default_rng(1)
    points, x = rng.standard_normal((25, 3)), rng.standard_normal((6, 3))
    values = points[:, 0] ** 2 + np.cos(points[:, 1])
    coordinates = Coordinates(np.zeros(3), np.eye(3), np.eye(3))
    theta = Hyperparameters(0.2, -1.0, 0.5, 0.1, -2.0)
    ours = condition(Observations(points, values), coordinates, theta)
    a, c, b, length, s, w = np.exp(theta)
    linear = gp.kernels.DotProduct(np.sqrt(3.0), "fixed")  # 3 + x·y
    squares = gp.kernels.PairwiseKernel(metric=lambda x, y, **_: x**2 @ y**2)
    # 1 + 2 x·y / 3 + Σ (x_i y_i / 3)²
    plain = 2.0 / 3.0 * gp.kernels.DotProduct(np.sqrt(1.5), "fixed") + 1.0 / 9.0 * squares
    kernel = (
        w * (a / 3.0) ** 2 * linear**2
        + (1.0 - w) * a**2 * plain
        + (c / 9.0) ** 2 * linear**4
        + b**2 * gp.kernels.Matern(length, nu=2.5)
    )
    wide = 1e7  # of the constant
    theirs = gp.GaussianProcessRegressor(
        kernel + gp.kernels.ConstantKernel(wide), alpha=s**2, optimizer=None
    )
    theirs.fit(points, values)
    mean, sd = theirs.predict(x, return_std=True)
    np.testing.assert_allclose(ours.values(x), mean, atol=1e-5)
    np.testing.assert_allclose(ours.standard_deviations(x), sd, atol=1e-4)
    likelihood = (
        theirs.log_marginal_likelihood_value_ + 0.5 * 25 * np.log(2 * np.pi) + 0.5 * np.log(wide)
    )
    found = posterior_of(Observations(points, values), coordinates, theta, EXACT)
    assert -found.negative_log_likelihood(theta)[0] == pytest.approx(likelihood, abs=1e-4)


def test_a_quadratic_with_few_products_is_known_before_there_are_as_many_values_as_coefficients():
    """The likelihood finds that products are small: 60 values, 91 coefficients."""
    rng = np.random.default_rng(6)
    points, x = rng.standard_normal((60, 12)), rng.standard_normal((200, 12))

    def f(x):
        return -0.5 * np.sum(np.arange(1, 13) * x**2, axis=1) + 2.0 * x[:, 0] * x[:, 1]

    observations, coordinates = Observations(points, f(points)), scaled_coordinates(points)
    alike = replace(SETTINGS, lower=(*SETTINGS.lower[:-1], SETTINGS.upper[-1]))
    own, other = (
        fit(observations, coordinates, settings=settings).values(x) - f(x)
        for settings in (SETTINGS, alike)
    )
    assert np.std(own) < 0.3 * np.std(other)


def test_known_gradients_replace_values():
    rng = np.random.default_rng(2)
    points, x = rng.standard_normal((12, 3)), rng.standard_normal((40, 3))

    def f(x):
        return np.sin(x[:, 0]) * x[:, 1] + x[:, 2]

    def slopes(x):
        return np.column_stack([np.cos(x[:, 0]) * x[:, 1], np.sin(x[:, 0]), np.ones(len(x))])

    coordinates = scaled_coordinates(points)
    plain = fit(Observations(points, f(points)), coordinates)
    known = fit(
        Observations(points, f(points), gradient_points=points, gradients=slopes(points)),
        coordinates,
    )
    assert np.abs(known.values(x) - f(x)).mean() < 0.3 * np.abs(plain.values(x) - f(x)).mean()
    at_points = known.gradients(points)
    np.testing.assert_allclose(at_points, slopes(points), atol=0.02)


def test_the_likelihood_finds_the_noise_beside_a_known_one():
    rng = np.random.default_rng(4)
    points = 2 * rng.standard_normal((150, 2))
    known = np.where(rng.random(150) < 0.5, 1.0, 0.0)
    values = -0.5 * np.sum(points**2, axis=1) + np.hypot(0.05, known) * rng.standard_normal(150)
    fitted = fit(Observations(points, values, known), scaled_coordinates(points))
    assert np.exp(fitted.hyperparameters.noise) == pytest.approx(0.05, rel=0.4)  # 75 values: 8 %


def test_twenty_values_in_eight_dimensions_are_a_fit_with_a_large_uncertainty():
    rng = np.random.default_rng(5)
    points = rng.standard_normal((20, 8))
    fitted = fit(Observations(points, -0.5 * np.sum(points**2, axis=1)), scaled_coordinates(points))
    x = rng.standard_normal((100, 8))
    error = np.abs(fitted.values(x) + 0.5 * np.sum(x**2, axis=1))
    assert np.mean(error < 2 * fitted.standard_deviations(x)) > 0.8


def test_invalid_observations_are_named():
    with pytest.raises(ValueError, match="values has shape"):
        Observations(np.zeros((3, 2)), np.zeros(2))
    with pytest.raises(ValueError, match="NaN or infinity"):
        Observations(np.zeros((2, 2)), np.array([0.0, np.nan]))
