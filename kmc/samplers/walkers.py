"""The walkers: states, their random streams, and one Metropolis–Hastings decision each per sweep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kmc.samplers.base import STATS, Proposed, Step
from kmc.samplers.metropolis import Proposal

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
        """Accept or reject every proposal, and return STATS; ``values`` are the log-densities of those that moved.

        The decisions are those of :func:`kmc.samplers.metropolis.decide` to the bit, all at once.
        """
        stats: dict[str, np.ndarray] = {name: np.zeros(len(self), kind) for name, kind in STATS.items()}
        position, log_ratio, move, moved, n_steps, step_size, energy, diverging = zip(*proposals, strict=True)
        stats["move"][:], stats["n_steps"][:], stats["step_size"][:] = move, n_steps, step_size
        stats["diverging"][:], stats["n_evaluations"][:] = diverging, moved
        evaluated = np.array(moved, bool)
        proposed = np.array(self.x), np.array(self.log_density)
        proposed[0][evaluated] = np.array(position)[evaluated]
        proposed[1][evaluated] = values
        uniforms = np.array([rng.random() if mine else 1.0 for rng, mine in zip(self.rngs, moved, strict=True)])
        with np.errstate(invalid="ignore"):  # -inf - (-inf); the surrogate may have overflowed, too
            change = proposed[1] - self.log_density + np.array(log_ratio)
        legal = evaluated & (proposed[1] > -np.inf) & ~np.isnan(change)
        stats["acceptance_rate"][legal] = np.exp(np.minimum(0.0, change[legal]))
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
        return Step(warmup, self.x[:chains].copy(), self.log_density[:chains].copy(), kept, proposed)


def best_starts(x: np.ndarray, log_density: np.ndarray, count: int) -> np.ndarray:
    """Return indices of the ``count`` highest rows, best first; repeated if fewer have a positive density."""
    best = np.argsort(-log_density, kind="stable")
    return np.resize(best[np.isfinite(log_density[best])][:count], count)


def start_spread(initial: np.ndarray) -> np.ndarray:
    """Return the standard deviations (d,) of start points (k, d).

    Where the points are all equal, it is a tenth of their size, or of 1 if that is larger.
    """
    spread = initial.std(axis=0)
    return np.where(spread > 0, spread, _SPREAD_OF_ONE * np.maximum(np.abs(initial).max(axis=0), 1.0))


def cloud_around(initial: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw points (count, d) around start points (k, d)."""
    spread = start_spread(initial)
    centers = initial[rng.integers(len(initial), size=count)]
    return centers + _CLOUD_SPREAD * spread * rng.standard_normal(centers.shape)


def requested(proposals: Sequence[Proposal], dim: int) -> np.ndarray:
    """Return the points (k, d) of the proposals that need an evaluation."""
    points = [p.position for p in proposals if p.moved]
    return np.array(points) if points else np.empty((0, dim))
