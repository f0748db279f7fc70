"""Lloyd's algorithm from k-means++ starts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import sparse

from kmc.bases import general

_MOST_ITERATIONS = 300
_STALLED = 1e-6  # relative decrease of the inertia


class Partition(NamedTuple):
    """Points in clusters."""

    labels: np.ndarray  # (n,) int
    centers: np.ndarray  # (k, d), the means of the clusters
    inertia: float  # Σ |x - its center|²


def kmeans(points: np.ndarray, n_clusters: int, rng: np.random.Generator, n_init: int = 10) -> Partition:
    """The partition with the smallest inertia of several runs of Lloyd's algorithm.

    Every run starts from centers drawn with greedy k-means++ (Arthur and Vassilvitskii 2007), and ends when no label
    changes or the inertia decreases by less than 1e-6 of itself. A cluster that loses all its points gets the point
    farthest from its center.

    Parameters
    ----------
    points : ndarray, shape (n, d)
        At least ``n_clusters`` distinct points.
    n_clusters : int
    rng : Generator
    n_init : int
        Number of runs.

    Raises
    ------
    ValueError
        There are fewer distinct points than clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral.kmeans import kmeans
    >>> points = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> partition = kmeans(points, 2, np.random.default_rng(0))
    >>> np.sort(partition.centers[:, 0])
    array([ 0.5, 10.5])
    >>> partition.inertia
    1.0
    """
    center = points.mean(axis=0)
    centered = points - center  # preserves the digits of |x|² - 2 x·c + |c|²
    best = min(
        (_lloyd(centered, _seeds(centered, n_clusters, rng)) for _ in range(n_init)), key=lambda run: run.inertia
    )
    return best._replace(centers=best.centers + center)


def nearest(points: np.ndarray, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number of the nearest center of each point (n,), and the squared distance to it (n,)."""
    norms = np.einsum("ij,ij->i", centers, centers)
    labels, distances = np.empty(len(points), int), np.empty(len(points))
    for rows in general.slices(len(points), len(centers)):
        s = points[rows] @ (-2.0 * centers.T) + norms
        labels[rows] = s.argmin(axis=1)
        distances[rows] = np.take_along_axis(s, labels[rows, None], axis=1)[:, 0]
    distances += np.einsum("ij,ij->i", points, points)
    return labels, np.maximum(distances, 0.0)


def _lloyd(points, centers):
    labels, distances = nearest(points, centers)
    inertia = distances.sum()
    for _ in range(_MOST_ITERATIONS):
        centers = _means(points, labels, distances, len(centers))
        moved, distances = nearest(points, centers)
        before, inertia = inertia, distances.sum()
        same = np.array_equal(moved, labels)
        labels = moved
        if same or before - inertia <= _STALLED * before:
            break
    return Partition(labels, centers, float(inertia))


def _means(points, labels, distances, count):
    """Means of the clusters; an empty one gets the worst point of another, which then is its own center."""
    counts = np.bincount(labels, minlength=count)
    for empty in np.flatnonzero(counts == 0):
        worst = np.argmax(np.where(counts[labels] > 1, distances, -1.0))
        counts[labels[worst]] -= 1
        labels[worst], distances[worst], counts[empty] = empty, 0.0, 1
    members = sparse.csr_array((np.ones(len(points)), (labels, np.arange(len(points)))), shape=(count, len(points)))
    return (members @ points) / counts[:, None]


def _seeds(points, count, rng):
    """Greedy k-means++: each further center is the best of a few points, drawn with probability proportional to the
    squared distance from the centers so far.
    """
    norms = np.einsum("ij,ij->i", points, points)
    chosen = [int(rng.integers(len(points)))]
    squared = _apart(points, norms, chosen)[0]
    for k in range(1, count):
        cumulative = np.cumsum(squared)
        if not cumulative[-1] > 0:
            raise ValueError(f"n_clusters={count}: only {k} of the points are distinct, ask for fewer")
        drawn = np.searchsorted(cumulative, rng.random(2 + int(math.log(count))) * cumulative[-1], side="right")
        candidates = np.minimum(drawn, len(points) - 1)
        trials = np.minimum(_apart(points, norms, candidates), squared)
        best = int(np.argmin(trials.sum(axis=1)))
        chosen.append(int(candidates[best]))
        squared = trials[best]
    return points[chosen]


def _apart(points, norms, chosen):
    """Squared distances of all points to some of them, (len(chosen), n); 0 to themselves and to equal ones."""
    out = (-2.0 * points[chosen]) @ points.T
    out += norms
    out += norms[chosen][:, None]
    out[out < 1e-13 * norms.max()] = 0.0
    return out
