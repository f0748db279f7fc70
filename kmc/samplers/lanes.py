"""Chains of a frozen sampler, each on its own: nothing couples them any more.

Once the kernel is fixed, a chain depends on its own state and random stream only. So a chain may make many sweeps while
another one still waits for a value. The sampler's state stays at the last sweep that all chains have made: lanes work
on copies of the random streams, and :func:`join_lanes` brings the walkers to where a whole sweep has left them, streams
included. Draws, snapshots and stops are therefore the same as if all chains had waited for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from kmc.samplers.base import Proposed, Step
from kmc.samplers.metropolis import Proposal
from kmc.samplers.walkers import Walkers, requested

Propose = Callable[[np.random.Generator, np.ndarray], Proposal]
"""The frozen kernel: a proposal from a state (d,)."""


class Passed(NamedTuple):
    """A sweep of one chain."""

    step: Step  # of one chain
    stream: Mapping[str, Any]  # state of the chain's random stream after it


class Lane:
    """One chain, ahead of the others or behind them.

    Parameters
    ----------
    propose : callable
        The frozen kernel.
    rng : Generator
        The chain's random stream; it is copied.
    x : ndarray, shape (d,)
    log_density : float
    """

    def __init__(self, propose: Propose, rng: np.random.Generator, *, x: np.ndarray, log_density: float):
        self._propose = propose
        self._walker = Walkers([_copy(rng)], x[None], np.array([log_density]))
        self._proposals: list[Proposal] = []

    def propose(self) -> np.ndarray:
        """Return the points (k, d) that the chain's next sweep needs: one, or none if the proposal did not move."""
        self._proposals = [self._propose(self._walker.rngs[0], self._walker.x[0])]
        return requested(self._proposals, self._walker.x.shape[1])

    def advance(self, values: np.ndarray) -> Passed:
        """Decide, with the log-densities (k,) of these points."""
        stats = self._walker.decide(self._proposals, values)
        return Passed(self._walker.sweep(False, stats, 1), self._walker.rngs[0].bit_generator.state)


class Lanes(NamedTuple):
    """The chains of a sampler."""

    chains: list[Lane]
    burn_in: int  # sweeps before the first draw


@runtime_checkable
class Separable(Protocol):
    """What a sampler's state may have besides: chains that move on their own once nothing couples them."""

    def lanes(self) -> Lanes | None:
        """Return the chains, each on its own; None as long as anything couples them."""

    def join(self, passed: Sequence[Passed]) -> Step:
        """Finish a sweep that the chains have made on their own."""


def _copy(rng: np.random.Generator) -> np.random.Generator:
    """Copy a generator, as ``deepcopy`` does, in a quarter of the time."""
    bits: Any = rng.bit_generator
    copied = type(bits)(copy(bits.seed_seq))
    copied.state = bits.state
    return np.random.Generator(copied)


def make_lanes(propose: Propose, walkers: Walkers, burn_in: int = 0) -> Lanes:
    """Return lanes that begin where the walkers are."""
    states = zip(walkers.rngs, walkers.x, walkers.log_density, strict=True)
    return Lanes([Lane(propose, rng, x=x, log_density=float(value)) for rng, x, value in states], burn_in)


def join_lanes(walkers: Walkers, passed: Sequence[Passed]) -> None:
    """Bring the walkers to the state after a sweep that their lanes have made."""
    steps = [part.step for part in passed]
    walkers.x = np.concatenate([step.position for step in steps])
    walkers.log_density = np.concatenate([step.log_density for step in steps])
    walkers.proposed = Proposed(*map(np.concatenate, zip(*(step.proposed or () for step in steps), strict=True)))
    for rng, part in zip(walkers.rngs, passed, strict=True):
        rng.bit_generator.state = part.stream


def joined_stats(passed: Sequence[Passed]) -> dict[str, np.ndarray]:
    """Return the statistics (chains,) of a sweep."""
    return {name: np.concatenate([part.step.stats[name] for part in passed]) for name in passed[0].step.stats}
