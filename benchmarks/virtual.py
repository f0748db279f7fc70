"""Workers in virtual time: a discrete-event simulation in which samplers run with their real
schedulers.

A log-density is evaluated at once; its price, in virtual seconds, only decides when the value
arrives. What the sampler computes between two calls of its executor is added to the clock
(``own``), while evaluations that have begun go on.
"""

from __future__ import annotations

import heapq
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from kmc.model.evaluate import evaluate_block


def constant(mean: float) -> Callable[[np.ndarray], float]:
    """The same price everywhere."""
    return lambda x: mean


def lognormal(mean: float, sd: float = 1.0) -> Callable[[np.ndarray], float]:
    """A price whose logarithm is normal; it belongs to the point, so that it does not depend on the
    order of calls.
    """
    scale = mean / np.exp(0.5 * sd**2)

    def price(x: np.ndarray) -> float:
        rng = np.random.default_rng(zlib.crc32(np.ascontiguousarray(x).tobytes()))
        return float(scale * np.exp(sd * rng.standard_normal()))

    return price


class Workers:
    """An executor of kmc, and a pool with ``map`` for other samplers.

    Parameters
    ----------
    count : int
    price : callable
        Virtual seconds of an evaluation at x (d,).
    own : float
        Factor on the processor time that the sampler takes itself, before it is added to the clock;
        0: not added.

    Attributes
    ----------
    clock : float
        Virtual seconds since the start.
    spans : list of (float, float)
        Begin and end of each evaluation.
    own : float
        Seconds that the sampler took itself, as added to the clock.
    alone_at : float or None
        When chains first went on alone.
    """

    def __init__(self, count: int, price: Callable[[np.ndarray], float], own: float = 1.0):
        self.count, self._price, self._factor = count, price, own
        self.clock, self.own, self.spans, self.alone_at = 0.0, 0.0, [], None
        self._free = [0.0] * count
        self._running: list[tuple[float, int, int, object]] = []
        self._left = time.process_time()

    @contextmanager
    def open(self, model) -> Iterator[Workers]:
        """See :class:`kmc.run.executors.Executor`."""
        self._model, self._left = model, time.process_time()
        yield self

    def __call__(self, points: np.ndarray) -> list:
        """Evaluate points (k, d), and wait for the slowest."""
        self._enter()
        outcomes = evaluate_block(self._model, points)
        self.clock = max([self.clock, *(self._begin(x) for x in points)])
        self._leave()
        return outcomes

    def map(self, function, points) -> list:
        """The same for any function of a point."""
        return Several([self]).map(function, points)

    def submit(self, key: int, x: np.ndarray) -> None:
        """See :class:`kmc.model.evaluate.Stream`."""
        self._enter()
        if self.alone_at is None:
            self.alone_at = self.clock
        outcome = evaluate_block(self._model, x[None])[0]
        heapq.heappush(self._running, (self._begin(x), len(self.spans), key, outcome))
        self._leave()

    def ready(self) -> list:
        """Move on to the next end of an evaluation, if there was none meanwhile."""
        self._enter()
        self.clock = max(self.clock, self._running[0][0])
        ended = []
        while self._running and self._running[0][0] <= self.clock:
            ended.append(heapq.heappop(self._running)[2:])
        self._leave()
        return ended

    def abandon(self) -> None:
        """Forget what is under way."""
        self._running.clear()

    def share(self, start: float = 0.0) -> float:
        """Part of the workers' time that evaluations took, from a time to the end."""
        busy = sum(max(0.0, end - max(begin, start)) for begin, end in self.spans)
        return busy / (self.count * (self.clock - start))

    def _begin(self, x: np.ndarray, seconds: float | None = None) -> float:
        """Give an evaluation to the worker that is free first; its end."""
        begin = max(self.clock, heapq.heappop(self._free))
        end = begin + (self._price(x) if seconds is None else seconds)
        heapq.heappush(self._free, end)
        self.spans.append((begin, end))
        return end

    def _enter(self) -> None:
        spent = self._factor * (time.process_time() - self._left)
        self.own += spent
        self.clock += spent

    def _leave(self) -> None:
        self._left = time.process_time()


class Several:
    """One pool with ``map`` that stands for several, of different numbers of workers and the same
    price.

    For samplers whose draws do not depend on the number of workers.

    Parameters
    ----------
    pools : list of Workers
    """

    def __init__(self, pools: list[Workers]):
        self.pools = pools

    def map(self, function, points) -> list:
        """Evaluate once, and wait in each pool for the slowest."""
        for pool in self.pools:
            pool._enter()
        points = [np.asarray(x) for x in points]
        values = [function(x) for x in points]
        seconds = [self.pools[0]._price(x) for x in points]
        for pool in self.pools:
            pool.clock = max(
                [pool.clock, *(pool._begin(*each) for each in zip(points, seconds, strict=True))]
            )
            pool._leave()
        return values
