"""Choice of landmark points from a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.cluster.vq import kmeans2

from kmc.arrays import as_array, check_magnitude
from kmc.kernels.derivatives import kernel_derivative
from kmc.njit import njit

_BLOCK = 64  # points whose diagonal entries are computed together
METHODS = ("uniform", "pivoted-cholesky", "k-means")


def choose(
    method: Any, points: np.ndarray, count: int, rng: np.random.Generator, kernel: Any = None
) -> np.ndarray:
    """Choose landmarks by the name of a method, or return those that the user gave.

    Parameters
    ----------
    method : {"uniform", "pivoted-cholesky", "k-means"} or array_like, shape (m, d)
        "uniform": distinct points of the sample, at random. "pivoted-cholesky": one at a time, the
        point with the largest remaining diagonal entry of the kernel matrix (Fine and Scheinberg
        2001), the most even of the three. "k-means": centers of clusters, which are not points of
        the sample.
    points : ndarray, shape (n, d)
    count : int
        Largest number of landmarks; all distinct points if there are fewer.
    rng : Generator
    kernel : kernel
        For "pivoted-cholesky".

    Returns
    -------
    ndarray, shape (m, d)
    """
    if not isinstance(method, str):
        return _given(method, points.shape[1])
    if method not in METHODS:
        raise ValueError(
            f"landmarks={method!r}: expected {', '.join(map(repr, METHODS))} or an array of shape "
            f"(m, d)"
        )
    _, first = np.unique(points, axis=0, return_index=True)
    distinct = points[np.sort(first)]
    if len(distinct) <= count:
        return distinct
    if method == "uniform":
        return distinct[rng.choice(len(distinct), count, replace=False)]
    if method == "pivoted-cholesky":
        return distinct[pivots(kernel, distinct, count)]
    scale = distinct.std(axis=0)
    centers, labels = kmeans2(distinct / scale, count, minit="++", seed=rng)
    return centers[np.unique(labels)] * scale


def pivots(kernel: Any, points: np.ndarray, count: int) -> np.ndarray:
    """Return the pivot indices of an incomplete Cholesky factorization of the kernel matrix.

    It takes O(n count²) time. Fewer than ``count`` are returned if the remaining matrix is
    numerically zero.
    """
    residual = _diagonal(kernel, points)
    floor = 1e-12 * residual.max()
    factor = np.empty((len(points), count))
    chosen: list[int] = []
    for k in range(count):
        pivot = int(np.argmax(residual))
        if residual[pivot] <= floor:
            break
        column = (
            kernel_derivative(kernel, "k", points, points[pivot : pivot + 1])[:, 0]
            - factor[:, :k] @ factor[pivot, :k]
        )
        factor[:, k] = column / np.sqrt(residual[pivot])
        residual = np.maximum(residual - factor[:, k] ** 2, 0.0)
        residual[pivot] = 0.0
        chosen.append(pivot)
    return np.array(chosen)


def _diagonal(kernel, points):
    parts = (points[start : start + _BLOCK] for start in range(0, len(points), _BLOCK))
    return np.concatenate(
        [np.diagonal(kernel_derivative(kernel, "k", part, part)) for part in parts]
    ).copy()


def _given(points, dim):
    given = as_array("landmarks", points)
    if given.ndim != 2 or given.shape[1] != dim or not len(given) or not np.all(np.isfinite(given)):
        raise ValueError(
            f"landmarks has shape {given.shape}: expected finite points of shape (m, {dim}), m >= 1"
        )
    check_magnitude("landmarks", given)
    return given


def spread(
    points: np.ndarray,
    count: int,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
    rim: float = 0.25,
) -> np.ndarray:
    """Return the indices of ``count`` points.

    A part of them is random, and farthest points cover the edge, too.

    Parameters
    ----------
    points : ndarray, shape (n, d)
    count : int
        All points are returned when n <= count.
    rng : Generator
    weights : ndarray, shape (n,), optional
        The probabilities of the random part are proportional to them; positive, uniform by default.
    rim : float
        Fraction of farthest points, in [0, 1].

    Returns
    -------
    ndarray of int, shape (min(n, count),)
    """
    if len(points) <= count:
        return np.arange(len(points))
    n_random = max(round((1 - rim) * count), 1)
    p = None if weights is None else weights / weights.sum()
    sample = rng.choice(len(points), n_random, replace=False, p=p)
    return _farthest(np.ascontiguousarray(points), sample, count)


@njit()
def _farthest(points, chosen, count):
    n, d = points.shape
    nearest = np.full(n, np.inf)
    out = np.empty(count, np.int64)
    for step in range(count):
        out[step] = chosen[step] if step < len(chosen) else np.argmax(nearest)
        center = points[out[step]]
        for i in range(n):
            s = 0.0
            for j in range(d):
                s += (points[i, j] - center[j]) ** 2
            nearest[i] = min(nearest[i], s)
    return out
