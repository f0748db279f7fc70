from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from kmc import selection
from kmc.kernels import Gaussian
from kmc.selection import Search


class Candidate(NamedTuple):
    kernel: Any
    bandwidth: float


def test_search_keeps_the_best_and_the_table():
    search = Search(np.array([0.1, 1.0]))
    first = Candidate("gaussian", 1.0)
    assert search.add(first, np.array([[3.0, 2.0], [5.0, 2.0]]))
    assert search.regularization == 1.0
    assert not search.add(first._replace(bandwidth=2.0), np.array([[np.nan, 2.5], [0.0, 2.5]]))
    assert search.add(first._replace(bandwidth=4.0), np.array([[1.0, 9.0], [1.0, 9.0]]))
    assert search.regularization == 0.1
    table = search.table()
    np.testing.assert_array_equal(table["bandwidth"], [1, 1, 2, 2, 4, 4])
    np.testing.assert_array_equal(table["regularization"], [0.1, 1.0] * 3)
    np.testing.assert_array_equal(table["objective"], [4.0, 2.0, np.nan, 2.5, 1.0, 9.0])
    assert table["std_error"][0] == pytest.approx(1.0)  # 3 and 5: sd sqrt(2), over sqrt(2)


def test_the_best_comes_with_its_setting():
    search = Search()
    assert search.add(Candidate("gaussian", 1.0), np.array([[3.0], [5.0]]), "first")
    assert search.add(Candidate("gaussian", 2.0), np.array([[1.0], [2.0]]), "second")
    assert search.best() == "second" and "regularization" not in search.table()


@pytest.mark.parametrize(("regularizations", "last"), [(np.ones(1), ", regularization"), (None, "")])
def test_nothing_finite(regularizations, last):
    search = Search(regularizations)
    assert not search.add(Candidate("gaussian", 1.0), np.array([[np.nan], [np.inf]]))
    with pytest.raises(ValueError, match=f"^no combination of kernel, bandwidth{last} has a finite held-out objective"):
        search.best()


def test_each_part_and_the_rest():
    assert selection.held_out([1, 2, 4], 7) == [(6, 1), (5, 2), (3, 4)]


def test_kernels_and_bandwidths_are_combined():
    """A name takes bandwidths in units of x, an object factors of its own."""
    model = SimpleNamespace(kernel=["gaussian", Gaussian(3.0)], bandwidth="cv")
    found = selection.kernel_candidates(model, 10.0, (0.5, 1.0))
    assert [kernel for _, _, kernel in found] == [Gaussian(5.0), Gaussian(10.0), Gaussian(1.5), Gaussian(3.0)]
    assert [bandwidth for _, bandwidth, _ in found] == [5.0, 10.0, 0.5, 1.0]


@pytest.mark.parametrize(("n", "count", "sizes"), [(10, 5, [2] * 5), (7, 3, [3, 2, 2]), (3, 5, [1, 1, 1])])
def test_folds_are_a_partition(n, count, sizes):
    parts = selection.folds_of(n, count, np.random.default_rng(0))
    assert [len(part) for part in parts] == sizes
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n))


def test_candidates_are_lists():
    assert selection.listed("kernel", "gaussian") == ["gaussian"]
    assert selection.listed("kernel", ("gaussian", Gaussian(2.0))) == ["gaussian", Gaussian(2.0)]
    assert selection.name_of(Gaussian(2.0)) == "Gaussian(bandwidth=2.0)"
