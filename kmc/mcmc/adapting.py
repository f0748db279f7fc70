"""Chains that move by proposals which learn from their states: the state of the adaptive Metropolis samplers.

Every chain makes one proposal and one true evaluation per sweep. What the proposals depend on is in a *proposer*, which
learns after each sweep in warm-up, and afterwards if the adaptation is vanishing. Chains either share one proposer or
have one each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from kmc.mcmc.base import SamplerSetup, Step
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.walkers import Walkers, best_starts, requested


class Moved(NamedTuple):
    """What a proposer learns from after a sweep, one row per chain."""

    start: np.ndarray  # (chains, d): the states before the sweep
    position: np.ndarray  # (chains, d): the states after it
    log_density: np.ndarray  # (chains,)
    proposals: Sequence[Proposal]
    proposed: np.ndarray  # (chains, d): their positions, or the states of chains that proposed none
    proposed_log_density: np.ndarray  # (chains,)
    stats: dict[str, np.ndarray]  # (chains,) each; see STATS


class Proposer(Protocol):
    """Makes the proposals of one or more chains, and learns from these chains only."""

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        """A proposal from the state x (d,); the proposer does not change."""

    def learn(self, moved: Moved, sweep: int) -> None:
        """Adapt after a sweep, the first of which has the number 1."""

    def facts(self) -> dict[str, Any]:
        """Facts for the results' attributes."""


class AdaptingState:
    """See :class:`kmc.mcmc.base.SamplerState`.

    Parameters
    ----------
    setup : SamplerSetup
    walkers : Walkers
        One per chain.
    proposers : sequence of Proposer
        One, or one per chain.
    freeze : bool
        Whether they stop learning at the end of warm-up.
    warmup : int
        Sweeps of warm-up.
    """

    def __init__(
        self, setup: SamplerSetup, walkers: Walkers, proposers: Sequence[Proposer], *, freeze: bool, warmup: int
    ):
        self.setup = setup
        self.warming_up = warmup > 0
        self.proposers, self.freeze, self.warmup = list(proposers), freeze, warmup
        self.walkers = walkers
        self._sweep = 0
        self._proposals: list[Proposal] = []

    def propose(self) -> np.ndarray:
        """The proposals that moved."""
        rngs, x = self.walkers.rngs, self.walkers.x
        self._proposals = [self._proposer(i).propose(rngs[i], x[i]) for i in range(len(x))]
        return requested(self._proposals, self.setup.dim)

    def advance(self, values: np.ndarray) -> Step:
        """Decide, and learn if it is due."""
        start = self.walkers.x.copy()
        stats = self.walkers.decide(self._proposals, values)
        step = self.walkers.sweep(self.warming_up, stats, self.setup.chains)
        self._sweep += 1
        if self.warming_up or not self.freeze:
            self._learn(start, stats)
        self.warming_up = self.warming_up and self._sweep < self.warmup
        return step

    def end_warmup(self) -> None:
        """End warm-up with the next sweep."""
        self.warmup = 0

    def wrap(self, wrapper: Callable[[Proposer], Proposer]) -> None:
        """Replace each proposer by one that uses it; only before the first sweep."""
        assert self._sweep == 0
        self.proposers = [wrapper(proposer) for proposer in self.proposers]

    def report(self) -> dict[str, Any]:
        """Facts for the results' attributes; those of proposers of single chains as lists."""
        facts = [proposer.facts() for proposer in self.proposers]
        shared = facts[0] if len(facts) == 1 else {name: [one[name] for one in facts] for name in facts[0]}
        return {"noisy": self.setup.noisy, "n_refits": 0, **shared}

    def _proposer(self, i: int) -> Proposer:
        return self.proposers[i % len(self.proposers)]

    def _learn(self, start: np.ndarray, stats: dict[str, np.ndarray]) -> None:
        walkers, n = self.walkers, len(self.proposers)
        for i, proposer in enumerate(self.proposers):
            mine = {name: column[i::n] for name, column in stats.items()}
            moved = Moved(
                start=start[i::n],
                position=walkers.x[i::n],
                log_density=walkers.log_density[i::n],
                proposals=self._proposals[i::n],
                proposed=walkers.proposed.position[i::n],
                proposed_log_density=walkers.proposed.log_density[i::n],
                stats=mine,
            )
            proposer.learn(moved, self._sweep)


def walkers_of(setup: SamplerSetup) -> Walkers:
    """One walker per chain, at the best start points, each with a random stream of its own."""
    best = best_starts(setup.initial, setup.initial_log_density, setup.chains)
    rngs = [np.random.default_rng(seed) for seed in setup.seed.spawn(setup.chains)]
    return Walkers(rngs, setup.initial[best], setup.initial_log_density[best])


def warmup_sweeps(setup: SamplerSetup, share: int) -> int:
    """The user's number; by default the number of draws, or one in ``share`` evaluations of the budget."""
    if setup.warmup is not None:
        return setup.warmup
    limits = []
    if setup.draws is not None:
        limits.append(setup.draws)
    if setup.max_evaluations is not None:
        limits.append(setup.max_evaluations // (share * setup.chains))
    return min(limits, default=sys.maxsize)  # no limit: until the time for warm-up is over
