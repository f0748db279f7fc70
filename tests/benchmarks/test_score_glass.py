"""Acceptance along trajectories, in known cases."""

import numpy as np
from score_glass import acceptances


def normal(x, rng):
    return -0.5 * float(x @ x)


SKETCH = np.random.default_rng(0).standard_normal((200, 3))


def test_exact_gradient_is_accepted():
    """Leapfrog's energy error on a standard normal is at most about step² / 8 times the energy: under .01 here."""
    found = acceptances(lambda x: -x, normal, SKETCH, repetitions=20, seed=0)
    assert found.shape == (20,) and found.min() > 0.98


def test_flat_surrogate_drifts_away():
    """Without a gradient, x_t = x + t p: the mean of min(1, exp(|x|²/2 - |x_t|²/2)) over t = .3, .8, ..., 9.8."""
    found = acceptances(np.zeros_like, normal, SKETCH, repetitions=20, seed=0)
    rng = np.random.default_rng([0, 1])
    x, p = SKETCH[rng.integers(len(SKETCH), size=20)], rng.standard_normal((20, 3))
    squares = [np.sum(x**2, 1) - np.sum((x + t * p) ** 2, 1) for t in np.arange(0.3, 10.0, 0.5)]
    assert np.allclose(found, np.exp(np.minimum(np.array(squares) / 2, 0)).mean(0))
