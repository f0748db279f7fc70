"""The proposals of score HMC: leapfrog paths through a score estimator's gradient, and random-walk steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.mcmc.base import MOVES
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.score_field import Field
from kmc.surrogates.whitening import Whitening

# Set by hand.
LEAST_STEPS, MOST_STEPS = 5, 20  # range of the leapfrog steps of a path, uniform
STEP_JITTER = 0.7, 1.0  # range of the factor on the step size, uniform
_BEST_SCALE = 2.38  # scale of a random walk, over sqrt(d): the best on a Gaussian (Gelman, Roberts and Gilks 1996)
_DECADES = 1.0  # range of this scale, in decades

PATH, WALK = MOVES.index("surrogate"), MOVES.index("random-walk")


class ScoreMixture(NamedTuple):
    """How walkers move until the mixture is replaced."""

    field: Field | None  # None before the first fit: a random walk only
    whitening: Whitening  # gives the covariance of the random walk
    walk_probability: float  # probability of a random-walk move
    step_size: float  # largest step of leapfrog, in whitened coordinates

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        """A proposal from x (d,); the kind of move, its length and its step size do not depend on x."""
        if self.field is None or rng.random() < self.walk_probability:
            return self._walk(rng, x)
        n_steps = int(rng.integers(LEAST_STEPS, MOST_STEPS + 1))
        step_size = self.step_size * rng.uniform(*STEP_JITTER)
        momentum = rng.standard_normal(len(x))
        path = self.field.path(self.field.whitening(x[None])[0], momentum, step_size=step_size, n_steps=n_steps)
        if path.diverging:
            return Proposal(x, 0.0, PATH, moved=False, n_steps=n_steps, step_size=step_size, diverging=True)
        return Proposal(
            position=self.field.whitening.back(path.z[None])[0],
            log_ratio=0.5 * float(momentum @ momentum - path.momentum @ path.momentum),
            move=PATH,
            n_steps=n_steps,
            step_size=step_size,
            energy=path.energy,
        )

    def _walk(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        """Scales range over a decade, so that some of the steps suit any target."""
        scale = _BEST_SCALE / np.sqrt(len(x)) * 10.0 ** -(_DECADES * rng.random())
        step = self.whitening.inverse @ rng.standard_normal(len(x))
        return Proposal(x + scale * step, 0.0, WALK, step_size=scale)
