import numpy as np
import pytest

from kmc.mcmc.metropolis import Proposal, decide
from kmc.mcmc.tempering import COLD, Tempering
from kmc.mcmc.walkers import Walkers, best_starts, requested


def rngs(count, seed=0):
    return [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(count)]


def walkers(values, dim=2):
    """Walkers whose position determines their value."""
    values = np.asarray(values, float)
    return Walkers(rngs(len(values)), np.repeat(values[:, None], dim, axis=1), values)


def certain(position, **options):
    return Proposal(np.asarray(position, float), np.inf, 0, **options)


def impossible(position, **options):
    return Proposal(np.asarray(position, float), -np.inf, 0, **options)


def test_one_walker_does_not_touch_the_stream_of_another():
    """The second walker decides the same, whatever happens to the first."""
    seen = []
    for first in (impossible([5, 5]), certain([5, 5])):
        group = walkers([0.0, 0.0])
        results = []
        for _ in range(50):
            results.append(group.decide([first, Proposal(np.zeros(2), 0.0, 0)], np.array([0.0, -0.7]))["accepted"][1])
            group.log_density[1] = 0.0
        seen.append(results)
    assert seen[0] == seen[1] and 0 < np.mean(seen[0]) < 1


def test_starts_are_copied_and_a_sweep_is_a_copy():
    x, values = np.zeros((2, 3)), np.zeros(2)
    group = Walkers(rngs(2), x, values)
    record = group.sweep(True, {"accepted": np.array([True, False])}, 1)
    group.x[:], group.log_density[:] = 1.0, 1.0
    np.testing.assert_array_equal(x, 0)
    np.testing.assert_array_equal(values, 0)
    assert record.warmup and record.position.shape == (1, 3) and record.stats["accepted"].tolist() == [True]
    np.testing.assert_array_equal(record.position, 0)
    np.testing.assert_array_equal(record.log_density, 0)


# Swaps


def test_every_pair_of_neighbors_is_tried():
    rng = np.random.default_rng(2)
    swapped = set()
    for _ in range(50):
        group = walkers([-3.0, -2.0, -1.0, 0.0])  # the colder walkers are deeper: every swap on offer is accepted
        group.swap_neighbors([Tempering(0.0, b, np.inf) for b in (1.0, 0.5, 0.3, 0.1)], rng)
        swapped.add(tuple(group.log_density))
    assert swapped == {(-2.0, -3.0, 0.0, -1.0), (-3.0, -1.0, -2.0, 0.0)}


def test_one_walker_has_nobody_to_swap_with():
    group = walkers([-1.0])
    group.swap_neighbors([COLD], np.random.default_rng(3))
    np.testing.assert_array_equal(group.log_density, [-1.0])


# Helpers


@pytest.mark.parametrize(
    ("values", "count", "expected"),
    [
        ([1.0, 3.0, 2.0], 2, [1, 2]),
        ([1.0, 3.0, -np.inf], 3, [1, 0, 1]),
        ([-np.inf, 0.0], 4, [1, 1, 1, 1]),
        ([5.0, 5.0, 5.0], 2, [0, 1]),
    ],
)
def test_the_best_starts(values, count, expected):
    np.testing.assert_array_equal(best_starts(np.zeros((len(values), 1)), np.array(values), count), expected)


def test_the_points_to_evaluate_are_those_that_moved():
    proposals = [certain([1, 1]), certain([2, 2], moved=False), certain([3, 3])]
    np.testing.assert_array_equal(requested(proposals, 2), [[1, 1], [3, 3]])
    assert requested([certain([2, 2], moved=False)], 2).shape == (0, 2)


def test_decisions_of_many_are_those_of_each():
    """All at once, to the bit; some proposals did not move, some have no density, some ratios are no number."""
    rng, n = np.random.default_rng(5), 60
    x, log_density = rng.standard_normal((n, 2)), rng.standard_normal(n)
    ratios = np.where(np.arange(n) % 7 == 0, np.nan, rng.standard_normal(n))
    moved = np.arange(n) % 5 > 0
    proposals = [
        Proposal(x[i] + moved[i], float(ratios[i]), i % 4, bool(moved[i]), i, 0.1, np.nan if i % 3 else 1.0 * i, i == 8)
        for i in range(n)
    ]
    values = np.where(np.arange(n) % 11 == 0, -np.inf, rng.standard_normal(n))[moved]
    seeds = np.random.SeedSequence(1).spawn(n)
    together = Walkers([np.random.default_rng(seed) for seed in seeds], x, log_density)
    stats = together.decide(proposals, values)
    given = dict(zip(np.flatnonzero(moved), values, strict=True))
    for i, seed in enumerate(seeds):
        mine, accepted, probability = np.random.default_rng(seed), False, 0.0
        if moved[i]:
            accepted, probability = decide(mine, log_density[i], given[i], log_ratio=ratios[i])
        assert (stats["accepted"][i], stats["acceptance_rate"][i]) == (accepted, probability)
        assert together.log_density[i] == (given[i] if accepted else log_density[i])
        np.testing.assert_array_equal(together.x[i], proposals[i].position if accepted else x[i])
        assert stats["energy"][i] == (-together.log_density[i] if i % 3 else i)
        assert together.rngs[i].random() == mine.random()
    np.testing.assert_array_equal(stats["n_evaluations"], moved)
    np.testing.assert_array_equal(stats["n_steps"], np.arange(n))
    assert stats["diverging"].sum() == 1 and 0 < stats["accepted"].sum() < moved.sum()
