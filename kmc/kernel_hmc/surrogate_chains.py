"""Many chains on the surrogate, at several powers, for learning.

They move by the inner chains of the main phase, in blocks. Between two blocks, pairs of chains at
different powers β exchange their states with probability min(1, exp((β - β')(log s' - log s))):
those at small powers pass from mode to mode, and hand on what they find (Geyer 1991, Markov chain
Monte Carlo maximum likelihood). These sample the Gaussian process, which does not end where the
data end; those at power 1 sample the surrogate. A block that ends outside the box is rejected as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kmc.kernel_hmc.fitting import Process
from kmc.kernel_hmc.modes import Modes
from kmc.mcmc.inner_chains import inner_chains
from kmc.mcmc.surrogate_transition import InnerChainOptions
from kmc.mcmc.tempering import flattened
from kmc.mcmc.tuning import Trials, choose_step_size
from kmc.surrogates import Surrogate

CAUTION = 0.3
"""Nats subtracted from the log-density for each nat of its error ..."""
TRUSTED = 2.0
"""... above so many: a mean without knowledge is often high, and would be taken for mass."""


@dataclass(frozen=True, eq=False)
class Chains:
    """Where chains stand, and how they move."""

    positions: np.ndarray  # (k, d), in x
    powers: np.ndarray  # (k,)
    fits: np.ndarray  # (k,), index of the fit that each samples
    archive: np.ndarray  # (n, d), in x: differences of its points are jumps
    options: InnerChainOptions


def tuned(surrogate: Process | Surrogate, chains: Chains, rng: np.random.Generator) -> Chains:
    """Return the chains with a step size that suits the surrogate."""
    trials = Trials(surrogate.jit_state, surrogate.coordinates(chains.positions), surrogate.coordinates(chains.archive))
    return replace(chains, options=chains.options._replace(step_size=choose_step_size(trials, chains.options, rng)))


def sample(
    fits: Sequence[Process | Surrogate],
    process: Process,
    chains: Chains,
    rng: np.random.Generator,
    *,
    blocks: int,
    moves: int = 2,
    reach: float = 1.0,
    ratios: Sequence[float] = (1.0, 1.0),
    modes: Modes | None = None,
) -> tuple[np.ndarray, Chains]:
    """Return the states (blocks, k, d) after each block of so many moves, in x, and the chains at their end.

    Chains stay in the box of the process, ``reach`` times as large. Starts outside it are moved to its edge. The
    errors of the fits are ``ratios`` times the process's standard deviation. With modes, they jump
    between these after each block.
    """
    box, powers = process.box.enlarged(reach), chains.powers
    x = process.transport.back(np.clip(process.transport(chains.positions), box.lower, box.upper))
    own, every = chains.fits, np.arange(len(x))
    groups = [_Group.of(fit, own == k, chains, rng) for k, fit in enumerate(fits)]
    doubts = _doubts(process, x, ratios)

    def heights(x, doubts):
        return np.array([group.density.log_density(x) for group in groups]) - doubts

    visited = []
    for _ in range(blocks):
        ends = x.copy()
        for group in groups:
            if len(group.rows):
                ends[group.rows] = group.moved(x[group.rows], moves, chains.options)
        more = _doubts(process, ends, ratios)
        kept = np.log(rng.random(len(x))) < powers * (doubts - more)[own, every]
        taken = box.contains(process.transport(ends)) & kept
        x, doubts = np.where(taken[:, None], ends, x), np.where(taken, more, doubts)
        now = heights(x, doubts)
        if modes is not None:
            ends, change = modes.jump(rng, x)
            more = _doubts(process, ends, ratios)
            then = heights(ends, more)
            gain = powers * (then - now)[own, every] + change
            taken = box.contains(process.transport(ends)) & (np.log(rng.random(len(x))) < gain)
            x, doubts, now = (
                np.where(taken[:, None], ends, x),
                np.where(taken, more, doubts),
                np.where(taken, then, now),
            )
        after = _exchanged(now, own, powers, rng)
        x, doubts = x[after], doubts[:, after]
        visited.append(x)
    return np.array(visited), replace(chains, positions=x)


class _Group(NamedTuple):
    """Chains that sample the same density."""

    density: Process | Surrogate
    rows: np.ndarray  # (k,), indices
    heat: np.ndarray  # (k, 3), temperings
    archive: np.ndarray  # (n, d), in the coordinates of the density
    rngs: list[np.random.Generator]

    @classmethod
    def of(cls, density: Process | Surrogate, which: np.ndarray, chains: Chains, rng: np.random.Generator) -> _Group:
        rows = np.flatnonzero(which)
        heat = np.array([flattened(power) for power in chains.powers[rows]])
        return cls(density, rows, heat, density.coordinates(chains.archive), rng.spawn(len(rows)))

    def moved(self, x: np.ndarray, moves: int, options: InnerChainOptions) -> np.ndarray:
        """Return where a block of moves ends."""
        state, start, lengths = self.density.jit_state, self.density.coordinates(x), [moves] * len(x)
        found = inner_chains(
            state, start, lengths, temperings=self.heat, rngs=self.rngs, options=options, archive=self.archive
        )
        return self.density.back(found.position)


def _doubts(process, x, ratios):
    """Return what is subtracted from the log-densities of all fits at the rows of x (k, d), (fits, k)."""
    sd = process.regression.standard_deviations(process.transport(x))
    return CAUTION * np.maximum(np.multiply.outer(ratios, sd) - TRUSTED, 0.0)


def _exchanged(heights, own, powers, rng):
    """Return which state each chain has after exchanges in random pairs.

    ``heights`` (fits, k) are the log-densities of all states by each fit, and ``own`` (k,) the fit of each chain.
    """
    k = len(powers)
    order = rng.permutation(k)
    half = k // 2
    a, b = order[:half], order[half : 2 * half]
    of_a, of_b = own[a], own[b]
    gain = powers[a] * (heights[of_a, b] - heights[of_a, a]) + powers[b] * (heights[of_b, a] - heights[of_b, b])
    swap = np.log(rng.random(half)) < gain
    after = np.arange(k)
    after[a[swap]], after[b[swap]] = b[swap], a[swap]
    return after
