"""The domain A of the identities: where a surrogate may have mass but no dead mass.

No pair shows dead mass: pairs of a state and its proposal never start where p is zero. So the part
of the surrogate whose pairs begin and end there is not seen, and means under the surrogate have to
be those of a region without it: the points whose nearest evaluated point has positive density, and
is not far away.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from kmc.njit import njit
from kmc.surrogate.density import Component, Density

_MARGIN = 1.5
_FEWEST = 10  # points of a mode
_MOST = 3000  # evaluated points of each kind


class UnknownMode(ValueError):
    """One of the surrogate's modes has hardly any draws."""


class Region(NamedTuple):
    """Points whose nearest row of ``points`` (n, d) is alive, at most the root of ``square`` away.

    Everything if there are no points.
    """

    points: np.ndarray
    alive: np.ndarray
    square: float


EVERYWHERE = Region(np.zeros((0, 1)), np.zeros(0, bool), 0.0)


@njit(allocates=False)
def holds(region, z):
    """Return whether a region holds z (d,)."""
    n, d = region.points.shape
    if n == 0:
        return True
    nearest, alive = np.inf, False
    for i in range(n):
        square = 0.0
        for k in range(d):
            off = z[k] - region.points[i, k]
            square += off * off
            if square >= nearest:
                break
        if square < nearest:
            nearest = square
            alive = region.alive[i]
    return alive and nearest <= region.square


class Nearby:
    """Points whose nearest evaluated point is alive and not far away.

    Far means much farther than any living point is from all others. Distances are those of the
    surrogate's coordinates, in which its density is about a standard normal one. Any draw might be
    the one that is farthest from the others, so that a further draw is farther with a probability
    of one over their number; with the margin it is hardly ever outside. Without it averages over
    draws, none of which is outside, would differ from means of the region by a part of their error.

    Parameters
    ----------
    component : Component
    alive : ndarray, shape (n, d)
        Draws from the target, or other points of positive density.
    dead : ndarray, shape (m, d), optional
        Points where it is zero.
    """

    def __init__(self, component: Component, alive: np.ndarray, dead: np.ndarray | None = None):
        z = np.unique(component.coordinates(alive), axis=0)
        behind = z[:0] if dead is None else np.unique(component.coordinates(dead), axis=0)
        self.radius = _MARGIN * float(cKDTree(z).query(z, k=2)[0][:, 1].max())
        self._component = component
        points, living = np.vstack([z, behind]), np.arange(len(z) + len(behind)) < len(z)
        self._tree, self._living = cKDTree(points), cKDTree(z)
        self._alive = np.append(living, False)  # the last is for points that are too far from all
        self.region = Region(points, living, self.radius**2)

    def contains(self, z: np.ndarray) -> np.ndarray:
        """Return whether the rows of z (n, d), in the surrogate's coordinates, are inside: (n,)."""
        return self._alive[self._tree.query(z, distance_upper_bound=self.radius)[1]]

    def beside(self, x: np.ndarray) -> np.ndarray:
        """Return whether points x (n, d) are near a living one, inside or not: (n,)."""
        return self._living.query(self._component.coordinates(x))[0] <= self.radius

    def contains_points(self, x: np.ndarray, *, by_others: bool = False) -> np.ndarray:
        """Return whether points x (..., d) are inside: (...).

        By others: an evaluated point does not count for itself, as it must not choose the region
        that it is in.
        """
        z = self._component.coordinates(x.reshape(-1, x.shape[-1]))
        if not by_others:
            return self.contains(z).reshape(x.shape[:-1])
        distance, which = self._tree.query(z, k=2, distance_upper_bound=self.radius)
        chosen = np.where(distance[:, 0] == 0.0, which[:, 1], which[:, 0])
        return self._alive[chosen].reshape(x.shape[:-1])


class Domain:
    """The region without dead mass of a surrogate, one part for each of its modes.

    Parameters
    ----------
    density : Density
    alive, dead : ndarray, shape (n, d) and (m, d)
        Evaluated points where the target's density is positive, and where it is zero.

    Raises
    ------
    UnknownMode
        A mode has too few draws.
    """

    def __init__(self, density: Density, alive: np.ndarray, dead: np.ndarray):
        self._components = density.components
        homes = self._home(alive), self._home(dead)
        check_modes(homes[0], len(density.components))
        self.parts = [
            Nearby(part, thinned(alive[homes[0] == k]), thinned(dead[homes[1] == k]))
            for k, part in enumerate(density.components)
        ]

    def contains_points(self, x: np.ndarray, *, by_others: bool = False) -> np.ndarray:
        """Return whether points x (..., d) are inside the part of their mode: (...)."""
        rows = x.reshape(-1, x.shape[-1])
        home = self._home(rows)
        found = np.zeros(len(rows), bool)
        for k, part in enumerate(self.parts):
            found[home == k] = part.contains_points(rows[home == k], by_others=by_others)
        return found.reshape(x.shape[:-1])

    def beside(self, x: np.ndarray) -> np.ndarray:
        """Return whether points x (n, d) are near a living one of their mode: (n,)."""
        home = self._home(x)
        found = np.zeros(len(x), bool)
        for k, part in enumerate(self.parts):
            found[home == k] = part.beside(x[home == k])
        return found

    def _home(self, rows):
        return np.argmax([component.log_density(rows) for component in self._components], axis=0)


def check_modes(home: np.ndarray, n_modes: int) -> None:
    """Raise UnknownMode if one of them is hardly any point's home."""
    if np.bincount(home, minlength=n_modes).min() < _FEWEST:
        raise UnknownMode(f"a mode of the surrogate has fewer than {_FEWEST} draws")


def thinned(points: np.ndarray) -> np.ndarray:
    """Return at most ``_MOST`` of the points, evenly spaced."""
    return points[:: -(-len(points) // _MOST) or 1]
