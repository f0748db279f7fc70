"""Each move alone and the mixtures, from exact draws of ten targets.

A test makes some forty comparisons and is wrong with probability 5e-7: two hundred tests together
would raise a false alarm with one seed in ten thousand. ``test_mutations.py`` shows what they can
detect. In every check each move but the longest meets a bent density, one with heavy tails or one
with walls, in turns; in the weekly one each meets all ten.
"""

import pytest

from tests.correctness.invariance import MANY, MOVES, SIZE, TARGETS, case
from tests.grids import slow_except

TURNS = "banana", "student-t", "wedge"
CASES = {f"{move}-{target}": (move, target) for move in MOVES for target in TARGETS}
WEEKLY = "frozen process fitted to wrong gradients"  # the one without gradients is in every check
CHOSEN = {f"{move}-{TURNS[k % len(TURNS)]}" for k, move in enumerate(MOVES) if move != WEEKLY}


@pytest.mark.filterwarnings("ignore:The gradient disagrees:kmc.KmcWarning")
@pytest.mark.parametrize(("move", "target"), slow_except(CASES, CHOSEN))
def test_the_target_is_invariant_and_the_move_reversible(move, target):
    one = case(target)
    few = f"{move}-{target}" in CHOSEN and move != "random walk"
    one.check(MOVES[move](one), size=SIZE if few else MANY)
