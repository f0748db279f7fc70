"""Mixtures and cycles of samplers: each sweep is made by one of them.

A mixture of transition kernels with fixed probabilities, and a cycle of kernels in a fixed order, leave the target
invariant if each of them does (Tierney 1994, section 2.4). All chains make a sweep with the same sampler, which is
chosen by random numbers of its own, or by the number of the sweep: never by a state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kmc.checks import is_number, is_whole
from kmc.mcmc.adapting import walkers_of, warmup_sweeps
from kmc.mcmc.base import SamplerSetup, Step
from kmc.mcmc.moves import Move
from kmc.mcmc.parts import Composable, Gradient, PartState
from kmc.mcmc.walkers import Walkers

_MOST_OF_BUDGET = 2  # warm-up ends when one in so many evaluations is used, unless the user fixes its length


class Alternation(Composable):
    """What mixtures and cycles have in common."""

    samplers: Any

    @property
    def parts(self) -> tuple[Composable, ...]:
        """The samplers."""
        return tuple(part for part, _ in self.samplers)

    @property
    def shares(self) -> np.ndarray:
        """The fraction of the sweeps that each makes."""
        weights = np.array([weight for _, weight in self.samplers], float)
        return weights / weights.sum()

    @property
    def takes_history(self) -> bool:
        """Whether existing evaluations help one of the samplers."""
        return any(getattr(part, "takes_history", False) for part in self.parts)

    @property
    def warmup_share(self) -> int:  # type: ignore[override]
        """The longest of all."""
        return min(part.warmup_share for part in self.parts)

    @property
    def sweep_cost(self) -> int:  # type: ignore[override]
        """In the mean."""
        return max(round(float(self.shares @ [part.sweep_cost for part in self.parts])), 1)

    @property
    def further_moves(self) -> Sequence[tuple[Move, float]]:
        """Those of one sampler at most."""
        return next((part.further_moves for part in self.parts if part.further_moves), ())

    @property
    def scout(self) -> Composable:
        """The same with the scouts of all."""
        return self._of([part.scout for part in self.parts])

    def with_gradient(self, wrap: Callable[[Gradient], Gradient]) -> Composable:
        """The same with other gradients in all samplers that take any."""
        return self._of([part.with_gradient(wrap) for part in self.parts])

    def longest_warmup(self, dim: int, chains: int, draws: int, warmup: int | None) -> int:
        """Evaluations of warm-up, if nothing limits them."""
        return max(part.longest_warmup(dim, chains, draws, warmup) for part in self.parts)

    def _of(self, parts: Sequence[Composable]) -> Composable:
        """Itself, if the parts are its own."""
        if all(new is old for new, old in zip(parts, self.parts, strict=True)):
            return self
        return type(self)([(part, weight) for part, (_, weight) in zip(parts, self.samplers, strict=True)])  # type: ignore[call-arg]


@dataclass(frozen=True)
class Mixture(Alternation):
    """A mixture of samplers: each sweep is made by one of them, chosen at random with fixed probabilities.

    Parameters
    ----------
    samplers : sequence of (sampler, probability)
        Any of kmc's samplers but :class:`Tempered`. The probabilities add up to one.

    Raises
    ------
    TypeError, ValueError
        An invalid sampler or probability.

    See Also
    --------
    kmc.KernelHMC : takes further moves of single chains itself.

    Notes
    -----
    The target stays invariant, as each sampler leaves it invariant [1]_. Each adapts to the sweeps that it makes, in
    warm-up and, with ``adaptation="vanishing"``, afterwards. Warm-up ends for all together, and has further sweeps of
    those that are not ready by then. :class:`kmc.KernelHMC` and :class:`kmc.ScoreHMC` warm up in about their part of
    the sweeps, KernelHMC with walkers of its own; it searches for no modes. A sweep of :class:`kmc.NUTS` costs several
    evaluations per chain.

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

    samplers: Sequence[tuple[Composable, float]]

    name: ClassVar[str] = "mixture"

    def __post_init__(self):
        expected = "expected pairs (sampler, probability), such as (kmc.AdaptiveMetropolis(), 0.7)"
        pairs = _items(self.samplers, expected)
        for pair in pairs:
            if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2 or not is_number(pair[1]):
                raise TypeError(f"samplers={self.samplers!r}: {expected}, and one of them is {pair!r}")
        _check_parts([part for part, _ in pairs])
        probabilities = [float(probability) for _, probability in pairs]
        if not all(p > 0 for p in probabilities) or abs(sum(probabilities) - 1.0) > 1e-9:
            raise ValueError(f"samplers: the probabilities are {probabilities}: expected positive ones with the sum 1")
        object.__setattr__(self, "samplers", tuple((part, float(p)) for part, p in pairs))

    def _start(self, setup: SamplerSetup) -> AlternatingState:
        return AlternatingState(self, setup, probabilities=tuple(probability for _, probability in self.samplers))


@dataclass(frozen=True)
class Cycle(Alternation):
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

    samplers: Sequence[Composable | tuple[Composable, int]]

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
        _check_parts([part for part, _ in pairs])
        object.__setattr__(self, "samplers", tuple((part, int(sweeps)) for part, sweeps in pairs))

    def _start(self, setup: SamplerSetup) -> AlternatingState:
        pairs: Any = self.samplers
        order = tuple(i for i, (_, sweeps) in enumerate(pairs) for _ in range(sweeps))
        return AlternatingState(self, setup, order=order)


class AlternatingState:
    """See :class:`kmc.mcmc.base.SamplerState`; the chains are handed from part to part.

    Parameters
    ----------
    options : Alternation
    setup : SamplerSetup
    probabilities : tuple of float
        Of a mixture; empty for a cycle.
    order : tuple of int
        Of a cycle.

    Attributes
    ----------
    parts : list of PartState
    """

    def __init__(
        self,
        options: Alternation,
        setup: SamplerSetup,
        *,
        probabilities: tuple[float, ...] = (),
        order: tuple[int, ...] = (),
    ):
        self.setup = setup
        self._warmup = warmup_sweeps(setup, options.warmup_share * options.sweep_cost)
        own = [round(share * self._warmup) for share in options.shares.tolist()]
        self.parts: list[PartState] = [
            part._start(setup._replace(own_warmup=sweeps)) for part, sweeps in zip(options.parts, own, strict=True)
        ]
        self._probabilities, self._order = probabilities, order
        self._rng = np.random.default_rng(setup.seed.spawn(1)[0])
        self._walkers = walkers_of(setup)
        self._holder = -1  # the part that knows where the chains are
        self._turn, self._now = -1, 0
        self._growing = False  # whether a sweep has begun
        self._sweep = self._n_evaluations = 0
        self._finishing = False
        self.warming_up = True
        self._end_of_warmup()

    def propose(self) -> np.ndarray:
        """What the sampler needs whose sweep this is."""
        if not self._growing:
            self._growing = True
            self._next_turn()
            self._hand_over()
        return self.parts[self._now].propose()

    def advance(self, values: np.ndarray) -> Step | None:
        """Pass them on; only the sampler whose sweep it is learns from them."""
        step = self.parts[self._now].advance(values)
        self._n_evaluations += len(values)
        self._take_back()
        if step is None:
            return None
        warmup, self._growing = self.warming_up, False
        self._sweep += 1
        self._end_of_warmup()
        return step._replace(warmup=warmup)

    def end_warmup(self) -> None:
        """End warm-up with the next sweep, if all samplers are ready."""
        self._warmup = 0

    def finish_warmup(self) -> None:
        """End warm-up now, if all samplers are ready."""
        self._warmup = 0
        self._end_of_warmup()

    @property
    def walkers(self) -> Walkers | None:
        """One per chain; None while a part warms up with others."""
        return None if any(part.walkers is None for part in self.parts) else self._walkers

    def adopt(self, walkers: Walkers) -> None:
        """Move these chains from now on."""
        self._walkers, self._holder = walkers, -1

    def report(self) -> dict[str, Any]:
        """Facts for the results' attributes."""
        facts = [part.report() for part in self.parts]
        known = [one["n_gradients"] for one in facts if "n_gradients" in one]
        return {
            "noisy": self.setup.noisy,
            "n_refits": sum(one["n_refits"] for one in facts),
            **({"n_gradients": sum(known)} if known else {}),
            "parts": [{name: fact for name, fact in one.items() if name != "noisy"} for one in facts],
        }

    def _next_turn(self) -> None:
        """Choose who makes the next sweep."""
        self._turn += 1
        if self._finishing and self.warming_up:
            self._now = next(i for i, part in enumerate(self.parts) if part.warming_up)
            return
        if self._order:
            self._now = self._order[self._turn % len(self._order)]
            return
        left, self._now = 1.0, 0
        for probability in self._probabilities[:-1]:
            if self._rng.random() < probability / left:
                return
            left -= probability
            self._now += 1

    def _hand_over(self) -> None:
        """Tell the part where the chains are, unless it knows."""
        part = self.parts[self._now]
        if self._holder != self._now and part.walkers is not None:
            part.adopt(self._walkers)
            self._holder = self._now

    def _take_back(self) -> None:
        """Take over where a part has begun to move chains of its own: from then on these are the ones."""
        part = self.parts[self._now]
        own = part.walkers
        if own is not None and own is not self._walkers:
            self._walkers.x[:], self._walkers.log_density[:] = own.x, own.log_density
            part.adopt(self._walkers)
            self._holder = self._now

    def _end_of_warmup(self) -> None:
        if not self.warming_up:
            return
        budget, user_decides = self.setup.max_evaluations, self.setup.warmup is not None
        spent = budget is not None and not user_decides and self._n_evaluations >= budget // _MOST_OF_BUDGET
        if (self._sweep >= self._warmup or spent) and not self._finishing:
            self._finishing = True
            for part in self.parts:
                part.finish_warmup()
        self.warming_up = not self._finishing or any(part.warming_up for part in self.parts)


def _items(samplers: Any, expected: str) -> list[Any]:
    if not isinstance(samplers, Sequence) or isinstance(samplers, str) or not samplers:
        raise TypeError(f"samplers={samplers!r}: {expected}")
    return list(samplers)


def _check_parts(parts: list[Any]) -> None:
    for part in parts:
        if not isinstance(part, Composable):
            raise TypeError(
                f"samplers: {part!r} cannot be a part: expected samplers such as kmc.AdaptiveMetropolis(); "
                "kmc.Tempered(...) is put around a mixture or cycle instead"
            )
    if sum(bool(part.further_moves) for part in parts) > 1:
        raise ValueError("samplers: several have moves=... of yours: expected these in one sampler at most")
