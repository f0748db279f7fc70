"""Coordinates in which a hierarchical prior that the user declared has independent parameters.

It is the non-centered parametrization of Papaspiliopoulos, Roberts and Sköld (2007), "A general
framework for the parametrization of hierarchical models", Statistical Science 22.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kmc.njit import njit
from kmc.surrogate.known import (
    LARGEST_SD,
    SMALLEST_SD,
    Hierarchy,
    Transforms,
    check_arrays,
    check_columns,
    check_flags,
    check_splines,
    check_transforms,
    constrained,
)

_BETTER = 0.5  # nats for each parameter by which the other kind of coordinates is better


@dataclass(frozen=True, eq=False)
class NonCentered:
    """Coordinates u_i = (x_i - m_i) / s_i with prior mean m_i and standard deviation s_i of x_i.

    Both may be parameters. Parameters come after those that they depend on.
    """

    transforms: Transforms
    means: np.ndarray  # (d,) of int: the column of m_i, or -1
    sds: np.ndarray  # (d,) of int: the column of s_i, or -1
    # (d, 2): m_i and s_i that are numbers; 0 and 1 where x_i depends on no parameter
    numbers: np.ndarray

    driver: ClassVar[None] = None

    @property
    def depends(self) -> np.ndarray:
        """Return which parameters depend on others, (d,) of bool."""
        return (self.means >= 0) | (self.sds >= 0)

    @property
    def size(self) -> int:
        """Number of parameters that depend on others."""
        return int(np.sum(self.depends))

    def check(self, dim: int) -> None:
        """Raise a ValueError unless the fields are those of a map of ``dim`` coordinates."""
        check_transforms(self.transforms, dim)
        check_arrays(self, {"numbers": (dim, 2)})
        for name, columns in ("means", self.means), ("sds", self.sds):
            check_columns(name, columns, (dim,), -1, dim - 1)
            if np.any(columns >= np.arange(dim)):
                raise ValueError(
                    f"{name} has parameters that come before those that they depend on"
                )

    def only(self, some: np.ndarray) -> NonCentered:
        """Return coordinates in which others than some parameters (d,) of bool are as in x."""
        return NonCentered(
            self.transforms,
            np.where(some, self.means, -1),
            np.where(some, self.sds, -1),
            np.where(some[:, None], self.numbers, [0.0, 1.0]),
        )

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the coordinates u of the rows of x (n, d)."""
        means, sds = self._at(x)
        return (x - means) / sds

    def back(self, u: np.ndarray) -> np.ndarray:
        """Return the rows of x that have the coordinates u (n, d)."""
        x = u
        for _ in range(self._generations):
            means, sds = self._at(x)
            x = means + sds * u
        return x

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return log |du/dx| at the rows of x, shape (n,)."""
        return -np.log(self._at(x)[1]).sum(axis=1)

    @property
    def _generations(self) -> int:
        """The longest line of parameters that depend on each other."""
        lines = np.zeros(len(self.means) + 1, int)  # the last one is of column -1: numbers
        for i in np.flatnonzero(self.depends):
            lines[i] = 1 + max(lines[self.means[i]], lines[self.sds[i]])
        return int(lines.max())

    def _at(self, x):
        """Return the means and standard deviations (n, d) at the rows of x."""
        theta = _constrained(self.transforms, np.ascontiguousarray(x))
        means = np.where(self.means >= 0, theta[:, self.means], self.numbers[:, 0])
        sds = np.where(self.sds >= 0, theta[:, self.sds], self.numbers[:, 1])
        return means, np.clip(sds, SMALLEST_SD, LARGEST_SD)


def closer_to_normal(whole: NonCentered, now: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return which parameters (d,) are non-centered where draws (n, d) are closer to normal.

    All with the same mean and standard deviation are of one kind: that of ``now`` (d,), unless the
    other is better.
    """
    draws, chosen = np.unique(draws, axis=0), now
    if len(draws) <= 2 * draws.shape[1]:
        return now
    parents = np.column_stack([whole.means, whole.sds])
    for own in np.unique(parents[whole.depends], axis=0):
        family = np.all(parents == own, axis=1)
        before, after = (_entropy(whole.only(some), draws) for some in (chosen, chosen ^ family))
        if after < before - _BETTER * np.sum(family):
            chosen = chosen ^ family
    return chosen


def check_hierarchy(hierarchy: Hierarchy, dim: int) -> None:
    """Raise a ValueError unless compiled loops can read the arrays, for ``dim`` parameters."""
    NonCentered(*hierarchy[:4]).check(dim)
    check_splines(hierarchy.known, dim)
    check_flags("noncentered", hierarchy.noncentered, dim)
    check_arrays(hierarchy, {"center": (dim,), "whitening": (dim, dim)})


def _entropy(transport, draws):
    """Return the entropy of the normal density of x closest to draws (n, d), less a constant."""
    spread = np.linalg.slogdet(np.cov(transport(draws).T))[1]
    return 0.5 * spread - np.mean(transport.log_jacobian(draws))


@njit()
def _constrained(transforms, points):
    theta, slopes = np.empty(points.shape), np.empty(points.shape[1])
    for i in range(len(points)):
        constrained(transforms, points[i], theta[i], slopes)
    return theta
