"""The main phase's moves: ends of inner chains on the frozen surrogate, and moves that ignore it.

Each proposal is that of the first move whose turn it is, by probabilities that depend on nothing;
the surrogate has its turn if no other one has. Any such mixture leaves the target invariant.
benchmarks/ablation.py says what each is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from kmc.kernel_hmc.modes import Modes
from kmc.kernel_hmc.surrogate_chains import tuned_moves
from kmc.samplers.base import MOVES
from kmc.samplers.inner_chains import InnerChainOptions, InnerChainsResult, inner_chains
from kmc.samplers.local_mixture import LocalMixture, local_mixture
from kmc.samplers.metropolis import Proposal
from kmc.samplers.moves import Move, archive_move, propose_one_of
from kmc.samplers.tuning import Trials, choose_inner_chain_length, ends_of
from kmc.surrogate.density import Component

SURROGATE, TEMPERED = MOVES.index("surrogate"), MOVES.index("tempered-surrogate")
_JUMP = MOVES.index("mode-jump")

# chains used to choose the step size, and the length of inner chains
_TRIALS, _LENGTH_TRIALS = 64, 512


class OtherMove(Protocol):
    """A move that ignores the surrogate."""

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal | None:
        """Return a proposal from x (d,); None if it is the turn of another move."""


class UserMoves(NamedTuple):
    """Moves that the user has added, with their probabilities."""

    moves: Sequence[tuple[Move, float]]
    archive: np.ndarray  # (n, d)

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal | None:
        """See :class:`OtherMove`."""
        return propose_one_of(self.moves, rng, x, archive=self.archive)


class ModeJumps(NamedTuple):
    """Jumps between the modes that learning has found."""

    modes: Modes
    probability: float

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal | None:
        """See :class:`OtherMove`."""
        if not rng.random() < self.probability:
            return None
        position, log_ratio = self.modes.jump(rng, x[None, :])
        if not np.isfinite(log_ratio[0]):
            return Proposal(x, 0.0, _JUMP, moved=False)
        return Proposal(position[0], float(log_ratio[0]), _JUMP)


class ArchiveMoves(NamedTuple):
    """Differential evolution and snooker updates."""

    archive: np.ndarray  # (n, d)
    probability: float

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal | None:
        """See :class:`OtherMove`."""
        return archive_move(rng, x, self.archive) if rng.random() < self.probability else None


class ProposalMixture(NamedTuple):
    """How chains move. Frozen means: not replaced."""

    surrogate: Component
    others: Sequence[OtherMove]  # asked in this order
    mixture: LocalMixture  # around draws, in the surrogate's coordinates, for inner chains
    inner: InnerChainOptions
    shortest_chain: int  # lengths are uniform on shortest..longest
    longest_chain: int
    tempered_probability: float

    @classmethod
    def tuned(
        cls,
        surrogate: Component,
        others: Sequence[OtherMove],
        z: np.ndarray,
        *,
        rng: np.random.Generator,
        tempered_probability: float,
    ) -> ProposalMixture:
        """Choose step size and length of inner chains by trials from draws z (n, d).

        The draws are in the surrogate's coordinates.
        """
        mixture = local_mixture(z)
        trials = Trials(surrogate.jit_state, z[:_TRIALS], mixture)
        inner = tuned_moves(trials, z, rng)
        # Trials see correlations above 0.1, which would cost every fifth effective draw.
        longest = 2 * choose_inner_chain_length(
            trials._replace(starts=z[:_LENGTH_TRIALS]), inner, rng
        )
        return cls(surrogate, others, mixture, inner, longest // 2, longest, tempered_probability)

    def ends(self, z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the end points (n, d) of the longest inner chains from z (n, d).

        Both are in the surrogate's coordinates.
        """
        trials = Trials(self.surrogate.jit_state, z, self.mixture)
        return ends_of(trials, z, self.longest_chain, options=self.inner, rng=rng)

    def propose(
        self, rngs: Sequence[np.random.Generator], positions: Sequence[np.ndarray]
    ) -> list[Proposal]:
        """Return a proposal from each position (d,), as if they were made one by one.

        Inner chains run side by side. The kind of move does not depend on the position.
        """
        found: list[Proposal | None] = []
        lengths, powers = [], []
        for rng, x in zip(rngs, positions, strict=True):
            asked = (move.propose(rng, x) for move in self.others)
            found.append(next((proposal for proposal in asked if proposal is not None), None))
            if found[-1] is not None:
                continue
            tempered = rng.random() < self.tempered_probability
            powers.append(float(rng.uniform(flattest(len(x)), 1.0)) if tempered else 1.0)
            lengths.append(int(rng.integers(self.shortest_chain, self.longest_chain + 1)))
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
        move, n_steps, step_size = (
            SURROGATE if power == 1.0 else TEMPERED,
            int(end.n_steps),
            self.inner.step_size,
        )
        if not end.moved:
            return Proposal(x, 0.0, move, moved=False, n_steps=n_steps, step_size=step_size)
        y = self.surrogate.back(end.position[None])[0]
        # The inner chain leaves a density of the transported coordinates invariant: as a density of
        # x, it has their Jacobian as a factor.
        now, then = self.surrogate.transport.log_jacobian(np.stack([x, y]))
        log_ratio = float(end.log_ratio + now - then)
        return Proposal(
            y, log_ratio, move, True, n_steps, step_size, float(end.energy), bool(end.diverging)
        )


def flattest(dim: int) -> float:
    """Return the smallest power of the surrogate for proposals: 1 / (1 + 2 / sqrt(d))."""
    return 1.0 / (1.0 + 2.0 / np.sqrt(dim))


def distinct(states: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return distinct rows of states (n, d), at most ``most`` of them, in random order."""
    unique = np.unique(states, axis=0)
    return unique[rng.permutation(len(unique))[:most]]
