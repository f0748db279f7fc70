"""Climbs of which one is in the lower of two modes."""

import numpy as np
import pytest

import kmc
from kmc.run.structure import structured
from kmc.surrogate.emulator.climbs import Climbs
from tests.run.test_structure import evaluated

TOP, LOWER = 4.0, -2.0  # where x³ - 12 x is 16, and the lower maximum of the posterior


@pytest.fixture
def model():
    return kmc.Model(
        simulator=lambda p: np.array([p["x"] ** 3 - 12.0 * p["x"]]),
        likelihood=kmc.likelihoods.Normal(np.array([18.0]), sd=0.2),
        parameters={"x": kmc.Normal(0, 3)},
    )


@pytest.fixture
def climbs(model):
    starts = np.array([[-3.0], [3.0]])
    return Climbs(
        structured(model).structure,
        starts,
        *evaluated(model, starts),
        rng=np.random.default_rng(1),
        most=4,
    )


def evaluate(climbs, model, propose):
    """All points (n,) of climbs until there are none."""
    found = []
    while len(points := propose()):
        found.append(points)
        climbs.tell(*evaluated(model, points))
    return np.concatenate([np.empty((0, 1)), *found])[:, 0]


def test_the_best_climb_ends_without_those_that_it_has_overtaken(climbs, model):
    evaluate(climbs, model, climbs.propose)
    assert abs(climbs.top()[0][0] - TOP) < 0.2
    later = evaluate(climbs, model, lambda: climbs.overtaken(1))
    assert len(later) and np.abs(later - LOWER).max() < 0.5
    assert len(climbs.overtaken(9)) == 0


def test_overtaken_climbs_whose_points_are_not_evaluated_end(climbs, model):
    evaluate(climbs, model, climbs.propose)
    assert len(climbs.overtaken(9))
    climbs.end()
    assert len(climbs.overtaken(9)) == 0
