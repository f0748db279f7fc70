"""Rounds of learning: which points are chosen, what is predicted, and what is found."""

import copy
from dataclasses import replace
from math import erfc

import numpy as np
import pytest

from kmc.kernel_hmc.batch import RADII, choose, climb
from kmc.kernel_hmc.learning import Learning
from kmc.kernel_hmc.modes import Modes, find_modes
from kmc.kernel_hmc.stopping import is_learned
from kmc.model.toys import Banana, Bimodal, Gaussian
from kmc.surrogate.process import Seen, first_fit, learned_coordinates


def rows(target):
    return lambda points: np.array([target(x) for x in points])


def learned(target, initial, budget, seed):
    """Learn as for a run of a thousand evaluations, until that is not worth it or the budget is
    used.
    """
    learning = Learning(initial, rows(target)(initial), rng=np.random.default_rng(seed))
    while len(learning.values) < budget:
        points = learning.propose(budget - len(learning.values))
        if learning.is_done(1000 - len(learning.values)):
            break
        learning.tell(rows(target)(points))
    learning.fit(search=False)
    return learning


def seen(points, values, draws):
    return Seen(points, values, draws, np.full(points.shape, np.nan))


def fitted(points, values):
    return first_fit(seen(points, values, points), np.random.default_rng(0))


@pytest.mark.parametrize(("cubic", "kernels"), [(0.0, 0), (0.05, 60)])
def test_chains_have_no_kernels_where_these_say_nothing(cubic, kernels):
    points = np.random.default_rng(1).standard_normal((60, 2))
    values = -0.5 * np.sum(points**2, axis=1) + cubic * points[:, 0] ** 2 * points[:, 1]
    process = first_fit(seen(points, values, points), np.random.default_rng(0))
    assert process.jit_state.coefficients.size == kernels
    assert np.abs(process.log_density(points) - values).max() < 0.02


def test_a_correlated_normal_of_unequal_scales_is_learned_from_a_hundred_values():
    target = Gaussian(4, 0.9, 10.0)
    rng = np.random.default_rng(0)
    sd = np.sqrt(np.diag(target.covariance))
    found = learned(target, 2 * sd * rng.standard_normal((12, 4)), 120, 1)
    assert len(found.values) < 120
    x = target.sample(rng, 500)
    truth = rows(target)(x)
    assert np.abs(found.process.log_density(x) - truth).mean() < 0.1
    draws = found.sample(60, rng)
    # 1,440 draws of 24 chains, at least every fifth independent: standard errors of 0.06 and 0.04.
    np.testing.assert_allclose(draws.mean(axis=0) / sd, 0.0, atol=0.25)
    np.testing.assert_allclose(np.log(draws.std(axis=0) / sd), 0.0, atol=0.2)


@pytest.mark.slow
def test_a_banana_is_learned_from_two_hundred_values():
    target = Banana(2)
    rng = np.random.default_rng(3)
    found = learned(target, [10, 4] * rng.standard_normal((12, 2)), 200, 4)
    x = target.sample(rng, 500)
    assert np.median(np.abs(found.process.log_density(x) - rows(target)(x))) < 0.1


@pytest.mark.slow
def test_two_modes_are_learned_when_first_points_lie_in_both():
    target = Bimodal(3, separation=9.0, weight=0.3)
    rng = np.random.default_rng(5)
    found = learned(target, target.sample(rng, 14), 150, 6)
    upper = found.sample(150, rng).sum(axis=1) > 0
    assert 0.15 < upper.mean() < 0.45


def test_the_seed_determines_all_evaluations_and_the_budget_is_kept():
    initial = np.random.default_rng(7).standard_normal((8, 2))
    first, second = (learned(Banana(2), initial, 11, 8) for _ in range(2))
    assert len(first.points) == 11
    np.testing.assert_array_equal(first.points, second.points)


def test_chains_that_all_stand_still_end_nothing():
    learning = Learning(np.eye(2), np.zeros(2), rng=np.random.default_rng(0))
    learning.propose(10)
    learning._positions[:] = learning.points[0]
    learning.draws[:] = learning.points[0]
    assert len(learning._chosen(10)) > 0


def test_a_batch_is_chosen_at_any_temperature():
    points = np.random.default_rng(9).uniform(-1, 1, (15, 2))
    process = replace(fitted(points, -np.sum(points**2, axis=1)), temperature=1e200)
    batch = choose(process, 2.0 * points, np.ones(15), 6, points[:0])
    assert len(np.unique(batch, axis=0)) == 6


def test_a_batch_holds_no_point_twice_and_begins_with_a_step_that_is_given():
    rng = np.random.default_rng(9)
    points = rng.uniform(-1, 1, (15, 2))
    process = fitted(points, -np.sum(points**2, axis=1) + np.sin(4 * points[:, 0]))
    candidates = rng.uniform(-2, 2, (50, 2))
    candidates = np.vstack([candidates, candidates + 1e-6])  # each of them twice
    batch = choose(process, candidates, np.ones(100), 6, points[:0])
    distances = np.linalg.norm(batch[:, None] - batch[None], axis=2)
    assert distances[np.triu_indices(6, 1)].min() > 0.01
    # A point that is given comes first, and the others are chosen around it.
    given = choose(process, candidates, np.ones(100), 6, candidates[[3]] + 0.3)
    np.testing.assert_array_equal(given[0], candidates[3] + 0.3)
    assert len(given) == 6

    # The expected loss after the choice, by conditioning on the chosen points, is less than after
    # any random batch.
    def loss(chosen):
        covariance = process.regression.conditional(np.vstack([chosen, candidates])).covariances()
        k = len(chosen)
        known = covariance[:k, :k] + np.exp(2 * process.regression.hyperparameters.noise) * np.eye(
            k
        )
        left = covariance[k:, k:] - covariance[k:, :k] @ np.linalg.solve(known, covariance[:k, k:])
        variance = np.maximum(np.diag(left), 0)
        return np.sum(variance / (1 + variance))

    others = [candidates[rng.choice(50, 6, replace=False)] for _ in range(20)]
    assert loss(batch) < min(map(loss, others))


def test_draws_that_are_stuck_leave_directions_they_do_not_know_as_they_were():
    points = np.random.default_rng(14).standard_normal((30, 5))
    process = fitted(points, -0.05 * np.sum(points**2, axis=1))
    stuck = np.repeat(points[:2], 100, axis=0)
    coordinates = learned_coordinates(process, seen(points, points[:, 0], stuck))
    assert np.linalg.cond(coordinates.whitening) < 10.0


def test_deep_values_that_are_predicted_deep_change_nothing():
    """A quadratic is found, however deep and far some values are; these count where the fit would
    be high.
    """
    rng = np.random.default_rng(18)
    near = rng.standard_normal((20, 2))
    far = 300.0 * rng.standard_normal((10, 2))
    points = np.vstack([near, far])
    process = fitted(points, -np.sum(points**2, axis=1))
    x = rng.standard_normal((50, 2))
    np.testing.assert_allclose(process.log_density(x), -np.sum(x**2, axis=1), atol=0.2, rtol=0.05)

    # Here the near values say that the density rises to the right, and deep ones that it does not.
    right = np.column_stack([np.linspace(3.0, 6.0, 10), rng.standard_normal(10)])
    points = np.vstack([near, right])
    values = np.append(2.0 * near[:, 0] - np.sum(near[:, 1:] ** 2, axis=1), np.full(10, -1e5))
    assert fitted(near, values[:20]).log_density(right).max() > 4.0
    assert fitted(points, values).log_density(right).max() < -12.0


def test_a_climb_reaches_a_needle_from_far_away():
    """First values are 1e4 to 1e6 nats deep, in a needle with a correlation of 0.999."""
    target = Gaussian(3, 0.999, 10.0)
    sd = np.sqrt(np.diag(target.covariance))
    rng = np.random.default_rng(19)
    points = sd * (40.0 + 20.0 * rng.standard_normal((12, 3)))
    values = rows(target)(points)
    for _ in range(25):
        _, step = climb(seen(points, values, points), rng, len(RADII))
        if not len(step):
            break
        points, values = np.vstack([points, step]), np.append(values, rows(target)(step))
    assert values[:12].max() < -1e4
    # less than a nat is not worth a step
    assert values.max() > rows(target)(np.zeros((1, 3)))[0] - 1.5


def mixture(x):
    """Return the log-density of 0.3 N(3, 1) + 0.7 N(-3, 0.2²) in three dimensions."""
    wide = np.log(0.3) - 0.5 * np.sum((x - 3.0) ** 2)
    return np.logaddexp(wide, np.log(0.7) - 3 * np.log(0.2) - 0.5 * np.sum((x + 3.0) ** 2) / 0.04)


def test_far_from_all_points_the_density_falls():
    """By d nats where the square of the distance is a ball's more; a polynomial of degree four
    would rise there.
    """
    rng = np.random.default_rng(27)
    points = rng.uniform(-1, 1, (40, 2))
    process = fitted(points, points[:, 0] ** 4 - points[:, 1] ** 2)
    directions = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0], [0.6, 0.8]])
    heights = np.array([process.log_density(scale * directions) for scale in (20.0, 40.0)])
    squares = np.array(
        [np.sum(process.coordinates(scale * directions) ** 2, axis=1) for scale in (20.0, 40.0)]
    )
    assert np.all(
        np.diff(heights, axis=0) <= -2.0 * np.diff(squares, axis=0) / process.reach**2 + 1e-6
    )
    assert np.all(heights < process.log_density(points).min())


def test_modes_of_unequal_width_are_found_and_jumped_between():
    rng = np.random.default_rng(20)
    points = np.vstack(
        [3.0 + rng.standard_normal((40, 3)), -3.0 + 0.2 * rng.standard_normal((40, 3))]
    )
    process = fitted(points, rows(mixture)(points))
    modes = find_modes(process, points)
    order = np.argsort(modes.centers[:, 0])
    np.testing.assert_allclose(modes.centers[order], [[-3.0] * 3, [3.0] * 3], atol=0.2)
    np.testing.assert_allclose(np.exp(modes.log_volumes[order]), [0.2**3, 1.0], rtol=0.5)
    one = np.vstack([rng.standard_normal((40, 3))])
    assert find_modes(fitted(one, -np.sum(one**2, axis=1)), one) is None


def test_jumps_between_modes_are_reversible():
    roots = np.array(
        [[[1.0, 0.0], [0.3, 0.5]], [[0.1, 0.0], [0.0, 0.4]], [[2.0, 0.0], [-1.0, 0.2]]]
    )
    volumes = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    modes = Modes(np.array([[0.0, 0.0], [6.0, 1.0], [-7.0, 4.0]]), roots, volumes)
    rng = np.random.default_rng(21)
    x = modes.centers[rng.integers(3, size=300)] + rng.standard_normal((300, 2))
    moved, change = modes.jump(rng, x)
    possible = np.isfinite(change)
    assert possible.mean() > 0.9
    # Among several tries one leads back, with the opposite change.
    for start, end, log_ratio in zip(x[possible][:50], moved[possible][:50], change[possible][:50]):
        back, reverse = modes.jump(rng, np.tile(end, (40, 1)))
        home = np.linalg.norm(back - start, axis=1) < 1e-9
        assert home.any()
        np.testing.assert_allclose(reverse[home], -log_ratio, atol=1e-12)


def test_learning_ends_when_it_costs_more_draws_than_it_gains():
    """Held to the number of effective draws that an error of c / n gives, on a grid of ends."""
    for c in 10.0, 40.0:
        n = np.arange(20, 980)
        accepted = np.array([erfc(min(c / k, 3.0) / 2) for k in n])
        best = n[np.argmax((1000 - n) * accepted / (2 - accepted))]
        first = next(k for k in n if c / k < 3.0 and is_learned(c / k, k, 1000 - k))
        assert abs(first - best) <= 0.05 * best
    assert not is_learned(0.1, 200, 10_000)
    assert is_learned(0.0, 200, 10_000)


def test_points_without_density_are_deep():
    def half(x):
        return -0.5 * np.sum(x**2) if x[0] > -0.5 else -np.inf

    found = learned(half, np.random.default_rng(14).standard_normal((12, 2)), 40, 3)
    assert np.isfinite(found.draws).all()


def test_points_beyond_all_digits_of_the_others_are_not_learned():
    target, far = Gaussian(2), np.array([[1e52, -1e52]])
    first = target.sample(np.random.default_rng(20), 30)
    values, rng = rows(target)(first), np.random.default_rng(21)
    learning = Learning(
        np.vstack([first, far]), np.append(values, -1e9), rng=rng, starts=range(29, 31)
    )
    assert len(learning.points) == len(learning.values) == 30
    learning.fit()
    draws = target.sample(np.random.default_rng(24), 5)
    learning.passes(np.vstack([draws, far]), np.append(rows(target)(draws), -1e9), 100, drawn=5)
    np.testing.assert_array_equal(learning.points[30:], draws)
    learning.fit()
    assert np.isfinite(learning.draws).all()


def test_low_values_of_a_climb_are_not_learned_and_chains_start_at_high_ones():
    target, start = Gaussian(2), np.array([[30.0, 0.0]])
    first = np.vstack([target.sample(np.random.default_rng(22), 30), start])
    learning = Learning(
        first, rows(target)(first), rng=np.random.default_rng(23), starts=range(30, 31)
    )
    learning.fit()
    points = learning.propose_last(100)
    n = len(learning.values)
    assert len(points) == 2 and np.all(np.linalg.norm(points - start, axis=1) < 10.0)
    # not what the surrogate foretells: the one is a mode, the other far below it
    learning.tell(np.array([0.0, -1e4]))
    assert len(learning.values) == n + 1 and learning.values[-1] == 0.0
    assert learning.left_out[1].tolist() == [-1e4]
    learning.fit()
    assert np.any(np.linalg.norm(learning.draws - points[0], axis=1) < 1.0)


def test_points_are_chosen_where_a_wall_may_be():
    def half(points):
        return np.where(points[:, 0] > -0.5, -0.5 * np.sum(points**2, axis=1), -np.inf)

    rng = np.random.default_rng(15)
    first = rng.standard_normal((30, 2))
    learning = Learning(first, half(first), rng=rng, least=8)
    while len(learning.values) < 120:
        learning.tell(half(learning.propose(120)))
    near = np.abs(learning.points[30:, 0] + 0.5) < 0.2
    # Of the normal's own mass, a seventh is there.
    assert near.mean() > 0.3


def test_no_point_is_evaluated_twice_where_chains_are_stuck():
    target = Gaussian(20)
    rng = np.random.default_rng(16)
    sd = np.sqrt(np.diag(target.covariance))
    first = 2 * sd * rng.standard_normal((40, 20))
    learning = Learning(first, rows(target)(first), rng=rng, least=8)
    while len(learning.values) < 90:
        learning.tell(rows(target)(learning.propose(90)))
    assert len(np.unique(np.round(learning.points / sd, 6), axis=0)) == len(learning.points)


def test_learning_goes_on_while_draws_are_deep_below_the_prediction_or_another_mode_is_found():
    target = Gaussian(2)
    first = np.random.default_rng(17).standard_normal((30, 2))

    known = learned(target, first, 60, 18)

    def passes(wrong, elsewhere=None):
        learning = copy.deepcopy(known)
        points = learning.sample(5, np.random.default_rng(19))[:12]
        values = rows(target)(points)
        values[:wrong] -= 20.0
        drawn = len(points)
        if elsewhere is not None:
            points, values = np.vstack([points, [[30.0, 30.0]]]), np.append(values, elsewhere)
        passed = learning.passes(points, values, 900, drawn=drawn)
        np.testing.assert_array_equal(learning.right, np.arange(drawn) >= wrong)
        return passed

    assert passes(0)
    assert not passes(1)
    assert passes(0, elsewhere=-450.0)
    assert not passes(0, elsewhere=0.0)


def test_a_longer_run_learns_longer_for_what_no_draw_shows():
    """Without an error, learning ends where it is worth as much as draws: at the root of 2 d times
    those left.
    """
    target = Gaussian(3)
    first = target.sample(np.random.default_rng(0), 12)
    learning = Learning(first, rows(target)(first), rng=np.random.default_rng(1))
    while not learning.is_done(2000 - len(learning.values)):
        learning.tell(rows(target)(learning.propose(50)))
        assert len(learning.values) < 400
    assert len(learning.values) > 0.9 * np.sqrt(6 * 2000)
