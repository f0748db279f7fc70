import numpy as np
import pytest

from kmc.mcmc.tempering import COLD, Tempering, tempered
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


@pytest.mark.parametrize("tempering", [COLD, Tempering(1.0, 0.3, 5.0), Tempering(1.0, 0.3, np.inf)])
def test_a_density_of_zero_stays_one(tempering):
    value, slope = tempered(tempering, -np.inf)
    assert value == -np.inf and slope > 0
