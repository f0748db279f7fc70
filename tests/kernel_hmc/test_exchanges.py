"""Points with exchanged blocks of coordinates."""

import numpy as np
import pytest

import kmc
from kmc.ess import bulk_ess
from kmc.kernel_hmc.exchanges import exchanges


def found(x, most=100):
    return {tuple(row) for row in exchanges(np.array(x, float), most)}


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([1, 2], {(2, 1)}),
        ([1, 2, 3, 4, 5, 6], {(2, 1, 4, 3, 6, 5), (4, 5, 6, 1, 2, 3), (2, 1, 3, 5, 4, 6), (3, 4, 1, 2, 5, 6)}),
        # An odd one is before the groups, or behind them, with and without the sign of a weight.
        ([1, 2, 3], {(2, 1, 3), (2, 1, -3), (1, 3, 2), (-1, 3, 2)}),
    ],
)
def test_two_groups_change_places(x, expected):
    """Interleaved ones, and one behind the other; for three groups, the first two."""
    assert found(x) == expected


def test_no_point_is_its_own_exchange():
    assert found([1.0]) == set()
    assert found([2, 2]) == set()
    assert found([1, 5, 1, 5]) == {(5, 1, 5, 1), (1, 1, 5, 5), (5, 1, 1, 5)}  # each of them is there once
    assert len(exchanges(np.array([1.0, 5.0, 1.0, 5.0]), 9)) == 3
    assert exchanges(np.zeros(4), 9).shape == (0, 4)


def test_at_most_so_many():
    x = np.arange(6.0)
    every = exchanges(x, 100)
    np.testing.assert_array_equal(exchanges(x, 2), every[:2])
    assert exchanges(x, 0).shape == (0, 6)
    np.testing.assert_array_equal(x, np.arange(6.0))


ONE = np.array([4.0, -4.0])


def two_labels(x):
    """Two components whose labels can be exchanged: (a, b) near (4, -4), and (b, a)."""
    there, back = np.sum((x - ONE) ** 2), np.sum((x - ONE[::-1]) ** 2)
    return float(np.logaddexp(-0.5 * there, -0.5 * back))


def test_a_run_that_starts_in_one_mode_finds_that_of_other_labels():
    start = ONE + np.random.default_rng(1).standard_normal((4, 2))
    idata = kmc.sample(two_labels, dim=2, initial=start, draws=None, max_evaluations=500, seed=2, progress=False)
    first = idata.posterior["x"].values[..., 0] > 0
    error = 0.5 / np.sqrt(bulk_ess(first[..., None].astype(float))[0])
    assert error < 0.1 and abs(first.mean() - 0.5) < 4 * error


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_without_exchanges_it_does_not(monkeypatch):
    """So that the test above says something."""
    monkeypatch.setattr("kmc.kernel_hmc.state.exchanges", lambda x, most: np.empty((0, len(x))))
    start = ONE + np.random.default_rng(1).standard_normal((4, 2))
    idata = kmc.sample(two_labels, dim=2, initial=start, draws=None, max_evaluations=500, seed=2, progress=False)
    assert np.all(idata.posterior["x"].values[..., 0] > 0)
