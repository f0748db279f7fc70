"""Sources of evaluations: steps beyond the draws, and points with exchanged coordinate blocks."""

import numpy as np
import pytest

import kmc
from kmc.convergence import bulk_ess
from kmc.kernel_hmc.batch import LONG, beyond, climb_from, exchanges
from kmc.kernel_hmc.learning import Learning
from kmc.model.toys import Gaussian
from kmc.surrogate.process import Seen


def test_steps_follow_a_bend():
    """From the ends of a half circle of radius 10, they leave it along its tangents, by about two
    local deviations.
    """
    rng = np.random.default_rng(1)
    angle = rng.uniform(0.0, np.pi, 2_000)
    circle = 10.0 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.01 * rng.standard_normal(
        (2_000, 2)
    )
    steps = beyond(circle)
    assert steps.shape == (4_000, 2)
    # Six neighbors of 2,000 on a length of 31 have a standard deviation of some hundredths.
    radius = np.linalg.norm(steps, axis=1)
    np.testing.assert_allclose(radius, 10.0, atol=0.1)
    assert steps[:, 1].min() < circle[:, 1].min() - 0.01
    assert LONG == 2.0


def test_there_are_none_of_too_few_draws():
    draws = np.random.default_rng(3).standard_normal((100, 4))
    assert beyond(draws[:5]).shape == beyond(np.zeros((100, 4))).shape == (0, 4)


@pytest.mark.parametrize("surprise", [False, True])
def test_learning_goes_on_if_a_value_beyond_the_draws_is_higher_than_predicted(surprise):
    """Even if draws are predicted well, after which it ends otherwise."""
    target = Gaussian(2, 0.5, 2.0)
    points = 2.0 * np.random.default_rng(4).standard_normal((40, 2))
    learning = Learning(points, np.array([target(x) for x in points]), rng=np.random.default_rng(5))
    for _ in range(8):
        chosen = learning.propose(4)
        learning.tell(np.array([target(x) for x in chosen]))
    learning.fit()
    drawn, elsewhere = learning.draws[:: len(learning.draws) // 12][:12], learning.elsewhere(4)
    points = np.vstack([drawn, elsewhere])
    values = np.array([target(x) for x in points])
    if surprise:
        values[-1] = values.max() + 2.0
    assert len(elsewhere)
    assert learning.passes(points, values, 1_000, drawn=12) is not surprise


def found(x, most=100):
    return {tuple(row) for row in exchanges(np.array(x, float), most)}


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([1, 2], {(2, 1)}),
        (
            [1, 2, 3, 4, 5, 6],
            {(2, 1, 4, 3, 6, 5), (4, 5, 6, 1, 2, 3), (2, 1, 3, 5, 4, 6), (3, 4, 1, 2, 5, 6)},
        ),
        # An odd one is before the groups, or behind them, with and without the sign of a weight.
        ([1, 2, 3], {(2, 1, 3), (2, 1, -3), (1, 3, 2), (-1, 3, 2)}),
    ],
)
def test_two_groups_change_places(x, expected):
    """Interleaved ones, and one behind the other; for three groups, the first two."""
    assert found(x) == expected


def test_no_point_is_its_own_exchange():
    assert found([1.0]) == set()
    assert found([2, 2]) == set()
    # each of them is there once
    assert found([1, 5, 1, 5]) == {(5, 1, 5, 1), (1, 1, 5, 5), (5, 1, 1, 5)}
    assert len(exchanges(np.array([1.0, 5.0, 1.0, 5.0]), 9)) == 3
    assert exchanges(np.zeros(4), 9).shape == (0, 4)


def test_at_most_so_many():
    x = np.arange(6.0)
    every = exchanges(x, 100)
    np.testing.assert_array_equal(exchanges(x, 2), every[:2])
    assert exchanges(x, 0).shape == (0, 6)
    np.testing.assert_array_equal(x, np.arange(6.0))


ONE = np.array([6.0, -6.0])


def two_labels(x):
    """Two components whose labels can be exchanged: (a, b) near (6, -6), and (b, a)."""
    there, back = np.sum((x - ONE) ** 2), np.sum((x - ONE[::-1]) ** 2)
    return float(np.logaddexp(-0.5 * there, -0.5 * back))


@pytest.mark.slow
def test_a_run_that_starts_in_one_mode_finds_that_of_other_labels():
    start = ONE + np.random.default_rng(1).standard_normal((4, 2))
    idata = kmc.sample(
        two_labels, dim=2, initial=start, draws=None, max_evaluations=500, seed=2, progress=False
    )
    first = idata.posterior["x"].values[..., 0] > 0
    error = 0.5 / np.sqrt(bulk_ess(first[..., None].astype(float))[0])
    assert error < 0.1 and abs(first.mean() - 0.5) < 4 * error


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_without_exchanges_it_does_not(monkeypatch):
    """So that the test above says something."""
    monkeypatch.setattr("kmc.kernel_hmc.learning.ELSEWHERE", ())
    start = ONE + np.random.default_rng(1).standard_normal((4, 2))
    idata = kmc.sample(
        two_labels, dim=2, initial=start, draws=None, max_evaluations=500, seed=2, progress=False
    )
    assert np.all(idata.posterior["x"].values[..., 0] > 0)


FAR = np.array([6.0, -6.0])
FLANK = FAR + 2.0


def two_modes(x):
    """Normal with sd 1 around 0, and with sd 0.5 around a point that is 8.5 away; masses 0.5."""
    return np.logaddexp(-0.5 * x @ x, -2.0 * (x - FAR) @ (x - FAR) + 2.0 * np.log(2.0))


def climbed(start, forecast_of, target=two_modes, enough=-5.0):
    """Points of a climb from there, and their values, with so many values in each step."""
    points = np.array([start, start + 1.0, np.zeros(2)])
    values = np.array([target(x) for x in points])
    around = start + 0.5 * np.random.default_rng(6).standard_normal((3, 2))
    forecast = np.array([forecast_of(x) for x in around[:2]])
    seen = Seen(points, values, points, np.full(points.shape, np.nan))
    climbing = climb_from(seen, 0, around, forecast, enough, np.random.default_rng(7))
    found, counts, asked = [start], [], next(climbing)
    while True:
        found.extend(asked)
        counts.append(len(asked))
        try:
            asked = climbing.send(np.array([target(x) for x in asked]))
        except StopIteration:
            return np.array(found), np.array([target(x) for x in found]), counts


def test_a_climb_from_a_start_ends_in_its_own_mode():
    """Also if the other one is higher, and the surrogate knows that alone."""
    points, values, counts = climbed(FLANK, lambda x: -0.5 * x @ x)
    assert counts[:2] == [2, 1] and max(counts[2:]) == 1 and len(points) < 20
    assert values[-1] == values.max() > -5.0
    assert np.linalg.norm(points[-1] - FAR) < 2.0


def test_there_is_no_climb_where_two_values_are_as_the_surrogate_foretells():
    _, _, counts = climbed(FLANK, two_modes)
    assert counts == [2]


@pytest.mark.parametrize(("off", "climbs"), [(0.05, False), (0.2, True)])
def test_far_below_a_surrogate_need_not_hold_to_more_than_a_tenth_of_the_depth(off, climbs):
    _, _, counts = climbed(np.array([60.0, 60.0]), lambda x: (1.0 + off) * two_modes(x))
    assert (len(counts) > 1) is climbs


def test_a_climb_ends_where_nothing_is_higher():
    """A mode that is 50 nats lower than the draws costs some evaluations, not the run."""
    points, values, _ = climbed(
        FLANK, lambda x: 0.0, target=lambda x: -50.0 - 2.0 * np.sum((x - FAR) ** 2)
    )
    assert len(points) < 30 and values.max() > -55.0


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
@pytest.mark.parametrize("climbs", [False, True])
def test_a_run_draws_from_a_mode_that_one_start_is_near(climbs, monkeypatch):
    """The others start in the other mode, and without climbs nothing shows that there are two."""
    if not climbs:
        monkeypatch.setattr("kmc.kernel_hmc.learning.AT_THE_END", ())
    start = np.vstack(
        [np.random.default_rng(8).standard_normal((3, 2)), FAR + np.array([4.0, 0.0])]
    )
    idata = kmc.sample(
        two_modes, dim=2, initial=start, draws=None, max_evaluations=500, seed=3, progress=False
    )
    far = idata.posterior["x"].values[..., 0] > 3.0
    if not climbs:
        assert not far.any()
        return
    error = 0.5 / np.sqrt(bulk_ess(far[..., None].astype(float))[0])
    assert error < 0.1 and abs(far.mean() - 0.5) < 4 * error
