"""Each move alone and the mixtures, from exact draws of ten targets.

A test makes some forty comparisons and is wrong with probability 5e-7: two hundred tests together would raise a false
alarm with one seed in ten thousand. ``test_mutations.py`` shows what they can detect. Every check meets a bent density,
one with heavy tails and one with walls; the weekly one meets all ten.
"""

import pytest

from tests.correctness.invariance import MOVES, TARGETS, case
from tests.grids import slow_except


@pytest.mark.filterwarnings("ignore:The gradient disagrees:kmc.KmcWarning")
@pytest.mark.parametrize("target", slow_except(list(TARGETS), {"banana", "student-t", "wedge"}))
@pytest.mark.parametrize("move", MOVES)
def test_the_target_is_invariant_and_the_move_reversible(move, target):
    one = case(target)
    one.check(MOVES[move](one))
