"""Warm-up of many chains: more walkers than chains, so that a round has more evaluations than there are workers.

A round lasts as long as its slowest evaluation. Workers that have ended theirs have others to do meanwhile, if a round
has more evaluations than there are chains, and fewer rounds make the evaluations that the first fits need.
"""

from __future__ import annotations

from kmc.mcmc.base import SamplerSetup

FEW_CHAINS = 16  # up to so many chains, each has one walker
# Tried: docs/what-was-tried.md, warm-up of many chains.
_WALKERS = 3  # for each further chain ...
_ROUNDS = 8  # ... if there are at least so many rounds before the earliest end of warm-up


def walkers_of(setup: SamplerSetup, *, least: int, earliest: int) -> int:
    """Walkers in warm-up: at least ``least``, and as many as chains.

    ``earliest`` is the number of evaluations before which warm-up does not end. If the user fixes the number of sweeps
    of warm-up, no chain has more than one walker.
    """
    walkers = max(setup.chains, least)
    if setup.warmup is not None or setup.chains <= FEW_CHAINS:
        return walkers
    return max(walkers, min(setup.chains + (_WALKERS - 1) * (setup.chains - FEW_CHAINS), earliest // _ROUNDS))
