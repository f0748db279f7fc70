import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info, threadpool_limits

from kmc.estimator import (
    Estimator,
    NotFittedError,
    as_points,
    check_vector,
    check_weights,
    values_of,
)
from kmc.spectral import DiffusionMap


class Mean(Estimator):
    def __init__(self, trim=0.0, inner=None, label="a"):
        self.trim = trim
        self.inner = inner
        self.label = label

    def fit(self, X):
        self.mean_ = self._check_points(X, fitting=True).mean(axis=0)
        return self

    def shifted(self, X):
        return self._check_points(X) - self.mean_


class Bare(Estimator):
    pass


class Needy(Estimator):
    def __init__(self, size):
        self.size = size


class Frame:
    """The part of a data frame's interface that a fit uses."""

    def __init__(self, columns, data):
        self.columns, self._data = columns, np.asarray(data)

    def __array__(self, dtype=None, copy=None):
        return self._data.astype(dtype or self._data.dtype)


X = np.arange(6.0).reshape(3, 2)


# Parameters


def test_parameters_by_name():
    inner = Mean(trim=0.5)
    estimator = Mean(inner=inner)
    assert estimator.get_params(deep=False) == {"trim": 0.0, "inner": inner, "label": "a"}
    assert estimator.get_params()["inner__trim"] == 0.5
    assert Mean(inner=Mean).get_params() == {"trim": 0.0, "inner": Mean, "label": "a"}
    assert Bare().get_params() == {}


def test_setting_parameters():
    inner = Mean()
    estimator = Mean().set_params(trim=0.1, inner=inner, inner__trim=0.2, inner__label="b")
    assert (estimator.trim, inner.trim, inner.label) == (0.1, 0.2, "b")
    assert estimator.set_params() is estimator


def test_a_parameter_that_is_none():
    with pytest.raises(
        ValueError,
        match=r"'trimm' is not a parameter of Mean: expected one of \['inner', 'label', 'trim",
    ):
        Mean().set_params(trimm=0.1)
    with pytest.raises(ValueError, match="'other' is not a parameter of Bare"):
        Bare().set_params(other__inner=1)
    with pytest.raises(ValueError, match="'trim__inner': trim=0.0 has no parameters"):
        Mean().set_params(trim__inner=1)


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (Mean(), "Mean()"),
        (Mean(trim=0.5, label="b"), "Mean(label='b', trim=0.5)"),
        (Mean(trim=np.zeros(2)), "Mean(trim=array([0., 0.]))"),
        (Mean(trim=np.float64(0.0)), "Mean()"),
        (Mean(inner=Mean(trim=1)), "Mean(inner=Mean(trim=1))"),
        (Bare(), "Bare()"),
        (Needy(3), "Needy(size=3)"),
    ],
)
def test_what_prints_is_what_was_changed(estimator, expected):
    assert repr(estimator) == expected


# Fitting


def test_an_unfitted_estimator_says_so():
    with pytest.raises(NotFittedError, match="This Mean instance is not fitted yet: call fit"):
        Mean().shifted(X)
    assert issubclass(NotFittedError, ValueError) and issubclass(NotFittedError, AttributeError)
    assert not Mean().__sklearn_is_fitted__() and Mean().fit(X).__sklearn_is_fitted__()


def test_a_failed_fit_leaves_nothing_of_the_one_before():
    class Failing(Mean):
        def fit(self, X):
            self._check_points(X, fitting=True)
            raise RuntimeError

    estimator = Failing()
    Mean.fit(estimator, X)
    with pytest.raises(ValueError, match="NaN"):  # before anything has begun
        estimator.fit(X * np.nan)
    np.testing.assert_array_equal(estimator.shifted(X), X - X.mean(axis=0))
    with pytest.raises(RuntimeError):
        estimator.fit(X[:, :1])
    with pytest.raises(NotFittedError):
        estimator.shifted(X)


def test_the_number_of_columns_is_remembered():
    estimator = Mean().fit(X)
    assert estimator.n_features_in_ == 2
    with pytest.raises(
        ValueError, match="X has 3 features, but Mean is expecting 2 features as input"
    ):
        estimator.shifted(np.ones((4, 3)))
    assert estimator.fit(X[:, :1]).n_features_in_ == 1


def test_the_names_of_columns_are_remembered():
    estimator = Mean().fit(Frame(["a", "b"], X))
    np.testing.assert_array_equal(estimator.feature_names_in_, ["a", "b"])
    np.testing.assert_array_equal(estimator.shifted(Frame(["a", "b"], X)), estimator.shifted(X))
    with pytest.raises(ValueError, match="same order"):
        estimator.shifted(Frame(["b", "a"], X))
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- c\n.*yet now missing:\n- b\n"):
        estimator.shifted(Frame(["a", "c"], X))
    assert not hasattr(estimator.fit(X), "feature_names_in_")
    assert not hasattr(estimator.fit(Frame([0, 1], X)), "feature_names_in_")


def test_names_of_several_kinds_are_an_error():
    with pytest.raises(TypeError, match="only supported if all input features have string names"):
        Mean().fit(Frame(["a", 1], X))


# Points


@pytest.mark.parametrize(
    "points",
    [
        X,
        X.tolist(),
        tuple(map(tuple, X.tolist())),
        [X[0], X[1], X[2]],
        X.astype(np.float32),
        X.astype(int),
        X.astype(object),
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
        X.astype(">f8"),
        np.ma.masked_array(X),
        Frame(["a", "b"], X),
    ],
)
def test_anything_like_an_array_becomes_points(points):
    x = as_points(points)
    np.testing.assert_array_equal(x, X)
    assert x.dtype == np.float64 and x.dtype.isnative and x.flags.c_contiguous


def test_arrays_that_are_points_are_not_copied():
    x = X.copy()
    x.flags.writeable = False
    assert as_points(x) is x


@pytest.mark.parametrize(
    ("points", "error", "message"),
    [
        (3.0, ValueError, "Expected 2D array, got scalar array instead"),
        ([1.0, 2.0], ValueError, r"Expected 2D array, got 1D array instead: X has shape \(2,\)"),
        (np.zeros((2, 2, 2)), ValueError, "got 3D array instead"),
        ([[1.0, 2.0], [3.0]], ValueError, "X does not convert to an array of numbers"),
        ([["a", "b"]], ValueError, "X does not convert to an array of numbers"),
        ([[{}, 1.0]], TypeError, "X does not convert to an array of numbers"),
        (None, ValueError, "got scalar array instead|does not convert"),
        (X * 1j, ValueError, "Complex data not supported: X has dtype complex128"),
        (
            np.zeros((3, 0)),
            ValueError,
            r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required",
        ),
        (
            np.zeros((0, 3)),
            ValueError,
            r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required",
        ),
        (np.where(X == 3.0, np.nan, X), ValueError, "X contains NaN in row 1"),
        (np.where(X == 4.0, -np.inf, X), ValueError, "X contains infinity in row 2"),
        (np.ma.masked_equal(X, 3.0), ValueError, "X has masked entries"),
    ],
)
def test_invalid_points_raise(points, error, message):
    with pytest.raises(error, match=message):
        as_points(points)


def test_too_few_points():
    with pytest.raises(
        ValueError,
        match=r"1 sample\(s\).*minimum of 2 is required: n_samples=1 points in Y are too few",
    ):
        as_points(X[:1], least=2, name="Y")


# Other arguments


def test_weights_have_mean_one():
    np.testing.assert_array_equal(check_weights(None, 3), np.ones(3))
    np.testing.assert_allclose(check_weights([1, 0, 3], 3), [0.75, 0.0, 2.25])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0, 2.0], "weights: expected non-negative numbers.*the least is -1"),
        ([0.0, 0.0, 0.0], "not all of them zero"),
        ([1.0, 2.0], r"weights has shape \(2,\): expected \(3,\)"),
        (2.0, r"weights has shape \(\): expected \(3,\)"),
        ([1.0, np.nan, 1.0], "weights contains NaN or infinity, first in row 1"),
        (["a", "b", "c"], "weights does not convert to an array of numbers"),
        ([1j, 1.0, 1.0], "Complex data not supported: weights"),
    ],
)
def test_weights_that_are_none(weights, message):
    with pytest.raises(ValueError, match=message):
        check_weights(weights, 3)


def test_vectors_are_named():
    np.testing.assert_array_equal(check_vector([1, 2], 2, "values"), [1.0, 2.0])
    with pytest.raises(
        ValueError,
        match=r"values has shape \(2, 1\): expected \(2,\), one number for each row of X",
    ):
        check_vector([[1], [2]], 2, "values")


def test_the_second_argument_has_two_names():
    y = np.ones(3)
    assert values_of(y, None) is y and values_of(None, y) is y and values_of(None, None) is None
    with pytest.raises(TypeError, match="y and values are two names of the same argument"):
        values_of(y, y)


def test_fits_use_one_thread():
    inside = []

    class Probe(Estimator):
        def fit(self, X, y=None):
            inside.append(
                {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}
            )
            return self

    with threadpool_limits(limits=2, user_api="blas"):
        Probe().fit(None)
    assert inside == [{1}]


def test_a_grid_search_over_a_diffusion_map():
    """The method ``score`` is not hidden by a parameter: that one is ``score_function``."""
    x = np.random.default_rng(0).standard_normal((300, 2))
    found = GridSearchCV(
        DiffusionMap(2, n_basis=20, random_state=0), {"bandwidth": [1.0, 4.0]}, cv=2
    ).fit(x)
    assert found.best_score_ > 0
