"""The main phase with several modes: the mixture of their surrogates, and the visits to each mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kmc.mcmc.explorer import Explorer, log_mass
from kmc.mcmc.mode_mixture import ModeMixture


class JoinedModes:
    """Modes by decreasing mass.

    Parameters
    ----------
    mixture : ModeMixture
        How chains move.
    masses : ndarray, shape (k,)
        According to the surrogates; the sum is one.
    """

    def __init__(self, mixture: ModeMixture, masses: np.ndarray):
        self.mixture, self._masses = mixture, masses
        self._visits = np.zeros(len(masses))

    def visit(self, x: np.ndarray) -> None:
        """Count the modes of the states (chains, d) after a sweep of the main phase."""
        self._visits += self.mixture.counts(x)

    def facts(self) -> dict[str, Any]:
        """For the results' attributes: masses, and fractions of the draws."""
        shares = self._visits / max(self._visits.sum(), 1.0)
        return {"mode_masses": self._masses.tolist(), "mode_shares": shares.tolist()}


def join(
    explorers: Sequence[Explorer], chains: int, rng: np.random.Generator
) -> tuple[JoinedModes, np.ndarray, np.ndarray]:
    """One mixture for all modes; and states (chains, d) in each of the modes in turn, with their values (chains,)."""
    masses = np.array([log_mass(explorer.mixture, rng) for explorer in explorers])
    order = np.argsort(-masses)
    shares = np.exp(masses - masses.max())[order]
    shares /= shares.sum()
    states = [explorers[k].state() for k in order]
    x, values = (np.array(rows) for rows in zip(*(states[i % len(states)] for i in range(chains)), strict=True))
    mixture = ModeMixture.of(tuple(explorers[k].mixture for k in order), rng)
    return JoinedModes(mixture, shares), x, values
