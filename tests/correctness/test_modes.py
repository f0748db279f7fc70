"""Jumps between modes leave the target invariant, wherever these are; with a known error they do
not.
"""

import numpy as np
import pytest

from kmc.kernel_hmc.modes import Modes
from kmc.samplers.base import MOVES
from kmc.samplers.metropolis import Proposal
from tests.correctness.invariance import MANY, case, proposals_of
from tests.grids import slow_except

JUMP = MOVES.index("mode-jump")


def modes_of(one):
    """Three modes of unequal shapes and sizes, none of which suits the target."""
    centers = one._center + one.scale * np.array([-0.8, 0.1, 0.9])[:, None]
    sheared = np.tril(np.full((one.dim, one.dim), 0.3)) + 0.3 * np.eye(one.dim)
    roots = np.stack([factor * one.scale[:, None] * sheared for factor in (0.7, 1.0, 1.3)])
    return Modes(centers, roots, np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1))


def jumps(one):
    """Sweeps of jumps alone, as kernel HMC makes them."""
    modes = modes_of(one)

    def propose(rng, x):
        position, log_ratio = modes.jump(rng, x[None])
        if not np.isfinite(log_ratio[0]):
            return Proposal(x, 0.0, JUMP, moved=False)
        return Proposal(position[0], float(log_ratio[0]), JUMP)

    return proposals_of(one, propose, sweeps=6)


@pytest.mark.parametrize(
    "name", slow_except(["bimodal", "banana", "student-t", "wedge", "cone"], {"bimodal", "wedge"})
)
def test_the_target_is_invariant_and_the_move_reversible(name):
    case(name).check(jumps(case(name)))


@pytest.mark.slow
@pytest.mark.parametrize("error", ["volume", "way back"])
def test_jumps_with_an_error_are_seen(monkeypatch, error):
    """Without the volumes, and from where the map does not lead back."""
    right = Modes.jump

    def jump(self, rng, x):
        position, log_ratio = right(self, rng, x)
        if error == "volume":
            return position, np.where(np.isfinite(log_ratio), 0.0, log_ratio)
        return position, np.where(np.isfinite(log_ratio), log_ratio, 0.0)

    monkeypatch.setattr(Modes, "jump", jump)
    with pytest.raises(AssertionError, match="the distribution has changed"):
        case("bimodal").check(jumps(case("bimodal")), size=MANY)
