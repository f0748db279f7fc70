"""Kernel sections in another array library, for sums over samples that live there; see :mod:`kmc.arrays`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kmc.arrays import Home
from kmc.kernels.elsewhere import profile


class BasisElsewhere(Protocol):
    """Values and the Dirichlet form of a basis, at points (n, d) in an array of its library."""

    def values(self, x: Any) -> Any:
        """(n, p)."""

    def sum_dirichlet(self, x: Any, weights: Any) -> Any:
        """Sum over x of w <∇φ_a, ∇φ_b>, (p, p)."""


class SectionsElsewhere:
    """Sections of q(|A(x - y)|²), as :class:`kmc.bases.section_forms.RadialForms`.

    Points are centered in their own type, before they are converted to the type of the sums: an offset costs no digits.
    """

    def __init__(self, postfix: Any, metric: np.ndarray | None, centers: np.ndarray, home: Home):
        self._postfix, self._home = postfix, home
        origin = centers.mean(axis=0)
        self._origin = home.put(origin, home.widest)
        metric = np.eye(centers.shape[1]) if metric is None else metric
        self._map = home.put(metric.T)
        self._pull = home.put(metric.T @ metric)
        self._mapped = home.put((centers - origin) @ metric.T)
        self._pulled = home.put((centers - origin) @ (metric.T @ metric))

    def values(self, x: Any) -> Any:
        """(n, m)."""
        return self._profile(self._centered(x), False)[0]

    def sum_dirichlet(self, x: Any, weights: Any) -> Any:
        """½ [(T∘S)ᵀT + Tᵀ(T∘S) - D ∘ TᵀT] with T = 2 √w q', S and D the distances of points pulled by AᵀA."""
        x = self._centered(x)
        t = 2.0 * self._profile(x, True)[1] * self._home.xp.sqrt(weights)[:, None]
        cross = (self._squares(x @ self._pull, self._pulled) * t).T @ t
        return 0.5 * (cross + cross.T - self._squares(self._pulled, self._pulled) * (t.T @ t))

    def _centered(self, x):
        origin = self._origin
        if x.dtype != origin.dtype:
            origin = self._home.xp.astype(origin, x.dtype)
        return self._home.put(x - origin)

    def _profile(self, x, slopes):
        return profile(self._home.xp, self._postfix, self._squares(x @ self._map, self._mapped), slopes)

    def _squares(self, x, y):
        """Squared distances, never negative."""
        xp = self._home.xp
        s = xp.sum(x * x, axis=1)[:, None] + xp.sum(y * y, axis=1)[None, :] - 2.0 * (x @ y.T)
        return xp.where(s > 0.0, s, xp.zeros_like(s))


@dataclass(frozen=True)
class CombinationsElsewhere:
    """Combinations φᵀW of a basis."""

    basis: BasisElsewhere
    matrix: Any  # W, (p, r)

    def values(self, x: Any) -> Any:
        """(n, r)."""
        return self.basis.values(x) @ self.matrix

    def sum_dirichlet(self, x: Any, weights: Any) -> Any:
        """(r, r)."""
        return self.matrix.T @ self.basis.sum_dirichlet(x, weights) @ self.matrix
