"""Idle workers evaluate points that chains will probably need: prefetching (Brockwell 2006).

A proposal depends on the chain's state and random stream, not on the value of the log-density. So while the value at
one proposal is computed, the next proposal is known up to one bit: whether the first is accepted. The uniform number
of that decision is known, too, and which is likelier follows from the chain's acceptance probabilities so far. The
likelier branch is followed for several sweeps, and its points are evaluated on workers that would wait otherwise. A
chain uses such a value only if it arrives at the very same proposal; the draws are the same with and without guesses,
to the bit.

References
----------
.. [1] Brockwell (2006), "Parallel Markov chain Monte Carlo simulation by pre-fetching", Journal of Computational and
   Graphical Statistics 15.
.. [2] Angelino, Kohler, Waterland, Seltzer and Adams (2014), "Accelerating MCMC via parallel predictive prefetching",
   UAI.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import numpy as np

from kmc.mcmc.lanes import Lane
from kmc.targets.evaluate import Evaluation, Stream
from kmc.targets.returned import Failure

LEAST = 0.1  # least probability that a point will be needed


class Waiting(Protocol):
    """A chain that waits for a value."""

    index: int
    lane: Lane
    n_sweeps: int  # that it has made

    rates: list[float]  # acceptance probabilities of its proposals, sorted; not empty


@dataclass(eq=False)
class Guess:
    """An evaluation at a point that a chain may need."""

    chain: int
    log_probability: float  # of the branch that leads there, since its path began
    outcome: Evaluation | Failure | None = None  # None: not yet there
    needed: bool = False  # the chain has come to that point, and waits for it


@dataclass(eq=False)
class _Path:
    """The likelier branch of a chain's future."""

    lane: Lane | None = None  # at the last guess
    sweep: int = 0  # of that guess
    log_probability: float = 0.0  # of the branch that leads there
    known: float = 0.0  # that of the part which has turned out to be right
    guesses: dict[bytes, Guess] = field(default_factory=dict)


class Guesses:
    """The guesses of all chains.

    Parameters
    ----------
    stream : Stream
    chains : int
        Keys from this number on are those of guesses.

    Attributes
    ----------
    n_begun, n_used : int
        Evaluations that were begun, and those of them that a chain has come to.
    """

    def __init__(self, stream: Stream, chains: int):
        self._stream, self._keys = stream, count(chains)
        self._paths = [_Path() for _ in range(chains)]
        self._under_way: dict[int, Guess] = {}
        self.n_begun = self.n_used = 0

    def __len__(self) -> int:
        return len(self._under_way)

    def look_up(self, chain: int, point: np.ndarray) -> Guess | None:
        """The guess at a point that a chain has come to; without one, its other guesses are wrong, too."""
        path = self._paths[chain]
        guess = path.guesses.pop(point.tobytes(), None)
        if guess is None:
            self._paths[chain] = _Path()
        else:
            self.n_used += 1
            guess.needed, path.known = True, guess.log_probability
        return guess

    def arrive(self, key: int, outcome: Evaluation | Failure) -> int | None:
        """Take an outcome; the chain that waits for it, if one does."""
        guess = self._under_way.pop(key)
        guess.outcome = outcome
        return guess.chain if guess.needed else None

    def extend(self, waiting: Sequence[Waiting], workers: int, last: Sequence[int]) -> None:
        """Give guesses to idle workers, first for the chains that are behind.

        ``last`` (waiting,) are the last sweeps that the chains may make.
        """
        ends = dict(zip((chain.index for chain in waiting), last, strict=True))
        able = list(waiting)
        while workers > 0 and able:
            chain = min(able, key=self._reach)
            point = self._next(chain, ends[chain.index])
            if point is None:
                able.remove(chain)
                continue
            path, key = self._paths[chain.index], next(self._keys)
            path.guesses[point.tobytes()] = guess = Guess(chain.index, path.log_probability)
            self._under_way[key] = guess
            self._stream.submit(key, point)
            self.n_begun += 1
            workers -= 1

    def _reach(self, chain: Waiting) -> int:
        """The sweep up to which a chain's points are evaluated."""
        path = self._paths[chain.index]
        return chain.n_sweeps if path.lane is None else max(path.sweep, chain.n_sweeps)

    def _next(self, chain: Waiting, last: int) -> np.ndarray | None:
        """The next point on a chain's path; None if it is too unlikely, or beyond the last sweep."""
        path = self._paths[chain.index]
        here, sweep = (chain.lane, chain.n_sweeps) if path.lane is None else (path.lane, path.sweep)
        logs: list[float] = []

        def decide(uniform: float) -> bool:
            accepted = 1.0 - bisect_right(chain.rates, uniform) / len(chain.rates)
            logs.append(math.log(max(accepted, 1.0 - accepted)))
            return accepted >= 0.5

        lane, sweep = here.imagine(decide), sweep + 1
        log_probability = path.log_probability + sum(logs)
        if log_probability - path.known < math.log(LEAST):
            return None
        while sweep <= last:
            points = lane.propose()
            if len(points):
                path.lane, path.sweep, path.log_probability = lane, sweep, log_probability
                return points[0]
            lane.advance(np.empty(0))
            sweep += 1
        return None
