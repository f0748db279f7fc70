import numpy as np
import pytest
from spectral_problems import BentDoubleWell, DoubleWell, Normal, Sphere, problems, relative_error, sphere_error

from tests.oracles.differences import gradients


def test_known_eigenvalues():
    np.testing.assert_array_equal(Normal(3).eigenvalues(5), [1, 1, 1, 2, 2])
    np.testing.assert_array_equal(Sphere(3).eigenvalues(9), [2] * 3 + [6] * 5 + [12])
    np.testing.assert_array_equal(np.unique(Sphere(10).eigenvalues(25), return_counts=True)[1], [10, 15])


def test_double_wells_by_other_discretizations():
    """Finite volumes on a line; and a stiff bent well, whose slow mode is that of its valley."""
    well = DoubleWell(3.0)
    x, h = np.linspace(-2.4, 2.4, 2001, retstep=True)
    weight, between = np.exp(-3 * (x**2 - 1) ** 2), np.exp(-3 * ((x[1:] + x[:-1]) ** 2 / 4 - 1) ** 2) / h**2
    stiffness = np.diag(np.append(between, 0) + np.append(0, between)) - np.diag(between, 1) - np.diag(between, -1)
    root = 1 / np.sqrt(np.maximum(weight, 1e-12))
    kept = weight > 1e-12
    exact = np.linalg.eigvalsh((root[:, None] * stiffness * root)[np.ix_(kept, kept)])
    np.testing.assert_allclose(well.eigenvalues(4), exact[1:5], rtol=1e-3)
    bent = BentDoubleWell(2.0, 200.0).eigenvalues(1)[0]
    assert 0.2 < bent / DoubleWell(2.0).eigenvalues(1)[0] < 1.0  # the valley is longer


@pytest.mark.parametrize("problem", problems(), ids=lambda p: p.name)
def test_scores_belong_to_the_samples(problem):
    """E[x s(x)ᵀ] = -I."""
    x = problem.sample(np.random.default_rng(0), 40_000)
    np.testing.assert_allclose(x.T @ problem.score(x) / len(x), -np.eye(problem.dim), atol=0.12)


def test_scores_are_gradients():
    x = np.random.default_rng(1).standard_normal((4, 2))
    well, bent = DoubleWell(), BentDoubleWell()
    np.testing.assert_allclose(well.score(x[:, :1]), gradients(lambda p: -2 * (p[:, 0] ** 2 - 1) ** 2, x[:, :1]))
    potential = lambda p: -2 * (p[:, 0] ** 2 - 1) ** 2 - 2 * (p[:, 1] - p[:, 0] ** 2 / 2) ** 2  # noqa: E731
    np.testing.assert_allclose(bent.score(x), gradients(potential, x), atol=1e-9)


def test_error_measures():
    truth = np.array([1.0, 2.0])
    assert relative_error(truth, truth) == sphere_error(truth, truth) == 0.0
    assert relative_error(np.array([1.1]), truth) == pytest.approx(0.55)
    assert sphere_error(np.array([]), truth) == 1.0
