"""Each move alone and the mixtures, from exact draws of ten targets.

A test makes some forty comparisons and is wrong with probability 5e-7: the hundred tests together would raise a false
alarm with one seed in twenty thousand. ``test_mutations.py`` shows what they can detect.
"""

import pytest

from tests.correctness.invariance import MOVES, TARGETS, case

QUICK = "banana", "student-t", "wedge"
"""Targets of moves whose parts have tests of their own."""

COMPOSED = (
    "mixture of samplers",
    "cycle of samplers",
    "langevin updated online",
    "langevin with the covariance of the position",
    "frozen process fitted to wrong gradients",
)
CASES = [
    pytest.param(move, target, marks=pytest.mark.slow if move in COMPOSED and target not in QUICK else ())
    for move in MOVES
    for target in TARGETS
]


@pytest.mark.filterwarnings("ignore:The gradient disagrees:kmc.KmcWarning")
@pytest.mark.parametrize(("move", "target"), CASES)
def test_the_target_is_invariant_and_the_move_reversible(move, target):
    one = case(target)
    one.check(MOVES[move](one))
