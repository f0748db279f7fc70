"""How far from the landmarks a fit knows its functions, and a warning beyond it."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from scipy.spatial import cKDTree

from kmc.errors import warn
from kmc.kernels import median_distance

FACTOR = 3.0
"""Distance to the nearest landmark, relative to the largest of a sample of the fit, beyond which a point is far."""

MOST = 5_000
"""Samples by which the largest distance is found."""


class Reach(NamedTuple):
    """Landmarks, and the distance from them beyond which points are far from the data."""

    centers: np.ndarray  # (m, d)
    most: float

    @classmethod
    def of(cls, centers: np.ndarray, x: np.ndarray) -> Self:
        """For samples (n, d) of the fit; not less than their median distance."""
        some = x[:: -(-len(x) // MOST)]
        largest = float(cKDTree(centers).query(some)[0].max())
        return cls(centers, max(FACTOR * largest, median_distance(some)))

    def check(self, x: np.ndarray) -> None:
        """Warn of points (n, d) at which the functions are extrapolated by far."""
        beyond = np.count_nonzero(np.isinf(cKDTree(self.centers).query(x, distance_upper_bound=self.most)[0]))
        if beyond:
            warn(
                f"{beyond} of {len(x)} points in X are farther than {self.most:.3g} from all landmarks, and no sample "
                "of the fit is: the functions are not known there, and tend to constants"
            )
