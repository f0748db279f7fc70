"""Kernel sections in another array library, for sums over samples that live there; see :mod:`kmc.arrays`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kmc.arrays import Home
from kmc.kernels import profiles
from kmc.kernels.program import GAUSSIAN, MATERN, POWER, PRODUCT, SUM, Instruction


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


# Radial kernels in another array library: the programs of :mod:`kmc.kernels.program`, up to the first derivative.
#
# Kernels with a kink are left out: where x = y, distances by products are not zero.


def profile(xp: Any, postfix: tuple[Instruction, ...], s: Any, slopes: bool) -> tuple[Any, Any]:
    """Q and, if ``slopes``, q' at squared distances, an array of the namespace ``xp``."""
    stack: list[tuple[Any, Any]] = []
    for code, first, second in postfix:
        if code in (SUM, PRODUCT):
            (g, g1), (f, f1) = stack.pop(), stack.pop()
            if code == SUM:
                stack.append((f + g, f1 + g1 if slopes else None))
            else:
                stack.append((f * g, f1 * g + f * g1 if slopes else None))
        elif code == GAUSSIAN:
            q = xp.exp(-first * s)
            stack.append((q, -first * q if slopes else None))
        elif code == POWER:
            w = 1.0 + first * s
            q = w ** (-second)
            stack.append((q, (-second * first) * q / w if slopes else None))
        elif code == MATERN:
            stack.append(_matern(xp, s, first, int(second), slopes))
        else:  # SCALE
            f, f1 = stack.pop()
            stack.append((first * f, first * f1 if slopes else None))
    return stack[0]


def _matern(xp, s, scale, start, slopes):
    a = xp.sqrt(scale * s)
    decay = xp.exp(-a)
    q = _shape(a, start) * decay
    if not slopes:
        return q, None
    return q, (-scale * float(profiles._STEP[start])) * _shape(a, start + 1) * decay


def _shape(a, number):
    c0, c1, c2, c3 = (float(c) for c in profiles._NUMERATOR[number])
    return c0 + a * (c1 + a * (c2 + a * c3))
