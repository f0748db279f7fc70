"""Archive moves: steps and ratios. Their stationary distribution is tested in tests/correctness."""

import numpy as np
import pytest

from kmc.samplers.base import MOVES
from kmc.samplers.moves import snooker
from tests.grids import slow_except

DIMS = pytest.mark.parametrize("dim", slow_except([1, 2, 10], {2}))


def archive(dim, n=40):
    """Off-center and too wide, as archives are; an exact move is not affected."""
    return 0.3 + 1.2 * np.random.default_rng(dim).standard_normal((n, dim))


@DIMS
def test_a_snooker_stays_on_a_line_through_the_archive(dim):
    rng = np.random.default_rng(2)
    points, x = archive(dim, n=6), np.full(dim, 0.1)
    for _ in range(50):
        proposal = snooker(rng, x, points)
        assert proposal.moved and MOVES[proposal.move] == "snooker"
        to_archive, to_new = points - x, proposal.position - x
        cosines = (
            to_archive @ to_new / (np.linalg.norm(to_archive, axis=1) * np.linalg.norm(to_new))
        )
        at = int(np.argmax(np.abs(cosines)))
        assert abs(cosines[at]) > 1 - 1e-9
        distances = [np.linalg.norm(p - points[at]) for p in (proposal.position, x)]
        if dim > 1:  # on a line every archived point is on the line
            assert proposal.log_ratio == pytest.approx(
                (dim - 1) * np.log(distances[0] / distances[1])
            )
        else:
            assert proposal.log_ratio == 0


def test_a_snooker_at_the_archived_point_does_not_move():
    proposal = snooker(np.random.default_rng(3), np.ones(3), np.ones((4, 3)))
    assert not proposal.moved
    np.testing.assert_array_equal(proposal.position, np.ones(3))
