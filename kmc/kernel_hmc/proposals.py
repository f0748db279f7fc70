"""The proposals of the main phase: the ends of inner chains on the frozen surrogate, and moves that ignore it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.mcmc.archive_moves import archive_move
from kmc.mcmc.base import MOVES
from kmc.mcmc.inner_chains import inner_chains
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.surrogate_transition import InnerChainOptions
from kmc.surrogate.density import Component

SURROGATE, TEMPERED = MOVES.index("surrogate"), MOVES.index("tempered-surrogate")


class ProposalMixture(NamedTuple):
    """How chains move. Frozen means: not replaced."""

    surrogate: Component
    archive: np.ndarray  # (n, d)
    archive_z: np.ndarray  # the same in the surrogate's coordinates, for jumps inside inner chains
    archive_probability: float  # probability of an archive move
    inner: InnerChainOptions
    shortest_chain: int  # lengths are uniform on shortest..longest
    longest_chain: int
    single_move_probability: float
    tempered_probability: float

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        """A proposal from x (d,); the kind of move does not depend on x."""
        if rng.random() < self.archive_probability:
            return archive_move(rng, x, self.archive)
        power, move, length = 1.0, SURROGATE, 1
        if rng.random() < self.tempered_probability:
            power, move = float(rng.uniform(flattest(len(x)), 1.0)), TEMPERED
        if not rng.random() < self.single_move_probability:
            length = int(rng.integers(self.shortest_chain, self.longest_chain + 1))
        surrogate, step_size = self.surrogate, self.inner.step_size
        ends = inner_chains(
            surrogate.jit_state,
            surrogate.coordinates(x[None]),
            [length],
            powers=np.array([power]),
            rngs=[rng],
            options=self.inner,
            archive=self.archive_z,
        )
        position, log_ratio, n_steps, energy, diverging, moved, *_ = (column[0] for column in ends)
        if not moved:
            return Proposal(x, 0.0, move, moved=False, n_steps=int(n_steps), step_size=step_size)
        end = surrogate.back(position[None])[0]
        # The inner chain leaves a density of the transported coordinates invariant: as a density of x, it has their
        # Jacobian as a factor.
        now, then = surrogate.transport.log_jacobian(np.stack([x, end]))
        log_ratio = float(log_ratio + now - then)
        return Proposal(end, log_ratio, move, True, int(n_steps), step_size, float(energy), bool(diverging))


def flattest(dim: int) -> float:
    """The smallest power at which surrogates propose: 1 / (1 + 2 / sqrt(d))."""
    return 1.0 / (1.0 + 2.0 / np.sqrt(dim))


def distinct(states: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Distinct rows of states (n, d), at most ``most`` of them, in random order."""
    unique = np.unique(states, axis=0)
    return unique[rng.permutation(len(unique))[:most]]
