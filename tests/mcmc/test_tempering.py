import numpy as np
import pytest

from kmc.mcmc.tempering import COLD, Tempering, ladder, tempered
from tests.oracles.mcmc import tempered_value


@pytest.mark.parametrize(
    "tempering", [COLD, Tempering(2.0, 0.3, np.inf), Tempering(2.0, 0.3, 5.0), Tempering(-1.0, 1.0, 0.0)]
)
def test_values_and_slopes(tempering):
    values = np.array([2.5, 2.0, 0.0, -2.9, -3.1, -10.0, -1e6])
    got = [tempered(tempering, v) for v in values]
    np.testing.assert_allclose([g[0] for g in got], tempered_value(tempering, values), rtol=1e-14, atol=1e-14)
    for value, (_, slope) in zip(values, got, strict=True):
        step = 1e-6 * max(1.0, abs(value))
        difference = tempered(tempering, value)[0] - tempered(tempering, value - step)[0]
        assert slope == pytest.approx(difference / step, rel=1e-6)


def test_cold_changes_nothing():
    for value in (-1e300, -3.3, 0.0, 7.0):
        assert tempered(COLD, value) == (value, 1.0)


def test_continuous_and_increasing():
    tempering = Tempering(1.0, 0.25, 4.0)
    values = np.linspace(-10.0, 3.0, 10_001)
    got = np.array([tempered(tempering, v)[0] for v in values])
    steps = np.diff(got) / np.diff(values)
    assert np.all(steps > 0.25 - 1e-9) and np.all(steps < 1 + 1e-9)


@pytest.mark.parametrize("tempering", [COLD, Tempering(1.0, 0.3, 5.0), Tempering(1.0, 0.3, np.inf)])
def test_a_density_of_zero_stays_one(tempering):
    value, slope = tempered(tempering, -np.inf)
    assert value == -np.inf and slope > 0


@pytest.mark.parametrize("dim", [1, 2, 10, 50])
def test_the_ladder_goes_from_one_to_where_the_bulk_is_as_deep_as_asked(dim):
    betas = ladder(dim, 20.0 + dim, 4)
    assert betas[0] == 1.0 and betas.shape == (4,)
    np.testing.assert_allclose(betas[-1], 0.5 * dim / (20.0 + dim))
    np.testing.assert_allclose(betas[1:] / betas[:-1], betas[1] / betas[0])
    assert np.all(np.diff(betas) < 0)


def test_a_ladder_is_never_colder_than_the_target():
    np.testing.assert_array_equal(ladder(10, 1.0, 3), np.ones(3))
    np.testing.assert_array_equal(ladder(10, 30.0, 1), [1.0])
