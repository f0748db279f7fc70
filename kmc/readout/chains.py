"""Draws from a frozen surrogate, which cost no evaluation, by chains that start at draws from the target."""

from __future__ import annotations

import numba
import numpy as np

from kmc.mcmc.surrogate_transition import InnerChainOptions, inner_chain
from kmc.mcmc.tempering import COLD
from kmc.mcmc.tuning import choose_step_size
from kmc.surrogates import Component

CHAINS = 32
_MOVES = 2  # between draws
_BURN_IN = 50  # draws
_ARCHIVE = 1000
_OPTIONS = InnerChainOptions(step_size=0.1, trajectory_length=2.5, jump_probability=0.15, small_step_probability=0.2)


class SurrogateChains:
    """Chains on one surrogate; see :mod:`kmc.mcmc.surrogate_transition`.

    They make the same moves as the proposals, from the same places, so they cannot enter a region of the surrogate that
    no proposal reaches.

    Parameters
    ----------
    component : Component
    states : ndarray, shape (k, d)
        Draws from the target that belong to this surrogate's mode.
    rng : Generator
    """

    def __init__(self, component: Component, states: np.ndarray, rng: np.random.Generator):
        self.component, self._rng = component, rng
        z = component.coordinates(states)
        self._archive = np.unique(z, axis=0)
        self._archive = rng.permutation(self._archive)[:_ARCHIVE]
        self._z = z[rng.integers(len(z), size=CHAINS)]
        step_size = choose_step_size(component.jit_state, self._z, self._archive, _OPTIONS, rng)
        self.options = _OPTIONS._replace(step_size=step_size)
        self.draws(_BURN_IN)

    def draws(self, n: int) -> np.ndarray:
        """The next n draws of each chain, in the coordinates z: (chains, n, d)."""
        z = _walk(self.component.jit_state, COLD, self._rng, self._z, n, _MOVES, self.options, self._archive)
        self._z = np.ascontiguousarray(z[:, -1])
        return z

    def back(self, z: np.ndarray) -> np.ndarray:
        """The points x of draws (chains, n, d)."""
        return self.component.back(z.reshape(-1, z.shape[2])).reshape(z.shape)


@numba.njit(cache=True)
def _walk(state, tempering, rng, starts, n, n_moves, options, archive):
    chains, d = starts.shape
    out = np.empty((chains, n, d))
    for i in range(chains):
        z = starts[i].copy()
        for t in range(n):
            z = inner_chain(state, tempering, rng, z, n_moves, options, archive).position
            out[i, t] = z
    return out
