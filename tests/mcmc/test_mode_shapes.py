"""Modes as Gaussians, and the points that belong to them."""

import numpy as np
import pytest

from kmc.mcmc.mode_shapes import Shape, evaluated_shapes, labels


def test_the_shape_of_draws_is_their_gaussian():
    rng = np.random.default_rng(0)
    factor = np.array([[2.0, 0.0], [1.0, 0.5]])
    shape = Shape.of(3.0, rng.standard_normal((20_000, 2)) @ factor.T + [1.0, -1.0])
    covariance = factor @ factor.T
    np.testing.assert_allclose(np.linalg.inv(shape.precision), covariance, rtol=0.05, atol=0.05)
    assert shape.value(shape.center[None])[0] == 3.0
    assert shape.log_mass == pytest.approx(3.0 + 0.5 * np.linalg.slogdet(covariance)[1], abs=0.05)


def test_a_point_belongs_to_the_highest_shape():
    wide, narrow = Shape(0.0, np.zeros(1), np.eye(1)), Shape(5.0, np.array([1.0]), 100.0 * np.eye(1))
    assert labels([wide, narrow], np.array([[0.0], [0.9], [1.0], [1.5], [8.0]])).tolist() == [0, 1, 1, 0, 0]


def test_a_shape_whose_evaluations_another_claims_is_none():
    """The surrogate had put the top of the second shape fifty nats too high."""
    shapes = [Shape(0.0, np.zeros(2), np.eye(2)), Shape(50.0, np.array([2.0, 0.0]), np.eye(2))]
    z = np.array([[-40.0, 0.0], [0.5, 0.0], [1.0, 1.0]])
    assert [shape.top for shape in evaluated_shapes(shapes, z, np.array([0.0, -2.0, -np.inf]))] == [0.0]
