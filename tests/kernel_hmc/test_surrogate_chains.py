"""Chains on the surrogate at several powers, for learning."""

import numpy as np

from kmc.kernel_hmc.learning import Learning
from kmc.kernel_hmc.surrogate_chains import sample
from kmc.surrogate.coordinates.transport import Funnel


def funnel(x):
    """Return the log-density of x_0 ~ N(0, 1), x_i ~ N(0, exp(x_0)), at rows (n, 3)."""
    return -0.5 * x[:, 0] ** 2 - 0.5 * np.sum(x[:, 1:] ** 2, axis=1) * np.exp(-x[:, 0]) - x[:, 0]


def test_in_coordinates_of_a_funnel_chains_sample_the_density():
    """Powers are those of the density in the new coordinates, also where chains exchange their states."""
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
    # Means over the chains, of blocks that are hardly correlated over ten: errors of 0.02 and 0.015.
    errors = draws[:, :, 0].mean(axis=1).reshape(50, 10).mean(axis=1).std() / np.sqrt(50)
    assert errors < 0.03
    assert abs(draws[:, :, 0].mean()) < 0.1
    assert abs(draws[:, :, 0].std() - 1.0) < 0.06
