import numpy as np
import pytest

from kmc.mcmc.adapting import RobbinsMonro


def test_the_factor_finds_the_acceptance_rate():
    """With an acceptance of exp(-factor) and a little noise."""
    tuned, rng = RobbinsMonro(0.234), np.random.default_rng(1)
    for sweep in range(1, 3001):
        tuned.learn(float(np.clip(np.exp(-tuned.value) + 0.1 * rng.standard_normal(), 0, 1)), sweep)
    assert np.exp(-tuned.value) == pytest.approx(0.234, abs=0.02)


def test_steps_of_the_recursion():
    tuned = RobbinsMonro(0.3)
    tuned.learn(0.8, 1)
    assert tuned.log_value == pytest.approx(2 * 2**-0.6 * 0.5)
    tuned.learn(0.3, 2)
    assert tuned.log_value == pytest.approx(2 * 2**-0.6 * 0.5)
    tuned.restart()
    tuned.learn(0.1, 9, weight=0.5)
    assert tuned.value == pytest.approx(np.exp(-0.5 * 2 * 10**-0.6 * 0.2))
