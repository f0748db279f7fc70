"""Rounds of learning: which points are chosen, what is predicted, and what is found."""

import numpy as np
import pytest

from kmc.kernel_hmc.learning import (
    Prediction,
    choose,
    fit_surrogate,
    learn,
    learned_coordinates,
    prediction_error,
    rounds,
    temperature_of,
)
from kmc.surrogate.covariance import scaled_coordinates
from kmc.targets.toys import Banana, Bimodal, Gaussian


def rows(target):
    return lambda points: np.array([target(x) for x in points])


def learned(target, initial, budget, seed):
    return learn(rows(target), initial, budget=budget, rng=np.random.default_rng(seed))


def test_a_correlated_normal_of_unequal_scales_is_learned_from_sixty_values():
    target = Gaussian(4, 0.9, 10.0)
    rng = np.random.default_rng(0)
    sd = np.sqrt(np.diag(target.covariance))
    found = learned(target, 2 * sd * rng.standard_normal((12, 4)), 80, 1)
    assert found.error <= 0.1
    assert len(found.values) < 80
    x = target.sample(rng, 500)
    truth = rows(target)(x)
    assert np.abs(found.surrogate.values(x) - truth).mean() < 0.1
    draws = found.sample(60, rng)
    # 1,440 draws of 24 chains, at least every fifth independent: standard errors of 0.06 and 0.04.
    np.testing.assert_allclose(draws.mean(axis=0) / sd, 0.0, atol=0.25)
    np.testing.assert_allclose(np.log(draws.std(axis=0) / sd), 0.0, atol=0.2)


def test_a_banana_is_learned_from_two_hundred_values():
    target = Banana(2)
    rng = np.random.default_rng(3)
    found = learned(target, [10, 4] * rng.standard_normal((12, 2)), 200, 4)
    x = target.sample(rng, 500)
    assert np.median(np.abs(found.surrogate.values(x) - rows(target)(x))) < 0.1


def test_two_modes_are_learned_when_first_points_lie_in_both():
    target = Bimodal(3, separation=9.0, weight=0.3)
    rng = np.random.default_rng(5)
    found = learned(target, target.sample(rng, 14), 150, 6)
    upper = found.sample(150, rng).sum(axis=1) > 0
    assert 0.15 < upper.mean() < 0.45


def test_the_seed_determines_all_evaluations_and_the_budget_is_kept():
    initial = np.random.default_rng(7).standard_normal((8, 2))
    seen = []
    for _ in range(2):
        asked = []

        def evaluate(x, asked=asked):
            asked.append(x.copy())
            return rows(Banana(2))(x)

        *_, last = rounds(evaluate, initial, budget=31, rng=np.random.default_rng(8))
        seen.append(np.vstack(asked))
        np.testing.assert_array_equal(last.points, seen[-1])
    assert len(seen[0]) == 31
    np.testing.assert_array_equal(*seen)


def test_a_batch_is_spread_and_begins_with_the_most_promising_point():
    rng = np.random.default_rng(9)
    points = rng.uniform(-1, 1, (15, 2))
    surrogate = fit_surrogate(points, -np.sum(points**2, axis=1) + np.sin(4 * points[:, 0]), scaled_coordinates(points))
    candidates = rng.uniform(-2, 2, (50, 2))
    candidates = np.vstack([candidates, candidates + 1e-6])  # each of them twice
    chosen, _, sd = choose(surrogate, candidates, 6)
    distances = np.linalg.norm(candidates[chosen][:, None] - candidates[chosen][None], axis=2)
    assert distances[np.triu_indices(6, 1)].min() > 0.01
    joint = surrogate.regression.conditional(candidates)
    upper = np.minimum(surrogate.values(candidates), surrogate.highest) + np.sqrt(joint.variances)
    assert upper[chosen[0]] == pytest.approx(upper.max())
    np.testing.assert_allclose(sd**2, joint.variances[chosen])


def test_variances_of_a_batch_are_conditional():
    """The greedy factorization is that of the joint covariance matrix."""
    rng = np.random.default_rng(10)
    points = rng.standard_normal((12, 2))
    surrogate = fit_surrogate(points, -np.sum(points**2, axis=1), scaled_coordinates(points))
    x = rng.standard_normal((6, 2))
    joint = surrogate.regression.conditional(x)
    covariance = np.array([joint.covariances(j) for j in range(6)])
    assert np.linalg.eigvalsh(covariance)[0] > -1e-6 * covariance.max()
    np.testing.assert_allclose(np.diag(covariance), joint.variances, rtol=1e-6, atol=1e-9)


def test_draws_are_white_in_learned_coordinates():
    rng = np.random.default_rng(11)
    points = rng.standard_normal((30, 2))
    surrogate = fit_surrogate(points, -0.05 * np.sum(points**2, axis=1), scaled_coordinates(points))
    draws = rng.standard_normal((4000, 2)) @ np.array([[1.0, 0.9], [0.0, 0.1]])
    coordinates = learned_coordinates(surrogate, draws, points)
    np.testing.assert_allclose(np.cov(coordinates.map(draws).T), np.eye(2), atol=1e-3)


def test_a_known_quadratic_is_narrower_than_draws_that_are_not():
    points = np.random.default_rng(12).standard_normal((30, 2))
    surrogate = fit_surrogate(points, -3.0 * points[:, 0] ** 2 - 0.5 * points[:, 1] ** 2, scaled_coordinates(points))
    draws = np.random.default_rng(13).standard_normal((4000, 2))
    coordinates = learned_coordinates(surrogate, draws, points)
    scale = np.sqrt(np.diag(np.linalg.inv(coordinates.whitening @ coordinates.whitening.T)))
    np.testing.assert_allclose(scale, [6**-0.5, 1.0], rtol=0.1)


def test_the_temperature_falls_to_one_when_enough_values_count():
    # In two dimensions four values have to be within 6 nats.
    assert temperature_of(-np.array([0.0, 1.0, 2.0, 5.0, 1e4]), 2) == 1.0
    assert temperature_of(-np.array([0.0, 1.0, 2.0, 600.0, 1e4]), 2) == pytest.approx(100.0)


def test_the_error_is_that_of_the_last_batches_weighted_by_density():
    old = Prediction(np.zeros(20), np.ones(20), np.full(20, 50.0), np.ones(20))
    new = Prediction(np.zeros(20), np.ones(20), np.tile([0.3, 9.0], 10), np.tile([1.0, 0.0], 10))
    assert prediction_error((old, new)) == pytest.approx(0.3)
    assert prediction_error(()) == np.inf
    assert prediction_error((new._replace(weight=np.full(20, 0.01)),)) == np.inf


def test_points_without_density_are_deep():
    def half(points):
        return np.where(points[:, 0] > -0.5, -0.5 * np.sum(points**2, axis=1), -np.inf)

    rng = np.random.default_rng(14)
    found = learn(half, rng.standard_normal((12, 2)), budget=40, rng=rng)
    assert np.isfinite(found.draws).all()


@pytest.mark.parametrize(
    ("initial", "budget", "message"),
    [(np.zeros((1, 2)), 10, "initial has shape"), (np.zeros((20, 2)), 10, "budget=10")],
)
def test_first_points_are_checked(initial, budget, message):
    with pytest.raises(ValueError, match=message):
        learned(Banana(2), initial, budget, 0)


def test_first_points_without_density_are_an_error():
    with pytest.raises(ValueError, match="none of the 4 points has a finite"):
        learn(lambda x: np.full(len(x), -np.inf), np.ones((4, 2)), budget=10, rng=np.random.default_rng(0))
