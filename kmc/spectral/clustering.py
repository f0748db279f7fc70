"""Clusters in the feature space of a kernel, by k-means in an embedding."""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from kmc.bases import general
from kmc.checks import check_count
from kmc.errors import KmcWarning
from kmc.forms.stream import length
from kmc.seeds import Seed, as_generator
from kmc.spectral.kernel_embeddings import (
    KernelEmbedding,
    KernelJL,
    KernelPCA,
    NystromEmbedding,
    check_repeatable,
)

EMBEDDINGS: dict[str, type[KernelEmbedding]] = {
    "nystrom": NystromEmbedding,
    "kernel-pca": KernelPCA,
    "kernel-jl": KernelJL,
}

_MOST_ITERATIONS = 300
_STALLED = 1e-6  # relative decrease of the inertia


@dataclass(frozen=True, eq=False)
class KernelClusters:
    """Result of :func:`kernel_kmeans`.

    Attributes
    ----------
    labels : ndarray of int, shape (n,)
        Number of each point's cluster, 0 to n_clusters - 1.
    centers : ndarray, shape (n_clusters, n_components)
        Means of the clusters in the embedding.
    inertia : float
        Sum of squared distances of the points to the centers, in the embedding.
    embedding : transformer
        The fitted embedding.
    """

    labels: np.ndarray
    centers: np.ndarray
    inertia: float
    embedding: Any

    def predict(self, X: Any) -> np.ndarray:
        """Return the number of the center nearest to each row of X, shape (n,).

        X is as for the embedding's ``transform``.
        """
        return nearest(np.asarray(self.embedding.transform(X)), self.centers)[0]


def kernel_kmeans(
    X: Any,
    n_clusters: int,
    embedding: Any = "nystrom",
    *,
    n_init: int = 10,
    random_state: Seed = None,
) -> KernelClusters:
    """Kernel k-means: Lloyd's algorithm on an embedding of the kernel's features.

    Parameters
    ----------
    X : array_like, shape (n, d), memory map, dask array or list of these
        An iterator of blocks, which can be read only once, needs a fitted embedding.
    n_clusters : int
        At least 1, and at most the number of distinct points.
    embedding : {"nystrom", "kernel-pca", "kernel-jl"} or transformer
        By name, an embedding with a Gaussian kernel at the median distance, and with the sizes of
        Kpotufe and Sriperumbudur (2020), section 5.2: at most 10 n_clusters components, and a
        subsample of n/100 points but at least 200. A copy of an object with ``fit`` and
        ``transform`` is fitted to X; a fitted one is used unchanged.
    n_init : int
        Runs of Lloyd's algorithm from different k-means++ starts; the one with the smallest inertia
        is returned.
    random_state : int, Generator or None
        For an embedding by name, and for the starts.

    Returns
    -------
    KernelClusters

    Raises
    ------
    ValueError, TypeError
        A parameter is out of its range, or there are fewer distinct points than clusters; the
        message names it.

    Notes
    -----
    Time is that of the embedding plus O(n n_clusters n_components) for each iteration of each run.
    The embedded points are kept in memory, O(n n_components).

    Examples
    --------
    Two rings, which no straight line separates:

    >>> import numpy as np
    >>> from kmc.spectral import KernelPCA, kernel_kmeans
    >>> angle, ring = np.linspace(0, 60, 400), np.arange(400) % 2
    >>> X = (1 + 4 * ring)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    >>> embedding = KernelPCA(n_components=2, bandwidth=2.0)
    >>> labels = kernel_kmeans(X, 2, embedding, random_state=0).labels
    >>> bool(np.all((labels == labels[0]) == (ring == ring[0])))
    True
    """
    options = SimpleNamespace(n_clusters=n_clusters, n_init=n_init)
    check_count(options, "n_clusters", 1)
    check_count(options, "n_init", 1)
    for_embedding, for_starts = as_generator(random_state).spawn(2)
    fitted = _fitted(embedding, X, n_clusters, for_embedding)
    partition = kmeans(np.asarray(fitted.transform(X)), n_clusters, for_starts, n_init)
    return KernelClusters(*partition, embedding=fitted)


class Partition(NamedTuple):
    """Points in clusters."""

    labels: np.ndarray  # (n,) int
    centers: np.ndarray  # (k, d), the means of the clusters
    inertia: float  # Σ |x - its center|²


def kmeans(
    points: np.ndarray, n_clusters: int, rng: np.random.Generator, n_init: int = 10
) -> Partition:
    """Return the partition with the smallest inertia of several runs of Lloyd's algorithm.

    Every run starts from centers drawn with greedy k-means++ (Arthur and Vassilvitskii 2007), and
    ends when no label changes, when the inertia decreases by less than 1e-6 of itself, or after 300
    iterations. A cluster that loses all its points gets the point farthest from its center.

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
    >>> from kmc.spectral.clustering import kmeans
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
        (_lloyd(centered, _seeds(centered, n_clusters, rng)) for _ in range(n_init)),
        key=lambda run: run.inertia,
    )
    return best._replace(centers=best.centers + center)


def nearest(points: np.ndarray, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each point's nearest center, as a number (n,), and the squared distance to it (n,)."""
    norms = np.einsum("ij,ij->i", centers, centers)
    labels, distances = np.empty(len(points), int), np.empty(len(points))
    for rows in general.slices(len(points), len(centers)):
        s = points[rows] @ (-2.0 * centers.T) + norms
        labels[rows] = s.argmin(axis=1)
        distances[rows] = np.take_along_axis(s, labels[rows, None], axis=1)[:, 0]
    distances += np.einsum("ij,ij->i", points, points)
    return labels, np.maximum(distances, 0.0)


def _fitted(embedding, X, n_clusters, rng):
    """Return an embedding fitted to X; return a fitted object as it is, without reading X."""
    expected = f"expected {', '.join(map(repr, EMBEDDINGS))}, or an object with fit and transform"
    if isinstance(embedding, str):
        if embedding not in EMBEDDINGS:
            raise ValueError(f"embedding={embedding!r}: {expected}")
        check_repeatable(X)
        n = length(X)
        n_basis = 200 if n is None else max(200, n // 100)
        named = EMBEDDINGS[embedding](
            n_components=10 * n_clusters, n_basis=n_basis, random_state=rng
        )
        with warnings.catch_warnings():
            # the number of components was not the user's choice
            warnings.simplefilter("ignore", KmcWarning)
            return named.fit(X)
    if isinstance(embedding, type) or not (
        hasattr(embedding, "fit") and hasattr(embedding, "transform")
    ):
        raise TypeError(f"embedding={embedding!r}: {expected}")
    if _is_fitted(embedding):
        return embedding
    check_repeatable(X)
    return copy.deepcopy(embedding).fit(X)


def _is_fitted(estimator):
    """Return whether an estimator is fitted, by scikit-learn's rule.

    The rule is ``__sklearn_is_fitted__``, or an attribute that ends in an underscore.
    """
    if hasattr(estimator, "__sklearn_is_fitted__"):
        return estimator.__sklearn_is_fitted__()
    return any(name.endswith("_") and not name.startswith("__") for name in vars(estimator))


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
    """Return the means of the clusters.

    An empty one gets the worst point of another, which then is its own center.
    """
    counts = np.bincount(labels, minlength=count)
    for empty in np.flatnonzero(counts == 0):
        worst = np.argmax(np.where(counts[labels] > 1, distances, -1.0))
        counts[labels[worst]] -= 1
        labels[worst], distances[worst], counts[empty] = empty, 0.0, 1
    members = sparse.csr_array(
        (np.ones(len(points)), (labels, np.arange(len(points)))), shape=(count, len(points))
    )
    return (members @ points) / counts[:, None]


def _seeds(points, count, rng):
    """Draw starting centers by greedy k-means++.

    Each further center is the best of a few points, drawn with probability proportional to the
    squared distance from the centers so far.
    """
    norms = np.einsum("ij,ij->i", points, points)
    chosen = [int(rng.integers(len(points)))]
    squared = _apart(points, norms, chosen)[0]
    for k in range(1, count):
        cumulative = np.cumsum(squared)
        if not cumulative[-1] > 0:
            raise ValueError(
                f"n_clusters={count}: only {k} of the points are distinct, ask for fewer"
            )
        drawn = np.searchsorted(
            cumulative, rng.random(2 + int(math.log(count))) * cumulative[-1], side="right"
        )
        candidates = np.minimum(drawn, len(points) - 1)
        trials = np.minimum(_apart(points, norms, candidates), squared)
        best = int(np.argmin(trials.sum(axis=1)))
        chosen.append(int(candidates[best]))
        squared = trials[best]
    return points[chosen]


def _apart(points, norms, chosen):
    """Return the squared distances of all points to some of them, (len(chosen), n).

    Those to themselves and to equal points are 0.
    """
    out = (-2.0 * points[chosen]) @ points.T
    out += norms
    out += norms[chosen][:, None]
    out[out < 1e-13 * norms.max()] = 0.0
    return out
