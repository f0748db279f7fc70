import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold

from kmc.kernels import Gaussian
from kmc.spectral import TransitionOperator, transition_selection
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
    with pytest.raises(
        ValueError, match="tuple of two arrays of the same shape, which can mean two things"
    ):
        TransitionOperator().fit((x[:-1], x[1:]))
    with pytest.raises(ValueError, match="y has shape .99, 1. for X of shape .100, 1."):
        TransitionOperator().fit(x, x[1:])


def test_pairs_are_cross_validated_by_scikit_learn():
    """By the VAMP-2 score; also kernels: a very narrow one says nothing of the pairs left out."""
    x = autoregression(2000, 0.9, 0)
    grid = {"kernel": [Gaussian(0.001), Gaussian(1.0)]}
    model = TransitionOperator(
        n_components=1, n_basis=20, bandwidth="median", regularization=1e-6, random_state=0
    )
    search = GridSearchCV(model, grid, cv=KFold(3)).fit(x[:-1], x[1:])
    assert search.best_index_ == 1
    assert search.best_score_ == pytest.approx(1 + 0.9**2, abs=0.1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["array", "list", "memory map", "dask"])
def test_bandwidths_are_compared_on_some_pairs_and_modes_fitted_to_all(
    kind, weighted, tmp_path, monkeypatch
):
    monkeypatch.setattr(transition_selection, "MOST_PAIRS", 1000)
    x, weights = (
        autoregression(8000, 0.9, 0),
        np.random.default_rng(1).random(8000) if weighted else None,
    )
    operator = TransitionOperator(n_components=2, n_basis=30, random_state=0)
    data = x
    if kind == "list":
        data, weights = (
            [x[:5000], x[5000:]],
            weights if weights is None else [weights[:5000], weights[5000:]],
        )
    elif kind == "memory map":
        np.save(tmp_path / "x.npy", x)
        data = np.load(tmp_path / "x.npy", mmap_mode="r")
    elif kind == "dask":
        data = pytest.importorskip("dask.array").from_array(x, chunks=(1500, 1))
    operator.fit(data, weights=weights)
    assert operator.eigenvalues_[0] == pytest.approx(0.9, abs=0.03)  # three standard errors
    table = operator.cv_results_
    assert len(table["score"]) == 45 and len(set(table["bandwidth"])) == 5
    options = {"bandwidth": operator.bandwidth_, "landmarks": operator.landmarks_}
    again = TransitionOperator(n_components=2, **options).fit(data, weights=weights)
    np.testing.assert_allclose(again.eigenvalues_, operator.eigenvalues_, rtol=1e-7)
    np.testing.assert_allclose(again.timescale_errors_, operator.timescale_errors_, rtol=1e-6)
    assert again.regularization_ == operator.regularization_
    own = table["bandwidth"] == operator.bandwidth_
    np.testing.assert_allclose(table["score"][own], again.cv_results_["score"], rtol=1e-7)
