import numpy as np
import pytest

from kmc.scores.lite_and_finite import LiteKEF
from tests.oracles import lite as oracle

BANDWIDTH, LAMBDA = 1.3, 1e-2
X = np.random.default_rng(1).standard_normal((60, 2)) @ [[1.0, 0.4], [0.0, 0.7]]
POINTS = np.random.default_rng(2).standard_normal((9, 2))


def fitted(**options):
    settings = {
        "bandwidth": BANDWIDTH,
        "regularization": LAMBDA,
        "n_basis": 12,
        "jitter": 0.0,
        "random_state": 0,
    }
    return LiteKEF(**(settings | {"base": "uniform", "penalty": "norm"} | options)).fit(X)


@pytest.mark.parametrize("penalty", ["norm", "norm+coefficients"])
@pytest.mark.parametrize("base", ["uniform", "gaussian", "student-t"])
def test_against_lemma_4(base, penalty):
    estimator = fitted(base=base, penalty=penalty)
    g = estimator.base_density_.gradient(X)
    a, h, gram = oracle.system(X, estimator.landmarks_, BANDWIDTH, g)
    system = a + LAMBDA * (gram + (penalty != "norm") * np.eye(12))
    alpha = -np.linalg.solve(system, h)
    np.testing.assert_allclose(estimator.coefficients_, alpha, rtol=1e-8)
    f, gradient = oracle.evaluate(alpha, estimator.landmarks_, BANDWIDTH, POINTS)
    base_density = estimator.base_density_
    np.testing.assert_allclose(
        estimator.log_density(POINTS), f + base_density.log_density(POINTS), rtol=1e-9
    )
    np.testing.assert_allclose(
        estimator.gradient(POINTS), gradient + base_density.gradient(POINTS), rtol=1e-8
    )


def test_penalty_is_chosen_by_the_held_out_objective():
    estimator = fitted(penalty="cv", regularization=[1e-3, 1e-1])
    table = estimator.cv_results_
    assert set(table["penalty"]) == {"norm", "norm+coefficients"}
    best = np.argmin(table["objective"])
    assert estimator.penalty_ == table["penalty"][best]
    assert estimator.regularization_ == table["regularization"][best]


def test_all_samples_as_landmarks():
    assert len(fitted(n_basis=60).landmarks_) == 60
    assert len(fitted(n_basis=1000).landmarks_) == 60


@pytest.mark.parametrize(
    ("options", "message"), [({"penalty": "l2"}, "penalty='l2'"), ({"n_basis": 0}, "n_basis=0")]
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        fitted(**options)


def test_a_kernel_without_two_derivatives_is_refused():
    with pytest.raises(ValueError, match="Exponential.*has 0 derivatives.*needs 2"):
        fitted(kernel="exponential")
