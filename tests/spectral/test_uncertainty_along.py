import numpy as np

from kmc.spectral.uncertainty import least_quotient

RNG = np.random.default_rng(0)
NONE = np.empty((5000, 0))


def test_an_eigenfunction_is_the_best_function_of_itself():
    x = RNG.standard_normal(5000)
    assert 0.97 < least_quotient(x, np.ones(5000), np.ones(5000), NONE) <= 1.0


def test_a_slope_in_place_of_a_step():
    """Two wells: the linear function has 1 / Var x = .14, the first eigenfunction .0462."""
    x = RNG.standard_normal(5000) + 2.5 * RNG.choice([-1, 1], 5000)
    found = least_quotient(x, np.ones(5000), np.ones(5000), NONE) / x.var()
    assert 0.04 < found < 0.07


def test_slower_modes_are_left_out():
    """Two wells: the best function of x is a step, and without its part along the step the best is x itself."""
    rng = np.random.default_rng(0)
    x, ones = rng.standard_normal(5000) + 2.5 * rng.choice([-1, 1], 5000), np.ones(5000)
    assert least_quotient(x, ones, ones, NONE) < 0.6
    assert least_quotient(x, ones, ones, np.tanh(2.5 * x)[:, None]) > 0.9


def test_weights():
    """Only their ratios matter, and points without weight do not count."""
    x, squares = RNG.standard_normal(4000), RNG.random(4000)
    found = least_quotient(x, squares, np.ones(4000), NONE[:4000])
    np.testing.assert_allclose(least_quotient(x, squares, np.full(4000, 3.0), NONE[:4000]), found)
    half = RNG.random(4000) < 0.5
    weighted = least_quotient(x, np.where(half, 1.0, 1e3), 1.0 * half, NONE[:4000])
    assert weighted > 0.95


def test_too_few_samples_say_nothing():
    assert least_quotient(RNG.standard_normal(20), np.ones(20), np.ones(20), NONE[:20]) == 1.0
