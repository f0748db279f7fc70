"""A frozen surrogate: a density that can be evaluated and drawn from, without the data of the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from kmc.surrogates.in_coordinates import InCoordinates
from kmc.surrogates.jit_state import SurrogateJitState
from kmc.surrogates.surrogate import Surrogate
from kmc.surrogates.transport import Transport
from kmc.surrogates.wall_jit_state import WalledState
from kmc.surrogates.whitening import Whitening


@dataclass(frozen=True, eq=False)
class Component(InCoordinates):
    """One surrogate."""

    transport: Transport
    whitening: Whitening
    jit_state: SurrogateJitState | WalledState

    @classmethod
    def of(cls, surrogate: Surrogate) -> Component:
        """A surrogate without the data of its fit."""
        return cls(surrogate.transport, surrogate.whitening, surrogate.jit_state)

    @property
    def log_volume(self) -> float:
        """log |du/dz|."""
        return float(np.linalg.slogdet(self.whitening.inverse)[1])


@dataclass(frozen=True, eq=False)
class Density:
    """A frozen surrogate s, or the sum of those of several modes."""

    components: tuple[Component, ...]

    @classmethod
    def of(cls, surrogates: Sequence[Surrogate]) -> Density:
        """The sum of surrogates."""
        return cls(tuple(map(Component.of, surrogates)))

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """log s at the rows of x (n, d), shape (n,); not normalized."""
        return logsumexp([component.log_density(x) for component in self.components], axis=0)
