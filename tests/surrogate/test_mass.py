"""Log-densities of the regression: depth and spurious mass."""

import numpy as np
import pytest

from kmc.surrogate.covariance import Coordinates, scaled_coordinates
from kmc.surrogate.mass import DENSITY, without_spurious_mass
from kmc.surrogate.mean import mean_values
from kmc.surrogate.regression import Observations, fit


def test_a_quadratic_that_rises_is_bent_down_and_values_are_kept():
    rng = np.random.default_rng(3)
    points = rng.uniform(-1, 1, (40, 2))
    # a saddle, and what a kernel is for
    values = points[:, 0] ** 2 - points[:, 1] ** 2 + np.sin(3 * points[:, 0])
    regression = fit(Observations(points, values), scaled_coordinates(points))
    mean = without_spurious_mass(regression)
    assert np.linalg.eigvalsh(regression.mean.quadratic[:, :, 0])[-1] > 0
    falling = np.linalg.eigvalsh(mean.quadratic[:, :, 0])
    assert falling[-1] < 0 and np.any(np.isclose(falling, DENSITY.curvature))
    np.testing.assert_allclose(
        mean_values(mean, regression.coordinates, points)[:, 0], values, atol=0.1
    )


def test_a_quadratic_that_is_known_to_be_flat_is_left_alone_and_one_that_is_not_known_is_bent():
    """An exponential density between walls; and one that is seen along a line only."""
    points = np.random.default_rng(6).standard_normal((60, 2))
    for spread, known in ((1.0, True), (1e-3, False)):
        x = points * [1.0, spread]
        coordinates = Coordinates(np.zeros(2), np.eye(2), np.eye(2))
        regression = fit(Observations(x, -x[:, 0] - 0.5 * (not known) * x[:, 0] ** 2), coordinates)
        mean = without_spurious_mass(regression)
        largest = np.linalg.eigvalsh(mean.quadratic[:, :, 0])[-1]
        assert largest == pytest.approx(0.0 if known else DENSITY.curvature, abs=1e-3)


def test_a_quadratic_that_falls_is_left_alone():
    points = np.random.default_rng(4).standard_normal((40, 2))
    regression = fit(Observations(points, -np.sum(points**2, axis=1)), scaled_coordinates(points))
    mean = without_spurious_mass(regression)
    np.testing.assert_array_equal(mean.quadratic, regression.mean.quadratic)
    np.testing.assert_array_equal(mean.weights, regression.mean.weights)


def test_where_nothing_is_known_the_prior_mean_holds():
    """The regression is one of the difference from -|z|²/4: without bumps far away, that is what is
    left.
    """
    points = np.random.default_rng(5).standard_normal((30, 2))
    z = scaled_coordinates(points).map(points)
    values = np.sin(points[:, 0])
    regression = fit(
        Observations(points, values + 0.25 * np.sum(z**2, axis=1)), scaled_coordinates(points)
    )
    mean = without_spurious_mass(regression, 0.5 * np.eye(2))
    np.testing.assert_allclose(
        mean_values(mean, regression.coordinates, points)[:, 0], values, atol=0.05
    )


def test_what_is_known_apart_falls_for_the_rest():
    """A saddle plus a known quadratic that falls more: nothing is bent."""
    points = np.random.default_rng(5).standard_normal((40, 2))
    regression = fit(
        Observations(points, points[:, 0] ** 2 - points[:, 1] ** 2), scaled_coordinates(points)
    )
    mean = without_spurious_mass(regression, None, -3.0 * np.eye(2))
    np.testing.assert_array_equal(mean.quadratic, regression.mean.quadratic)
    assert not np.array_equal(
        without_spurious_mass(regression).quadratic, regression.mean.quadratic
    )
