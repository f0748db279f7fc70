"""How far from the landmarks a fit knows its functions, and a warning beyond it."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from scipy.spatial import cKDTree

from kmc.errors import warn

FACTOR = 3.0
"""Distance to the nearest landmark, relative to the largest of a sample of the fit, beyond which there is a warning."""

MOST = 5_000
"""Samples by which the largest distance is found."""


class Reach(NamedTuple):
    """Landmarks and the largest distance of samples from them."""

    centers: np.ndarray  # (m, d)
    largest: float

    @classmethod
    def of(cls, centers: np.ndarray, x: np.ndarray) -> Self:
        """For samples (n, d) of the fit."""
        tree, every = cKDTree(centers), -(-len(x) // MOST)
        apart = tree.query(centers, [min(2, len(centers))])[0]  # if all samples are landmarks
        return cls(centers, float(max(tree.query(x[::every])[0].max(), apart.mean())))

    def check(self, x: np.ndarray) -> None:
        """Warn of points (n, d) at which the functions are extrapolated by far."""
        most = FACTOR * self.largest
        beyond = np.count_nonzero(np.isinf(cKDTree(self.centers).query(x, distance_upper_bound=most)[0]))
        if beyond and most > 0:
            warn(
                f"{beyond} of {len(x)} points in X are farther than {most:.3g} from all landmarks, and no sample of "
                f"the fit than {self.largest:.3g}: the functions are not known there, and tend to constants"
            )
