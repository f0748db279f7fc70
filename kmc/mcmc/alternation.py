"""Mixtures and cycles of samplers: each sweep is made by one of them.

A mixture of transition kernels with fixed probabilities, and a cycle of kernels in a fixed order, leave the target
invariant if each of them does (Tierney 1994, section 2.4). All chains make a sweep with the same sampler, which is
chosen by random numbers of its own, or by the number of the sweep: never by a state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kmc.checks import is_number, is_whole
from kmc.mcmc.adapting import AdaptingState, Moved, Proposer, walkers_of
from kmc.mcmc.adaptive_langevin import AdaptiveLangevin
from kmc.mcmc.adaptive_metropolis import AdaptiveMetropolis
from kmc.mcmc.ask_tell import Startable
from kmc.mcmc.base import SamplerSetup
from kmc.mcmc.delayed_acceptance import DelayedAcceptance
from kmc.mcmc.kameleon import Kameleon
from kmc.mcmc.metropolis import Proposal

Part = AdaptiveMetropolis | AdaptiveLangevin | DelayedAcceptance | Kameleon
"""Samplers that make one proposal per chain and sweep."""


@dataclass(frozen=True)
class Mixture(Startable):
    """A mixture of samplers: each sweep is made by one of them, chosen at random with fixed probabilities.

    Parameters
    ----------
    samplers : sequence of (sampler, probability)
        Of ``kmc.AdaptiveMetropolis``, ``kmc.AdaptiveLangevin``, ``kmc.DelayedAcceptance`` and ``kmc.Kameleon``, all
        with the same ``adaptation``. The probabilities add up to one. :class:`kmc.KernelHMC` takes further moves
        itself.

    Raises
    ------
    TypeError, ValueError
        An invalid sampler or probability.

    References
    ----------
    .. [1] Tierney (1994), "Markov chains for exploring posterior distributions", Annals of Statistics 22, section 2.4.

    Examples
    --------
    >>> import kmc
    >>> sampler = kmc.Mixture([(kmc.AdaptiveMetropolis(), 0.7), (kmc.Kameleon(), 0.3)])
    >>> sampler.name
    'mixture'
    """

    samplers: Sequence[tuple[Part, float]]

    name: ClassVar[str] = "mixture"

    def __post_init__(self):
        expected = "expected pairs (sampler, probability), such as (kmc.AdaptiveMetropolis(), 0.7)"
        pairs = _items(self.samplers, expected)
        for pair in pairs:
            if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2 or not is_number(pair[1]):
                raise TypeError(f"samplers={self.samplers!r}: {expected}, and one of them is {pair!r}")
        _check_parts([part for part, _ in pairs], expected)
        probabilities = [float(probability) for _, probability in pairs]
        if not all(p > 0 for p in probabilities) or abs(sum(probabilities) - 1.0) > 1e-9:
            raise ValueError(f"samplers: the probabilities are {probabilities}: expected positive ones with the sum 1")
        object.__setattr__(self, "samplers", tuple((part, float(p)) for part, p in pairs))

    def longest_warmup(self, dim: int, chains: int, draws: int, warmup: int | None) -> int:
        """Evaluations of warm-up, if nothing limits them."""
        return max(part.longest_warmup(dim, chains, draws, warmup) for part, _ in self.samplers)

    def _start(self, setup: SamplerSetup) -> AdaptingState:
        parts, probabilities = zip(*self.samplers, strict=True)
        return _started(parts, setup, probabilities=probabilities)


@dataclass(frozen=True)
class Cycle(Startable):
    """A cycle of samplers: sweeps are made by each of them in turn.

    Parameters
    ----------
    samplers : sequence of sampler or (sampler, sweeps)
        As for :class:`kmc.Mixture`; each makes so many sweeps, by default one, before it is the next one's turn.

    Raises
    ------
    TypeError, ValueError
        An invalid sampler or number of sweeps.

    References
    ----------
    .. [1] Tierney (1994), "Markov chains for exploring posterior distributions", Annals of Statistics 22, section 2.4.

    Examples
    --------
    >>> import kmc
    >>> kmc.Cycle([kmc.Kameleon(), (kmc.AdaptiveMetropolis(), 3)]).name
    'cycle'
    """

    samplers: Sequence[Part | tuple[Part, int]]

    name: ClassVar[str] = "cycle"

    def __post_init__(self):
        expected = "expected samplers or pairs (sampler, sweeps), such as (kmc.AdaptiveMetropolis(), 3)"
        pairs = [
            tuple(item) if isinstance(item, (tuple, list)) else (item, 1) for item in _items(self.samplers, expected)
        ]
        for pair in pairs:
            if len(pair) != 2 or not is_whole(pair[1]):
                raise TypeError(f"samplers={self.samplers!r}: {expected}, and one of them is {pair!r}")
            if pair[1] < 1:
                raise ValueError(f"samplers: {pair[0]!r} makes {pair[1]!r} sweeps: expected at least 1")
        _check_parts([part for part, _ in pairs], expected)
        object.__setattr__(self, "samplers", tuple((part, int(sweeps)) for part, sweeps in pairs))

    def longest_warmup(self, dim: int, chains: int, draws: int, warmup: int | None) -> int:
        """Evaluations of warm-up, if nothing limits them."""
        return max(part.longest_warmup(dim, chains, draws, warmup) for part, _ in self._pairs)

    def _start(self, setup: SamplerSetup) -> AdaptingState:
        order = tuple(i for i, (_, sweeps) in enumerate(self._pairs) for _ in range(sweeps))
        return _started([part for part, _ in self._pairs], setup, order=order)

    @property
    def _pairs(self) -> tuple[tuple[Part, int], ...]:
        return self.samplers  # type: ignore[return-value]


class AlternatingProposer:
    """See :class:`kmc.mcmc.adapting.Proposer`.

    Parameters
    ----------
    proposers : sequence of Proposer
    probabilities : tuple of float
        Of a mixture; empty for a cycle.
    order : tuple of int
        Of a cycle.
    rng : Generator
        Chooses from a mixture.
    """

    def __init__(
        self,
        proposers: Sequence[Proposer],
        *,
        probabilities: tuple[float, ...],
        order: tuple[int, ...],
        rng: np.random.Generator,
    ):
        self._proposers, self._probabilities = list(proposers), probabilities
        self._order, self._rng = order, rng
        self._sweeps = [0] * len(self._proposers)  # in which each has learned
        self._turn = -1
        self._now = 0

    def next_sweep(self) -> None:
        """Choose who makes the next sweep."""
        self._turn += 1
        if self._order:
            self._now = self._order[self._turn % len(self._order)]
            return
        left, self._now = 1.0, 0
        for probability in self._probabilities[:-1]:
            if self._rng.random() < probability / left:
                return
            left -= probability
            self._now += 1

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        """A proposal of the one whose sweep this is."""
        return self._proposers[self._now].propose(rng, x)

    def learn(self, moved: Moved, sweep: int) -> None:
        """Only the one whose sweep it was learns from it."""
        self._sweeps[self._now] += 1
        self._proposers[self._now].learn(moved, self._sweeps[self._now])

    def facts(self) -> dict[str, Any]:
        """Those of each."""
        return {"parts": [proposer.facts() for proposer in self._proposers]}


def _started(
    parts: Sequence[Part],
    setup: SamplerSetup,
    *,
    probabilities: tuple[float, ...] = (),
    order: tuple[int, ...] = (),
) -> AdaptingState:
    states = [part._start(setup) for part in parts]
    rng = np.random.default_rng(setup.seed.spawn(1)[0])
    proposers = [state.proposers[0] for state in states]
    proposer = AlternatingProposer(proposers, probabilities=probabilities, order=order, rng=rng)
    warmup = max(state.warmup for state in states)
    return AdaptingState(setup, walkers_of(setup), [proposer], freeze=states[0].freeze, warmup=warmup)


def _items(samplers: Any, expected: str) -> list[Any]:
    if not isinstance(samplers, Sequence) or isinstance(samplers, str) or not samplers:
        raise TypeError(f"samplers={samplers!r}: {expected}")
    return list(samplers)


def _check_parts(parts: list[Any], expected: str) -> None:
    for part in parts:
        if not isinstance(part, (AdaptiveMetropolis, AdaptiveLangevin, DelayedAcceptance, Kameleon)):
            raise TypeError(
                f"samplers: {part!r} cannot be a part: expected kmc.AdaptiveMetropolis(), kmc.AdaptiveLangevin(), "
                "kmc.DelayedAcceptance() or kmc.Kameleon(); kmc.KernelHMC(moves=...) takes moves of other kinds"
            )
    plain = [part.sampler if isinstance(part, DelayedAcceptance) else part for part in parts]
    if not all(getattr(part, "pooled", True) for part in plain):
        raise ValueError("samplers: pooled=False: the parts of a mixture or cycle learn from all chains")
    if len({part.adaptation for part in plain}) > 1:
        raise ValueError("samplers: expected the same adaptation in all, 'vanishing' or 'freeze'")
