"""The region near the draws, outside of which a surrogate is not used."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from kmc.surrogates import Component

_MARGIN = 1.5


class Nearby:
    """Points not much farther from the nearest draw than some draw is from all others.

    Distances are those of the surrogate's coordinates, in which its density is about a standard normal one. Any draw
    might be the one that is farthest from the others, so that a further draw is farther with a probability of one by
    their number; with the margin it is hardly ever outside. Without it averages over draws, none of which is
    outside, would differ from means of the region by a part of their error.

    Parameters
    ----------
    component : Component
    draws : ndarray, shape (n, d)
        Draws from the target.
    """

    def __init__(self, component: Component, draws: np.ndarray):
        z = np.unique(component.coordinates(draws), axis=0)
        self._component, self._tree = component, cKDTree(z)
        self.radius = _MARGIN * float(self._tree.query(z, k=2)[0][:, 1].max())

    def contains(self, z: np.ndarray) -> np.ndarray:
        """Whether the rows of z (n, d), in the surrogate's coordinates, are inside: (n,)."""
        return np.isfinite(self._tree.query(z, distance_upper_bound=self.radius)[0])

    def contains_points(self, x: np.ndarray) -> np.ndarray:
        """Whether points x (..., d) are inside: (...)."""
        return self.contains(self._component.coordinates(x.reshape(-1, x.shape[-1]))).reshape(x.shape[:-1])
