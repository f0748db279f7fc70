"""Gradients of tempered densities: of log π + β (log p - log π), from a user's gradients of log p and of log π.

A state that is swapped to another temperature, and all states when the ladder changes, have another gradient there. So
the parts are kept, at the points of the current sweep and at the states, and each is evaluated once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kmc.mcmc.parts import Gradient
from kmc.mcmc.temperature_ladder import TemperatureLadder
from kmc.mcmc.user_gradient import as_gradient, place_of


class KnownGradient:
    """A user's gradient, kept where it was evaluated.

    Attributes
    ----------
    function : callable
    n_calls : int
        Of the user's function.
    """

    def __init__(self, function: Gradient):
        self.function, self.n_calls = function, 0
        self._known: dict[str, Any] = {}

    def __call__(self, x: np.ndarray) -> Any:
        """What the function returns at x (d,)."""
        place = place_of(x)
        if place not in self._known:
            self.n_calls += 1
            self._known[place] = self.function(x.copy())
        return self._known[place]

    def forget_but(self, states: Iterable[np.ndarray]) -> None:
        """Keep what was returned at these states (k, d) each."""
        kept = {place_of(x) for rows in states for x in rows}
        self._known = {place: known for place, known in self._known.items() if place in kept}


class TemperedGradient:
    """The gradient at one temperature of a ladder, whatever its inverse temperature is at the moment.

    Parameters
    ----------
    gradient : KnownGradient
        Of log p.
    prior : KnownGradient or None
        Of log π; None for π = 1.
    ladder : TemperatureLadder
    k : int
        Which of its temperatures.
    """

    def __init__(self, gradient: KnownGradient, prior: KnownGradient | None, *, ladder: TemperatureLadder, k: int):
        self._gradient, self._prior, self._ladder, self._k = gradient, prior, ladder, k

    def __call__(self, x: np.ndarray) -> Any:
        """At x (d,); None where the user's function returns None."""
        beta = float(self._ladder.betas[self._k])
        if beta == 1.0:  # as the user's function returns it
            return self._gradient(x)
        prior = np.zeros_like(x) if self._prior is None else as_gradient(self._prior(x), x, name="prior_gradient")
        if beta == 0.0:  # also where the likelihood is zero
            return prior
        returned = self._gradient(x)
        return None if returned is None else prior + beta * (as_gradient(returned, x) - prior)
