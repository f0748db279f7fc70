"""Whether functions of a mode have less energy than the mode: then the basis did not represent it.

Among the functions g(f) of a mode f, the energy E g'(f)² |∇f|² is least, at unit variance, for an eigenfunction of a
Sturm–Liouville problem on a line. For a true eigenfunction that is f itself. Where a barrier is too sharp for the
basis, it is a step where f has a slope.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

NODES = 9
"""Nodes at quantiles of f, and as many at equal distances."""

LEAST_IN_INTERVAL = 30
"""Samples between two nodes."""


def least_quotient(f: np.ndarray, squares: np.ndarray, weights: np.ndarray) -> float:
    """The least Rayleigh quotient of piecewise linear functions of f, relative to that of f itself; at most one.

    Parameters
    ----------
    f, squares, weights : ndarray, shape (n,)
        f and |∇f|² at samples.
    """
    nodes = _nodes(f)
    if len(nodes) < 3:
        return 1.0
    w, width = weights / weights.sum(), np.diff(nodes)
    interval = np.clip(np.searchsorted(nodes, f, side="right") - 1, 0, len(width) - 1)
    high = np.clip((f - nodes[interval]) / width[interval], 0.0, 1.0)
    hats = np.zeros((len(f), len(nodes)))
    rows = np.arange(len(f))
    hats[rows, interval], hats[rows, interval + 1] = 1.0 - high, high
    conductance = np.bincount(interval, w * squares, len(width)) / width**2
    stiffness = np.diag(np.append(conductance, 0.0) + np.append(0.0, conductance))
    stiffness -= np.diag(conductance, 1) + np.diag(conductance, -1)
    mean = w @ hats
    mass = (hats * w[:, None]).T @ hats - np.outer(mean, mean)
    mass[np.diag_indices(len(mass))] += 1e-9 * np.trace(mass)
    inverse = linalg.eigh(mass[1:, 1:], stiffness[1:, 1:], eigvals_only=True)[-1]  # functions that vanish at a node
    own = np.sum(w * squares) / (w @ f**2 - (w @ f) ** 2)
    return min(1.0, 1.0 / (inverse * own)) if inverse > 0 else 1.0


def _nodes(f: np.ndarray) -> np.ndarray:
    """Ends of intervals with enough samples in each."""
    low, high = f.min(), f.max()
    proposed = np.concatenate([np.quantile(f, np.linspace(0, 1, NODES)), np.linspace(low, high, NODES)])
    ordered, kept = np.sort(f), [low]
    for node in np.unique(proposed)[1:-1]:
        inside = np.searchsorted(ordered, [kept[-1], node, high])
        if inside[1] - inside[0] >= LEAST_IN_INTERVAL <= inside[2] - inside[1]:
            kept.append(node)
    return np.array([*kept, high])
