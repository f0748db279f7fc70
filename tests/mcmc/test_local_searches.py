"""Where local searches start."""

import numpy as np

from kmc.mcmc.local_searches import _box, _highest_and_far_apart
from tests.mcmc.modes import Mixture, searching


def test_what_the_starts_span_is_looked_at_where_nothing_was_evaluated():
    target = Mixture([1.0], [[0.0, 0.0]], [1.0])
    target.labels = lambda x: np.ones(len(x), int)
    corners = np.array([[-30.0, -20.0], [30.0, 20.0], [0.0, 1.0], [1.0, 0.0]])
    search, made = searching(target, np.random.default_rng(0).standard_normal((300, 2)), corners, budget=20_000)
    points = search.propose()
    assert not made and 100 < len(points) <= 0.01 * 20_000
    assert np.all(np.abs(points) <= [50.0, 100 / 3]) and np.all(np.ptp(points, axis=0) > [80.0, 53.0])
    assert np.linalg.norm(points, axis=1).min() > 2.0


def test_given_points_that_no_surrogate_explains_are_evaluated_before_a_search_starts_there():
    target = Mixture([1.0], [[0.0, 0.0]], [1.0])
    target.labels = lambda x: np.ones(len(x), int)
    x = np.random.default_rng(0).standard_normal((300, 2))
    elsewhere = np.array([[9.0, 9.0], [-9.0, 9.0]])
    search, _ = searching(target, x, np.eye(2), given=(elsewhere, np.array([6.0, 0.0])))
    points = search.propose()
    assert {tuple(row) for row in elsewhere} <= {tuple(row) for row in points}
    search.advance(np.array([target(row) for row in points]))
    known, values = search._searches.known
    assert np.array_equal(values, [target(row) for row in known])


def test_the_box_of_uniform_starts():
    """The range of n uniform numbers is (n - 1) / (n + 1) of their interval, so that the box is right on average."""
    x = np.random.default_rng(4).random((4000, 4, 1))
    ends = np.array([_box(starts) for starts in x])[:, :, 0]
    error = ends.std(axis=0) / np.sqrt(len(x))
    assert np.all(np.abs(ends.mean(axis=0) - [0.0, 1.0]) < 4 * error)
    low, high = _box(np.array([[2.0, 5.0]]))
    np.testing.assert_array_equal([low, high], [[2.0, 5.0]] * 2)


def test_searches_start_at_the_highest_point_and_far_from_each_other():
    z = np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 0.0], [5.1, 0.0], [0.0, 3.0], [0.0, 0.0]])
    values = np.array([0.0, 1.0, 0.5, 0.5, 0.5, 0.9])
    assert _highest_and_far_apart(z, values, 3) == [1, 3, 4]
    assert _highest_and_far_apart(z[[0, 5]], values[[0, 5]], 2) == [1]  # twice the same point
