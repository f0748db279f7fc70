"""Partial derivatives ∂^α in the first argument of any kernel, where α is a multi-index of order up to four.

With M = AᵀA of the metric A and v = M (x - y), a radial kernel q(s), s = (x - y)ᵀM(x - y), has ∂_i s = 2 v_i, ∂_i ∂_j s
= 2 M_ij, and all higher ones vanish. By Faà di Bruno's formula ∂_i ∂_j ... q is the sum, over all ways to leave some of
the axes single and to pair the others, of q^(singles + pairs) ∏ 2 v_i ∏ 2 M_ij. For a dot-product kernel q(t), t =
xᵀMy, it is q^(k) ∏ (My)_i.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from kmc.kernels.algebra import Kernel, Product, Scale, Sum
from kmc.kernels.metric import Metric, composed, mapped, squared_distances

Axes = tuple[int, ...]


def derivative(kernel: Kernel, index: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """∂^α k(x, y) in x at all pairs of points, shape (n, m).

    If the kernel is not smooth enough at coincident points (``kernel.differentiability``), divergent derivatives are
    set to 0 there.

    Parameters
    ----------
    kernel : Kernel
    index : sequence of int
        α: the number of derivatives in each of the d coordinates, at most four in total.
    x : ndarray, shape (n, d)
    y : ndarray, shape (m, d)

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Gaussian, derivative
    >>> derivative(Gaussian(), (2, 0), np.zeros((1, 2)), np.zeros((1, 2)))
    array([[-1.]])
    """
    return _derivative(kernel, axes_of(index, x.shape[1]), x, y, None)


def axes_of(index: Any, dim: int) -> Axes:
    """The axes of the derivatives in a multi-index, with repetitions: (2, 0, 1) gives (0, 0, 2)."""
    alpha = np.asarray(index)
    if alpha.shape != (dim,) or alpha.dtype.kind not in "iu" or np.any(alpha < 0):
        raise ValueError(f"index={index!r}: expected {dim} whole numbers, how often each coordinate is derived")
    return tuple(int(i) for i in np.repeat(np.arange(dim), alpha))


def _derivative(kernel: Any, axes: Axes, x: np.ndarray, y: np.ndarray, metric: np.ndarray | None) -> np.ndarray:
    if isinstance(kernel, Metric):
        return _derivative(kernel.kernel, axes, x, y, composed(kernel.matrix, metric))
    if kernel.kind == "distance":
        return _radial(kernel, axes, x, y, metric)
    if kernel.kind == "inner-product":
        return _dot_product(kernel, axes, x, y, metric)
    if isinstance(kernel, Scale):
        return kernel.factor * _derivative(kernel.kernel, axes, x, y, metric)
    if isinstance(kernel, Sum):
        return _derivative(kernel.left, axes, x, y, metric) + _derivative(kernel.right, axes, x, y, metric)
    if isinstance(kernel, Product):
        total = 0.0
        for chosen, rest in _splits(axes):
            left, right = _derivative(kernel.left, chosen, x, y, metric), _derivative(kernel.right, rest, x, y, metric)
            total = total + left * right
        return np.asarray(total)
    raise TypeError(f"kernel={kernel!r}: its kind is {kernel.kind!r}, expected 'distance' or 'inner-product'")


def _radial(kernel, axes, x, y, metric):
    """Differences are computed after centering: an offset costs no digits."""
    center = y.mean(axis=0) if len(y) else np.zeros(y.shape[1])
    x, y = x - center, y - center
    matrix = np.eye(x.shape[1]) if metric is None else metric.T @ metric
    s = squared_distances(x, y) if metric is None else squared_distances(mapped(x, metric), mapped(y, metric))
    q = kernel.derivatives(s, len(axes))
    along = {i: 2.0 * np.subtract.outer(x @ matrix[i], y @ matrix[i]) for i in set(axes)}
    total = np.zeros(s.shape)
    for singles, pairs in _matchings(axes):
        term = q[len(singles) + len(pairs)] * prod(2.0 * matrix[i, j] for i, j in pairs)
        for i in singles:
            term = term * along[i]
        total += term
    return total


def _dot_product(kernel, axes, x, y, metric):
    pulled = y if metric is None else y @ (metric.T @ metric)
    out = kernel.derivatives(x @ pulled.T, len(axes))[len(axes)]
    for i in axes:
        out = out * pulled[:, i]
    return out


def _matchings(axes: Axes) -> Iterator[tuple[Axes, tuple[tuple[int, int], ...]]]:
    """All ways to leave some axes single and pair the others."""
    if not axes:
        yield (), ()
        return
    first, rest = axes[0], axes[1:]
    for singles, pairs in _matchings(rest):
        yield (first, *singles), pairs
    for k, other in enumerate(rest):
        for singles, pairs in _matchings(rest[:k] + rest[k + 1 :]):
            yield singles, ((first, other), *pairs)


def _splits(axes: Axes) -> Iterator[tuple[Axes, Axes]]:
    """All ways to distribute the axes over two factors (Leibniz's rule)."""
    places = range(len(axes))
    for count in range(len(axes) + 1):
        for chosen in combinations(places, count):
            yield tuple(axes[k] for k in chosen), tuple(axes[k] for k in places if k not in chosen)
