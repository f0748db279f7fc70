import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from kmc.spectral import TransitionOperator
from tests.spectral.test_transition import autoregression

ESTIMATOR = TransitionOperator(
    n_components=2, n_basis=20, bandwidth=[1.0, 3.0], regularization=1e-4, random_state=0
)
PATHS = [autoregression(2_000, 0.9, seed) for seed in range(4)]


def held_out(options, fold):
    rest = [path for number, path in enumerate(PATHS) if number != fold]
    operator = TransitionOperator(**(ESTIMATOR.get_params() | options)).fit(rest)
    return operator, rest, operator.score([PATHS[fold]])


def test_a_search_of_scikit_learn():
    kernels, lagtimes = ["gaussian", "matern52"], [1, 5]
    search = GridSearchCV(
        ESTIMATOR, {"kernel": kernels, "lagtime": lagtimes}, cv=4, refit=False
    ).fit(PATHS)
    found = search.cv_results_["mean_test_score"].reshape(2, 2)
    expected = np.mean(
        [held_out({"kernel": "matern52", "lagtime": 5}, fold)[2] for fold in range(4)]
    )
    assert found[1, 1] == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(found[0], [1 + 0.9**2 + 0.9**4, 1 + 0.9**10 + 0.9**20], atol=0.2)


def test_too_narrow_a_kernel_has_a_smaller_score():
    narrow = held_out({"bandwidth": 0.02, "regularization": 1e-10, "n_basis": 100}, 0)[2]
    assert narrow < held_out({}, 0)[2] - 0.3
