"""Archive moves: steps and ratios. Their stationary distribution is tested in tests/correctness."""

import numpy as np
import pytest

from kmc.mcmc.archive_moves import archive_move, differential_evolution, snooker
from kmc.mcmc.base import MOVES
from tests.grids import slow_except
from tests.oracles.mcmc import assert_standard

DIMS = pytest.mark.parametrize("dim", slow_except([1, 2, 10], {2}))


def archive(dim, n=40):
    """Off-center and too wide, as archives are; an exact move is not affected."""
    return 0.3 + 1.2 * np.random.default_rng(dim).standard_normal((n, dim))


def wide_evolution(rng, x, points):
    return differential_evolution(rng, x, points, scale=1.0)


def mixture(rng, x, points):
    return archive_move(rng, x, points, scale=0.7, snooker_probability=0.4)


MOVE = pytest.mark.parametrize("move", [wide_evolution, snooker, mixture])


@DIMS
def test_a_snooker_stays_on_a_line_through_the_archive(dim):
    rng = np.random.default_rng(2)
    points, x = archive(dim, n=6), np.full(dim, 0.1)
    for _ in range(50):
        proposal = snooker(rng, x, points)
        assert proposal.moved and MOVES[proposal.move] == "snooker"
        to_archive, to_new = points - x, proposal.position - x
        cosines = to_archive @ to_new / (np.linalg.norm(to_archive, axis=1) * np.linalg.norm(to_new))
        at = int(np.argmax(np.abs(cosines)))
        assert abs(cosines[at]) > 1 - 1e-9
        distances = [np.linalg.norm(p - points[at]) for p in (proposal.position, x)]
        if dim > 1:  # on a line every archived point is on the line
            assert proposal.log_ratio == pytest.approx((dim - 1) * np.log(distances[0] / distances[1]))
        else:
            assert proposal.log_ratio == 0


def test_a_snooker_at_the_archived_point_does_not_move():
    proposal = snooker(np.random.default_rng(3), np.ones(3), np.ones((4, 3)))
    assert not proposal.moved
    np.testing.assert_array_equal(proposal.position, np.ones(3))


def test_evolution_scales():
    """Steps are sums of archive differences: they scale with the archive and with ``scale``, and never depend on x."""
    points = archive(4)
    steps = {}
    for name, (x, factor, scale) in {
        "base": (np.zeros(4), 1.0, 0.5),
        "elsewhere": (np.full(4, 64.0), 1.0, 0.5),
        "wide": (np.zeros(4), 8.0, 0.5),
    }.items():
        rng = np.random.default_rng(4)
        proposals = [differential_evolution(rng, x, factor * points, scale=scale) for _ in range(100)]
        assert all(p.log_ratio == 0 and p.moved and MOVES[p.move] == "differential-evolution" for p in proposals)
        steps[name] = np.array([p.position for p in proposals]) - x
    np.testing.assert_allclose(steps["elsewhere"], steps["base"], atol=1e-12)
    np.testing.assert_allclose(steps["wide"], 8 * steps["base"], atol=1e-12)


def test_evolution_jumps_between_modes():
    """A tenth of the steps takes an archived difference whole."""
    modes = np.array([[-50.0, 0.0], [50.0, 0.0]])
    points = np.repeat(modes, 20, axis=0) + 0.01 * np.random.default_rng(5).standard_normal((40, 2))
    rng = np.random.default_rng(6)
    proposals = np.array([differential_evolution(rng, modes[0], points, scale=0.1).position for _ in range(4000)])
    jumped = np.mean(np.linalg.norm(proposals - modes[1], axis=1) < 2.0)
    expected = 0.1 * 20 / 39 / 2  # the pair is of different modes, and in the right order
    assert_standard((jumped - expected) / np.sqrt(expected * (1 - expected) / len(proposals)))


def test_the_share_of_snookers():
    rng = np.random.default_rng(7)
    kinds = [
        MOVES[archive_move(rng, np.zeros(3), archive(3), scale=1.0, snooker_probability=0.3).move] for _ in range(3000)
    ]
    share = kinds.count("snooker") / len(kinds)
    assert_standard((share - 0.3) / np.sqrt(0.3 * 0.7 / len(kinds)))
    assert set(kinds) == {"snooker", "differential-evolution"}


@MOVE
def test_the_start_and_the_archive_are_left_alone(move):
    rng, x, points = np.random.default_rng(8), np.ones(3), archive(3)
    copy = points.copy()
    for _ in range(20):
        move(rng, x, points)
    np.testing.assert_array_equal(x, np.ones(3))
    np.testing.assert_array_equal(points, copy)
