import numpy as np
import pytest

from kmc.surrogates.low_rank import fit_structured

DIM = 20


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def quadratic(rng, rank):
    """A diagonal plus a matrix of this rank, of both signs."""
    factor = rng.standard_normal((DIM, rank)) / np.sqrt(DIM)
    return np.diag(-0.5 - rng.random(DIM)) + (factor * np.resize([-3.0, 1.0], rank)) @ factor.T


def values(z, linear, matrix):
    return 4.0 + z @ linear + np.einsum("ni,ij,nj->n", z, matrix, z)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_diagonal_plus_low_rank_is_recovered_from_fewer_values_than_terms(rng, rank):
    """231 terms, 230 values."""
    matrix, linear = quadratic(rng, rank), rng.standard_normal(DIM)
    z = rng.standard_normal((230, DIM))
    weights = 0.5 + rng.random(230)
    fit = fit_structured(z, values(z, linear, matrix), weights / weights.sum())
    assert fit.error < 1e-3
    np.testing.assert_allclose(fit.quadratic, matrix, atol=1e-3)
    np.testing.assert_allclose(fit.linear, linear, atol=1e-3)


def test_coefficients_are_those_of_the_products(rng):
    z = rng.standard_normal((200, DIM))
    fit = fit_structured(z, values(z, np.zeros(DIM), quadratic(rng, 1)), np.full(200, 1 / 200))
    i, j = np.triu_indices(DIM)
    expected = z @ fit.linear + np.einsum("ni,ij,nj->n", z, fit.quadratic, z)
    np.testing.assert_allclose(np.hstack([z, z[:, i] * z[:, j]]) @ fit.coefficients, expected)


def test_without_structure_the_held_out_error_is_large(rng):
    a = rng.standard_normal((DIM, DIM))
    z = rng.standard_normal((200, DIM))
    y = values(z, np.zeros(DIM), -a @ a.T / DIM)
    assert fit_structured(z, y, np.full(200, 1 / 200)).error > 0.3 * y.std()


def test_few_values_allow_the_diagonal_alone(rng):
    z = rng.standard_normal((70, DIM))
    fit = fit_structured(z, values(z, np.zeros(DIM), quadratic(rng, 2)), np.full(70, 1 / 70))
    assert np.count_nonzero(fit.quadratic - np.diag(np.diag(fit.quadratic))) == 0
