"""Many chains on the surrogate, at several powers, for learning.

They move by the inner chains of the main phase, in blocks. Between two blocks, pairs of chains at
different powers β exchange their states with probability min(1, exp((β - β')(log s' - log s))):
those at small powers pass from mode to mode, and hand on what they find (Geyer 1991, Markov chain
Monte Carlo maximum likelihood). A block that ends outside the box is rejected as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kmc.kernel_hmc.fitting import Process
from kmc.mcmc.inner_chains import inner_chains
from kmc.mcmc.surrogate_transition import InnerChainOptions
from kmc.mcmc.tempering import flattened
from kmc.mcmc.tuning import Trials, choose_step_size
from kmc.surrogates import Surrogate

CAUTION = 0.3
"""Nats subtracted from the log-density for each nat of its standard deviation ..."""
TRUSTED = 2.0
"""... above so many: a mean without knowledge is often high, and would be taken for mass ..."""
MOST_DOUBT = 3.0
"""... at most so many: chains must be able to leave the points that are known."""


@dataclass(frozen=True, eq=False)
class Chains:
    """Where chains stand, and how they move."""

    positions: np.ndarray  # (k, d), in x
    powers: np.ndarray  # (k,)
    archive: np.ndarray  # (n, d), in x: differences of its points are jumps
    options: InnerChainOptions


def tuned(surrogate: Process | Surrogate, chains: Chains, rng: np.random.Generator) -> Chains:
    """Return the chains with a step size that suits the surrogate."""
    trials = Trials(surrogate.jit_state, surrogate.coordinates(chains.positions), surrogate.coordinates(chains.archive))
    return replace(chains, options=chains.options._replace(step_size=choose_step_size(trials, chains.options, rng)))


def sample(
    surrogate: Process | Surrogate,
    process: Process,
    chains: Chains,
    rng: np.random.Generator,
    *,
    blocks: int,
    moves: int = 2,
    reach: float = 1.0,
) -> tuple[np.ndarray, Chains]:
    """Return the states (blocks, k, d) after each block of so many moves, in x, and the chains at their end.

    Chains stay in the box of the process, ``reach`` times as large. Starts outside it are moved to its edge.
    """
    box = process.box.enlarged(reach)
    inner = process.transport.back(np.clip(process.transport(chains.positions), box.lower, box.upper))
    z = surrogate.coordinates(inner)
    archive = surrogate.coordinates(chains.archive)
    rngs = rng.spawn(len(z))
    heat = np.array([flattened(power) for power in chains.powers])
    lengths = [moves] * len(z)
    doubt = _doubt(process, inner)
    visited = []
    for _ in range(blocks):
        found = inner_chains(
            surrogate.jit_state, z, lengths, temperings=heat, rngs=rngs, options=chains.options, archive=archive
        ).position
        x = surrogate.back(found)
        more = _doubt(process, x)
        taken = box.contains(process.transport(x)) & (np.log(rng.random(len(z))) < chains.powers * (doubt - more))
        z, doubt = np.where(taken[:, None], found, z), np.where(taken, more, doubt)
        z, doubt = _exchanged(surrogate, z, doubt, chains.powers, rng)
        visited.append(z)
    x = surrogate.back(np.concatenate(visited)).reshape(blocks, *z.shape)
    return x, replace(chains, positions=x[-1])


def _doubt(process, x):
    """Return what is subtracted from the log-density at the rows of x (k, d), (k,)."""
    sd = process.regression.standard_deviations(process.transport(x))
    return np.minimum(CAUTION * np.maximum(sd - TRUSTED, 0.0), MOST_DOUBT)


def _exchanged(surrogate, z, doubt, powers, rng):
    """Return the states (k, d) and their doubt after an exchange in random pairs."""
    values = surrogate.parts(z)[0] - doubt
    order = rng.permutation(len(z))
    half = len(z) // 2
    a, b = order[:half], order[half : 2 * half]
    gain = (powers[a] - powers[b]) * (values[b] - values[a])
    swap = np.log(rng.random(half)) < gain
    after = np.arange(len(z))
    after[a[swap]], after[b[swap]] = b[swap], a[swap]
    return z[after], doubt[after]
