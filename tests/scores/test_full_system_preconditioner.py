import numpy as np
import pytest

from kmc.kernels import Gaussian, Matern72
from kmc.scores.full_system import EvaluationOperator, Preconditioner

RNG = np.random.default_rng(4)
X = RNG.standard_normal((60, 2))
WEIGHTS = RNG.uniform(0.5, 2.0, 60)


def matrix_of(apply, evaluation):
    """Columns of a linear map on the range of E."""
    columns = np.eye(np.prod(evaluation.shape)).reshape(-1, *evaluation.shape)
    return np.array([apply(_centered(column, evaluation)).reshape(-1) for column in columns])


def _centered(rows, evaluation):
    """Projected on the range of E, whose values have no constant part."""
    rows = rows.copy()
    if evaluation.value_weight is not None:
        root = np.sqrt(evaluation.weights)
        rows[:, -1] -= root * (root @ rows[:, -1] / evaluation.weights.sum())
    return rows


@pytest.mark.parametrize("value_weight", [None, 1.7])
@pytest.mark.parametrize("kernel", [Gaussian(1.5), Matern72(2.0)])
def test_with_all_samples_and_without_noise_it_is_the_inverse(kernel, value_weight):
    """Gradients at every sample span the range of E up to the values; the shift is far above the rounding."""
    evaluation = EvaluationOperator(kernel, X, WEIGHTS, value_weight)
    shift = 0.3
    exact = np.linalg.inv(evaluation.dense() + shift * np.eye(np.prod(evaluation.shape)))
    apply = Preconditioner(evaluation, rank=120).at(shift)
    rows = _centered(RNG.standard_normal(evaluation.shape), evaluation)
    expected = (exact @ rows.reshape(-1)).reshape(evaluation.shape)
    tolerance = 0.05 if value_weight is None else 0.5  # directions with Λ < shift / 10 are left out; so are sections
    assert np.linalg.norm(apply(rows) - expected) < tolerance * np.linalg.norm(expected)


@pytest.mark.parametrize("value_weight", [None, 1.7])
@pytest.mark.parametrize("shift", [1e1, 1e-3, 1e-9, 1e-14])
def test_symmetric_and_positive_at_every_shift(shift, value_weight):
    evaluation = EvaluationOperator(Gaussian(2.5), X, WEIGHTS, value_weight)
    matrix = matrix_of(Preconditioner(evaluation, rank=32).at(shift), evaluation)
    scale = np.abs(matrix).max()
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-6 * scale)
    least = 1 if value_weight is None else 2  # the constant is not in the range
    assert np.linalg.eigvalsh(matrix + matrix.T)[least - 1] > -1e-9 * scale


@pytest.mark.parametrize("value_weight", [None, 1.7])
def test_condition_number_falls(value_weight):
    """By the ratio of the eigenvalues that the landmarks capture to the shift."""
    evaluation = EvaluationOperator(Gaussian(2.5), X, WEIGHTS, value_weight)
    shift = 1e-3
    system = evaluation.dense() + shift * np.eye(np.prod(evaluation.shape))
    values = np.linalg.eigvals(matrix_of(Preconditioner(evaluation, rank=60).at(shift), evaluation) @ system).real
    values = np.sort(values)[0 if value_weight is None else 1 :]
    assert np.linalg.cond(system) > 5e3
    assert values[-1] / values[0] < 300


def test_duplicated_samples():
    evaluation = EvaluationOperator(Gaussian(1.5), np.repeat(X[:5], 12, axis=0), WEIGHTS)
    assert np.all(np.isfinite(Preconditioner(evaluation, rank=60).at(1e-6)(RNG.standard_normal(evaluation.shape))))
