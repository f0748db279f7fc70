"""Samplers inside another one: one at each temperature of a ladder, or several that make sweeps in turn.

Whoever holds a part calls ``propose`` and ``advance`` until a step is returned. Between two steps the chains may be
moved: their states are swapped with those of another temperature, or are where another sampler has left them. A part
that keeps anything about its states, such as their gradients, renews it in ``adopt``.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from kmc.mcmc.adapting import warmup_sweeps
from kmc.mcmc.ask_tell import Startable
from kmc.mcmc.base import SamplerSetup, Step
from kmc.mcmc.moves import Move
from kmc.mcmc.walkers import Walkers

Gradient = Callable[[np.ndarray], Any]
"""A user's function: x (d,) -> the gradient (d,), or None where there is none."""


class PartState(Protocol):
    """A :class:`kmc.mcmc.base.SamplerState` whose chains can be moved by others between two steps."""

    warming_up: bool

    def propose(self) -> np.ndarray:
        """Points (k, d), k >= 0, whose log-density is needed."""

    def advance(self, values: np.ndarray) -> Step | None:
        """Take their log-densities (k,); None until all chains have made a step."""

    def end_warmup(self) -> None:
        """Be ready to draw as soon as possible."""

    def finish_warmup(self) -> None:
        """End warm-up: at once, without a further sweep, if the sampler can draw already."""

    def report(self) -> dict[str, Any]:
        """Facts for the results' attributes."""

    @property
    def walkers(self) -> Walkers | None:
        """Its chains, one walker each; None while nobody else may move them."""

    def adopt(self, walkers: Walkers) -> None:
        """Move these chains from now on; also called when the states or log-densities of its own were changed."""


class Composable(Startable):
    """Options of a sampler that can be a part of another one."""

    warmup_share: ClassVar[int] = 3
    """Warm-up has one in so many evaluations of the budget, if others make sweeps in turn with this sampler."""
    sweep_cost: ClassVar[int] = 1
    """Typical number of evaluations that a chain needs for a step."""

    @property
    def further_moves(self) -> Sequence[tuple[Move, float]]:
        """Moves of the user's; see :func:`kmc.mcmc.moves.names_of`."""
        return ()

    @abstractmethod
    def _start(self, setup: SamplerSetup) -> PartState:
        """The state for a setup."""

    @property
    def scout(self) -> Composable:
        """A sampler for the time in which a ladder is tuned: one that learns no density, as that changes meanwhile."""
        return self

    def with_gradient(self, wrap: Callable[[Gradient], Gradient]) -> Composable:
        """The same options with ``wrap(gradient)`` in place of each gradient of the user's: for another density."""
        return self


def last_of_warmup(setup: SamplerSetup, share: int) -> int:
    """The sweep with which a sampler ends warm-up by itself."""
    return warmup_sweeps(setup, share) if setup.own_warmup is None else sys.maxsize


def own_warmup(setup: SamplerSetup, share: int) -> int:
    """Sweeps of warm-up that a sampler itself makes; see :func:`kmc.mcmc.adapting.warmup_sweeps`."""
    return warmup_sweeps(setup, share) if setup.own_warmup is None else setup.own_warmup
