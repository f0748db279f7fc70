"""Climbs of which one is in the lower of two modes."""

import numpy as np
import pytest

import kmc
from kmc.kernel_hmc.batch import OvertakenClimbs
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


def climbs_from(starts, model, most):
    return Climbs(
        structured(model).structure,
        starts,
        *evaluated(model, starts),
        rng=np.random.default_rng(1),
        most=most,
    )


@pytest.fixture
def climbs(model):
    return climbs_from(np.array([[-3.0], [3.0]]), model, most=4)


def evaluate(climbs, model, propose):
    """All first coordinates (n,) of climbs' points until there are none."""
    found = []
    while len(points := propose()):
        found.append(points)
        climbs.tell(*evaluated(model, points))
    return np.vstack([np.empty((0, model.dim)), *found])[:, 0]


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


def test_overtaken_climbs_go_on_in_batches_and_before_learning_ends(model):
    climbs = climbs_from(np.array([[-3.0], [-2.6], [3.0]]), model, most=6)
    evaluate(climbs, model, climbs.propose)
    in_batch, at_the_end = OvertakenClimbs(climbs), OvertakenClimbs(climbs, at_the_end=True)
    waiting = at_the_end.points(None, 9)
    assert len(waiting) > 1
    points = in_batch.points(None, 9)
    np.testing.assert_array_equal(points, waiting[:1])
    values, outputs = evaluated(model, points)
    in_batch.tell(values, 0.0, outputs)
    waiting = at_the_end.points(None, 9)
    assert len(waiting)
    assert not np.any(waiting == points)  # it went on from there
    at_the_end.tell(values[:0], 0.0, outputs[:0])  # as if these were known
    assert not len(at_the_end.points(None, 9))


def test_climbs_do_not_end_in_the_neck_of_a_hierarchy():
    """Where the scale is zero, the density of centered parameters is infinite."""
    rng = np.random.default_rng(2)
    effects = 3.0 + 2.0 * rng.standard_normal(12) + rng.standard_normal(12)
    model = kmc.Model(
        simulator=lambda p: p["theta"],
        likelihood=kmc.likelihoods.Normal(effects, sd=1.0),
        parameters={
            "mu": kmc.Normal(0, 5),
            "tau": kmc.LogNormal(0, 2),
            "theta": kmc.Normal("mu", "tau", shape=12),
        },
    )
    structure = structured(model).structure
    starts = structure.parameters.draw(rng, 4)
    climbs = Climbs(structure, starts, *evaluated(model, starts), rng=rng, most=60)
    evaluate(climbs, model, climbs.propose)
    x = climbs.top()[0]
    assert abs(x[1] - np.log(2.0)) < 2.0
    draws = climbs.draws(500, rng)
    assert abs(draws[:, 1].mean() - x[1]) < 4.0 * draws[:, 1].std() / np.sqrt(500)
    assert np.median(np.abs(draws[:, 2:] - effects)) < 3.0


def test_climbs_end_where_mass_is_and_not_in_the_neck_of_a_funnel():
    """Where outputs are the data and the noise is nil, the density is high, but has no mass."""
    data = np.array([0.3, -1.2, 0.8, 0.1, -0.4])
    model = kmc.Model(
        simulator=lambda p: p["x"],
        likelihood=kmc.likelihoods.Normal(data, sd="noise"),
        parameters={"x": kmc.Normal(0, 1, shape=5), "noise": kmc.LogNormal(-1, 1)},
        inputs=["x"],
    )
    climbs = climbs_from(np.append(data + 0.2, 0.0)[None], model, most=6)
    evaluate(climbs, model, climbs.propose)
    log_noise = climbs.top()[0][-1]
    assert -2.5 < log_noise < 0.5  # -1 ± 1 in the posterior, as in the prior
