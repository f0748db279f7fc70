"""The trees of NUTS; tests/mcmc/test_hmc.py has what it shares with HMC."""

import numpy as np

import kmc
from kmc.mcmc.nuts import Point, Tree

STEP = np.array([0.1])


def grown(max_depth, value=lambda x: -0.5 * float(x @ x), seed=0):
    rng, x = np.random.default_rng(seed), np.array([0.5])
    tree = Tree(Point(x, np.array([1.0]), -x, value(x)))
    points = [x]
    while not tree.done:
        points.append(tree.ask(rng, STEP))
        tree.tell(rng, value(points[-1]), -points[-1], step=STEP, max_depth=max_depth)
    return tree, np.array(points)


def test_paths_are_doubled():
    for depth in (1, 2, 4):
        tree, points = grown(depth)
        assert tree.n_points == len(points) - 1 == 2**depth - 1 and not tree.diverging
        x = np.sort(points[:, 0])
        assert np.all(np.diff(x) > 0.02)  # neighbors on one path, none twice


def test_paths_end_when_they_turn():
    """A period has 63 steps."""
    for seed in range(5):
        tree, _ = grown(12, seed=seed)
        assert 3 <= tree.n_points < 64
        assert 0.99 < tree.acceptance <= 1.0


def test_a_wall_ends_a_path():
    tree, points = grown(10, lambda x: 0.0 if 0.2 < x[0] < 0.8 else -np.inf)
    assert tree.diverging and 0.2 < tree.chosen.x[0] < 0.8
    assert np.sum((points < 0.2) | (points > 0.8)) == 1


def test_outputs_of_the_function_go_with_the_draws():
    def target(x):
        return -0.5 * float(x @ x), {"first": x[0]}

    sampler = kmc.NUTS(np.negative)
    idata = kmc.sample(target, dim=2, sampler=sampler, draws=30, warmup=60, chains=2, seed=1, progress=False)
    np.testing.assert_array_equal(idata.blobs["first"].values, idata.posterior["x"].values[..., 0])
    np.testing.assert_array_equal(idata.sample_stats["n_steps"].values, idata.sample_stats["n_evaluations"].values)
    assert idata.sample_stats["accepted"].values.mean() > 0.8
