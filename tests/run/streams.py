"""Executors that return values one by one, in an order that a test decides."""

from collections import deque
from contextlib import contextmanager

import numpy as np

from kmc.model.evaluate import evaluate_block


class Disorder:
    """Values return in random order; with a straggler, that chain's values return when no others
    are under way.

    ``before`` is called with the number of values returned one by one so far, before each of them.
    """

    def __init__(self, seed=0, workers=3, straggler=None, before=lambda n: None):
        self.rng, self.workers, self.straggler, self.before = (
            np.random.default_rng(seed),
            workers,
            straggler,
            before,
        )
        self.n_together = self.n_alone = self.lead = 0

    @contextmanager
    def open(self, model):
        self.model, self.waiting = model, deque()
        self.made = {}
        yield self

    def __call__(self, points):
        self.n_together += len(points)
        return evaluate_block(self.model, points)

    def submit(self, key, x):
        assert key not in [other for other, _ in self.waiting], "one value per chain at a time"
        self.waiting.append((key, x.copy()))
        self.made[key] = self.made.get(key, 0) + 1
        self.lead = max(self.lead, max(self.made.values()) - min(self.made.values()))

    def ready(self):
        self.before(self.n_alone)
        able = [i for i, (key, _) in enumerate(self.waiting) if key != self.straggler] or [0]
        at = int(self.rng.choice(able[: self.workers]))
        key, x = self.waiting[at]
        del self.waiting[at]
        self.n_alone += 1
        return [(key, evaluate_block(self.model, x[None])[0])]

    def abandon(self):
        self.waiting.clear()
