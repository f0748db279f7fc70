import numpy as np
import pytest
from scipy import linalg

from kmc.bases import KernelSections
from kmc.kernels import Gaussian
from kmc.linalg import (
    eigen_whitening,
    eigh,
    solve_shifted,
)

pytestmark = pytest.mark.packages


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def gram(points, bandwidth=1.0):
    return KernelSections(Gaussian(bandwidth), points).gram()


@pytest.mark.parametrize("driver", ["evd", "evr"])
def test_eigenvectors_are_orthonormal_and_in_columns(rng, driver):
    """In the memory, too: the products of a fit are rounded by layout, and draws must not depend on
    the driver's.
    """
    matrix = gram(rng.standard_normal((20, 3)))
    values, vectors = eigh(matrix, driver)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(20), atol=1e-12)
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix, atol=1e-12)
    assert np.all(np.diff(values) >= 0)
    assert vectors.flags.f_contiguous


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
    np.testing.assert_allclose(
        np.abs(np.sum(w * every[:, : w.shape[1]], axis=0)), np.sum(w**2, axis=0), rtol=1e-9
    )


RNG = np.random.default_rng(0)
ORTHOGONAL, _ = np.linalg.qr(RNG.standard_normal((80, 80)))
SPECTRUM = np.exp(-np.arange(80) / 4.0)
MATRIX = (ORTHOGONAL * SPECTRUM) @ ORTHOGONAL.T
RHS = MATRIX @ RNG.standard_normal(80)


def product(v):
    return MATRIX @ v


def deflated(shift):
    """The exact inverse on the leading eigenvectors, 1 / shift on the others."""
    kept = np.where(SPECTRUM > 1e-3, SPECTRUM, 0.0)
    return lambda r: ORTHOGONAL @ ((ORTHOGONAL.T @ r) / (kept + shift))


@pytest.mark.parametrize("preconditioned", [False, True])
@pytest.mark.parametrize("shift", [1.0, 1e-2, 1e-4])
def test_fitted_values_are_within_the_tolerance(shift, preconditioned):
    found = solve_shifted(
        product,
        shift,
        RHS,
        precondition=deflated(shift) if preconditioned else None,
        tolerance=1e-6,
    )
    exact = np.linalg.solve(MATRIX + shift * np.eye(80), RHS)
    assert found.converged
    assert found.error <= 1e-6
    fitted = RHS - shift * exact  # M x at the solution; b - M x is shift x there
    assert np.linalg.norm(product(found.x) - fitted) <= 2e-6 * np.linalg.norm(shift * exact)


def test_a_preconditioner_saves_products():
    plain = solve_shifted(product, 1e-4, RHS)
    assert (
        solve_shifted(product, 1e-4, RHS, precondition=deflated(1e-4)).iterations
        < 0.3 * plain.iterations
    )


@pytest.mark.parametrize("most", [1, 5])
def test_too_few_products(most):
    found = solve_shifted(product, 1e-4, RHS, most=most)
    assert not found.converged
    assert found.iterations <= most + 1
    assert np.all(np.isfinite(found.x))


def test_what_rounding_forbids_is_reported():
    """shift |x| is 1e-13 of |b|: no residual is that small in double precision."""
    found = solve_shifted(product, 1e-14, RHS, most=2000)
    assert not found.converged
    assert found.error > 1e-7
    assert np.all(np.isfinite(found.x))


def test_a_preconditioner_of_the_wrong_sign_ends_the_run():
    found = solve_shifted(product, 0.1, RHS, precondition=lambda r: -r)
    assert not found.converged
    assert np.all(np.isfinite(found.x))
