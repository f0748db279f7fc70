"""Each move alone and the mixtures, from exact draws of ten targets.

A test makes some forty comparisons and is wrong with probability 5e-7: the hundred tests together would raise a false
alarm with one seed in twenty thousand. ``test_mutations.py`` shows what they can detect.
"""

import pytest

from tests.correctness.invariance import MOVES, TARGETS, case, frozen_chains


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("move", MOVES)
def test_the_target_is_invariant_and_the_move_reversible(move, target):
    one = case(target)
    one.check(MOVES[move](one))


@pytest.mark.filterwarnings("ignore:The gradient disagrees:kmc.KmcWarning")
@pytest.mark.parametrize("target", ["banana"])
def test_a_surrogate_fitted_to_wrong_gradients_makes_no_draw_wrong(target):
    one = case(target)
    one.check(frozen_chains(one, wrong_gradients=True))
