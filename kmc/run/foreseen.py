"""The possible futures of a chain that waits for a value.

A proposal depends on the chain's state and random stream, not on the value of the log-density. So while the value at
one proposal is computed, the next proposal is known up to one bit: whether the first is accepted. The uniform number
of that decision is known, too, and how likely it is follows from decisions so far (:mod:`kmc.run.outlook`), or from the
chain's acceptance probabilities. This gives a tree, of which the likeliest branches are followed.

Proposals take time, too: a chain that comes to a state that was foreseen takes the proposal that was made there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from kmc.mcmc.lanes import Lane, Start


class Waiting(Protocol):
    """A chain that waits for a value."""

    index: int
    lane: Lane
    n_sweeps: int  # that it has made

    def chance(self, lane: Lane) -> float:
        """The probability that the current proposal of a lane is accepted."""


@dataclass(eq=False)
class Place:
    """A point where a chain waits, or may come to wait."""

    lane: Lane  # it has proposed the point
    sweep: int  # that needs the point
    log_probability: float  # that the chain comes here, since its tree began
    point: np.ndarray  # empty where the tree begins
    starts: list[Start] = field(default_factory=list)  # of the lane's proposals; all but the last did not move
    guess: Any = None  # its evaluation in advance, if that has begun
    branches: dict[bool, float] = field(default_factory=dict)  # log-probability after a rejection, an acceptance
    then: list[Place] = field(default_factory=list)  # where followed branches lead


class Option(NamedTuple):
    """A place to evaluate, or a branch to follow."""

    log_probability: float  # that the chain comes there
    sweep: int
    place: Place
    accepted: bool | None  # None: the place itself


class Foreseen:
    """The tree of one chain.

    Attributes
    ----------
    here : Place or None
        Where the chain waits; None if nothing is known of its future.
    """

    def __init__(self) -> None:
        self.here: Place | None = None

    def propose(self, lane: Lane) -> np.ndarray:
        """What ``lane.propose()`` returns, taken from the tree if it was made there."""
        if self.here is not None:
            start = lane.start
            for place in self.here.then:
                if start == place.starts[-1]:
                    self.here = place
                    return lane.adopt(place.lane)
                if start in place.starts:  # a sweep without an evaluation, which the tree has left behind
                    return lane.propose()
            self.here = None
        return lane.propose()

    def likeliest(self, chain: Waiting, last: int, *, prepare: bool) -> Option | None:
        """The likeliest place that is not evaluated, or branch that is not followed, up to a last sweep.

        With ``prepare``, branches only.
        """
        if self.here is None:
            self.here = _place(chain, chain.lane, chain.n_sweeps, 0.0, np.empty(0))
        best = _likeliest(self.here, last, prepare=prepare)
        return None if best is None else best._replace(log_probability=best.log_probability - self.here.log_probability)

    def make(self, option: Option, chain: Waiting, last: int) -> Place | None:
        """The place of an option; None if the branch needs no evaluation up to the last sweep."""
        origin, accepted = option.place, option.accepted
        if accepted is None:
            return origin
        log_probability = origin.branches.pop(accepted)
        lane, sweep, starts = origin.lane.imagine(accepted), option.sweep, []
        while sweep <= last:
            starts.append(lane.start)
            points = lane.propose()
            if len(points):
                place = _place(chain, lane, sweep, log_probability, points[0])
                place.starts = starts
                origin.then.append(place)
                return place
            lane.advance(np.empty(0))
            sweep += 1
        return None


def _place(chain: Waiting, lane: Lane, sweep: int, log_probability: float, point: np.ndarray) -> Place:
    accepted = chain.chance(lane)
    chances = {True: accepted, False: 1.0 - accepted}
    branches = {choice: log_probability + math.log(chance) for choice, chance in chances.items() if chance > 0.0}
    return Place(lane, sweep, log_probability, point, branches=branches)


def _likeliest(here: Place, last: int, *, prepare: bool) -> Option | None:
    """The best option beyond the place where the chain waits: the likeliest, and of equally likely ones the nearest.

    This is asked for each guess, so there are no objects for options that are not the best, and what follows from a
    place is not looked at if the place itself is less likely than the best.
    """
    best, best_sweep = -math.inf, last + 1
    found: tuple[Place, bool | None] | None = None
    open_places = [here]
    while open_places:
        place = open_places.pop()
        sweep = place.sweep
        if sweep > last or place.log_probability < best:
            continue
        better = place.log_probability > best or sweep < best_sweep
        if better and place.guess is None and place is not here and not prepare:
            best, best_sweep, found = place.log_probability, sweep, (place, None)
        if sweep < last:
            for accepted, log_probability in place.branches.items():
                if log_probability > best or (log_probability == best and sweep + 1 < best_sweep):
                    best, best_sweep, found = log_probability, sweep + 1, (place, accepted)
        open_places += place.then
    return None if found is None else Option(best, best_sweep, *found)
