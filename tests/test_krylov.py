import numpy as np
import pytest

from kmc.krylov import solve_shifted

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
    found = solve_shifted(product, shift, RHS, precondition=deflated(shift) if preconditioned else None, tolerance=1e-6)
    exact = np.linalg.solve(MATRIX + shift * np.eye(80), RHS)
    assert found.converged
    assert found.error <= 1e-6
    fitted = RHS - shift * exact  # M x at the solution; b - M x is shift x there
    assert np.linalg.norm(product(found.x) - fitted) <= 2e-6 * np.linalg.norm(shift * exact)


def test_a_preconditioner_saves_products():
    plain = solve_shifted(product, 1e-4, RHS)
    assert solve_shifted(product, 1e-4, RHS, precondition=deflated(1e-4)).iterations < 0.3 * plain.iterations


def test_any_shape():
    found = solve_shifted(lambda v: product(v.reshape(-1)).reshape(20, 4), 0.1, RHS.reshape(20, 4))
    np.testing.assert_allclose(found.x.reshape(-1), solve_shifted(product, 0.1, RHS).x, rtol=1e-9, atol=1e-12)


def test_a_zero_right_hand_side_is_solved_by_zero():
    found = solve_shifted(product, 0.1, np.zeros(80))
    assert found.converged
    assert not np.any(found.x)


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
