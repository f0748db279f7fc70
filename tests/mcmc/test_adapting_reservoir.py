import numpy as np

from kmc.mcmc.adapting import Reservoir
from tests.oracles.mcmc import assert_standard


def offered(size, states, seed=0):
    reservoir = Reservoir(1, size, np.random.default_rng(seed))
    reservoir.offer(np.arange(1.0, states + 1)[:, None])
    return reservoir


def test_a_short_history_is_kept_whole():
    np.testing.assert_array_equal(offered(10, 7).x[:, 0], np.arange(1.0, 8.0))
    assert len(offered(10, 7)) == 7 and len(offered(10, 30)) == 10


def test_later_states_are_kept_more_often():
    """State number s is among the last t with probability (s / t)²: the mean of s / t is 2/3, its variance 1/18."""
    ages = np.concatenate([offered(20, 2000, seed).x[:, 0] / 2000 for seed in range(60)])
    assert_standard((ages.mean() - 2 / 3) / np.sqrt(1 / 18 / len(ages)))
    assert_standard((np.mean(ages < 0.5) - 0.25) / np.sqrt(0.25 * 0.75 / len(ages)))


def test_the_reservoir_changes_ever_more_slowly():
    reservoir, changes = Reservoir(1, 20, np.random.default_rng(1)), []
    for t in range(4000):
        before = reservoir.x.copy()
        reservoir.offer(np.array([[float(t)]]))
        changes.append(before.shape != reservoir.x.shape or bool(np.any(before != reservoir.x)))
    assert np.mean(changes[-1000:]) < 0.02 < np.mean(changes[100:200])
