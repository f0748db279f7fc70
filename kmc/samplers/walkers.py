"""The walkers: states, their random streams, and one Metropolis–Hastings decision each per sweep.

Once the kernel is fixed, a chain depends on its own state and random stream only. So a chain may
make many sweeps while another one still waits for a value. The sampler's state stays at the last
sweep that all chains have made: lanes work on copies of the random streams, and :func:`join_lanes`
brings the walkers to where a whole sweep has left them, streams included. Draws, snapshots and
stops are therefore the same as if all chains had waited for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from kmc.samplers.base import STATS, Proposed, Step
from kmc.samplers.metropolis import Proposal, probabilities

# of a random walk, over sqrt(d): the best on a Gaussian (Gelman, Roberts and Gilks 1996)
BEST_SCALE = 2.38
_SPREAD_OF_ONE = 0.1  # relative to the size of start points that are all equal; set by hand
_CLOUD_SPREAD = 0.5  # of a cloud, relative to that of the start points; set by hand


class Walkers:
    """States of several chains that move together, a sweep at a time.

    Attributes
    ----------
    x : ndarray, shape (walkers, d)
    log_density : ndarray, shape (walkers,)
        Of the target, as evaluated when the state was entered; never evaluated again.
    rngs : list of Generator
        One stream per walker.
    """

    def __init__(self, rngs: Sequence[np.random.Generator], x: np.ndarray, log_density: np.ndarray):
        self.rngs = list(rngs)
        self.x, self.log_density = x.copy(), log_density.copy()
        self.proposed = Proposed(self.x, self.log_density)  # of the last decisions

    def __len__(self) -> int:
        return len(self.rngs)

    def decide(self, proposals: Sequence[Proposal], values: np.ndarray) -> dict[str, np.ndarray]:
        """Accept or reject every proposal, and return STATS.

        ``values`` are the log-densities of those that moved.
        """
        stats: dict[str, np.ndarray] = {
            name: np.zeros(len(self), kind) for name, kind in STATS.items()
        }
        position, log_ratio, move, moved, n_steps, step_size, energy, diverging = zip(
            *proposals, strict=True
        )
        stats["move"][:], stats["n_steps"][:], stats["step_size"][:] = move, n_steps, step_size
        stats["diverging"][:], stats["n_evaluations"][:] = diverging, moved
        evaluated = np.array(moved, bool)
        proposed = np.array(self.x), np.array(self.log_density)
        proposed[0][evaluated] = np.array(position)[evaluated]
        proposed[1][evaluated] = values
        uniforms = np.array(
            [rng.random() if mine else 1.0 for rng, mine in zip(self.rngs, moved, strict=True)]
        )
        stats["acceptance_rate"][:] = np.where(
            evaluated, probabilities(self.log_density, proposed[1], np.array(log_ratio)), 0.0
        )
        accepted = stats["accepted"]
        accepted[:] = uniforms < stats["acceptance_rate"]
        self.proposed = Proposed(*proposed)
        self.x[accepted], self.log_density[accepted] = proposed[0][accepted], proposed[1][accepted]
        energies = np.array(energy)
        stats["energy"][:] = np.where(np.isnan(energies), -self.log_density, energies)
        return stats

    def sweep(self, warmup: bool, stats: dict[str, np.ndarray], chains: int) -> Step:
        """Return a step with the current states of the first ``chains`` walkers."""
        kept = {name: value[:chains] for name, value in stats.items()}
        proposed = Proposed(*(column[:chains] for column in self.proposed))
        return Step(
            warmup, self.x[:chains].copy(), self.log_density[:chains].copy(), kept, proposed
        )


def best_starts(x: np.ndarray, log_density: np.ndarray, count: int) -> np.ndarray:
    """Return indices of the ``count`` highest rows, best first.

    They are repeated if fewer rows have a positive density.
    """
    best = np.argsort(-log_density, kind="stable")
    return np.resize(best[np.isfinite(log_density[best])][:count], count)


def start_spread(initial: np.ndarray) -> np.ndarray:
    """Return the standard deviations (d,) of start points (k, d).

    Where the points are all equal, it is a tenth of their size, or of 1 if that is larger.
    """
    spread = initial.std(axis=0)
    return np.where(
        spread > 0, spread, _SPREAD_OF_ONE * np.maximum(np.abs(initial).max(axis=0), 1.0)
    )


def cloud_around(initial: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw points (count, d) around start points (k, d)."""
    spread = start_spread(initial)
    centers = initial[rng.integers(len(initial), size=count)]
    return centers + _CLOUD_SPREAD * spread * rng.standard_normal(centers.shape)


def requested(proposals: Sequence[Proposal], dim: int) -> np.ndarray:
    """Return the points (k, d) of the proposals that need an evaluation."""
    points = [p.position for p in proposals if p.moved]
    return np.array(points) if points else np.empty((0, dim))


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

    def __init__(
        self, propose: Propose, rng: np.random.Generator, *, x: np.ndarray, log_density: float
    ):
        self._propose = propose
        self._walker = Walkers([_copy(rng)], x[None], np.array([log_density]))
        self._proposals: list[Proposal] = []

    def propose(self) -> np.ndarray:
        """Return the points (k, d) that the chain's next sweep needs.

        It is one point, or none if the proposal did not move.
        """
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
    """What a sampler's state may have: chains that move on their own once nothing couples them."""

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
    return Lanes(
        [Lane(propose, rng, x=x, log_density=float(value)) for rng, x, value in states], burn_in
    )


def join_lanes(walkers: Walkers, passed: Sequence[Passed]) -> None:
    """Bring the walkers to the state after a sweep that their lanes have made."""
    steps = [part.step for part in passed]
    walkers.x = np.concatenate([step.position for step in steps])
    walkers.log_density = np.concatenate([step.log_density for step in steps])
    walkers.proposed = Proposed(
        *map(np.concatenate, zip(*(step.proposed or () for step in steps), strict=True))
    )
    for rng, part in zip(walkers.rngs, passed, strict=True):
        rng.bit_generator.state = part.stream


def joined_stats(passed: Sequence[Passed]) -> dict[str, np.ndarray]:
    """Return the statistics (chains,) of a sweep."""
    return {
        name: np.concatenate([part.step.stats[name] for part in passed])
        for name in passed[0].step.stats
    }
