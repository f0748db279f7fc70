"""Clusters in the feature space of a kernel, by k-means in an embedding."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from kmc.checks import as_generator, check_count
from kmc.deprecation import renamed_fields
from kmc.errors import KmcWarning
from kmc.forms.stream import length
from kmc.spectral.embedding import KernelEmbedding, check_repeatable
from kmc.spectral.kernel_jl import KernelJL
from kmc.spectral.kernel_pca import KernelPCA
from kmc.spectral.kmeans import kmeans, nearest
from kmc.spectral.nystrom_embedding import NystromEmbedding

EMBEDDINGS: dict[str, type[KernelEmbedding]] = {
    "nystrom": NystromEmbedding,
    "kernel-pca": KernelPCA,
    "kernel-jl": KernelJL,
}


@renamed_fields(centres="centers")
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
        """Number of the nearest center of each row of X, shape (n,); X as for the embedding's ``transform``."""
        return nearest(self.embedding.transform(X), self.centers)[0]


def kernel_kmeans(
    X: Any, n_clusters: int, embedding: Any = "nystrom", *, n_init: int = 10, random_state: Any = None
) -> KernelClusters:
    """Kernel k-means: Lloyd's algorithm on an embedding of the kernel's features.

    Parameters
    ----------
    X : array_like, shape (n, d), memory map, dask array or list of these
        An iterator of blocks, which can be read only once, needs a fitted embedding.
    n_clusters : int
        At least 1, and at most the number of distinct points.
    embedding : {"nystrom", "kernel-pca", "kernel-jl"} or transformer
        By name, an embedding with a Gaussian kernel at the median distance, and with the sizes of Kpotufe and
        Sriperumbudur (2020), section 5.2: at most 10 n_clusters components, and a subsample of n/100 points but at
        least 200. A copy of an object with ``fit`` and ``transform`` is fitted to X; a fitted one is used unchanged.
    n_init : int
        Runs of Lloyd's algorithm from different k-means++ starts; the one with the smallest inertia is returned.
    random_state : int, Generator or None
        For an embedding by name, and for the starts.

    Returns
    -------
    KernelClusters

    Raises
    ------
    ValueError, TypeError
        A parameter is out of its range, or there are fewer distinct points than clusters; the message names it.

    Notes
    -----
    Time is that of the embedding plus O(n n_clusters n_components) for each iteration of each run. The embedded
    points are kept in memory, O(n n_components).

    Examples
    --------
    Two rings, which no straight line separates:

    >>> import numpy as np
    >>> from kmc.spectral import KernelPCA, kernel_kmeans
    >>> angle, ring = np.linspace(0, 60, 400), np.arange(400) % 2
    >>> X = (1 + 4 * ring)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    >>> labels = kernel_kmeans(X, 2, KernelPCA(n_components=2, bandwidth=2.0), random_state=0).labels
    >>> bool(np.all((labels == labels[0]) == (ring == ring[0])))
    True
    """
    options = SimpleNamespace(n_clusters=n_clusters, n_init=n_init)
    check_count(options, "n_clusters", 1)
    check_count(options, "n_init", 1)
    for_embedding, for_starts = as_generator(random_state).spawn(2)
    fitted = _fitted(embedding, X, n_clusters, for_embedding)
    partition = kmeans(fitted.transform(X), n_clusters, for_starts, n_init)
    return KernelClusters(*partition, embedding=fitted)


def _fitted(embedding, X, n_clusters, rng):
    """An embedding fitted to X; X is not read if it is fitted already."""
    expected = f"expected {', '.join(map(repr, EMBEDDINGS))}, or an object with fit and transform"
    if isinstance(embedding, str):
        if embedding not in EMBEDDINGS:
            raise ValueError(f"embedding={embedding!r}: {expected}")
        check_repeatable(X)
        n = length(X)
        n_basis = 200 if n is None else max(200, n // 100)
        named = EMBEDDINGS[embedding](n_components=10 * n_clusters, n_basis=n_basis, random_state=rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KmcWarning)  # the number of components was not the user's choice
            return named.fit(X)
    if isinstance(embedding, type) or not (hasattr(embedding, "fit") and hasattr(embedding, "transform")):
        raise TypeError(f"embedding={embedding!r}: {expected}")
    if _is_fitted(embedding):
        return embedding
    check_repeatable(X)
    return copy.deepcopy(embedding).fit(X)


def _is_fitted(estimator):
    """By scikit-learn's rule: by ``__sklearn_is_fitted__``, or an attribute that ends in an underscore."""
    if hasattr(estimator, "__sklearn_is_fitted__"):
        return estimator.__sklearn_is_fitted__()
    return any(name.endswith("_") and not name.startswith("__") for name in vars(estimator))
