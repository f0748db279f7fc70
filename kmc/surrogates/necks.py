"""Necks of hierarchical models, where the log-density increases without bound although hardly any mass is there.

A group x_i ~ N(x_k, exp(2 t)) of m parameters has the log-density -m t + ... : its highest values are at the smallest
scales that were evaluated. Heights, from which depths and bounds are counted, are those of the density of (x_i - x_k)
exp(-t) there. Only below the median scale: above it, data usually limit x_i, and the density falls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kmc.surrogates.scale_group import ScaleGroup
from kmc.surrogates.whitening import Whitening


class Necks(NamedTuple):
    """What to add to a log-density for its height: Σ_g min(rates_g (x_g - starts_g), 0) for the drivers x_g."""

    drivers: np.ndarray = np.empty(0, dtype=np.int64)  # (g,) indices
    rates: np.ndarray = np.empty(0)  # (g,) log of the volume of the group, for a unit of the driver
    starts: np.ndarray = np.empty(0)  # (g,)

    @classmethod
    def of(cls, groups: Sequence[ScaleGroup], states: np.ndarray) -> Necks:
        """Those of groups, from the median of recent states (k, d) on."""
        if not groups:
            return NO_NECKS
        drivers = np.array([group.driver for group in groups])
        rates = np.array([len(group.members) * group.slope for group in groups])
        return cls(drivers, rates, np.median(states[:, drivers], axis=0))

    def correction(self, x: np.ndarray) -> np.ndarray:
        """At the rows of x (n, d), shape (n,)."""
        if not len(self.drivers):
            return np.zeros(len(x))
        return np.minimum(self.rates * (x[:, self.drivers] - self.starts), 0.0).sum(axis=1)

    def in_coordinates(self, whitening: Whitening) -> tuple[np.ndarray, np.ndarray]:
        """Slopes (g, d) and offsets (g,) with correction Σ_g min(slopes_g z + offsets_g, 0) in whitened coordinates."""
        slopes = self.rates[:, None] * whitening.inverse[self.drivers]
        return np.ascontiguousarray(slopes), self.rates * (whitening.origin[self.drivers] - self.starts)


NO_NECKS = Necks()
