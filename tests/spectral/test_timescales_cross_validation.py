import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from kmc.spectral import TransitionOperator, vamp2_scores
from tests.spectral.test_transition import autoregression

ESTIMATOR = TransitionOperator(n_components=2, n_basis=20, bandwidth=[1.0, 3.0], regularization=1e-4, random_state=0)
PATHS = [autoregression(2_000, 0.9, seed) for seed in range(4)]


def test_scores_are_those_of_the_modes_on_trajectories_left_out():
    found = vamp2_scores(PATHS, [1, 5], ["gaussian", "matern52"], estimator=ESTIMATOR)
    assert found.scores.shape == (2, 2, 4)
    np.testing.assert_allclose(found.mean[:, 0], [1 + 0.9**2 + 0.9**4, 1 + 0.9**10 + 0.9**20], atol=0.2)
    operator = TransitionOperator(**(ESTIMATOR.get_params() | {"lagtime": 5, "kernel": "matern52"}))
    assert operator.fit(PATHS[:2] + PATHS[3:]).score([PATHS[2]]) == found.scores[1, 1, 2]
    assert found.std_errors[0, 0] == pytest.approx(found.scores[0, 0].std(ddof=1) / 2)
    assert found.best == [found.kernels[k] for k in found.mean.argmax(axis=1)]
    assert "lagtime 5, matern52: " in repr(found)


def test_too_narrow_a_kernel_has_a_smaller_score():
    fixed = TransitionOperator(
        **(ESTIMATOR.get_params() | {"bandwidth": 0.02, "regularization": 1e-10, "n_basis": 100})
    )
    narrow, wide = (vamp2_scores(PATHS, [1], ["gaussian"], estimator=e).mean for e in (fixed, ESTIMATOR))
    assert narrow[0, 0] < wide[0, 0] - 0.3


def test_one_trajectory_is_cut():
    found = vamp2_scores(PATHS[0], [1, 900], ["gaussian"], estimator=ESTIMATOR, n_folds=2)
    parts = np.array_split(PATHS[0], 2)
    expected = TransitionOperator(**ESTIMATOR.get_params()).fit(parts[1]).score(parts[0])
    assert found.scores[0, 0, 0] == pytest.approx(expected, rel=1e-12)


def test_the_same_in_a_search_of_scikit_learn():
    kernels = ["gaussian", "matern52"]
    search = GridSearchCV(ESTIMATOR, {"kernel": kernels, "lagtime": [1, 5]}, cv=4, refit=False).fit(PATHS)
    found = vamp2_scores(PATHS, [1, 5], kernels, estimator=ESTIMATOR)
    expected = found.mean.T.ravel()
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, rtol=1e-12)


def test_scores_of_deeptime():
    """The same split and modes: its score of the estimated singular functions on the trajectory that is left out."""
    decomposition = pytest.importorskip("deeptime.decomposition")
    found = vamp2_scores(PATHS, [2], ["gaussian"], estimator=ESTIMATOR)
    for fold in range(4):
        rest = [path for number, path in enumerate(PATHS) if number != fold]
        operator = TransitionOperator(**(ESTIMATOR.get_params() | {"lagtime": 2})).fit(rest)
        vamp = decomposition.VAMP(lagtime=2, dim=2, epsilon=1e-12)
        train, test = (
            vamp.fit([operator.transform(path)[:, :2] for path in paths]).fetch_model()
            for paths in (rest, [PATHS[fold]])
        )
        # deeptime counts pairs in one direction: a difference of the order of one step over the length
        assert found.scores[0, 0, fold] == pytest.approx(train.score(2, test), abs=0.01)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"lagtimes": [2, 1]}, ValueError, "lagtimes="),
        ({"kernels": []}, ValueError, "kernels="),
        ({"kernels": ["cosy"]}, ValueError, "kernel='cosy'"),
        ({"n_folds": 1}, ValueError, "n_folds=1: expected a whole number of at least 2"),
        ({"n_folds": 2.0}, ValueError, "n_folds=2.0"),
        ({"data": [iter(PATHS)]}, TypeError, "only once"),
        ({"data": (PATHS[0], PATHS[1])}, ValueError, "tuple of two arrays"),
    ],
)
def test_malformed(options, error, message):
    with pytest.raises(error, match=message):
        vamp2_scores(**({"data": PATHS} | options))
