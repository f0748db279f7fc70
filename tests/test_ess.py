import arviz
import numpy as np
import pytest
import xarray
from scipy.signal import lfilter

from kmc.ess import bulk_ess, worst_bulk_ess

pytestmark = pytest.mark.arviz


def by_arviz(draws):
    return arviz.ess(xarray.Dataset({"x": (("chain", "draw", "column"), draws)}))["x"].values


@pytest.mark.parametrize("correlation", [-0.7, 0.0, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("draws", [10, 11, 13, 40, 101, 500])
@pytest.mark.parametrize("chains", [1, 2, 4])
def test_it_is_that_of_arviz(chains, draws, correlation):
    """With ties, too, which rejected proposals leave, and with a chain apart from the others."""
    noise = np.random.default_rng(draws).standard_normal((chains, draws, 4))
    columns = lfilter([1.0], [1.0, -correlation], noise, axis=1)
    columns[..., 1] = np.round(columns[..., 1])
    columns[0, :, 2] += 3.0
    np.testing.assert_allclose(bulk_ess(columns), by_arviz(columns), rtol=1e-8)


def test_the_ess_of_an_autoregression():
    """Its number of draws by (1 - r) / (1 + r)."""
    draws = lfilter([1.0], [1.0, -0.6], np.random.default_rng(1).standard_normal((4, 20_000, 3)), axis=1)
    np.testing.assert_allclose(bulk_ess(draws), 80_000 / 4, rtol=0.1)


def test_the_worst_parameter_counts():
    draws = np.random.default_rng(2).standard_normal((4, 100, 3))
    draws[:, :, 1] = np.cumsum(draws[:, :, 1], axis=1)
    assert worst_bulk_ess(draws) == bulk_ess(draws)[1] < 40
    assert np.isnan(worst_bulk_ess(draws[:, :9]))
    draws[:, :, 2] = np.arange(4.0)[:, None]  # never moves
    assert np.isnan(worst_bulk_ess(draws))


def test_many_numbers_are_looked_at_in_parts():
    draws = np.random.default_rng(0).standard_normal((4, 6000, 7)).cumsum(axis=1)
    draws[:, :, :3] += 50 * np.random.default_rng(1).standard_normal((4, 6000, 3))
    assert worst_bulk_ess(draws) == bulk_ess(draws).min()
