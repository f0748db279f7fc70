"""The tree of a chain's futures: the likeliest branches first, and proposals that chains take over."""

from types import SimpleNamespace

import numpy as np
import pytest

from kmc.mcmc.lanes import Lane
from kmc.mcmc.metropolis import Proposal
from kmc.run.foreseen import Foreseen

SEED = 4


class Kernel:
    """Random walk; every third proposal does not move. Counts its proposals."""

    def __init__(self):
        self.n_made = 0

    def __call__(self, rng, x):
        self.n_made += 1
        step = rng.standard_normal(len(x))
        return Proposal(x + step, 0.0, 0, moved=bool(rng.random() < 0.7))


def waiting(kernel, rates):
    """A chain that waits for the value at its first point."""
    rates = np.array(rates)
    lane = Lane(kernel, np.random.default_rng(SEED), x=np.zeros(2), log_density=0.0)
    chain = SimpleNamespace(index=0, lane=lane, n_sweeps=0, chance=lambda lane: np.mean(rates > lane.uniform))
    chain.point = step_to_point(chain, lane.propose)
    return chain


def step_to_point(chain, propose):
    """Propose until a proposal moves."""
    while not len(points := propose()):
        chain.lane.advance(np.empty(0))
        chain.n_sweeps += 1
    return points[0]


def grown(tree, chain, count, last=10**6):
    places = []
    while len(places) < count and (option := tree.likeliest(chain, last, prepare=False)) is not None:
        place = tree.make(option, chain, last)
        if place is not None:
            place.guess = "begun"
            places.append(place)
    return places


def test_the_likeliest_places_come_first():
    chain = waiting(Kernel(), np.random.default_rng(0).random(50))
    places = grown(Foreseen(), chain, 12)
    logs = [place.log_probability for place in places]
    assert logs == sorted(logs, reverse=True) and len(set(logs)) > 3
    assert len({place.point.tobytes() for place in places}) == 12
    depths = [place.sweep for place in places]
    assert depths != sorted(depths)  # a second branch near the root, before the first one's later places


def all_options(here):
    """Every place that is not evaluated, and every branch that is not followed, as (key, place, accepted)."""
    found = []
    for place in [here, *descendants(here)]:
        if place is not here and place.guess is None:
            found.append((-place.log_probability, place.sweep, place, None))
        found += [(-p, place.sweep + 1, place, accepted) for accepted, p in place.branches.items()]
    return found


def descendants(place):
    return [one for child in place.then for one in (child, *descendants(child))]


@pytest.mark.parametrize("rates", [[0.5], [0.0, 1.0], np.random.default_rng(0).random(50)], ids=["one", "two", "many"])
def test_no_option_is_likelier(rates):
    """Nor nearer, if it is as likely; with many equally likely ones and with none."""
    chain, tree = waiting(Kernel(), rates), Foreseen()
    last = chain.n_sweeps + 8
    for step in range(60):
        prepare = step % 3 == 0
        found = tree.likeliest(chain, last, prepare=prepare)
        options = [one for one in all_options(tree.here) if one[1] <= last and (one[3] is not None or not prepare)]
        if not options:
            assert found is None
            break
        assert (-found.log_probability, found.sweep) == min(one[:2] for one in options)
        assert (found.place, found.accepted) in [one[2:] for one in options if one[:2] == min(o[:2] for o in options)]
        place = tree.make(found, chain, last)
        if place is not None and not prepare:
            place.guess = "begun"
    assert step > 5


def test_nothing_beyond_the_last_sweep():
    chain = waiting(Kernel(), [0.5])
    places = grown(Foreseen(), chain, 100, last=chain.n_sweeps + 3)
    assert 0 < len(places) < 16 and max(place.sweep for place in places) <= chain.n_sweeps + 3


@pytest.mark.parametrize("value", [50.0, -np.inf], ids=["accepted", "rejected"])
def test_a_chain_takes_over_what_was_foreseen(value):
    """Its path is that of a chain without a tree, and no proposal on it is made twice."""
    kernel, alone = Kernel(), Kernel()
    chain, plain = waiting(kernel, [0.0, 1.0]), waiting(alone, [0.0, 1.0])  # both branches are equally likely
    tree = Foreseen()
    for _ in range(8):
        grown(tree, chain, 40, last=chain.n_sweeps + 4)
        for one in (chain, plain):
            one.lane.advance(np.array([value + one.n_sweeps]))
            one.n_sweeps += 1
        made = kernel.n_made
        chain.point = step_to_point(chain, lambda: tree.propose(chain.lane))
        plain.point = step_to_point(plain, plain.lane.propose)
        np.testing.assert_array_equal(chain.point, plain.point)
        assert chain.lane.start == plain.lane.start and chain.n_sweeps == plain.n_sweeps
        assert tree.here is not None and tree.here.guess == "begun"
        assert kernel.n_made - made == tree.here.starts.index(tree.here.starts[-1])  # those that did not move
