import numpy as np
import pytest

from kmc.scores import candidates


def test_bandwidths_of_a_name_are_lengths_and_of_an_object_factors():
    assert candidates.bandwidths("median", 3.0, named=True) == [3.0]
    assert candidates.bandwidths("median", 3.0, named=False) == [1.0]
    assert candidates.bandwidths("cv", 3.0, named=True) == [3.0 * f for f in candidates.BANDWIDTHS]
    assert candidates.bandwidths(0.5, 3.0, named=False) == [0.5]
    assert candidates.bandwidths(np.array([1, 2]), 3.0, named=True) == [1.0, 2.0]


def test_regularizations_do_not_depend_on_units():
    np.testing.assert_allclose(candidates.regularizations("cv", 10.0), candidates.regularizations("cv", 1.0) / 100)
    np.testing.assert_array_equal(candidates.regularizations(0.0, 1.0), [0.0])


@pytest.mark.parametrize("value", ["silverman", 0.0, -1.0, np.inf, np.nan, [1.0, 0.0]])
def test_bad_bandwidth(value):
    with pytest.raises(ValueError, match="bandwidth=.*expected"):
        candidates.bandwidths(value, 1.0, named=True)


@pytest.mark.parametrize("value", ["best", -1.0, np.inf, [0.1, np.nan]])
def test_bad_regularization(value):
    with pytest.raises(ValueError, match="regularization=.*expected"):
        candidates.regularizations(value, 1.0)


@pytest.mark.parametrize("value", [None, [], True, {}, [[1.0]]])
def test_types(value):
    with pytest.raises(TypeError, match="bandwidth=.*expected"):
        candidates.bandwidths(value, 1.0, named=True)


@pytest.mark.parametrize("cv", [1, 0, 2.0, True, "LOO", None])
def test_bad_folds(cv):
    with pytest.raises(ValueError, match="cv=.*expected 'loo'"):
        candidates.check_folds(cv)
