"""Coordinates of draws."""

import numpy as np
import pytest

from kmc.surrogate.covariance import narrowed, whitened_coordinates


def test_coordinates_are_narrowed_where_draws_are_far_wider_than_the_density():
    """A normal with sds 0.001, 1 and 1: to 30 curvatures along the first axis; others stay."""
    rng = np.random.default_rng(8)
    precision = np.diag([1e6, 1.0, 1.0])
    draws = rng.standard_normal((200, 3))
    white = whitened_coordinates(draws)

    def slopes(z):
        return -white.back(z) @ precision @ white.inverse.T

    found = narrowed(white, slopes, draws)
    curvature = found.inverse @ precision @ found.inverse.T
    assert np.linalg.eigvalsh(curvature)[-1] == pytest.approx(30.0, rel=1e-3)
    assert np.linalg.eigvalsh(curvature)[0] == pytest.approx(1.0, rel=0.3)
    assert abs(np.linalg.slogdet(found.whitening @ white.inverse)[1]) == pytest.approx(
        0.5 * np.log(np.linalg.eigvalsh(white.inverse @ precision @ white.inverse.T)[-1] / 30.0),
        rel=1e-3,
    )


def test_coordinates_in_which_draws_are_those_of_the_density_stay():
    """Of a funnel, too, whose neck is narrower than any multiple says."""
    rng = np.random.default_rng(9)
    log_sd = rng.standard_normal(400)
    draws = np.column_stack([log_sd, np.exp(1.5 * log_sd) * rng.standard_normal(400)])
    white = whitened_coordinates(draws)

    def slopes(z):
        t, y = white.back(z).T
        square = y**2 * np.exp(-3.0 * t)
        along = np.column_stack([-t - 1.5 + 1.5 * square, -y * np.exp(-3.0 * t)])
        return along @ white.inverse.T

    found = narrowed(white, slopes, draws)
    np.testing.assert_allclose(np.abs(np.linalg.det(found.whitening @ white.inverse)), 1.0)
