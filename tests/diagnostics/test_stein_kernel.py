import numpy as np
import pytest

from kmc.diagnostics.stein import SteinSections, stein_kernel
from kmc.kernels import (
    Exponential,
    Gaussian,
    InverseMultiquadric,
    Matern52,
    Metric,
    Polynomial,
    kernel_derivative,
)
from tests.oracles import stein as oracle

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((5, 3)), RNG.standard_normal((4, 3))
X_SCORES, Y_SCORES = RNG.standard_normal((5, 3)), RNG.standard_normal((4, 3))
A = RNG.standard_normal((3, 3))
KERNELS = [
    Gaussian(1.5),
    InverseMultiquadric(0.7),
    InverseMultiquadric(2.0, exponent=0.3),
    InverseMultiquadric(2.4, 2.0),
    Matern52(1.1),
    Polynomial(degree=1),
    Polynomial(degree=3, offset=0.5, bandwidth=1.7),
    Metric(Gaussian(1.5), A),
    Metric(Polynomial(degree=2), [0.5, 1.0, 2.0]),
    Metric(InverseMultiquadric(), A[:2]),
    0.5 * Polynomial(degree=1) + InverseMultiquadric(),
    Metric(2.0 * (Polynomial(degree=2) + Gaussian(2.0)), A),
    Gaussian(1.5) * InverseMultiquadric(1.414, 1.0),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_stein_kernel_is_its_definition(kernel):
    def k(x, y):
        return float(kernel_derivative(kernel, "k", x[None], y[None])[0, 0])

    expected = [
        [oracle.stein(k, x, y, s, t) for y, t in zip(Y, Y_SCORES)] for x, s in zip(X, X_SCORES)
    ]
    values = stein_kernel(kernel, X, X_SCORES, Y, Y_SCORES)
    np.testing.assert_allclose(values, expected, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_sections_have_mean_zero(kernel):
    """Under N(0, I), within four standard errors; and so has no other score."""
    x = np.random.default_rng(1).standard_normal((20_000, 3))
    for scores, right in [(-x, True), (-x + 1.0, False)]:
        values = stein_kernel(kernel, x, scores, Y, Y_SCORES)
        errors = values.mean(axis=0) / (values.std(axis=0) / np.sqrt(len(x)))
        assert bool(np.all(np.abs(errors) < 4)) is right


def test_it_is_symmetric_and_positive():
    scores = -X
    for kernel in KERNELS:
        values = stein_kernel(kernel, X, scores, X, scores)
        np.testing.assert_allclose(values, values.T, atol=1e-12 * np.abs(values).max())
        assert np.linalg.eigvalsh(values).min() > -1e-12 * np.abs(values).max()


def test_kernels_that_will_not_do():
    with pytest.raises(
        ValueError,
        match="Exponential.*has 0 derivatives at coincident points: a Stein kernel needs 2",
    ):
        stein_kernel(Exponential(), X, X_SCORES, Y, Y_SCORES)
    with pytest.raises(TypeError, match="expected a radial kernel, a dot-product kernel, or a sum"):
        stein_kernel(Gaussian() * Polynomial(), X, X_SCORES, Y, Y_SCORES)


def test_sections_as_a_basis():
    matrix = RNG.standard_normal((4, 2))
    basis = SteinSections(Gaussian(), Y, Y_SCORES, matrix, functions=1)
    rows = np.concatenate([X, X_SCORES, X[:, :1]], axis=1)
    expected = stein_kernel(Gaussian(), X, X_SCORES, Y, Y_SCORES) @ matrix
    assert basis.size == 3
    np.testing.assert_allclose(basis.values(rows), np.column_stack([expected, X[:, 0]]))
    with pytest.raises(TypeError, match="values only"):
        basis.gradients(rows)
