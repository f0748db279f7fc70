"""The proposals of the main phase: the ends of inner chains on the frozen surrogate, and moves that ignore it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kmc.mcmc.archive_moves import archive_move
from kmc.mcmc.base import MOVES
from kmc.mcmc.inner_chains import InnerChainsResult, inner_chains
from kmc.mcmc.local_mixture import LocalMixture
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.surrogate_transition import InnerChainOptions
from kmc.surrogate.density import Component

SURROGATE, TEMPERED = MOVES.index("surrogate"), MOVES.index("tempered-surrogate")


class ProposalMixture(NamedTuple):
    """How chains move. Frozen means: not replaced."""

    surrogate: Component
    archive: np.ndarray  # (n, d)
    mixture: LocalMixture  # around the same, in the surrogate's coordinates, for inner chains
    archive_probability: float  # probability of an archive move
    inner: InnerChainOptions
    shortest_chain: int  # lengths are uniform on shortest..longest
    longest_chain: int
    single_move_probability: float
    tempered_probability: float

    def propose(self, rngs: Sequence[np.random.Generator], positions: Sequence[np.ndarray]) -> list[Proposal]:
        """Return a proposal from each position (d,), as if they were made one by one.

        The kind of move does not depend on the position.
        """
        found: list[Proposal | None] = []
        lengths, powers = [], []
        for rng, x in zip(rngs, positions, strict=True):
            if rng.random() < self.archive_probability:
                found.append(archive_move(rng, x, self.archive))
                continue
            found.append(None)
            tempered = rng.random() < self.tempered_probability
            powers.append(float(rng.uniform(flattest(len(x)), 1.0)) if tempered else 1.0)
            single = rng.random() < self.single_move_probability
            lengths.append(1 if single else int(rng.integers(self.shortest_chain, self.longest_chain + 1)))
        rows = [i for i, proposal in enumerate(found) if proposal is None]
        if rows:
            ends = inner_chains(
                self.surrogate.jit_state,
                # One by one, as BLAS may round the rows of a matrix differently from one row.
                np.vstack([self.surrogate.coordinates(positions[i][None]) for i in rows]),
                lengths,
                powers=np.array(powers),
                rngs=[rngs[i] for i in rows],
                options=self.inner,
                mixture=self.mixture,
            )
            for i, power, *end in zip(rows, powers, *ends, strict=True):
                found[i] = self._ended(positions[i], power, InnerChainsResult(*end))
        return [proposal for proposal in found if proposal is not None]

    def _ended(self, x, power, end):
        move, n_steps, step_size = SURROGATE if power == 1.0 else TEMPERED, int(end.n_steps), self.inner.step_size
        if not end.moved:
            return Proposal(x, 0.0, move, moved=False, n_steps=n_steps, step_size=step_size)
        y = self.surrogate.back(end.position[None])[0]
        # The inner chain leaves a density of the transported coordinates invariant: as a density of x, it has their
        # Jacobian as a factor.
        now, then = self.surrogate.transport.log_jacobian(np.stack([x, y]))
        log_ratio = float(end.log_ratio + now - then)
        return Proposal(y, log_ratio, move, True, n_steps, step_size, float(end.energy), bool(end.diverging))


def flattest(dim: int) -> float:
    """The smallest power at which surrogates propose: 1 / (1 + 2 / sqrt(d))."""
    return 1.0 / (1.0 + 2.0 / np.sqrt(dim))


def distinct(states: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Distinct rows of states (n, d), at most ``most`` of them, in random order."""
    unique = np.unique(states, axis=0)
    return unique[rng.permutation(len(unique))[:most]]
