"""Moves for a target with several modes: a surrogate for each mode, and moves between them that cost no evaluation.

Let s_k be the surrogate of mode k. Proposals are made by a chain on (x, k) with the density s_k(x). It draws k given x,
then moves x on s_k in the coordinates in which s_k is white. Some moves offer the same white coordinates to
another mode, z_k -> z_j, which is an affine map between their covariances (compare Tjelmeland and Hegstad 2001, "Mode
jumping proposals in MCMC", Scandinavian Journal of Statistics 28). Each of these moves is reversible, and is chosen
independently of the state; so the whole inner chain is reversible for the sum s of the s_k, and a proposal is accepted
for the target p with probability min(1, p(x') s(x) / (p(x) s(x'))).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from kmc.interrupts import uninterrupted
from kmc.mcmc.archive_moves import archive_move
from kmc.mcmc.explorer import Explorer, log_mass
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.proposal_mixture import InnerChainKind, ProposalMixture, inner_chain_kind
from kmc.mcmc.surrogate_transition import InnerChainOptions, inner_chain
from kmc.mcmc.tempering import COLD, Tempering, tempered
from kmc.surrogates import Surrogate

# Set by hand.
_LONGER = 2  # factor on the length of inner chains in one mode: some of the moves change the mode
_JUMP = 0.2  # probability that a move proposes another mode


class ModeMixture(NamedTuple):
    """How chains move among several modes; frozen."""

    plans: tuple[ProposalMixture, ...]  # each with its surrogate
    log_volumes: np.ndarray  # (k,) of the whitened unit cubes, in the transported coordinates
    archive: np.ndarray  # (n, d) of all modes
    archive_probability: float
    archive_scale: float
    single_move_probability: float
    tempered_probability: float
    shortest_chain: int
    longest_chain: int

    @classmethod
    def of(cls, plans: tuple[ProposalMixture, ...], rng: np.random.Generator) -> ModeMixture:
        """The mixtures of the modes combined; options are those of the mode with the longest inner chains."""
        slowest = max(plans, key=lambda plan: plan.longest_chain)
        fewest = min(len(plan.archive) for plan in plans)
        return cls(
            plans=plans,
            log_volumes=np.array([np.linalg.slogdet(_surrogate(plan).whitening.inverse)[1] for plan in plans]),
            archive=np.vstack([plan.archive[rng.permutation(len(plan.archive))[:fewest]] for plan in plans]),
            archive_probability=slowest.archive_probability,
            archive_scale=min(plan.archive_scale for plan in plans),
            single_move_probability=slowest.single_move_probability,
            tempered_probability=slowest.tempered_probability,
            shortest_chain=_LONGER * slowest.shortest_chain,
            longest_chain=_LONGER * slowest.longest_chain,
        )

    @property
    def surrogate(self) -> Surrogate:
        """The surrogate with the largest error."""
        return max((_surrogate(plan) for plan in self.plans), key=lambda surrogate: surrogate.error_sd)

    @property
    def inner(self) -> InnerChainOptions:
        """The options of the inner chains in the mode with the smallest steps."""
        return min((plan.inner for plan in self.plans), key=lambda options: options.step_size)

    def propose(self, rng: np.random.Generator, x: np.ndarray, tempering: Tempering = COLD) -> Proposal:
        """A proposal from x (d,); the kind of move does not depend on x."""
        if rng.random() < self.archive_probability:
            return archive_move(rng, x, self.archive, scale=self.archive_scale)
        return self._chain(rng, x, inner_chain_kind(self, rng, len(x), tempering=tempering))

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """log of the sum of the surrogates at the rows of x (n, d), shape (n,)."""
        return logsumexp([_surrogate(plan).log_density(x) for plan in self.plans], axis=0)

    def counts(self, x: np.ndarray) -> np.ndarray:
        """Number of the rows of x (n, d) in each mode, (k,)."""
        shares = [_surrogate(plan).log_density(x) for plan in self.plans]
        return np.bincount(np.argmax(shares, axis=0), minlength=len(self.plans))

    def _chain(self, rng: np.random.Generator, x: np.ndarray, kind: InnerChainKind) -> Proposal:
        tempering, move, length = kind
        start = self._log_shares(x, tempering)
        k = _drawn(rng, start)
        z = _surrogate(self.plans[k]).coordinates(x[None])[0]
        n_steps, energy, diverging, moved = 0, np.nan, False, False
        for stretch in _stretches(rng, length):
            if stretch == 0:
                j = (k + 1 + int(rng.integers(len(self.plans) - 1))) % len(self.plans)
                here, there = (self._white_log_density(m, z, tempering) for m in (k, j))
                if np.log(rng.random()) < there - here:
                    k, moved = j, True
                continue
            plan = self.plans[k]
            state, inner, archive = _surrogate(plan).jit_state, plan.inner, plan.archive_z
            with uninterrupted():
                result = inner_chain(state, tempering, rng, z, stretch, inner, archive)
            z, energy = result.position, result.energy
            n_steps, diverging, moved = n_steps + result.n_steps, diverging or result.diverging, moved or result.moved
        plan = self.plans[k]
        how: dict[str, Any] = {"n_steps": n_steps, "step_size": plan.inner.step_size}
        if not moved:
            return Proposal(x, 0.0, move, moved=False, **how)
        position = _surrogate(plan).back(z[None])[0]
        ratio = float(logsumexp(start) - logsumexp(self._log_shares(position, tempering)))
        return Proposal(position, ratio, move, energy=energy, diverging=diverging, **how)

    def _log_shares(self, x: np.ndarray, tempering: Tempering) -> np.ndarray:
        """log s_k(x), tempered, for each k."""
        values = []
        for plan in self.plans:
            surrogate = _surrogate(plan)
            value = _tempered(surrogate, surrogate.coordinates(x[None]), tempering)
            values.append(value + surrogate.transport.log_jacobian(x[None])[0])
        return np.array(values)

    def _white_log_density(self, k: int, z: np.ndarray, tempering: Tempering) -> float:
        """Log-density of the white coordinates z in mode k."""
        return _tempered(_surrogate(self.plans[k]), z[None], tempering) + self.log_volumes[k]


def _tempered(surrogate: Surrogate, z: np.ndarray, tempering: Tempering) -> float:
    """The density that inner chains on a surrogate leave invariant, in its coordinates z (1, d)."""
    smooth, wall = surrogate.parts(z)
    return float(tempered(tempering, smooth[0])[0] + np.sum(wall))


def _stretches(rng: np.random.Generator, length: int) -> Iterator[int]:
    """Moves inside a mode, with 0 for an offer to another: all drawn independently of the state."""
    within = 0
    for offer in rng.random(length) < _JUMP:
        if not offer:
            within += 1
            continue
        if within:
            yield within
        yield 0
        within = 0
    if within:
        yield within


def _drawn(rng: np.random.Generator, log_weights: np.ndarray) -> int:
    ends = np.cumsum(np.exp(log_weights - log_weights.max()))
    return int(np.searchsorted(ends[:-1], rng.random() * ends[-1], side="right"))


def _surrogate(mixture: ProposalMixture) -> Surrogate:
    assert mixture.surrogate is not None
    return mixture.surrogate


# The main phase with several modes: the mixture of their surrogates, and the visits to each mode.


class JoinedModes:
    """Modes by decreasing mass.

    Parameters
    ----------
    mixture : ModeMixture
        How chains move.
    masses : ndarray, shape (k,)
        According to the surrogates; the sum is one.
    """

    def __init__(self, mixture: ModeMixture, masses: np.ndarray):
        self.mixture, self._masses = mixture, masses
        self._visits = np.zeros(len(masses))

    def visit(self, x: np.ndarray) -> None:
        """Count the modes of the states (chains, d) after a sweep of the main phase."""
        self._visits += self.mixture.counts(x)

    def facts(self) -> dict[str, Any]:
        """For the results' attributes: masses, and fractions of the draws."""
        shares = self._visits / max(self._visits.sum(), 1.0)
        return {"mode_masses": self._masses.tolist(), "mode_shares": shares.tolist()}


def join(
    explorers: Sequence[Explorer], chains: int, rng: np.random.Generator
) -> tuple[JoinedModes, np.ndarray, np.ndarray]:
    """One mixture for all modes; and states (chains, d) in each of the modes in turn, with their values (chains,)."""
    masses = np.array([log_mass(explorer.mixture, rng) for explorer in explorers])
    order = np.argsort(-masses)
    shares = np.exp(masses - masses.max())[order]
    shares /= shares.sum()
    states = [explorers[k].state() for k in order]
    x, values = (np.array(rows) for rows in zip(*(states[i % len(states)] for i in range(chains)), strict=True))
    mixture = ModeMixture.of(tuple(explorers[k].mixture for k in order), rng)
    return JoinedModes(mixture, shares), x, values
