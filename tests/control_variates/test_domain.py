"""A surrogate is used near the draws alone if it has mass far from them, or where the density is
zero.
"""

from dataclasses import replace

import numpy as np
import pytest

from kmc.control_variates.domain import EVERYWHERE, Domain, Nearby, UnknownMode, holds
from kmc.control_variates.estimate import ReplicateEstimate
from kmc.control_variates.replicate import Replicate
from kmc.samplers.base import MOVES
from kmc.surrogate.coordinates.transport import Identity
from kmc.surrogate.coordinates.whitening import Whitening
from kmc.surrogate.density import Component, Density
from tests.control_variates.synthetic import gaussian_state

CHAINS, N, STEPS = 20, 60, 6
ANYWHERE = 0.03  # of the proposals are independent draws from the surrogate
WALL = 4.3  # where the target ends, between the surrogate's modes
EYE = np.eye(2)
STATE = gaussian_state([0.0, 0.0], centers=[[8.0, 0.0]], coefficients=[31.7], rate=1.3)
"""A Gaussian and a bump near (7, 0) that has .4 of the mass."""


def density(state=STATE):
    return Density((Component(Identity(), Whitening(np.zeros(2), EYE, EYE), state),))


def grid():
    first, second = np.meshgrid(np.linspace(-7, 14, 600), np.linspace(-7, 7, 400), indexing="ij")
    return np.column_stack([first.ravel(), second.ravel()])


def exact():
    """Means and sds of the surrogate where x_0 is below the wall, on a grid."""
    points = grid()
    weights = np.exp(density().log_density(points)) * (points[:, 0] < WALL)
    weights /= weights.sum()
    mean = weights @ points
    return mean, np.sqrt(weights @ (points - mean) ** 2)


def walked(start, law, rng):
    """States after a few Metropolis steps from each row, which are reversible for a log-density."""
    x, value = start.copy(), law(start)
    for _ in range(STEPS):
        y = x + rng.standard_normal(x.shape)
        proposed = law(y)
        accepted = np.log(rng.random(len(x))) < proposed - value
        x[accepted], value[accepted] = y[accepted], proposed[accepted]
    return x


def made(chains, n, depth=25.0):
    """Chains for the surrogate cut at the wall, where it drops; the proposals of some sweeps are
    from beyond it.
    """
    rng, whole = np.random.default_rng(1), density().log_density

    def target(x):
        return np.where(x[:, 0] < WALL, whole(x), whole(x) - depth)

    points = grid()
    weights = np.exp(whole(points))
    jumps = points[rng.choice(len(points), 5000, p=weights / weights.sum())]
    now = np.zeros((chains, 2))
    for _ in range(20):
        now = walked(now, target, rng)
    x, y = np.empty((2, chains, n, 2))
    for i in range(n):
        anywhere = jumps[rng.integers(len(jumps), size=chains)]
        y[:, i] = np.where(rng.random((chains, 1)) < ANYWHERE, anywhere, walked(now, whole, rng))
        now = np.where(y[:, i, :1] < WALL, y[:, i], now)
        x[:, i] = now
    at_x, at_y = (target(points.reshape(-1, 2)).reshape(chains, n) for points in (x, y))
    assert 0 < np.mean(y[..., 0] > WALL) < 0.05
    return Replicate(x, at_x, y, at_y, np.full((chains, n), MOVES.index("surrogate")), density())


@pytest.fixture(scope="module")
def replicate():
    return made(CHAINS, N)


def estimate(replicate, nearby=True):
    return ReplicateEstimate(
        replicate, lambda x: x, np.random.SeedSequence(1), 16_000, np.inf, nearby=nearby
    )


@pytest.fixture(scope="module")
def found(replicate):
    return estimate(replicate)


def test_the_false_mode_is_left_out(found):
    """And the errors are a fraction of those of the draws."""
    mean, sd = exact()
    moments = found.moments()
    off, error = found.center + moments.mean[:2] - mean, np.sqrt(moments.squared_error)
    assert found.doubts == "" and found.restricted
    assert "mass far from all draws" in found.cautions[0]
    assert np.all(np.abs(off) < 4 * error[:2])
    squares = moments.mean[2:] - (found.center - mean) ** 2 - 2 * (found.center - mean) * off
    assert np.all(np.abs(squares - sd**2) < 4 * error[2:])
    assert np.all(error[:2] < 0.5 * np.sqrt(found.plain_squared_error))
    level = found.below(np.array([0, 1]), mean)
    assert np.all(np.abs(level.mean - 0.5) < 0.05) and np.all(np.sqrt(level.squared_error) < 0.006)


@pytest.mark.parametrize("nearby", [True, False])
def test_a_mode_where_the_density_is_zero_is_left_out(nearby):
    """Proposals were there, and no state: so it is known that the target has nothing there."""
    found = estimate(made(CHAINS, N, np.inf), nearby)
    mean, _ = exact()
    moments = found.moments()
    assert found.doubts == "" and not found.restricted
    assert found.cautions == []  # none of the region's mass is where pairs do not show it
    error = np.sqrt(moments.squared_error[:2])
    assert np.all(np.abs(found.center + moments.mean[:2] - mean) < 4 * error)
    assert np.all(error < 0.5 * np.sqrt(found.plain_squared_error))


def test_only_where_it_is_asked_for(replicate):
    plain = estimate(replicate, nearby=False)
    assert plain.doubts.startswith("its means and those of the draws") and not plain.restricted
    np.testing.assert_allclose(plain.moments().squared_error[:2], plain.plain_squared_error)


@pytest.mark.parametrize("wrong", [{"location": np.array([0.0, 0.5])}, {"precision": 0.6 * EYE}])
def test_a_surrogate_that_is_wrong_near_the_draws_is_still_refused(replicate, wrong):
    """The proposals are not from this one."""
    found = estimate(replace(replicate, density=density(STATE._replace(**wrong))))
    assert found.doubts and not found.restricted and found.cautions == []


def test_control_variates_have_mean_zero_if_ends_outside_count_as_zero():
    """A mutation: with their own values they do not."""
    many = made(1500, 12)
    pairs, region = many.transitions(), Nearby(density().components[0], many.draws.reshape(-1, 2))
    points = grid()
    weights = np.exp(density().log_density(points)) * region.contains(points)
    x, y = (
        ends[..., :1] ** 2 - weights @ points[:, :1] ** 2 / weights.sum()
        for ends in (many.starts, many.ends)
    )

    def errors_off(y):
        means = pairs.of_surrogate(x, y).mean(axis=(1, 2))  # of independent chains
        return means.mean() / (means.std() / np.sqrt(len(means)))

    assert errors_off(y) > 6
    pairs = pairs.within(*(region.contains_points(ends) for ends in (many.starts, many.ends)))
    assert abs(errors_off(y)) < 4


def test_the_region_holds_all_draws_and_nothing_far_away():
    z = np.random.default_rng(1).standard_normal((500, 3))
    region = Nearby(Component(Identity(), Whitening(np.zeros(3), np.eye(3), np.eye(3)), None), z)
    assert region.contains(z).all()
    fresh = np.random.default_rng(2).standard_normal((20_000, 3))
    assert np.mean(~region.contains(fresh)) < 0.001
    ends = np.array([[[20.0, 0.0, 0.0]], [[0.0, 0.0, 0.0]]])
    np.testing.assert_array_equal(region.contains_points(ends), [[False], [True]])


def component(dim):
    return Component(Identity(), Whitening(np.zeros(dim), np.eye(dim), np.eye(dim)), STATE)


def test_points_behind_an_edge_are_outside():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2000, 2))
    alive = x[:, 0] < 0.5
    region = Nearby(component(2), x[alive], x[~alive])
    fresh = rng.standard_normal((4000, 2))
    wrong = region.contains(fresh) != (fresh[:, 0] < 0.5)
    assert wrong.mean() < 0.03 and np.all(np.abs(fresh[wrong, 0] - 0.5) < 1.0)
    assert region.contains(x[alive]).all() and not region.contains(x[~alive]).any()
    np.testing.assert_array_equal([holds(region.region, z) for z in fresh], region.contains(fresh))
    assert holds(EVERYWHERE, fresh[0])


def test_an_evaluated_point_does_not_choose_for_itself():
    alive, dead = np.array([[0.0, 0.0], [1.0, 0.0], [5.1, 0.0]]), np.array([[5.0, 0.0], [0.1, 0.0]])
    region = Nearby(component(2), alive, dead)
    np.testing.assert_array_equal(
        region.contains_points(alive, by_others=True), [False, False, False]
    )
    np.testing.assert_array_equal(region.contains_points(dead, by_others=True), [True, True])
    np.testing.assert_array_equal(region.contains_points(alive), [True, True, True])
    assert region.contains_points(np.array([0.9, 0.0]), by_others=True)


def test_a_mode_without_points_is_not_known():
    two = Density(
        (component(2), Component(Identity(), Whitening(np.full(2, 90.0), EYE, EYE), STATE))
    )
    with pytest.raises(UnknownMode, match="fewer than 10 draws"):
        Domain(two, np.random.default_rng(1).standard_normal((50, 2)), np.empty((0, 2)))
