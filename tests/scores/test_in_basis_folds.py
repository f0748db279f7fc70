import numpy as np
import pytest

from kmc.bases import KernelGradients, KernelSections
from kmc.kernels import Gaussian
from kmc.linalg import ridge_solution
from kmc.scores import NystromKEF, in_basis
from kmc.scores.base_fits import fit_base
from kmc.scores.in_basis import Folds
from kmc.scores.sums import Samples, accumulate_sums


@pytest.mark.parametrize("cv", [1, 0, 2.0, True, "LOO", None])
def test_bad_folds(cv):
    with pytest.raises(ValueError, match="cv=.*expected a whole number"):
        in_basis.check_folds(cv)


RNG = np.random.default_rng(5)
X = RNG.standard_normal((25, 2)) @ [[1.0, 0.3], [0.0, 0.6]]
WEIGHTS = RNG.uniform(0.2, 2.0, 25)
LAMBDAS = np.array([1e-3, 1e-1])


def samples(weights=None, values=None):
    weights = np.ones(len(X)) if weights is None else weights
    return Samples(X, np.zeros(2), weights, values, 0.7)


def pointwise(basis, base, x):
    gradients, g = basis.gradients(x), base.gradient(x)
    linear = basis.laplacians(x) + np.einsum("npd,nd->np", gradients, g)
    return gradients, linear, base.laplacian(x) + 0.5 * np.sum(g**2, axis=1)


@pytest.fixture(params=[KernelSections, KernelGradients])
def basis(request):
    return request.param(Gaussian(1.2), X[:4])


@pytest.mark.parametrize("values", [None, -0.5 * np.sum(X**2, axis=1)])
def test_folds_are_fits_without_the_fold(basis, values):
    base = fit_base("gaussian", X)
    parts = [np.arange(0, 25, 3), np.setdiff1d(np.arange(25), np.arange(0, 25, 3))]
    data = samples(WEIGHTS, values)
    folds = Folds(basis, data, base, parts)
    objectives = folds.objectives(basis.gram(), LAMBDAS, "auto")
    for k in range(2):
        training = accumulate_sums(basis, data.take(parts[1 - k]), base).objective()
        gradients, linear, constant = pointwise(basis, base, X[parts[k]])
        phi, w = basis.values(X[parts[k]]), WEIGHTS[parts[k]]
        for j, regularization in enumerate(LAMBDAS):
            beta = ridge_solution(training.matrix, -training.linear, basis.gram(), regularization)
            score = np.einsum("npd,p->nd", gradients, beta)
            expected = np.average(
                0.5 * np.sum(score**2, axis=1) + linear @ beta + constant, weights=w
            )
            if values is not None:
                residual = values[parts[k]] - base.log_density(X[parts[k]]) - phi @ beta
                residual -= np.average(residual, weights=w)
                expected += 0.5 * 0.7 * np.average(residual**2, weights=w)
            assert objectives[k, j] == pytest.approx(expected, rel=1e-8)


def test_with_many_functions_regularizations_that_are_far_too_small_are_left_out(monkeypatch):
    data = np.random.default_rng(6).standard_normal((60, 3))
    plain = NystromKEF(
        n_basis=15, kernel="gaussian", bandwidth="median", base="gaussian", random_state=0
    ).fit(data)
    monkeypatch.setattr(in_basis, "MANY", 10)
    quick = NystromKEF(
        n_basis=15, kernel="gaussian", bandwidth="median", base="gaussian", random_state=0
    ).fit(data)
    np.testing.assert_array_equal(quick.coefficients_, plain.coefficients_)
    left_out = np.isnan(quick.cv_results_["objective"])
    assert 0 < left_out.sum() < 8
    np.testing.assert_array_equal(
        quick.cv_results_["objective"][~left_out], plain.cv_results_["objective"][~left_out]
    )
    assert np.all(quick.cv_results_["regularization"][left_out] < quick.regularization_)
