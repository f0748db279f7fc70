"""Idle workers evaluate points that chains will probably need: prefetching (Brockwell 2006).

While the value at one proposal is computed, the next ones are known up to a few bits (:mod:`kmc.run.foreseen`). The
likeliest points are evaluated on workers that would wait otherwise, the best first, as in [2]_. A chain uses such a
value only if it arrives at the very same proposal; the draws are the same with and without guesses, to the bit.

References
----------
.. [1] Brockwell (2006), "Parallel Markov chain Monte Carlo simulation by pre-fetching", Journal of Computational and
   Graphical Statistics 15.
.. [2] Angelino, Kohler, Waterland, Seltzer and Adams (2014), "Accelerating MCMC via parallel predictive prefetching",
   UAI.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from kmc.mcmc.lanes import Lane
from kmc.run.foreseen import Foreseen, Place, Waiting
from kmc.targets.evaluate import Evaluation, Stream
from kmc.targets.returned import Failure

LEAST = 0.1  # least probability that a point will be needed


@dataclass(eq=False)
class Guess:
    """An evaluation at a point that a chain may need."""

    chain: int
    outcome: Evaluation | Failure | None = None  # None: not yet there
    needed: bool = False  # the chain has come to that point, and waits for it


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
        self._foreseen = [Foreseen() for _ in range(chains)]
        self._under_way: dict[int, Guess] = {}
        self.n_begun = self.n_used = 0

    def __len__(self) -> int:
        return len(self._under_way)

    def propose(self, chain: int, lane: Lane) -> np.ndarray:
        """What ``lane.propose()`` returns for a chain, without the work if it was done in advance."""
        return self._foreseen[chain].propose(lane)

    def look_up(self, chain: int) -> Guess | None:
        """The guess at the point that a chain has come to."""
        here = self._foreseen[chain].here
        guess: Guess | None = None if here is None else here.guess
        if guess is None or guess.needed:
            return None
        self.n_used += 1
        guess.needed = True
        return guess

    def arrive(self, key: int, outcome: Evaluation | Failure) -> int | None:
        """Take an outcome; the chain that waits for it, if one does."""
        guess = self._under_way.pop(key)
        guess.outcome = outcome
        return guess.chain if guess.needed else None

    def extend(self, waiting: Sequence[Waiting], workers: int, last: Sequence[int]) -> None:
        """Give the likeliest points to idle workers.

        ``last`` (waiting,) are the last sweeps that the chains may make.
        """
        while workers > 0 and (found := self._likeliest(waiting, last)) is not None:
            chain, place = found
            if place is None:  # a dead end
                continue
            key = next(self._keys)
            place.guess = self._under_way[key] = Guess(chain)
            self._stream.submit(key, place.point)
            self.n_begun += 1
            workers -= 1

    def prepare(self, waiting: Sequence[Waiting], proposals: int, last: Sequence[int]) -> None:
        """Make the likeliest proposals that are not made yet, for workers that will be idle later."""
        for _ in range(proposals):
            if self._likeliest(waiting, last, prepare=True) is None:
                return

    def _likeliest(
        self, waiting: Sequence[Waiting], last: Sequence[int], *, prepare: bool = False
    ) -> tuple[int, Place | None] | None:
        """The chain and the likeliest of the places that are not evaluated; its proposal is made now if it was not.

        Of equally likely ones, that of the chain that is furthest behind. With ``prepare``, only proposals that are not
        made yet are considered. None if there is none that is likely enough.
        """
        ranked = []
        for i, chain in enumerate(waiting):
            option = self._foreseen[chain.index].likeliest(chain, last[i], prepare=prepare)
            if option is not None and option.log_probability >= math.log(LEAST):
                ranked.append((-option.log_probability, option.sweep, i, option))
        if not ranked:
            return None
        *_, i, option = min(ranked, key=lambda entry: entry[:3])
        chain = waiting[i]
        return chain.index, self._foreseen[chain.index].make(option, chain, last[i])
