import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold

from kmc.kernels import Gaussian
from kmc.spectral import TransitionOperator
from tests.spectral.test_transition import autoregression


def test_pairs_are_those_of_a_trajectory():
    x = autoregression(5000, 0.9, 0)
    weights = np.random.default_rng(1).random(4999)
    options = {"n_components": 2, "landmarks": x[:20], "bandwidth": 1.0, "regularization": 1e-6}
    trajectory = TransitionOperator(**options).fit(x, weights=np.append(weights, 0.0))
    pairs = TransitionOperator(**options).fit(x[:-1], x[1:], weights)
    np.testing.assert_allclose(pairs.eigenvalues_, trajectory.eigenvalues_, rtol=1e-8)
    assert pairs.score(x[:-1], x[1:]) == pytest.approx(trajectory.score(x), rel=1e-8)
    shuffled = np.random.default_rng(2).permutation(4999)
    again = TransitionOperator(**options).fit(x[:-1][shuffled], x[1:][shuffled], weights[shuffled])
    np.testing.assert_allclose(again.eigenvalues_, trajectory.eigenvalues_, rtol=1e-8)


def test_a_tuple_of_two_could_be_either():
    x = autoregression(100, 0.9, 0)
    with pytest.raises(ValueError, match="tuple of two arrays of the same shape, which can mean two things"):
        TransitionOperator().fit((x[:-1], x[1:]))
    with pytest.raises(ValueError, match="y has shape .99, 1. for X of shape .100, 1."):
        TransitionOperator().fit(x, x[1:])


def test_pairs_are_cross_validated_by_scikit_learn():
    """By the VAMP-2 score; also kernels: a very narrow one says nothing of the pairs left out."""
    x = autoregression(2000, 0.9, 0)
    grid = {"kernel": [Gaussian(0.001), Gaussian(1.0)]}
    model = TransitionOperator(n_components=1, n_basis=20, bandwidth="median", regularization=1e-6, random_state=0)
    search = GridSearchCV(model, grid, cv=KFold(3)).fit(x[:-1], x[1:])
    assert search.best_index_ == 1
    assert search.best_score_ == pytest.approx(1 + 0.9**2, abs=0.1)
