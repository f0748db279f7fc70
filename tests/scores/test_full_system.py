import numpy as np
import pytest

from kmc.bases import KernelExpansion
from kmc.kernels import Gaussian
from kmc.scores.densities import StudentT
from kmc.scores.full_system import EvaluationOperator, FullSystem
from kmc.scores.sums import Samples

RNG = np.random.default_rng(9)
X = RNG.standard_normal((30, 2))
WEIGHTS = RNG.uniform(0.5, 2.0, 30)
VALUES = -np.sum(X**2, axis=1)
KERNEL, BASE = Gaussian(1.4), StudentT(np.zeros(2), np.eye(2), 5.0)
LAMBDAS = np.array([1e-1, 1e-2, 1e-4])
POINTS = RNG.standard_normal((5, 2))


def system(values=None):
    return FullSystem(KERNEL, Samples(X, X.mean(axis=0), WEIGHTS, values, 2.0), BASE)


@pytest.mark.parametrize("values", [None, VALUES], ids=["samples", "values"])
def test_paths_agree_with_single_solutions(values):
    one = [next(system(values).dense(np.array([r]))).function.gradient(POINTS) for r in LAMBDAS]
    for path in (system(values).dense(LAMBDAS), system(values).iterative(LAMBDAS, 1e-10, 1000)):
        for solved, expected in zip(path, one, strict=True):
            np.testing.assert_allclose(solved.function.gradient(POINTS), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("values", [None, VALUES], ids=["samples", "values"])
def test_the_reported_error_bounds_that_of_the_fitted_rows(values):
    exact = list(system(values).dense(LAMBDAS))
    evaluation = EvaluationOperator(KERNEL, X - X.mean(axis=0), WEIGHTS, None if values is None else 2.0)
    target = np.zeros(X.shape), (np.zeros(30) if values is None else VALUES - BASE.log_density(X))
    for solved, expected in zip(system(values).iterative(LAMBDAS, 1e-4, 1000), exact, strict=True):
        misfit = np.linalg.norm(evaluation.of(expected.function) - evaluation.rows(*target))
        apart = np.linalg.norm(evaluation.of(solved.function) - evaluation.of(expected.function))
        assert 0 < apart <= 1.01 * solved.error * misfit
        assert solved.error <= 1e-4
        assert solved.converged


@pytest.mark.parametrize("value_weight", [None, 2.0])
def test_adjoint(value_weight):
    """<E f, u> = <f, E* u>: for f = k(y, ·) the right-hand side is (E* u)(y)."""
    evaluation = EvaluationOperator(KERNEL, X, WEIGHTS, value_weight)
    f = KernelExpansion(KERNEL, POINTS[:1], sections=np.ones(1))
    g = KernelExpansion(KERNEL, X, gradients=RNG.standard_normal(X.shape))
    u = evaluation.of(g)
    assert np.sum(evaluation.of(f) * u) == pytest.approx(evaluation.adjoint(u).values(POINTS[:1])[0], rel=1e-11)


@pytest.mark.parametrize("value_weight", [None, 2.0])
def test_product_is_that_of_the_matrix(value_weight):
    evaluation = EvaluationOperator(KERNEL, X, WEIGHTS, value_weight)
    u = evaluation.of(KernelExpansion(KERNEL, X, sections=RNG.standard_normal(30)))
    expected = evaluation.dense() @ u.reshape(-1)
    np.testing.assert_allclose(evaluation.product(u).reshape(-1), expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(evaluation.of(evaluation.adjoint(u)).reshape(-1), expected, rtol=1e-9, atol=1e-11)
