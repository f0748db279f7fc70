"""Points of warm-up that may be in another mode: those that the states have left, and exchanges of labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.spatial import cKDTree

from kmc.mcmc.history import History
from kmc.surrogates.whitening import whiten_states

# Set by hand.
_MORE = 2.0  # nats, plus half the dimension: points less deep than that are in the bulk
_USUAL = 0.95  # quantile of distances between neighboring states: the usual distance
_FEWEST_PER_DIM, _FEWEST_MORE = 2, 2  # states that show what is far, at least
_LEFT = 4.0  # times the usual distance: such points join the states ...
_MOST = 0.5  # ... at most half as many as there are


def left_behind(history: History, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Evaluated points of the bulk, (k, d), that are far from all states (n, d): at most half as many.

    Distances are relative to the states' covariance. With few states there are none, as nothing is far from them then.
    """
    dim = states.shape[1]
    if len(states) < fewest_states(dim):
        return states[:0]
    x, white = history.x[in_bulk(history.log_density, dim)], whiten_states(states)
    tree = cKDTree(white(states))
    far = np.flatnonzero(tree.query(white(x))[0] > _LEFT * usual_distance(tree))
    return x[rng.permutation(far)[: int(_MOST * len(states))]]


def fewest_states(dim: int) -> int:
    """States that show what is far, at least."""
    return _FEWEST_PER_DIM * dim + _FEWEST_MORE


def in_bulk(values: np.ndarray, dim: int) -> np.ndarray:
    """Which of the log-densities (n,) are those of points in the bulk."""
    return values > values.max() - 0.5 * dim - _MORE


def usual_distance(tree: cKDTree) -> float:
    """The usual distance between neighboring states, of which the tree is made."""
    return float(np.quantile(tree.query(tree.data, k=2)[0][:, 1], _USUAL))


# Points with exchanged blocks of coordinates: where labels can be exchanged, they are as high, in another mode.

_KINDS = 2, 3  # numbers of like groups that are tried


def exchanges(x: np.ndarray, most: int) -> np.ndarray:
    """At most so many points (k, d) that differ from x (d,) by an exchange of two groups.

    The coordinates, or all but the first or last few of them, are divided into two or three groups
    of equal size: (a1, b1, a2, b2) or (a1, a2, b1, b2). Beside two groups, one coordinate is a weight on
    the logit scale, perhaps, and changes its sign in half of the points.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.mcmc.unvisited import exchanges
    >>> exchanges(np.array([1.0, 2.0, 3.0, 4.0]), 2)
    array([[2., 1., 4., 3.],
           [3., 4., 1., 2.]])
    """
    found = np.array(list(_exchanged(x))).reshape(-1, len(x))
    different = found[np.any(found != x, axis=1)]
    _, first = np.unique(different, axis=0, return_index=True)
    return different[np.sort(first)[:most]]


def _exchanged(x: np.ndarray) -> Iterator[np.ndarray]:
    for count in _KINDS:
        rest = len(x) % count
        if len(x) < count:
            return
        for start in {0, rest}:
            inside = slice(start, start + len(x) - rest)
            for shape, axis in (((-1, count), 1), ((count, -1), 0)):
                order = np.arange(count)
                order[:2] = 1, 0
                point = x.copy()
                point[inside] = np.take(x[inside].reshape(shape), order, axis).ravel()
                yield point
                if rest == 1 and count == 2:
                    outside = np.ones(len(x), bool)
                    outside[inside] = False
                    yield np.where(outside, -point, point)
