"""Log-densities of the regression: depth, spurious mass, and compiled evaluation."""

import numpy as np
import pytest

from kmc.surrogate.covariance import Coordinates, Hyperparameters, scaled_coordinates
from kmc.surrogate.density import by_depth, deviation, doubt, jit_state, value_and_gradient, without_spurious_mass
from kmc.surrogate.mean import mean_gradients, mean_values
from kmc.surrogate.regression import Observations, Settings, condition, fit


def compiled(state, z):
    gradient, work = np.empty(z.shape[1]), np.empty(state.centers.shape[1] + 2 * z.shape[1])
    values, gradients = np.empty(len(z)), np.empty_like(z)
    for n, row in enumerate(z):
        values[n] = value_and_gradient(state, row, gradient, work)
        gradients[n] = gradient
    return values, gradients


@pytest.fixture
def regression():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((30, 3))
    whitening, metric = np.eye(3) + 0.2 * rng.standard_normal((2, 3, 3))
    observations = Observations(
        points, np.sin(points[:, 0]) - points[:, 1], gradient_points=points[:4], gradients=rng.standard_normal((4, 3))
    )
    coordinates = Coordinates(rng.standard_normal(3), whitening, metric)
    return condition(observations, coordinates, Hyperparameters(0.5, 0.7, 0.4, -2.0))


def test_compiled_values_and_gradients_are_those_of_the_mean(regression):
    x = np.random.default_rng(1).standard_normal((6, 3))
    coordinates = regression.coordinates
    state = jit_state(regression.mean, coordinates.metric)
    values, gradients = compiled(state, coordinates.map(x))
    np.testing.assert_allclose(values, regression.values(x), rtol=1e-10)
    np.testing.assert_allclose(gradients @ coordinates.whitening.T, regression.gradients(x), rtol=1e-8)


def test_compiled_standard_deviations_are_those_of_the_regression():
    rng = np.random.default_rng(5)
    points, x = rng.standard_normal((25, 3)), 2 * rng.standard_normal((6, 3))
    whitening, metric = np.eye(3) + 0.2 * rng.standard_normal((2, 3, 3))
    coordinates = Coordinates(np.zeros(3), whitening, metric)
    theta = Hyperparameters(0.5, 0.7, 0.4, -2.0)
    regression = condition(Observations(points, points[:, 0]), coordinates, theta)
    state, doubts = jit_state(regression.mean, metric), doubt(regression)
    found = [deviation(doubts, state, z, np.empty(31)) for z in coordinates.map(x)]
    joint = regression.conditional(x)
    constant = joint.factors[1][0]  # its uncertainty is left out
    np.testing.assert_allclose(found, np.sqrt(joint.variances - constant**2), rtol=1e-6)


def test_regressions_with_gradients_or_of_low_rank_have_no_doubt(regression):
    assert len(doubt(regression).points) == 0
    points = np.random.default_rng(6).standard_normal((30, 3))
    few = Settings(exact=10, landmarks=5)
    low_rank = condition(
        Observations(points, points[:, 0]), regression.coordinates, regression.hyperparameters, settings=few
    )
    empty = doubt(low_rank)
    assert deviation(empty, jit_state(low_rank.mean, np.eye(3)), np.zeros(3), np.empty(11)) == 0.0


@pytest.mark.parametrize("above", [-60.0, -1.0, 0.0, 1.0, 60.0])
def test_the_cap_is_smooth_and_its_gradient_is_that_of_differences(regression, above):
    z = np.random.default_rng(2).standard_normal((1, 3))
    metric = regression.coordinates.metric
    value = compiled(jit_state(regression.mean, metric), z)[0][0]
    state = jit_state(regression.mean, metric, cap=value + above)
    capped, gradient = compiled(state, z)
    assert capped[0] == pytest.approx(value + above - np.logaddexp(0.0, above), rel=1e-12)
    h = 1e-5 * np.eye(3)
    differences = (compiled(state, z + h)[0] - compiled(state, z - h)[0]) / 2e-5
    np.testing.assert_allclose(gradient[0], differences, atol=1e-6)


def test_new_fits_compile_nothing(regression):
    z = np.zeros((1, 3))
    compiled(jit_state(regression.mean, np.eye(3)), z)
    before = len(value_and_gradient.signatures)
    plain = fit(Observations(np.eye(3), np.arange(3.0)), scaled_coordinates(np.eye(3)))
    compiled(jit_state(plain.mean, plain.coordinates.metric, 3.0), z)
    compiled(jit_state(plain.mean, np.asfortranarray(plain.coordinates.metric)), z)
    assert len(value_and_gradient.signatures) == before


def test_a_quadratic_that_rises_is_bent_down_and_values_are_kept():
    rng = np.random.default_rng(3)
    points = rng.uniform(-1, 1, (40, 2))
    values = points[:, 0] ** 2 - points[:, 1] ** 2 + np.sin(3 * points[:, 0])  # a saddle, and what a kernel is for
    regression = fit(Observations(points, values), scaled_coordinates(points))
    mean = without_spurious_mass(regression)
    assert np.linalg.eigvalsh(regression.mean.quadratic[:, :, 0])[-1] > 0
    assert np.linalg.eigvalsh(mean.quadratic[:, :, 0])[-1] <= -0.01 * (1 - 1e-9)
    np.testing.assert_allclose(mean_values(mean, regression.coordinates, points)[:, 0], values, atol=0.1)
    far = 100.0 * np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    outward = mean_gradients(mean, regression.coordinates, far)[:, :, 0]
    assert np.all(np.einsum("ij,ij->i", outward, far) < 0)


def test_a_quadratic_that_falls_is_left_alone():
    points = np.random.default_rng(4).standard_normal((40, 2))
    regression = fit(Observations(points, -np.sum(points**2, axis=1)), scaled_coordinates(points))
    assert without_spurious_mass(regression) is regression.mean


def test_values_are_compressed_and_noisy_by_their_depth():
    # In two dimensions 6 nats count fully, and compression begins at 24.
    values = 5.0 - np.array([0.0, 6.0, 16.0, 24.0, 24.0 * np.e])
    compressed, noise = by_depth(values, 2)
    np.testing.assert_allclose(5.0 - compressed, [0.0, 6.0, 16.0, 24.0, 48.0])
    np.testing.assert_allclose(noise, [0.0, 0.0, 1.0, 1.8, 1.8])
