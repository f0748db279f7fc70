"""Bent ridges: the map, and targets whose bends are known."""

import numpy as np
import pytest

from benchmarks.targets import Banana
from kmc.surrogate.coordinates.bends import Bend, bend_of
from kmc.surrogate.coordinates.search import find_transports
from kmc.surrogate.process import Seen, fit_to_draws
from tests.oracles.differences import gradient

BEND = Bend(np.array([0.5, -1.0, 2.0]), np.array([1.0, 0.5, 0.0]), np.zeros(3)).bent(
    np.array([0.3, 1.0, -2.0])
)


class Product:
    """The data say only what x_0 + x_1 + (x_0 - x_1)² / 4 is; the others are standard normal: a
    bend along no axis.
    """

    dim = 4

    def __call__(self, x):
        return -0.5 * (
            ((x[0] + x[1] + (x[0] - x[1]) ** 2 / 4) / 0.1) ** 2
            + ((x[0] - x[1]) / 3) ** 2
            + x[2:] @ x[2:]
        )

    def sample(self, rng, n):
        along, across = 3.0 * rng.standard_normal(n), 0.1 * rng.standard_normal(n)
        total = across - along**2 / 4
        return np.column_stack(
            [(total + along) / 2, (total - along) / 2, rng.standard_normal((n, 2))]
        )


@pytest.fixture
def rng():
    return np.random.default_rng(22)


def history(target, n, rng):
    """Draws, half of them pushed off, their values, and other draws as states."""
    x = target.sample(rng, n)
    x = x + x.std(axis=0) * rng.standard_normal(x.shape) * rng.choice([0.0, 0.1], (n, 1))
    return x, np.array([target(row) for row in x]), target.sample(rng, 100)


def test_there_and_back_without_a_change_of_volume(rng):
    x = 3.0 * rng.standard_normal((50, 3))
    np.testing.assert_allclose(BEND.back(BEND(x)), x, rtol=1e-12, atol=1e-12)
    assert np.ptp(BEND(x) - x) > 1.0
    columns = [gradient(lambda row, i=i: BEND(row[None])[0, i], x[0]) for i in range(3)]
    assert np.linalg.det(columns) == pytest.approx(1.0, rel=1e-7)
    np.testing.assert_array_equal(BEND.log_jacobian(x), np.zeros(50))


@pytest.mark.parametrize(
    "target", [Banana(5, b=0.1), Product()], ids=["along a parameter", "along none"]
)
def test_a_bend_is_found_in_whose_coordinates_the_log_density_is_quadratic(rng, target):
    x, values, states = history(target, 300, rng)
    found = [one for one in find_transports(x, values, states) if isinstance(one, Bend)]
    assert len(found) == 1
    surrogate = fit_to_draws(Seen(x, values, states, np.full(x.shape, np.nan)), rng, found[0])
    fresh = target.sample(rng, 200)
    np.testing.assert_allclose(
        surrogate.log_density(fresh), [target(row) for row in fresh], atol=0.02
    )


def test_values_show_a_bend_that_draws_of_a_wrong_surrogate_do_not(rng):
    target = Banana(8, b=0.1)
    x, values, _ = history(target, 400, rng)
    straight = x.mean(axis=0) + x.std(axis=0) * rng.standard_normal((200, 8))
    (found,) = (one for one in find_transports(x, values, straight) if isinstance(one, Bend))
    along = found.direction * target.sample(rng, 4000).std(axis=0)
    np.testing.assert_allclose(np.abs(along) / np.linalg.norm(along), np.eye(8)[0], atol=0.02)


@pytest.mark.parametrize(
    ("target", "along"),
    [(Banana(4, b=0.1), np.eye(4)[0]), (Product(), np.array([1, -1, 0, 0]) / np.sqrt(2.0))],
    ids=["a parameter", "a difference"],
)
def test_the_direction_is_that_along_which_draws_bend(target, along):
    """It is one in units of the standard deviations, at any seed."""
    for seed in range(20):
        states = target.sample(np.random.default_rng(seed), 100)
        found = bend_of(states).direction * states.std(axis=0)
        np.testing.assert_allclose(found, along, atol=1e-12)


def test_the_bending_is_that_of_the_ridge(rng):
    """x_1 = b (x_0² - 100) on the ridge of this banana."""
    x, values, states = history(Banana(5, b=0.1), 300, rng)
    (found,) = find_transports(x, values, states)
    square = found.direction[0] ** 2
    middle = Banana(5, b=0.1).sample(rng, 4000)
    slope = np.polyfit(middle[:, 0], middle[:, 1], 2)[0]
    np.testing.assert_allclose(found.bending * square, [0.0, slope, 0.0, 0.0, 0.0], atol=0.002)


def test_none_is_looked_for_where_all_states_agree():
    assert bend_of(np.ones((10, 3))) is None


def test_a_normal_posterior_has_none(rng):
    x = rng.standard_normal((200, 4))
    assert find_transports(x, -0.5 * np.sum(x**2, axis=1), rng.standard_normal((60, 4))) == []
