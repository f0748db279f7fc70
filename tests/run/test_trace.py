import numpy as np
import pytest

from kmc.mcmc.base import STATS
from kmc.run.trace import GrowingArray, joined
from tests.run.sweeps import sweep, trace


@pytest.mark.parametrize("draws", [0, 1, 63, 64, 65, 128, 300])
def test_every_draw_is_kept_in_order(draws):
    kept = trace(draws, chains=3, dim=2)
    code = 10.0 * np.arange(3)[:, None] + 100.0 * np.arange(draws)
    assert len(kept) == draws
    np.testing.assert_array_equal(kept.positions, code[:, :, None] + np.arange(2))
    np.testing.assert_array_equal(kept.log_density, -code)
    np.testing.assert_array_equal(kept.stats["n_steps"], code % 7)


def test_statistics_have_their_types():
    stats = trace(2).stats
    assert {name: column.dtype for name, column in stats.items()} == {n: np.dtype(t) for n, t in STATS.items()}
    assert all(column.shape == (3, 2) for column in stats.values())


def test_one_trace_joined_is_itself():
    kept = trace(5)
    assert joined([kept]) is kept


def test_traces_joined_are_side_by_side():
    """The last draws that all have, the chains in order; and the parts stay as they are."""
    first, second = trace(70, chains=2), trace(67, chains=1)
    both = joined([first, second])
    assert len(both) == 67 and len(first) == 70
    np.testing.assert_array_equal(both.positions, np.concatenate([first.positions[:, 3:], second.positions]))
    np.testing.assert_array_equal(both.log_density, np.concatenate([first.log_density[:, 3:], second.log_density]))
    for name, column in both.stats.items():
        np.testing.assert_array_equal(column, np.concatenate([first.stats[name][:, 3:], second.stats[name]]))
    both.append(sweep(1, 3, 2))
    assert len(both) == 68 and len(first) == 70


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 200, 3000])
def test_rows_come_back_as_they_were_appended(n):
    column = GrowingArray(np.empty((0, 2)))
    given = np.arange(2.0 * n).reshape(n, 2)
    for row in given:
        column.append(row)
    assert len(column) == n
    for start, stop in [(0, n), (0, 0), (n // 2, n), (n // 3, n // 2), (max(n - 1, 0), n)]:
        np.testing.assert_array_equal(column.rows(start, stop), given[start:stop])
        assert column.rows(start, stop).shape == (stop - start, 2)


def test_first_rows_and_later_ones():
    column = GrowingArray(np.arange(70))
    column.append(np.array(70))
    np.testing.assert_array_equal(column.rows(68, 71), [68, 69, 70])


def test_a_row_is_copied_and_cast():
    column, row = GrowingArray(np.empty((0, 1), np.int8)), np.array([3])
    column.append(row)
    row[0] = 4
    assert column.rows(0, 1).tolist() == [[3]] and column.rows(0, 1).dtype == np.int8


def test_rows_that_were_given_out_stay_as_they_are():
    column = GrowingArray(np.empty(0))
    for i in range(64):
        column.append(np.float64(i))
    seen = column.rows(0, 64)
    copy = seen.copy()
    column.append(np.float64(64))
    np.testing.assert_array_equal(seen, copy)


@pytest.mark.parametrize("n", [0, 64, 100])
def test_widening_keeps_the_rows(n):
    column = GrowingArray(np.empty(0, np.int32))
    for i in range(n):
        column.append(np.int32(i))
    column.widen(np.dtype(np.float64))
    column.append(np.float64(0.5))
    np.testing.assert_array_equal(column.rows(0, n + 1), [*range(n), 0.5])


def test_memory_is_that_of_the_rows_and_an_eighth():
    column = GrowingArray(np.empty((0, 100)))
    for _ in range(5000):
        column.append(np.zeros(100))
    held = sum(block.nbytes for block in (*column._full, column._block))
    assert held <= 1.15 * 5000 * 800
