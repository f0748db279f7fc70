"""check_move passes right moves and finds wrong ones."""

import numpy as np
import pytest

import kmc
from kmc.testing import check_move

BUILT_IN = [
    kmc.moves.DifferentialEvolution(),
    kmc.moves.Snooker(),
    kmc.moves.RandomWalk(),
    kmc.moves.Independence(),
]


class Wrong:
    """A move of which something is changed."""

    def __init__(self, move, change):
        self.move, self.change = move, change

    def propose(self, rng, position, archive):
        return self.change(*self.move.propose(rng, position, archive), position)


@pytest.mark.parametrize("move", BUILT_IN, ids=lambda move: type(move).__name__)
def test_built_in_moves_are_right(move):
    check_move(move, n=1000)


@pytest.mark.parametrize(
    ("move", "change"),
    [
        (kmc.moves.Snooker(), lambda y, ratio, x: (y, 0.0)),
        (kmc.moves.Independence(), lambda y, ratio, x: (y, 0.0)),
        (kmc.moves.Independence(), lambda y, ratio, x: (y, -ratio)),
        (kmc.moves.RandomWalk(), lambda y, ratio, x: (y + 0.4, ratio)),  # a drift
        (kmc.moves.RandomWalk(), lambda y, ratio, x: (y, 0.5 * float(y @ y - x @ x))),
    ],
    ids=["no Jacobian", "no densities", "reversed ratio", "drift", "another target"],
)
def test_wrong_ratios_are_found(move, change):
    with pytest.raises(
        AssertionError, match="changes the distribution of draws from .*Check its log_ratio, log q"
    ):
        check_move(Wrong(move, change), n=1000)


class Modifies:
    def propose(self, rng, position, archive):
        archive += 1.0
        return position + rng.normal(size=len(position)), 0.0


class Forgets:
    def __init__(self):
        self.rng = np.random.default_rng(1)

    def propose(self, rng, position, archive):
        return position + self.rng.normal(size=len(position)), 0.0


class InPlace:
    def propose(self, rng, position, archive):
        position += rng.normal(size=len(position))
        return position, 0.0


class Never:
    def propose(self, rng, position, archive):
        return position + 1e4, 0.0


@pytest.mark.parametrize(
    ("move", "message"),
    [
        (Modifies(), "modified the archive"),
        (InPlace(), "modified the position"),
        (Forgets(), "all randomness must come from rng"),
        (Never(), "was never accepted"),
    ],
)
def test_rules(move, message):
    with pytest.raises(AssertionError, match=message):
        check_move(move, n=200)


def test_wrong_arguments():
    with pytest.raises(TypeError, match="has no method propose"):
        check_move(3)
    with pytest.raises(ValueError, match="dim=1: expected a whole number of at least 2"):
        check_move(kmc.moves.Snooker(), dim=1)
