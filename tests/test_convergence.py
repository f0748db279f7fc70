import arviz
import numpy as np
import pytest
import xarray
from scipy import stats
from scipy.signal import lfilter

from kmc.convergence import (
    bulk_ess,
    disagreement,
    drift,
    in_tails,
    least_tail_ess,
    sd_error,
    width_error,
    worst_bulk_ess,
    worst_rhat,
)


def by_arviz(draws):
    return arviz.ess(xarray.Dataset({"x": (("chain", "draw", "column"), draws)}))["x"].values


@pytest.mark.arviz
@pytest.mark.parametrize("correlation", [-0.7, 0.5, 0.99])
@pytest.mark.parametrize("draws", [10, 13, 101])
@pytest.mark.parametrize("chains", [1, 4])
def test_it_is_that_of_arviz(chains, draws, correlation):
    """With ties, too, which rejected proposals leave, and with a chain apart from the others."""
    noise = np.random.default_rng(draws).standard_normal((chains, draws, 4))
    columns = lfilter([1.0], [1.0, -correlation], noise, axis=1)
    columns[..., 1] = np.round(columns[..., 1])
    columns[0, :, 2] += 3.0
    np.testing.assert_allclose(bulk_ess(columns), by_arviz(columns), rtol=1e-8)


@pytest.mark.arviz
def test_the_ess_of_an_autoregression():
    """Its number of draws by (1 - r) / (1 + r)."""
    draws = lfilter(
        [1.0], [1.0, -0.6], np.random.default_rng(1).standard_normal((4, 20_000, 3)), axis=1
    )
    np.testing.assert_allclose(bulk_ess(draws), 80_000 / 4, rtol=0.1)


@pytest.mark.arviz
def test_the_worst_parameter_counts():
    draws = np.random.default_rng(2).standard_normal((4, 100, 3))
    draws[:, :, 1] = np.cumsum(draws[:, :, 1], axis=1)
    assert worst_bulk_ess(draws) == bulk_ess(draws)[1] < 40
    assert np.isnan(worst_bulk_ess(draws[:, :9]))
    draws[:, :, 2] = np.arange(4.0)[:, None]  # never moves
    assert np.isnan(worst_bulk_ess(draws))


@pytest.mark.arviz
def test_many_numbers_are_looked_at_in_parts():
    draws = np.random.default_rng(0).standard_normal((4, 6000, 7)).cumsum(axis=1)
    draws[:, :, :3] += 50 * np.random.default_rng(1).standard_normal((4, 6000, 3))
    assert worst_bulk_ess(draws) == bulk_ess(draws).min()


@pytest.mark.parametrize("draws", [20, 100, 1000])
def test_independent_draws_agree(draws):
    """The limit of the warning, 1.05 + 5 / draws, holds for each of fifty sets of independent
    draws.
    """
    rng = np.random.default_rng(draws)
    assert max(worst_rhat(rng.standard_normal((4, draws, 3))) for _ in range(50)) < 1.05 + 5 / draws


def test_one_coordinate_that_disagrees_is_enough():
    draws = np.random.default_rng(1).standard_normal((4, 500, 3))
    draws[0, :, 1] += 2.0
    assert worst_rhat(draws) > 1.2


def test_chains_that_never_move():
    draws = np.random.default_rng(2).standard_normal((4, 50, 2))
    draws[:, :, 1] = np.arange(4.0)[:, None]
    assert worst_rhat(draws) == np.inf


@pytest.mark.parametrize("shape", [(1, 100, 2), (4, 3, 2), (4, 0, 2)])
def test_nothing_to_compare(shape):
    assert np.isnan(worst_rhat(np.zeros(shape)))


def test_tails_hold_a_twentieth_of_the_draws_each():
    tails = in_tails(np.random.default_rng(4).standard_normal((4, 500, 3)))
    np.testing.assert_allclose(tails.mean(axis=(0, 1)), 0.05, atol=0.001)
    assert not np.any(tails[:, :, :3] & tails[:, :, 3:])


def test_the_tail_ess_of_independent_draws_is_their_number():
    size = least_tail_ess(np.random.default_rng(5).standard_normal((4, 1000, 2)))
    assert 3000 < size < 4500
    assert np.isnan(least_tail_ess(np.zeros((4, 3, 2))))


@pytest.mark.parametrize(
    ("law", "draws"),
    [
        (stats.norm(), 1000),
        (stats.cauchy(), 1000),
        (stats.gumbel_r(), 1000),
        (stats.gumbel_l(), 1000),
        (stats.norm(), 60),
    ],
)
def test_the_error_of_the_width_is_that_of_order_statistics(law, draws):
    x = law.rvs((4, draws, 1), random_state=7)
    low, high = law.ppf([0.05, 0.95])
    errors = np.sqrt(0.0475 / (4 * draws)) / law.pdf([low, high])  # asymptotic
    exact = np.hypot(*errors) / (high - low)  # without their correlation
    # draws, from which the slope of the distribution function is estimated
    between = 2 * np.sqrt(0.0475 * 4 * draws)
    # and that of the effective sample size
    assert abs(width_error(x) / exact - 1) < 3 / np.sqrt(2 * between) + 0.1


def test_the_error_of_the_width_is_the_worst_of_the_coordinates_that_move():
    x = np.random.default_rng(8).standard_cauchy((4, 200, 3))
    x[..., 1] = 2.0
    assert width_error(x) == max(width_error(x[..., [0]]), width_error(x[..., [2]]))
    assert np.isnan(width_error(x[..., [1]]))
    assert np.isnan(width_error(x[:, :3]))


def test_the_error_of_the_sd_is_that_of_independent_draws():
    x = stats.expon().rvs((4, 2500, 2), random_state=7)
    x[..., 1] = 2.0
    # the kurtosis is 9, and hardly known
    assert abs(sd_error(x) / np.sqrt(8 / 4 / 10_000) - 1) < 0.25
    assert np.isnan(sd_error(x[..., [1]])) and np.isnan(sd_error(x[:, :3]))


@pytest.mark.parametrize(
    "test", [drift, lambda columns: disagreement(columns, 2)], ids=["drift", "disagreement"]
)
def test_what_never_moves_is_not_tested(test):
    columns = np.random.default_rng(6).standard_normal((4, 100, 2))
    columns[:, :, 1] = 1.0
    assert -3 < test(columns) <= 0
    assert test(columns[:, :, 1:]) == np.inf
    assert np.isnan(test(columns[:, :9]))
