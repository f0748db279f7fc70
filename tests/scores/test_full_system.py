import numpy as np
import pytest

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


def system(values=None):
    return FullSystem(KERNEL, Samples(X, X.mean(axis=0), WEIGHTS, values, 2.0), BASE)


@pytest.mark.parametrize("values", [None, VALUES], ids=["samples", "values"])
def test_the_reported_error_bounds_that_of_the_fitted_rows(values):
    exact = list(system(values).dense(LAMBDAS))
    evaluation = EvaluationOperator(
        KERNEL, X - X.mean(axis=0), WEIGHTS, None if values is None else 2.0
    )
    target = np.zeros(X.shape), (np.zeros(30) if values is None else VALUES - BASE.log_density(X))
    for solved, expected in zip(system(values).iterative(LAMBDAS, 1e-4, 1000), exact, strict=True):
        misfit = np.linalg.norm(evaluation.of(expected.function) - evaluation.rows(*target))
        apart = np.linalg.norm(evaluation.of(solved.function) - evaluation.of(expected.function))
        assert 0 < apart <= 1.01 * solved.error * misfit
        assert solved.error <= 1e-4
        assert solved.converged
