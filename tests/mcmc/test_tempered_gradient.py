"""Gradients of tempered densities, and what is kept of a user's gradients."""

import numpy as np
import pytest

from kmc.mcmc.temperature_ladder import TemperatureLadder
from kmc.mcmc.tempered_gradient import KnownGradient, TemperedGradient
from tests.counted import Counted

X = np.array([0.5, -1.0])
LADDER = TemperatureLadder((1.0, 4.0, np.inf), 2)


def log_density(x):
    return -0.5 * float(x @ x) + np.sin(x[0])


def log_prior(x):
    return -0.1 * float(np.sum(x**4))


def differences(function, x, step=1e-6):
    return np.array([(function(x + step * e) - function(x - step * e)) / (2 * step) for e in np.eye(len(x))])


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("k", range(3))
def test_it_is_that_of_the_tempered_density(k, apart):
    beta = LADDER.betas[k]
    prior = KnownGradient(lambda x: differences(log_prior, x)) if apart else None
    slope = TemperedGradient(KnownGradient(lambda x: differences(log_density, x)), prior, ladder=LADDER, k=k)

    def tempered(x):
        below = log_prior(x) if apart else 0.0
        return below + beta * (log_density(x) - below)

    np.testing.assert_allclose(slope(X), differences(tempered, X), atol=1e-6)


def test_each_point_is_evaluated_once_for_all_temperatures():
    function = Counted(lambda x: -x)
    known = KnownGradient(function)
    levels = [TemperedGradient(known, None, ladder=LADDER, k=k) for k in range(2)]
    for slope in (*levels, *levels):
        slope(X), slope(X + 1)
    assert function.n == known.n_calls == 2
    known.forget_but([X[None]])
    for slope in levels:
        slope(X), slope(X + 1)
    assert function.n == 3


def test_the_prior_needs_no_gradient_of_the_likelihood():
    function = Counted(lambda x: np.full(2, np.nan))
    slope = TemperedGradient(KnownGradient(function), KnownGradient(lambda x: -2 * x), ladder=LADDER, k=2)
    np.testing.assert_array_equal(slope(X), -2 * X)
    assert function.n == 0


def test_it_changes_with_the_ladder():
    ladder = TemperatureLadder(2, 2)
    slope = TemperedGradient(KnownGradient(np.negative), None, ladder=ladder, k=1)
    for beta in (0.5, 0.25):
        ladder.betas = np.array([1.0, beta])
        np.testing.assert_array_equal(slope(X), -beta * X)


def test_no_gradient_and_wrong_ones():
    assert TemperedGradient(KnownGradient(lambda x: None), None, ladder=LADDER, k=1)(X) is None
    with pytest.raises(ValueError, match=r"prior_gradient returned an array of shape \(3,\)"):
        TemperedGradient(KnownGradient(np.negative), KnownGradient(lambda x: np.zeros(3)), ladder=LADDER, k=1)(X)
