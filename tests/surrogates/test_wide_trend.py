import numpy as np
import pytest

from kmc.surrogates.trend import fit_gaussian, quadratic_features
from kmc.surrogates.wide_trend import is_wide, some_of, terms_of, values_for, values_for_any, wide_ridge

DIM = 54  # the fewest with so many terms


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def test_from_fifty_four_dimensions_on():
    assert is_wide(DIM) and not is_wide(DIM - 1)
    assert terms_of(3) == quadratic_features(np.zeros((1, 3))).size == 10
    assert terms_of(DIM) < values_for_any(DIM) < values_for(DIM)


def test_some_rows():
    rows = np.arange(5, 10_005)
    assert some_of(rows, DIM - 1) is rows
    some = some_of(rows, DIM)
    assert len(np.unique(some)) == len(some) == values_for(DIM) and some[0] == 5 and some[-1] == 10_004


def test_ridge_regression(rng):
    """Noisy values: the coefficients are those of a ridge on the list, and no other has a smaller held-out error."""
    features, weights = rng.standard_normal((100, 60)), 0.5 + rng.random(100)
    weights /= weights.sum()
    features -= weights @ features
    target = features @ rng.standard_normal(60) + 3.0 * rng.standard_normal(100)

    def solved(rows, ridge):
        scaled = features[rows] * weights[rows, None]
        return np.linalg.solve(scaled.T @ features[rows] + ridge * np.eye(60), scaled.T @ target[rows])

    held = np.arange(100) % 10 == 5
    ridges = (1e-12, 1e-8, 1e-5, 1e-3, 1e-1)
    left = [(target - features @ solved(~held, ridge))[held] ** 2 for ridge in ridges]
    errors = [np.sqrt(np.average(each, weights=weights[held])) for each in left]
    expected = solved(np.full(100, True), ridges[int(np.argmin(errors))])
    found, error = wide_ridge(features.copy(), target, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    assert error == pytest.approx(min(errors), rel=1e-6) and ridges[int(np.argmin(errors))] > 1e-12


def density(rng, matrix, n):
    z = rng.standard_normal((n, DIM))
    return z, 2.0 - 0.5 * np.einsum("ni,ij,nj->n", z, matrix, z), np.full(n, 1 / n)


def test_a_gaussian_from_all_its_terms(rng):
    a = rng.standard_normal((DIM, DIM))
    precision = a @ a.T / DIM + 0.5 * np.eye(DIM)
    trend = fit_gaussian(*density(rng, precision, values_for_any(DIM)))
    np.testing.assert_allclose(trend.precision, precision, atol=1e-5)
    assert trend.residual_sd < 1e-5


def test_a_structured_gaussian_from_fewer_values(rng):
    u = rng.standard_normal(DIM) / np.sqrt(DIM)
    precision = np.diag(0.5 + rng.random(DIM)) + 5.0 * np.outer(u, u)
    trend = fit_gaussian(*density(rng, precision, 640))
    np.testing.assert_allclose(trend.precision, precision, atol=1e-3)


def test_any_other_gaussian_has_to_wait(rng):
    a = rng.standard_normal((DIM, DIM))
    with pytest.raises(np.linalg.LinAlgError, match="too few values"):
        fit_gaussian(*density(rng, 3.0 * a @ a.T / DIM, 640))
