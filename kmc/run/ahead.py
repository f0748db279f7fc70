"""No barrier after the freeze: each chain goes on as soon as its own value is there.

Chains whose kernel is fixed are independent (:mod:`kmc.samplers.walkers`), so none has to wait for
another one's evaluation. They may be a bounded number of sweeps ahead of the slowest; a sweep is
handed out once all chains have made it. What a chain draws depends on its own random stream only,
and whether a sweep is made at all follows from the limits of the run, never from the clock: the
draws are those of chains that wait for each other, to the bit, for any executor, number of workers
and order in which values return.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kmc.model.evaluate import Evaluation, Stream, is_repeated, settled
from kmc.model.model import Model
from kmc.model.returned import Failure
from kmc.samplers.walkers import Lane, Passed
from kmc.threads import single_threaded

LEAD = 64  # sweeps that a chain may be ahead of the slowest one


class Limits(NamedTuple):
    """What the run may still do after the last sweep that was handed out."""

    sweeps: tuple[int, ...]  # at most so many; empty: no limit
    evaluations: float  # inf: no limit
    # of these evaluations, those that may be needed for something else after the next sweep
    reserve: int = 0


class Made(NamedTuple):
    """A sweep of one chain: what was evaluated for it, if anything, and what became of it."""

    point: np.ndarray | None
    outcome: Evaluation | Failure | None
    passed: Passed | None  # None after a failure
    repeated: bool = False  # whether the call had failed once


class Ahead:
    """Chains that move on their own; whole sweeps are handed out in order.

    Parameters
    ----------
    lanes : list of Lane
    stream : Stream
        Evaluates points one by one.
    limits : callable
        Returns the current limits.
    model : Model
        Tells what becomes of failed calls.
    recall : callable, optional
        ``recall(chain, x)`` gives an evaluation that an earlier session made, or None.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        stream: Stream,
        limits: Callable[[], Limits],
        model: Model,
        recall: Callable[[int, np.ndarray], Evaluation | None] = lambda chain, x: None,
    ):
        self._stream, self._limits, self._model, self._recall = stream, limits, model, recall
        self._chains = [_Chain(i, lane) for i, lane in enumerate(lanes)]
        # chains known to need no evaluation, in each of the coming sweeps
        self._still = deque([0] * (LEAD + 1))

    def sweep(self) -> list[Made] | None:
        """Wait until all chains have made the next sweep, and return it.

        Return None if the evaluations do not suffice.
        """
        with single_threaded():
            self._go_on()
            while not all(chain.made for chain in self._chains):
                if not any(chain.waiting for chain in self._chains):
                    self._go_on()  # the cost of the sweep is known by now
                    if not any(chain.waiting for chain in self._chains):
                        break
                for key, outcome in self._stream.ready():
                    self._end(self._chains[key], outcome)
        if not all(chain.made for chain in self._chains):
            return None
        self._still.rotate(-1)
        self._still[-1] = 0
        return [chain.made.popleft() for chain in self._chains]

    def evaluated(self) -> list[tuple[int, np.ndarray, Evaluation]]:
        """Return chain, point and result of each evaluation that is in no whole sweep yet.

        Those of each chain are in order.
        """
        return [
            (chain.index, made.point, made.outcome)
            for chain in self._chains
            for made in chain.made
            if made.point is not None and isinstance(made.outcome, Evaluation)
        ]

    @property
    def n_evaluations(self) -> int:
        """Evaluations that were begun and are in no whole sweep yet."""
        begun = sum(made.point is not None for chain in self._chains for made in chain.made)
        return begun + sum(chain.waiting for chain in self._chains)

    def _go_on(self) -> None:
        limits = self._limits()
        idle = [chain for chain in self._chains if not chain.waiting]
        for chain in sorted(idle, key=lambda chain: len(chain.made)):
            self._advance(chain, limits)
        for chain in idle:
            # now that all have proposed, it may be known to be affordable
            if not (chain.made or chain.waiting):
                self._advance(chain, limits)

    def _end(self, chain: _Chain, outcome: Evaluation | Failure) -> None:
        """Finish a chain's sweep with the outcome of its call, or repeat the call once; go on."""
        if is_repeated(self._model, outcome) and not chain.repeated:
            chain.repeated = True
            assert chain.point is not None
            self._stream.submit(chain.index, chain.point)
            return
        chain.end(settled(self._model, outcome))
        self._advance(chain, self._limits())

    def _most(self, limits: Limits) -> int:
        """Return how many sweeps a chain may make before the next one is handed out."""
        return min([LEAD, *(len(one.made) for one in self._chains if one.failed), *limits.sweeps])

    def _advance(self, chain: _Chain, limits: Limits) -> None:
        """Let a chain move until it needs an evaluation, or is as far ahead as it may be."""
        most = self._most(limits)
        while len(chain.made) < most and not chain.failed:
            if chain.point is None and not chain.propose():
                self._still[len(chain.made) - 1] += 1
                continue
            if not self._affords(len(chain.made), limits):
                return
            assert chain.point is not None
            known = self._recall(chain.index, chain.point)
            if known is None:
                self._stream.submit(chain.index, chain.point)
                chain.waiting = True
                return
            chain.end(known)

    def _affords(self, sweep: int, limits: Limits) -> bool:
        """Return whether the run will make this sweep, whatever the chains behind still propose.

        Sweep 0 is the next one.
        """
        left = limits.evaluations - (limits.reserve if sweep else 0)
        needed = (sweep + 1) * len(self._chains)
        return needed <= left or needed - sum(self._still[i] for i in range(sweep + 1)) <= left


class _Chain:
    """A lane, and the sweeps that it has made and that were not handed out yet."""

    def __init__(self, index: int, lane: Lane):
        self.index, self._lane = index, lane
        self.made: deque[Made] = deque()
        self.point: np.ndarray | None = None  # of the sweep that it makes
        self.waiting = self.failed = self.repeated = False

    def propose(self) -> bool:
        """Propose; False if the sweep needs no evaluation, and is made."""
        points = self._lane.propose()
        if len(points):
            self.point = points[0]
            return True
        self.made.append(Made(None, None, self._lane.advance(np.empty(0))))
        return False

    def end(self, outcome: Evaluation | Failure) -> None:
        """Finish the sweep with the result at its point."""
        passed = None
        if isinstance(outcome, Failure):
            self.failed = True
        else:
            passed = self._lane.advance(np.array([outcome.log_density]))
        self.made.append(Made(self.point, outcome, passed, self.repeated))
        self.point = None
        self.waiting = self.repeated = False
