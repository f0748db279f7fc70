import numpy as np
import pytest

from kmc.mcmc.history import ASSUMED, GIVEN, History


@pytest.mark.parametrize("blocks", [[0], [1, 1, 1], [255, 1, 1], [256, 1], [1, 3000, 2], [5000]])
def test_points_and_values_are_kept_in_order(blocks):
    history, start = History(3), 0
    for size in blocks:
        codes = np.arange(start, start + size, dtype=float)
        history.extend(codes[:, None] + np.array([0.0, 0.25, 0.5]), -codes)
        start += size
        assert len(history) == start
    np.testing.assert_array_equal(history.x, np.arange(start)[:, None] + np.array([0.0, 0.25, 0.5]))
    np.testing.assert_array_equal(history.log_density, -np.arange(float(start)))


def test_what_was_given_is_copied():
    history, x, values = History(2), np.zeros((3, 2)), np.zeros(3)
    history.extend(x, values)
    x[:], values[:] = 1.0, 1.0
    assert np.all(history.x == 0) and np.all(history.log_density == 0)


def test_gradients_are_kept_where_they_are_known():
    history = History(2, with_gradients=True)
    history.extend(np.zeros((300, 2)), np.zeros(300))
    history.extend(np.ones((2, 2)), np.ones(2), np.array([[3.0, 4.0], [np.nan, np.nan]]))
    assert history.gradients.shape == (302, 2) and np.all(np.isnan(history.gradients[[0, 299, 301]]))
    np.testing.assert_array_equal(history.gradients[300], [3.0, 4.0])
    assert History(2).gradients is None


def test_values_know_where_they_come_from():
    history = History(2)
    history.extend(np.zeros((200, 2)), np.zeros(200), source=GIVEN)
    history.extend(np.zeros((100, 2)), np.zeros(100))
    history.extend(np.zeros((3, 2)), np.zeros(3), source=ASSUMED)
    np.testing.assert_array_equal(np.flatnonzero(history.evaluated), np.arange(200, 300))
