"""Pairs of states a lagtime apart as trajectories, for code that reads trajectories."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kmc.estimator import as_points, check_weights

BLOCK = 2048
"""Pairs in a trajectory."""


class PairedTrajectories(NamedTuple):
    """First states of a block of pairs, followed by the second ones: the pairs are ``lagtime`` rows apart."""

    trajectories: list[np.ndarray]
    weights: list[np.ndarray]  # zero for the rows that fill up the last block
    lagtime: int


def paired(first: Any, second: Any, weights: Any = None) -> PairedTrajectories:
    """The same pairs, and no others, from arrays (n, d) of their first and second states and weights (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral.pairs import paired
    >>> found = paired(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]))
    >>> found.trajectories[0].ravel(), found.lagtime
    (array([1., 2., 3., 4.]), 2)
    """
    first, second = as_points(first), as_points(second, name="y")
    if first.shape != second.shape:
        raise ValueError(
            f"y has shape {second.shape} for X of shape {first.shape}: expected the same, the states a lagtime later"
        )
    w, block = check_weights(weights, len(first)), min(BLOCK, len(first))
    trajectories, all_weights = [], []
    for start in range(0, len(first), block):
        rows = np.minimum(np.arange(start, start + block), len(first) - 1)
        trajectories.append(np.concatenate([first[rows], second[rows]]))
        own = np.where(np.arange(start, start + block) < len(first), w[rows], 0.0)
        all_weights.append(np.concatenate([own, np.zeros(block)]))
    return PairedTrajectories(trajectories, all_weights, block)


def refuse_two(X: Any) -> None:
    """ValueError for a tuple of two arrays of the same shape: other libraries read it as pairs."""
    if isinstance(X, tuple) and len(X) == 2 and np.ndim(X[0]) == 2 and np.shape(X[0]) == np.shape(X[1]):
        raise ValueError(
            "X is a tuple of two arrays of the same shape, which can mean two things: for pairs of states a lagtime "
            "apart call with X and y, as in fit(first, second); for two trajectories give a list"
        )
