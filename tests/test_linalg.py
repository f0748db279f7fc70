import numpy as np
import pytest
from scipy import linalg

from kmc.bases import KernelSections
from kmc.kernels import Gaussian
from kmc.linalg import cholesky_whitening, eigen_whitening, eigh, generalized_eigh, ridge_path, symmetric_power
from tests.oracles import ridge

pytestmark = pytest.mark.packages


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def gram(points, bandwidth=1.0):
    return KernelSections(Gaussian(bandwidth), points).gram()


@pytest.mark.parametrize("driver", ["evd", "evr"])
def test_eigenvectors_are_orthonormal_and_in_columns(rng, driver):
    """In the memory, too: the products of a fit are rounded by layout, and draws must not depend on the driver's."""
    matrix = gram(rng.standard_normal((20, 3)))
    values, vectors = eigh(matrix, driver)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(20), atol=1e-12)
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix, atol=1e-12)
    assert np.all(np.diff(values) >= 0)
    assert vectors.flags.f_contiguous


@pytest.mark.parametrize("jitter", [0.0, 1e-3])
def test_cholesky_whitening_whitens(rng, jitter):
    k = gram(rng.standard_normal((20, 3)))
    w = cholesky_whitening(k, jitter)
    np.testing.assert_allclose(w.T @ (k + jitter * np.eye(20)) @ w, np.eye(20), atol=1e-9)
    np.testing.assert_array_equal(w, np.triu(w))


@pytest.mark.parametrize("jitter", [1e-18, 1e-11])
def test_cholesky_whitening_survives_duplicates(rng, jitter):
    """Of a singular Gram matrix, with a jitter that is lost in rounding or not."""
    k = gram(np.repeat(rng.standard_normal((30, 2)), 4, axis=0), bandwidth=3.0)
    w = cholesky_whitening(k, jitter)
    eigenvalues = linalg.eigvalsh(w.T @ k @ w)
    assert np.isfinite(w).all()
    assert eigenvalues.min() > -1e-3 and eigenvalues.max() < 1 + 1e-3
    assert np.sum(eigenvalues > 0.5) >= 20  # the jitter that was needed left the smooth functions alone


def test_cholesky_whitening_gives_up_on_an_invalid_gram_matrix():
    with pytest.raises(linalg.LinAlgError):
        cholesky_whitening(-np.eye(3), 1e-11)


@pytest.fixture
def regression(rng):
    """Centered design, y, weights that sum to one, and an extra quadratic term."""
    phi, y, weights = rng.standard_normal((25, 5)), rng.standard_normal(25), 0.1 + rng.random(25)
    weights /= weights.sum()
    extra = rng.standard_normal((5, 5))
    return phi - weights @ phi, y - weights @ y, weights, 0.02 * extra @ extra.T


@pytest.mark.parametrize("regularization", [1e-6, 1e-2, 10.0])
def test_ridge_path_solves(rng, regression, regularization):
    phi, y, weights, _ = regression
    mass, target = phi.T @ (weights[:, None] * phi), phi.T @ (weights * y)
    expected = np.linalg.solve(mass + regularization * np.eye(5), target)
    np.testing.assert_allclose(ridge_path(mass, target).coefficients(regularization), expected, rtol=1e-11)


@pytest.mark.parametrize("share", [1.0, 0.7])
@pytest.mark.parametrize("with_extra", [False, True])
def test_leave_one_out_is_refitting(regression, with_extra, share):
    """The weights of the values may sum to less than one, when other terms have a share in the objective."""
    phi, y, weights, extra = regression
    weights, extra = share * weights, extra * with_extra
    path = ridge_path(phi.T @ (weights[:, None] * phi) + extra, phi.T @ (weights * y))
    regularizations = np.array([1e-6, 1e-3, 1.0])
    residuals = path.leave_one_out(phi, y, weights, regularizations)
    expected = [ridge.leave_one_out(phi, y, weights, extra + r * np.eye(5)) for r in regularizations]
    np.testing.assert_allclose(residuals, np.transpose(expected), rtol=1e-10)


def test_a_point_that_decides_its_own_value_is_unknown_without_it(rng):
    """Leverage one: a function that lives at a single point says nothing of it once it is left out."""
    phi, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    phi = np.column_stack([phi, np.eye(30)[0]])
    weights = np.full(30, 1 / 30)
    phi, y = phi - weights @ phi, y - weights @ y
    path = ridge_path(phi.T @ (weights[:, None] * phi), phi.T @ (weights * y))
    residuals = path.leave_one_out(phi, y, weights, np.array([1e-14]))[:, 0]
    assert residuals[0] == y[0]
    assert np.isfinite(residuals).all()


def test_symmetric_power(rng):
    a = rng.standard_normal((4, 4))
    a = a @ a.T
    root = symmetric_power(a, -0.5)
    np.testing.assert_allclose(root @ a @ root, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(symmetric_power(a, 2.0), a @ a, rtol=1e-9)
    np.testing.assert_allclose(symmetric_power(np.diag([4.0, 0.0, -1.0]), 0.5, floor=0.01), np.diag([2.0, 0.1, 0.1]))


def test_eigen_whitening_keeps_the_rank():
    rng = np.random.default_rng(5)
    factor = rng.standard_normal((8, 5))
    gram = factor @ factor.T
    w = eigen_whitening(gram)
    assert w.shape == (8, 5)
    np.testing.assert_allclose(w.T @ gram @ w, np.eye(5), atol=1e-10)
    assert eigen_whitening(np.diag([1.0, 1e-9, 1e-3]), 1e-8).shape == (3, 2)
    for nothing in (np.zeros((3, 3)), np.full((2, 2), np.nan), -np.eye(2)):
        with pytest.raises(linalg.LinAlgError, match="no basis is left"):
            eigen_whitening(nothing)


@pytest.mark.parametrize("most", [3, 30, 80])
def test_eigen_whitening_of_a_few_directions(most):
    factor = np.random.default_rng(5).standard_normal((60, 40))
    gram = factor @ factor.T
    w, every = eigen_whitening(gram, most=most), eigen_whitening(gram)
    assert w.shape == (60, min(most, 40))  # the rank is 40
    np.testing.assert_allclose(w.T @ gram @ w, np.eye(w.shape[1]), atol=1e-10)
    np.testing.assert_allclose(np.abs(np.sum(w * every[:, : w.shape[1]], axis=0)), np.sum(w**2, axis=0), rtol=1e-9)


def test_generalized_eigenvalues_from_the_greatest():
    rng = np.random.default_rng(6)
    a, b = (m @ m.T + np.eye(6) for m in rng.standard_normal((2, 6, 6)))
    values, vectors = generalized_eigh(a, b, 3)
    np.testing.assert_allclose(a @ vectors, b @ vectors * values, atol=1e-9)
    np.testing.assert_allclose(vectors.T @ b @ vectors, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(values, np.sort(np.linalg.eigvals(np.linalg.solve(b, a)).real)[::-1][:3])
