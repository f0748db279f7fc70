"""The proposal mixture: all that a move depends on besides the walker's state. Frozen means: not replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from kmc.interrupts import uninterrupted
from kmc.mcmc.archive_moves import archive_move
from kmc.mcmc.base import MOVES
from kmc.mcmc.history import History
from kmc.mcmc.inner_chains import InnerChainKinds, draw_kinds, inner_chains
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.schedule import FEW_CHAINS
from kmc.mcmc.surrogate_transition import InnerChainOptions, inner_chain
from kmc.mcmc.tempering import COLD, Tempering, flattened, flattest, tempered
from kmc.surrogates.fit import Surrogate
from kmc.surrogates.scale_group import ScaleGroup

SURROGATE_MOVES = SURROGATE, TEMPERED = MOVES.index("surrogate"), MOVES.index("tempered-surrogate")


class InnerChains(Protocol):
    """Probabilities and lengths of inner chains."""

    @property
    def single_move_probability(self) -> float:
        """Probability of a chain of one move."""

    @property
    def tempered_probability(self) -> float:
        """Probability of a flattened surrogate."""

    @property
    def shortest_chain(self) -> int:
        """Smallest number of moves."""

    @property
    def longest_chain(self) -> int:
        """Largest number of moves; lengths are uniform between the two."""


class ProposalMixture(NamedTuple):
    """How walkers move until the mixture is replaced."""

    surrogate: Surrogate | None  # None before the first fit: archive moves only
    archive: np.ndarray  # (n, d)
    archive_z: np.ndarray  # the same in whitened coordinates, for jumps inside inner chains
    archive_probability: float  # probability of an archive move
    archive_scale: float
    inner: InnerChainOptions
    shortest_chain: int  # lengths are uniform on shortest..longest
    longest_chain: int
    single_move_probability: float
    tempered_probability: float

    def propose(self, rng: np.random.Generator, x: np.ndarray, tempering: Tempering = COLD) -> Proposal:
        """A proposal from x (d,); the kind of move does not depend on x."""
        move = self._scaling(rng, x)
        if move is not None:
            return move
        if self.surrogate is None or rng.random() < self.archive_probability:
            return archive_move(rng, x, self.archive, scale=self.archive_scale)
        kind = inner_chain_kind(self, rng, len(x), tempering=tempering)
        return self._surrogate_move(rng, x, kind)

    def _scaling(self, rng: np.random.Generator, x: np.ndarray) -> Proposal | None:
        """A move of a scale and its group from x (d,), or None if it is the turn of another move."""
        groups = self.surrogate.scale_groups if self.surrogate is not None else ()
        if not groups or not rng.random() < SCALING_PROBABILITY:
            return None
        return scaled(rng, x, groups, archive=self.archive)

    def propose_each(
        self, rngs: Sequence[np.random.Generator], x: np.ndarray, temperings: Sequence[Tempering]
    ) -> list[Proposal]:
        """The proposals from the rows of x (n, d), one after the other; those of many walkers on all cores."""
        walkers = list(zip(rngs, x, temperings, strict=True))
        if self.surrogate is None or len(x) <= FEW_CHAINS:
            return [self.propose(*walker) for walker in walkers]
        moves: list[Proposal | None] = [self._scaling(rng, start) for rng, start, _ in walkers]
        rows = [i for i, move in enumerate(moves) if move is None]
        others = self._unscaled_each([rngs[i] for i in rows], x[rows], [temperings[i] for i in rows])
        for i, move in zip(rows, others, strict=True):
            moves[i] = move
        return [move for move in moves if move is not None]

    def _unscaled_each(
        self, rngs: Sequence[np.random.Generator], x: np.ndarray, temperings: Sequence[Tempering]
    ) -> list[Proposal]:
        kinds = draw_kinds(
            rngs,
            archive=self.archive_probability,
            flattened=(self.tempered_probability, flattest(x.shape[1])),
            single=self.single_move_probability,
            lengths=(self.shortest_chain, self.longest_chain),
        )
        chosen = kinds.length > 0
        moves = iter(self._surrogate_moves(np.flatnonzero(chosen), rngs=rngs, x=x, temperings=temperings, kinds=kinds))
        sd = self.archive.std(axis=0)
        return [
            next(moves) if inner else archive_move(rng, start, self.archive, scale=self.archive_scale, sd=sd)
            for inner, rng, start in zip(chosen.tolist(), rngs, x, strict=True)
        ]

    def _surrogate_moves(
        self,
        rows: np.ndarray,
        *,
        rngs: Sequence[np.random.Generator],
        x: np.ndarray,
        temperings: Sequence[Tempering],
        kinds: InnerChainKinds,
    ) -> list[Proposal]:
        """What :meth:`_surrogate_move` gives for these rows of x (n, d), to the bit."""
        if not len(rows):
            return []
        surrogate, step_size = self.surrogate, self.inner.step_size
        assert surrogate is not None
        heat = np.array(temperings)
        heat[kinds.flattened] = flattened(1.0)
        heat[kinds.flattened, 1] = kinds.power[kinds.flattened]
        starts = x[rows]
        z = surrogate.coordinates_of_each(starts)
        found = inner_chains(
            surrogate.jit_state,
            z,
            kinds.length[rows],
            temperings=heat[rows],
            rngs=[rngs[i] for i in rows.tolist()],
            options=self.inner,
            archive=self.archive_z,
        )
        position = surrogate.back_of_each(found.position)
        now, then = surrogate.log_jacobians_of_each(starts, position)
        log_ratio = found.log_ratio + now - then
        move = np.where(kinds.flattened[rows], TEMPERED, SURROGATE)
        numbers = zip(*(column.tolist() for column in (log_ratio, move, *found[2:])), strict=True)
        return [
            Proposal(end, ratio, kind, True, n_steps, step_size, energy, diverging)
            if moved
            else Proposal(start, 0.0, kind, False, n_steps, step_size)
            for start, end, (ratio, kind, n_steps, energy, diverging, moved) in zip(
                starts, position, numbers, strict=True
            )
        ]

    def _surrogate_move(self, rng: np.random.Generator, x: np.ndarray, kind: InnerChainKind) -> Proposal:
        surrogate, (tempering, move, length) = self.surrogate, kind
        assert surrogate is not None
        z = surrogate.coordinates(x[None])[0]
        with uninterrupted():
            result = inner_chain(surrogate.jit_state, tempering, rng, z, length, self.inner, self.archive_z)
        if not result.moved:
            return Proposal(x, 0.0, move, moved=False, n_steps=result.n_steps, step_size=self.inner.step_size)
        position = surrogate.back(result.position[None])[0]
        # The inner chain leaves a density of the transported coordinates invariant: as a density of x, it has their
        # Jacobian as a factor.
        jacobian = surrogate.transport.log_jacobian(np.stack([x, position]))
        ratio = tempered(tempering, result.start_value)[0] - tempered(tempering, result.value)[0]
        ratio += result.start_wall - result.wall
        return Proposal(
            position=position,
            log_ratio=ratio + jacobian[0] - jacobian[1],
            move=move,
            n_steps=result.n_steps,
            step_size=self.inner.step_size,
            energy=result.energy,
            diverging=result.diverging,
        )


class InnerChainKind(NamedTuple):
    """The parts of an inner chain that are drawn independently of the state."""

    tempering: Tempering
    move: int  # index into MOVES
    length: int


def inner_chain_kind(
    mixture: InnerChains, rng: np.random.Generator, dim: int, *, tempering: Tempering
) -> InnerChainKind:
    """Draw the kind of an inner chain, at least as tempered as ``tempering``."""
    move, length = SURROGATE, 1
    if rng.random() < mixture.tempered_probability:
        tempering, move = flattened(float(rng.uniform(flattest(dim), 1.0))), TEMPERED
    if not rng.random() < mixture.single_move_probability:
        length = int(rng.integers(mixture.shortest_chain, mixture.longest_chain + 1))
    return InnerChainKind(tempering, move, length)


def distinct(states: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Distinct rows of states (n, d), at most ``most`` of them, in random order."""
    unique = np.unique(states, axis=0)
    return unique[rng.permutation(len(unique))[:most]]


# Moves of a hierarchical scale together with the parameters that it scales.
#
# For a scale exp(t) and parameters x_i around a center x_k, t changes by δ and the distances x_i - x_k are multiplied
# by
# exp(δ): their prior keeps its value up to the Jacobian, so that one move crosses the neck of a funnel. It is a
# transformation from a group as in Liu and Sabatti (2000), "Generalised Gibbs sampler and multigrid Monte Carlo for
# Bayesian computation", Biometrika 87, here with a symmetric δ and the Metropolis-Hastings ratio.

SCALING_PROBABILITY = 0.1  # of such a move, if there are groups (set by hand)
_WIDEST, _RANGE = 2.0, 3.0  # of the sd of δ: the largest, in sds of the driver, and the log of its ratio to the least
_LARGEST = 200.0  # log of a factor on distances
_SCALING = MOVES.index("scaling")


def scaled(rng: np.random.Generator, x: np.ndarray, groups: Sequence[ScaleGroup], *, archive: np.ndarray) -> Proposal:
    """A move of one of the groups from x (d,); archived states (n, d) say how far drivers reach."""
    group = groups[int(rng.integers(len(groups)))]
    widest = _WIDEST * float(archive[:, group.driver].std())
    change = widest * float(np.exp(-_RANGE * rng.random()) * rng.standard_normal())
    if abs(group.slope * change) > _LARGEST:  # as unlikely on the way back
        return Proposal(x, 0.0, _SCALING, moved=False)
    position, log_ratio = group.scaled(x, change)
    return Proposal(position, log_ratio, _SCALING)


# The region in which a surrogate is believed while it is learned.
#
# A surrogate of few values can be high far from all of them, and so can one with scales that grow exponentially (a
# funnel). A proposal there is lost, and the user's solver may overflow there, or never return.


# Times the width of the evaluations, beyond them: right runs without heavy tails do not come there, early fits that
# failed do (tried: docs/what-was-tried.md).
_FURTHER = 1.0


def within_trust_region(proposals: list[Proposal], x: np.ndarray, history: History) -> list[Proposal]:
    """The proposals from the rows of x; those by the surrogate that leave the region end at its border, not accepted.

    The region is the box of all evaluations with finite values, three times as wide. A shortened proposal is not
    reversible, so this is for warm-up only: its value shows the surrogate's error there.
    """
    known = history.x[np.isfinite(history.log_density)]
    low, high = known.min(axis=0), known.max(axis=0)
    margin = _FURTHER * (high - low)
    box = low - margin, high + margin
    return [_shortened(proposal, start, box) for proposal, start in zip(proposals, x, strict=True)]


def _shortened(proposal: Proposal, start: np.ndarray, box: tuple[np.ndarray, np.ndarray]) -> Proposal:
    (low, high), end = box, proposal.position
    if proposal.move not in SURROGATE_MOVES or np.all((end >= low) & (end <= high)):
        return proposal
    return proposal._replace(position=np.clip(np.where(np.isnan(end), start, end), low, high), log_ratio=-np.inf)
