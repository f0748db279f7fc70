"""Chains on a surrogate sample it, at each power."""

import numpy as np

from kmc.surrogate import chains as surrogate_chains
from kmc.surrogate.chains import Box, sample, started
from kmc.surrogate.covariance import Hyperparameters, scaled_coordinates
from kmc.surrogate.density import doubt, jit_state
from kmc.surrogate.regression import Observations, condition, fit

POWERS = np.repeat([1.0, 0.5, 1 / 6], [12, 6, 6])
EVERYWHERE = Box(np.full(2, -50.0), np.full(2, 50.0))
COVARIANCE = np.array([[4.0, 1.2], [1.2, 1.0]])


def fitted(log_density, points):
    regression = fit(Observations(points, log_density(points)), scaled_coordinates(points))
    return jit_state(regression.mean, regression.coordinates.metric), doubt(regression), regression.coordinates


def normal(x):
    return -0.5 * np.einsum("ni,ij,nj->n", x, np.linalg.inv(COVARIANCE), x)


def test_each_power_has_the_moments_of_its_density():
    rng = np.random.default_rng(0)
    *surrogate, coordinates = fitted(normal, 3 * rng.standard_normal((40, 2)))
    chains = started(rng.standard_normal((24, 2)), POWERS)
    _, chains = sample(*surrogate, coordinates, chains, box=EVERYWHERE, iterations=200, rng=rng)
    draws, _ = sample(*surrogate, coordinates, chains, box=EVERYWHERE, iterations=2000, rng=rng, tune=False)
    assert 0.4 < draws.acceptance < 0.9
    diagonal = np.diag(COVARIANCE)
    for power in 1.0, 0.5, 1 / 6:
        x = draws.positions[:, power == POWERS].reshape(-1, 2)
        # 12,000 draws or more, at least every tenth independent: means within 4 * 0.03 sds, variances within 4 * 0.04.
        np.testing.assert_allclose(x.mean(axis=0) / np.sqrt(diagonal / power), 0.0, atol=0.12)
        error = (np.cov(x.T) * power - COVARIANCE) / np.sqrt(np.outer(diagonal, diagonal))
        np.testing.assert_allclose(error, 0.0, atol=0.16)


def test_the_box_bounds_draws_and_starts():
    rng = np.random.default_rng(1)
    *surrogate, coordinates = fitted(normal, 3 * rng.standard_normal((40, 2)))
    box = Box(np.array([0.0, -1.0]), np.array([1.0, 2.0]))
    draws, chains = sample(
        *surrogate, coordinates, started(rng.standard_normal((24, 2)), POWERS), box=box, iterations=50, rng=rng
    )
    assert np.all((draws.positions >= box.lower) & (draws.positions <= box.upper))
    np.testing.assert_array_equal(chains.positions, draws.positions[-1])


def test_chains_do_not_stay_where_the_mean_is_high_without_knowledge():
    """Values that rise to the right end at 2: beyond, the mean goes on, and the regression does not know."""
    rng = np.random.default_rng(4)
    points = rng.uniform(-2, 2, (60, 2))
    theta = Hyperparameters(-1.0, 4.0, 0.5, -5.0)
    regression = condition(
        Observations(points, np.sin(3 * points[:, 0]) + points[:, 0]), scaled_coordinates(points), theta
    )
    state = jit_state(regression.mean, regression.coordinates.metric, cap=6.0)  # 3 above the highest value
    box = Box(np.full(2, -8.0), np.full(2, 8.0))
    shares = []
    for known in doubt(regression), doubt(regression)._replace(points=np.empty((0, 2))):
        chains = started(points[:24], POWERS)
        draws, _ = sample(
            state, known, regression.coordinates, chains, box=box, iterations=300, rng=np.random.default_rng(5)
        )
        last = draws.positions[150:, POWERS == 1.0].reshape(-1, 2)
        shares.append(np.mean(np.abs(last).max(axis=1) < 3.0))
    assert shares[0] > 0.3 > 0.1 > shares[1]


def modes(x):
    """Two normals, 10 standard deviations apart, with shares 0.2 and 0.8."""
    square = x[:, 1] ** 2
    left, right = (x[:, 0] + 5) ** 2, (x[:, 0] - 5) ** 2
    return np.logaddexp(np.log(0.2) - 0.5 * left, np.log(0.8) - 0.5 * right) - 0.5 * square


def test_chains_at_one_power_pass_between_modes_by_exchanges():
    rng = np.random.default_rng(2)
    grid = np.stack(np.meshgrid(np.linspace(-9, 9, 25), np.linspace(-4, 4, 7)), axis=-1).reshape(-1, 2)
    *surrogate, coordinates = fitted(modes, grid)
    start = np.column_stack([np.full(24, -5.0), np.zeros(24)])  # all in the smaller mode
    powers = np.repeat([1.0, 0.4, 0.15, 0.05], 6)
    box = Box(np.array([-9.0, -4.0]), np.array([9.0, 4.0]))
    _, chains = sample(*surrogate, coordinates, started(start, powers), box=box, iterations=300, rng=rng)
    draws, _ = sample(*surrogate, coordinates, chains, box=box, iterations=3000, rng=rng, tune=False)
    share = np.mean(draws.positions[:, powers == 1.0, 0] > 0)
    assert abs(share - 0.8) < 0.08  # some 400 passages: a standard error of 0.02


def test_the_generator_determines_the_draws_and_nothing_is_compiled_twice():
    rng = np.random.default_rng(3)
    *surrogate, coordinates = fitted(normal, 3 * rng.standard_normal((40, 2)))
    chains = started(rng.standard_normal((24, 2)), POWERS)
    options = {"box": EVERYWHERE, "iterations": 20}
    first, _ = sample(*surrogate, coordinates, chains, rng=np.random.default_rng(7), **options)
    compiled = len(surrogate_chains._run.signatures)
    again, _ = sample(*surrogate, coordinates, chains, rng=np.random.default_rng(7), **options)
    np.testing.assert_array_equal(first.positions, again.positions)
    other, _ = sample(*surrogate, coordinates, chains, rng=np.random.default_rng(8), **options)
    assert not np.array_equal(first.positions, other.positions)
    assert len(surrogate_chains._run.signatures) == compiled == 1
