"""Common parts of the embeddings of kernel features: a subsample of the data, and a projection matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from kmc.bases import KernelSections
from kmc.checks import Seed, as_generator, check_count
from kmc.errors import warn
from kmc.estimator import Estimator
from kmc.forms.stream import blocks, is_iterator, trajectories
from kmc.kernels import Kernel, kernel_of, median_distance
from kmc.selection import Numbers
from kmc.source import is_stream

BLOCK = 2048
"""Points per block."""

ROUNDING = 100.0 * np.finfo(float).eps
"""Fraction of the trace of a kernel matrix: if less remains after centering, it is rounding error."""


class KernelEmbedding(Estimator, ABC):
    """Base of the embeddings x -> Pᵀ k(x) - c, where k(x) are the values of the kernel between x and a subsample.

    A subclass's ``_project`` computes the matrix P and the constant c.
    """

    _transformer = True

    landmarks_: np.ndarray
    kernel_: Kernel
    bandwidth_: float
    projection_: np.ndarray
    offset_: np.ndarray

    def __init__(
        self,
        n_components: int = 10,
        kernel: str | Kernel = "gaussian",
        bandwidth: Numbers = "median",
        n_basis: int = 200,
        random_state: Seed = None,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.n_basis = n_basis
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the subsample, and compute the projection.

        Parameters
        ----------
        X : array_like, shape (n, d), memory map, dask array, iterator of blocks (k, d), or list of these
            n >= 2, not all of them equal. It is read once, in blocks.
        y : None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Points are not finite, too few or all equal, the kernel is constant over them, or a parameter is out of its
            range; the message names it.
        """
        check_count(self, "n_components", 1)
        check_count(self, "n_basis", 2)
        # a child seed: data made with the same seed must not determine the subsample or the sketch
        rng = as_generator(self.random_state).spawn(1)[0]
        if is_stream(X):
            drawn = draw((block.x for block in blocks(X, BLOCK)), self.n_basis, rng)
            subsample = self._check_points(drawn, fitting=True, least=2)
        else:
            subsample = draw([self._check_points(X, fitting=True, least=2)], self.n_basis, rng)
        if np.all(subsample == subsample[0]):
            raise ValueError(
                f"all {len(subsample)} points drawn from X are equal, {subsample[0]}: an embedding needs distinct ones"
            )
        self.landmarks_ = subsample
        self.bandwidth_ = self._bandwidth(subsample)
        self.kernel_ = kernel_of(self.kernel, self.bandwidth_)
        self._sections = KernelSections(self.kernel_, subsample)
        self.projection_, self.offset_ = self._project(self._sections.gram(), rng)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Images of the rows of X, shape (n, n_components); X as in :meth:`fit`."""
        self._check_fitted()
        if is_stream(X):
            return np.concatenate([self._images(self._check_points(block.x)) for block in blocks(X, BLOCK)])
        return self._images(self._check_points(X))

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit, and return the images of the same points; X is read twice, so it cannot be an iterator."""
        check_repeatable(X)
        return self.fit(X).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of the embedding, the class and a number; shape (n_components,)."""
        self._check_fitted()
        return self._names_out(self.projection_.shape[1], input_features)

    @abstractmethod
    def _project(self, gram: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """P (m, c) and the constant (c,), from the kernel matrix (m, m) of the subsample."""

    def _bandwidth(self, points):
        if not isinstance(self.bandwidth, str):
            return self.bandwidth
        if self.bandwidth != "median":
            raise ValueError(f"bandwidth={self.bandwidth!r}: expected 'median' or a positive number")
        return median_distance(points) if isinstance(self.kernel, str) else 1.0

    def _images(self, x):
        out = np.empty((len(x), self.projection_.shape[1]))
        for start in range(0, len(x), BLOCK):
            rows = slice(start, start + BLOCK)
            np.matmul(self._sections.values(x[rows]), self.projection_, out=out[rows])
        return out - self.offset_


def check_repeatable(X: Any) -> None:
    """ValueError for an iterator, or a list with one in it."""
    if any(is_iterator(part) for part in trajectories(X, 2)):
        raise ValueError(
            "X is an iterator, which can be read only once, and is needed twice: fit with one, transform another"
        )


def draw(parts: Any, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows without replacement from parts (k, d) that are seen once: the result does not depend on the parts.

    Every row gets a uniform key, and the rows with the ``count`` smallest keys are kept, in their order.
    """
    rows = keys = None
    for part in parts:
        fresh = rng.random(len(part))
        rows, keys = (part, fresh) if rows is None else (np.concatenate([rows, part]), np.concatenate([keys, fresh]))
        if len(rows) > count:
            kept = np.sort(np.argpartition(keys, count)[:count])
            rows, keys = rows[kept], keys[kept]
    if rows is None:
        raise ValueError("X has no rows: expected points")
    return rows


def centered(gram: np.ndarray) -> np.ndarray:
    """H K H with H = I - 11ᵀ/m: the kernel matrix of features minus their mean.

    Raises
    ------
    ValueError
        Only rounding error is left, as the kernel is constant over the points.
    """
    mean = gram.mean(axis=0)
    out = gram - mean - mean[:, None] + mean.mean()
    if np.linalg.norm(out) <= ROUNDING * np.trace(gram):
        raise ValueError("bandwidth: the kernel is constant over the points, up to rounding; use a smaller one")
    return out


def leading(axes: np.ndarray, count: int, what: str, size: int) -> np.ndarray:
    """The first ``count`` columns of axes (m, r), or all of them with a KmcWarning."""
    rank = axes.shape[1]
    if rank < count:
        message = f"n_components={count}: {what} of {size} points has rank {rank}, so there are {rank} components"
        warn(message)
    return np.ascontiguousarray(axes[:, :count])
