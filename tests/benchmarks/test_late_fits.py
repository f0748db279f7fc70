"""Fits that enter a round late: what the simulation adds and hides."""

import pytest
from late_fits import WarmUp, until_the_freeze


def found(seconds):
    return WarmUp([64] * 3, dict(enumerate(seconds)), [])


def test_a_round_that_takes_no_time_hides_no_fit():
    for late in range(3):
        assert until_the_freeze(found([5.0, 3.0, 2.0]), 1e-9, late, 1) == pytest.approx(10.0, abs=1e-6)


def test_a_late_fit_costs_a_round_and_is_hidden_behind_it():
    """All but the first, which is waited for."""
    rounds = [until_the_freeze(WarmUp([64] * count, {0: 0.0}, []), 1.0, 0, 1) for count in (3, 4)]
    assert until_the_freeze(found([0.5, 0.4, 0.3]), 1.0, 0, 1) == pytest.approx(rounds[0] + 1.2)
    assert until_the_freeze(found([0.5, 0.4, 0.3]), 1.0, 1, 1) == pytest.approx(rounds[1] + 0.5)
