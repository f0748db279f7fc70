import numpy as np
import pytest

from kmc.kernels import Gaussian
from kmc.scores import selection
from kmc.scores.selection import Candidate, Search


def test_search_keeps_the_best_and_the_table():
    search = Search(np.array([0.1, 1.0]))
    first = Candidate("gaussian", 1.0, "uniform", "norm")
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


@pytest.mark.parametrize(("n", "count", "sizes"), [(10, 5, [2] * 5), (7, 3, [3, 2, 2]), (3, 5, [1, 1, 1])])
def test_folds_are_a_partition(n, count, sizes):
    parts = selection.folds(n, count, np.random.default_rng(0))
    assert [len(part) for part in parts] == sizes
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n))


def test_bandwidths_of_a_name_are_lengths_and_of_an_object_factors():
    assert selection.bandwidths("median", 3.0, named=True) == [3.0]
    assert selection.bandwidths("median", 3.0, named=False) == [1.0]
    assert selection.bandwidths("cv", 3.0, named=True) == [3.0 * f for f in selection.BANDWIDTHS]
    assert selection.bandwidths(0.5, 3.0, named=False) == [0.5]
    assert selection.bandwidths(np.array([1, 2]), 3.0, named=True) == [1.0, 2.0]


def test_regularizations_do_not_depend_on_units():
    np.testing.assert_allclose(selection.regularizations("cv", 10.0), selection.regularizations("cv", 1.0) / 100)
    np.testing.assert_array_equal(selection.regularizations(0.0, 1.0), [0.0])


@pytest.mark.parametrize("value", ["silverman", 0.0, -1.0, np.inf, np.nan, [1.0, 0.0]])
def test_bad_bandwidth(value):
    with pytest.raises(ValueError, match="bandwidth=.*expected"):
        selection.bandwidths(value, 1.0, named=True)


@pytest.mark.parametrize("value", ["best", -1.0, np.inf, [0.1, np.nan]])
def test_bad_regularization(value):
    with pytest.raises(ValueError, match="regularization=.*expected"):
        selection.regularizations(value, 1.0)


@pytest.mark.parametrize("value", [None, [], True, {}, [[1.0]]])
def test_types(value):
    with pytest.raises(TypeError, match="bandwidth=.*expected"):
        selection.bandwidths(value, 1.0, named=True)


@pytest.mark.parametrize("cv", [1, 0, 2.0, True, "LOO", None])
def test_bad_folds(cv):
    with pytest.raises(ValueError, match="cv=.*expected 'loo'"):
        selection.check_folds(cv)


def test_candidates_are_lists():
    assert selection.listed("gaussian") == ["gaussian"]
    assert selection.listed(("gaussian", Gaussian(2.0))) == ["gaussian", Gaussian(2.0)]
    assert selection.name_of(Gaussian(2.0)) == "Gaussian(bandwidth=2.0)"
