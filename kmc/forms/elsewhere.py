"""Sums over blocks of samples in another array library, or in single precision; see :mod:`kmc.arrays`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kmc.arrays import Home, to_numpy
from kmc.bases.elsewhere import BasisElsewhere
from kmc.forms.lagged import Lagged
from kmc.forms.sums import Forms

SUPPORTED = {"mass", "dirichlet", "lagged"}


def sums_elsewhere(
    basis: BasisElsewhere, home: Home, forms: Sequence[str], x: Any, phi: Any, weights: np.ndarray
) -> Forms:
    """The forms "mass" and "dirichlet" of a block x (n, d) with weights (n,); ``phi`` are the values for "mass"."""
    out: dict[str, Any] = {"weight": float(weights.sum())}
    w = home.put(weights)
    if "mass" in forms:
        total, rows = _centered(home, w, phi)
        out["mean"], out["mass_scatter"] = _sum(total), _sum(rows.T @ rows)
    if "dirichlet" in forms:
        out["dirichlet"] = _sum(basis.sum_dirichlet(x, w))
    return Forms(**out)


class PairsElsewhere:
    """Moments of pairs of rows a lagtime apart, as :class:`kmc.forms.lagged.Pairs`; a block is of one trajectory."""

    def __init__(self, lagtime: int, home: Home):
        self._lagtime, self._home = lagtime, home
        self._kept: Any = None

    def push(self, trajectory: int, phi: Any, weights: np.ndarray, labels: np.ndarray) -> list[tuple[int, Lagged]]:
        """Take the next rows (n, p), and return the moments of the new pairs of each label."""
        if self._kept is not None and self._kept[0] == trajectory:
            _, values, *companions = self._kept
            xp = self._home.xp
            phi = np.concatenate([values, phi]) if xp is np else xp.concat([values, phi])
            weights, labels = (np.concatenate(both) for both in zip(companions, (weights, labels), strict=True))
        start = max(len(weights) - self._lagtime, 0)
        self._kept = trajectory, phi[start:, :], weights[start:], labels[start:]
        first, second = phi[:start, :], phi[len(weights) - start :, :]
        return [
            (int(label), self._moments(first, second, np.where(labels[:start] == label, weights[:start], 0.0)))
            for label in np.unique(labels[:start])
        ]

    def _moments(self, first, second, weights):
        w = self._home.put(weights)
        (a, rows), (b, later) = _centered(self._home, w, first), _centered(self._home, w, second)
        arrays = (a, b, rows.T @ rows, later.T @ later, rows.T @ later)
        return Lagged(float(weights.sum()), *(_sum(array) for array in arrays))


def _centered(home, w, a):
    """Σ w a, and the rows √w (a - ā), as :func:`kmc.forms.scatter.centered`."""
    total = w @ a
    weight = float(home.xp.sum(w))
    mean = total / weight if weight > 0 else total
    return total, (a - mean) * home.xp.sqrt(w)[:, None]


def _sum(a):
    return to_numpy(a).astype(float)
