"""The estimators in scikit-learn; kmc itself imports it only for an estimator's tags."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kmc.kernels import Gaussian, InverseMultiquadric
from kmc.scores import DenoisingAutoencoder, FiniteKEF, FullKEF, GaussianScore, LiteKEF, NystromKEF
from kmc.scores.densities import StudentT
from tests.sklearn_conventions import conventions

X = np.random.default_rng(0).standard_normal((60, 2)) @ np.array([[1.0, 0.5], [0.0, 3.0]]) + [
    10.0,
    0.0,
]

SMALL = [
    GaussianScore(),
    DenoisingAutoencoder(n_hidden=5, noise=0.3, max_iter=20, n_corruptions=2),
    DenoisingAutoencoder(n_hidden=[2, 4], noise=0.3, max_iter=5, n_corruptions=2, cv=2, tied=True),
    NystromKEF(n_basis=8),
    NystromKEF(
        n_basis=8,
        kernel=InverseMultiquadric(1.414, 1.0),
        components=0.5,
        base="uniform",
        regularization=1e-2,
    ),
    LiteKEF(n_basis=8, base="student-t"),
    FiniteKEF(n_basis=8),
    FullKEF(regularization=1e-2),
    FullKEF(bandwidth=[0.5, 2.0], regularization=[1e-3, 1e-1], cv=2),
]


@pytest.mark.parametrize(("estimator", "check"), conventions(SMALL))
def test_conventions(estimator, check):
    check(estimator)


def test_objects_and_arrays_are_parameters_like_any_other():
    options = {
        "kernel": Gaussian(2.0),
        "landmarks": X[:5],
        "base": StudentT([0.0, 0.0], np.eye(2), 3.0),
        "random_state": np.random.default_rng(0),
        "regularization": np.array([1e-3, 1e-2]),
    }
    estimator = NystromKEF(**options)
    assert all(estimator.get_params()[name] is value for name, value in options.items())
    np.testing.assert_array_equal(clone(estimator).fit(X).gradient(X), estimator.fit(X).gradient(X))


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (
            NystromKEF(base="uniform", regularization=1e-2, random_state=0),
            {"bandwidth": [1e-3, 4.0]},
        ),
        (
            LiteKEF(base="uniform", regularization=1e-2, random_state=0),
            {"kernel": [Gaussian(1e-3), Gaussian(4.0)]},
        ),
        (
            FiniteKEF(base="uniform", regularization=1e-2, random_state=0),
            {"bandwidth": [1e-3, 4.0]},
        ),
        (FullKEF(base="uniform", regularization=1e-2), {"bandwidth": [1e-3, 4.0]}),
        (DenoisingAutoencoder(n_hidden=4, max_iter=30, random_state=0), {"noise": [1e-3, 0.5]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_grid_search_by_score_finds_the_setting_that_is_not_absurd(estimator, grid):
    """Sections that are narrower than the distances between samples say nothing of the ones left
    out.
    """
    search = GridSearchCV(estimator, grid, cv=KFold(3, shuffle=True, random_state=0)).fit(X)
    assert search.best_index_ == 1
    assert search.best_score_ == pytest.approx(search.cv_results_["mean_test_score"][1])
    assert search.best_estimator_.gradient(X).shape == X.shape
    assert np.isfinite(search.score(X))


def test_a_grid_search_through_a_pipeline_splits_values_and_weights_too():
    values, weights = -0.5 * np.sum((X - [10.0, 0.0]) ** 2, axis=1), np.linspace(0.5, 1.5, 60)
    pipeline = make_pipeline(StandardScaler(), NystromKEF(n_basis=6, random_state=0))
    grid = {"nystromkef__base": ["uniform", "gaussian"], "nystromkef__value_weight": [0.1, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, values, nystromkef__weights=weights)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


def test_data_frames_bring_their_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b"])
    estimator = GaussianScore().fit(frame)
    np.testing.assert_array_equal(estimator.feature_names_in_, ["a", "b"])
    np.testing.assert_array_equal(estimator.gradient(frame), GaussianScore().fit(X).gradient(X))
    with pytest.raises(ValueError, match="same order"):
        estimator.gradient(frame[["b", "a"]])
    with pytest.raises(ValueError, match=r"column 1 \('b'\) of X is constant"):
        GaussianScore().fit(frame.assign(b=1.0))
    missing = frame.astype("Float64")
    missing.iloc[3, 0] = None
    with pytest.raises((ValueError, TypeError), match=r"NaN in row 3|does not convert"):
        GaussianScore().fit(missing)
