"""Chains on the surrogate at several powers, for learning."""

import numpy as np
import pytest

from kmc.kernel_hmc.learning import Learning
from kmc.kernel_hmc.surrogate_chains import MOVES, Chains, from_above, sample, tuned
from kmc.samplers.tuning import MOST_STEPS
from kmc.surrogate.coordinates.funnels import Funnel
from kmc.surrogate.process import Seen, first_fit


def funnel(x):
    """Return the log-density of x_0 ~ N(0, 1), x_i ~ N(0, exp(x_0)), at rows (n, 3)."""
    return -0.5 * x[:, 0] ** 2 - 0.5 * np.sum(x[:, 1:] ** 2, axis=1) * np.exp(-x[:, 0]) - x[:, 0]


def test_in_coordinates_of_a_funnel_chains_sample_the_density():
    """Powers are those of the density in the new coordinates, also where chains exchange their
    states.
    """
    rng = np.random.default_rng(1)
    driver = rng.standard_normal(60)
    points = np.column_stack([driver, np.exp(driver / 2)[:, None] * rng.standard_normal((60, 2))])
    learning = Learning(points, funnel(points), rng=rng)
    for _ in range(4):
        learning.fit(search=True)
    assert isinstance(learning.process.transport, Funnel)
    positions, _ = sample(learning.process, learning._chains, rng, blocks=600)
    draws = positions[100:, learning._chains.powers == 1.0]
    assert np.abs(learning.process.log_density(draws[-1]) - funnel(draws[-1])).std() < 0.05
    # Means over the chains, of blocks that are hardly correlated over ten: errors of 0.02 and
    # 0.015.
    errors = draws[:, :, 0].mean(axis=1).reshape(50, 10).mean(axis=1).std() / np.sqrt(50)
    assert errors < 0.03
    assert abs(draws[:, :, 0].mean()) < 0.1
    assert abs(draws[:, :, 0].std() - 1.0) < 0.06


def test_trajectories_have_an_end():
    """A draw far from the others makes an axis of any length, and a run would integrate for
    minutes.
    """
    rng = np.random.default_rng(2)
    points = rng.standard_normal((30, 2))
    process = first_fit(
        Seen(points, -0.5 * np.sum(points**2, axis=1), points, np.full(points.shape, np.nan)), rng
    )
    archive = np.vstack([points, [[1e9, 0.0]]])
    chains = tuned(process, Chains(points, np.ones(30), archive, MOVES), rng)
    assert chains.options.trajectory_length <= MOST_STEPS * chains.options.step_size


@pytest.mark.parametrize(
    "at", [np.array([[0.5, -0.5], [1.0, 0.0]]), np.outer(np.arange(9.0), [1.0, 0.0])]
)
def test_chains_that_are_stuck_do_not_end_a_run(at):
    """They are at d points or fewer, or in a plane: these have no covariance."""
    points = np.random.default_rng(2).standard_normal((30, 2))
    seen = Seen(points, -0.5 * np.sum(points**2, axis=1), points, np.full(points.shape, np.nan))
    process = first_fit(seen, np.random.default_rng(3))
    stuck = np.repeat(at, 50, axis=0)
    found = from_above(process, stuck, 7, np.random.default_rng(1))
    assert found.shape == (7, 2) and {tuple(row) for row in found} <= {tuple(row) for row in stuck}


def test_draws_from_above_are_in_modes_that_chains_cannot_reach():
    """Between the two is a valley of two hundred nats."""
    rng = np.random.default_rng(3)
    points = np.vstack([rng.normal([at, 0.0], 1.0, (60, 2)) for at in (0.0, 40.0)])
    points = np.vstack([points, [[at, 0.0] for at in (10.0, 15.0, 20.0, 25.0, 30.0)]])
    values = np.logaddexp(*(-0.5 * np.sum((points - [at, 0.0]) ** 2, axis=1) for at in (0.0, 40.0)))
    process = first_fit(Seen(points, values, points, np.full(points.shape, np.nan)), rng)
    one = process.coordinates(points[:60] + rng.normal(0.0, [20.0, 1.0], (60, 2)))
    found = process.back(from_above(process, one, 400, rng))
    share = np.mean(found[:, 0] > 20.0)
    assert abs(share - 0.5) < 0.2 and abs(found[found[:, 0] > 20.0, 0].mean() - 40.0) < 0.5
