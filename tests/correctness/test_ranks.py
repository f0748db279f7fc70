"""Each move alone and the mixtures, from exact draws of ten targets.

A test makes some forty comparisons and is wrong with probability 5e-7: the hundred tests together would raise a false
alarm with one seed in twenty thousand. ``test_mutations.py`` shows what they can detect.
"""

import pytest

from kmc.mcmc.adaptive_langevin import AdaptiveLangevin
from kmc.scores import LiteKEF
from tests.correctness.invariance import MOVES, TARGETS, case, frozen_chains, learned


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("move", MOVES)
def test_the_target_is_invariant_and_the_move_reversible(move, target):
    one = case(target)
    one.check(MOVES[move](one))


@pytest.mark.parametrize("target", ["banana", "student-t"])
def test_langevin_steps_with_a_covariance_of_the_position(target):
    """Its bookkeeping is enumerated in test_enumeration.py; moves with the covariance of the states are above."""
    one = case(target)
    one.check(learned(one, AdaptiveLangevin(LiteKEF(n_basis=10, random_state=0), covariance="hessian"), sweeps=3))


@pytest.mark.filterwarnings("ignore:The gradient disagrees:kmc.KmcWarning")
@pytest.mark.parametrize("target", ["banana"])
def test_a_surrogate_fitted_to_wrong_gradients_makes_no_draw_wrong(target):
    one = case(target)
    one.check(frozen_chains(one, wrong_gradients=True))
