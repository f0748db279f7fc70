"""Embeddings of points whose inner products approximate a kernel.

They are random, by principal components, or by landmarks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from kmc.bases import KernelSections
from kmc.checks import as_flag, check_count
from kmc.errors import warn
from kmc.estimator import Estimator
from kmc.forms.stream import blocks, is_iterator, trajectories
from kmc.kernels import Kernel, kernel_of, median_distance
from kmc.linalg import eigen_whitening
from kmc.seeds import Seed, as_generator
from kmc.selection import Numbers
from kmc.source import is_stream

BLOCK = 2048
"""Points per block."""

ROUNDING = 100.0 * np.finfo(float).eps
"""Fraction of a kernel matrix's trace: if less remains after centering, it is rounding error."""


class KernelEmbedding(Estimator, ABC):
    """Base of the embeddings x -> Pᵀ k(x) - c.

    Here k(x) are the values of the kernel between x and a subsample. A subclass's ``_project``
    computes the matrix P and the constant c.
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
        X : array_like, shape (n, d), memory map, dask array, iterator of blocks (k, d), or list of
        these
            n >= 2, not all of them equal. It is read once, in blocks.
        y : None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Points are not finite, too few or all equal, the kernel is constant over them, or a
            parameter is out of its range; the message names it.
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
                f"all {len(subsample)} points drawn from X are equal, {subsample[0]}: an "
                f"embedding needs distinct ones"
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
            return np.concatenate(
                [self._images(self._check_points(block.x)) for block in blocks(X, BLOCK)]
            )
        return self._images(self._check_points(X))

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit, and return the points' images; X is read twice, so it cannot be an iterator."""
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
            raise ValueError(
                f"bandwidth={self.bandwidth!r}: expected 'median' or a positive number"
            )
        return median_distance(points) if isinstance(self.kernel, str) else 1.0

    def _images(self, x):
        out = np.empty((len(x), self.projection_.shape[1]))
        for start in range(0, len(x), BLOCK):
            rows = slice(start, start + BLOCK)
            np.matmul(self._sections.values(x[rows]), self.projection_, out=out[rows])
        return out - self.offset_


def check_repeatable(X: Any) -> None:
    """Raise ValueError for an iterator, or a list with one in it."""
    if any(is_iterator(part) for part in trajectories(X, 2)):
        raise ValueError(
            "X is an iterator, which can be read only once, and is needed twice: fit with one, "
            "transform another"
        )


def draw(parts: Any, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows without replacement from parts (k, d) that are seen once.

    The result does not depend on the parts. Every row gets a uniform key, and the rows with the
    ``count`` smallest keys are kept, in their order.
    """
    rows = keys = None
    for part in parts:
        fresh = rng.random(len(part))
        rows, keys = (
            (part, fresh)
            if rows is None
            else (np.concatenate([rows, part]), np.concatenate([keys, fresh]))
        )
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
        raise ValueError(
            "bandwidth: the kernel is constant over the points, up to rounding; use a smaller one"
        )
    return out


def leading(axes: np.ndarray, count: int, what: str, size: int) -> np.ndarray:
    """Return the first ``count`` columns of axes (m, r).

    If there are fewer, return all of them with a KmcWarning.
    """
    rank = axes.shape[1]
    if rank < count:
        message = (
            f"n_components={count}: {what} of {size} points has rank {rank}, "
            f"so there are {rank} components"
        )
        warn(message)
    return np.ascontiguousarray(axes[:, :count])


class KernelJL(KernelEmbedding):
    r"""Gaussian sketch of kernel features, in the sense of Johnson and Lindenstrauss.

    With the kernel matrix :math:`\bar K` of a subsample :math:`X_1, \dots, X_n`, centered, and a
    matrix Z (d, n) of independent standard normal numbers, a point is mapped to

    .. math:: x \mapsto \frac{1}{n^{3/2} \sqrt d}\, Z \bar K\, \bar k(x), \qquad
              \bar k(x)_i = \langle k(x, \cdot) - \mu,\; k(X_i, \cdot) - \mu \rangle, \quad
              \mu = \frac1n \sum_i k(X_i, \cdot):

    the centered K-JL of Kpotufe and Sriperumbudur (2020), "Gaussian sketching yields a J-L lemma in
    RKHS", sections 3 and 5, or, with ``center=False``, their equation 1 as it is written, with K
    and k in place of :math:`\bar K` and :math:`\bar k`. Inner products of images estimate
    :math:`\langle f, \Sigma^3 g \rangle` of features f and g, with Σ the covariance operator, or
    the second moments if nothing is centered (theorem 1), so that points far apart along the
    leading directions of kernel PCA stay far apart, at the cost of two matrix products.

    Parameters
    ----------
    n_components : int
        Dimension d of the embedding. More components give a better estimate, also beyond the rank
        of the kernel matrix.
    kernel : str or kernel
        A name or an object of :mod:`kmc.kernels`. The paper's Gaussian kernel exp(-|x - y|²/σ²) is
        kmc's with bandwidth σ/√2.
    bandwidth : float or "median"
        In the units of X; "median" is the median distance in the subsample. A kernel object has its
        own scale: "median" keeps it, a number multiplies it.
    n_basis : int
        Size n of the subsample, drawn without replacement; all points if there are fewer.
    random_state : int, Generator or None
    center : bool
        Whether features are taken minus their mean, as the paper does in its experiments.

    Attributes
    ----------
    landmarks_ : ndarray, shape (n_basis, d)
        The subsample.
    sketch_ : ndarray, shape (n_components, n_basis)
        Z.
    projection_ : ndarray, shape (n_basis, n_components)
    offset_ : ndarray, shape (n_components,)
        An image is ``k(x) @ projection_ - offset_``.
    kernel_, bandwidth_
        The chosen ones.
    n_features_in_ : int

    Notes
    -----
    A fit takes O(n_basis² n_components) time and O(n_basis²) memory and reads X once, in blocks;
    ``transform`` takes O(n_basis n_components) time per point, and O(n_basis) memory per point of a
    block.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral import KernelJL
    >>> X = np.random.default_rng(0).standard_normal((500, 3))
    >>> KernelJL(n_components=5, random_state=0).fit_transform(X).shape
    (500, 5)
    """

    sketch_: np.ndarray

    def __init__(
        self,
        n_components: int = 10,
        kernel: str | Kernel = "gaussian",
        bandwidth: Numbers = "median",
        n_basis: int = 200,
        random_state: Seed = None,
        center: bool = True,
    ):
        super().__init__(n_components, kernel, bandwidth, n_basis, random_state)
        self.center = center

    def _project(self, gram, rng):
        n = len(gram)
        center = as_flag("center", self.center)
        self.sketch_ = rng.standard_normal((self.n_components, n))
        scale = n**1.5 * np.sqrt(self.n_components)
        if not center:
            return (gram @ self.sketch_.T) / scale, np.zeros(self.n_components)
        sketched = (centered(gram) @ self.sketch_.T) / scale
        # K̄ times the centering matrix equals K̄: k̄(x) need not be centered in both arguments
        return sketched, gram.mean(axis=0) @ sketched


class KernelPCA(KernelEmbedding):
    r"""Kernel principal component analysis on a subsample, extended to all points.

    The method is that of Schölkopf, Smola and Müller (1998). With the eigenpairs :math:`(\lambda_k,
    \alpha_k)` of the centered kernel matrix of a subsample :math:`X_1, \dots, X_n`, a point is
    mapped to :math:`\lambda_k^{-1/2} \sum_i \alpha_{ki}\, \langle k(x, \cdot) - \mu, k(X_i, \cdot)
    \rangle`, its coordinate along the k-th principal axis, of unit length in the kernel's space; μ
    is the mean of the :math:`k(X_i, \cdot)`. Kpotufe and Sriperumbudur (2020), section 5.2, compare
    their sketch with this on large data.

    Parameters
    ----------
    n_components : int
        Number of axes. If the centered kernel matrix has a smaller rank, there are fewer, with a
        warning.
    kernel : str or kernel
        A name or an object of :mod:`kmc.kernels`.
    bandwidth : float or "median"
        In the units of X; "median" is the median distance in the subsample. A kernel object has its
        own scale: "median" keeps it, a number multiplies it.
    n_basis : int
        Size n of the subsample, drawn without replacement; all points if there are fewer.
    random_state : int, Generator or None

    Attributes
    ----------
    eigenvalues_ : ndarray, shape (n_components,)
        Variance of each coordinate over the subsample, λ/n, descending.
    landmarks_ : ndarray, shape (n_basis, d)
        The subsample.
    projection_ : ndarray, shape (n_basis, n_components)
    offset_ : ndarray, shape (n_components,)
        An image is ``k(x) @ projection_ - offset_``.
    kernel_, bandwidth_
        The chosen ones.
    n_features_in_ : int

    Notes
    -----
    A fit takes O(n_basis³) time and O(n_basis²) memory and reads X once, in blocks; ``transform``
    takes O(n_basis n_components) time per point, and O(n_basis) memory per point of a block. The
    sign of an axis is such that the largest coefficient of a point of the subsample is positive.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Polynomial
    >>> from kmc.spectral import KernelPCA
    >>> X = np.random.default_rng(0).standard_normal((100, 2)) * [3.0, 1.0]
    >>> linear = Polynomial(degree=1, offset=0.0)  # ordinary principal components
    >>> pca = KernelPCA(n_components=2, kernel=linear).fit(X)
    >>> bool(np.allclose(pca.eigenvalues_[::-1], np.linalg.eigvalsh(np.cov(X.T, ddof=0))))
    True
    """

    eigenvalues_: np.ndarray

    def _project(self, gram, rng):
        n, matrix = len(gram), centered(gram)
        # for a wide kernel, little remains after centering, and the rounding of the whole matrix is
        # in the remainder
        tolerance = max(2e-8, ROUNDING * np.trace(gram) / np.linalg.norm(matrix))
        few = eigen_whitening(matrix, tolerance, self.n_components)
        axes = leading(few, self.n_components, "the centered kernel matrix", n)
        axes *= np.sign(axes[np.argmax(np.abs(axes), axis=0), np.arange(axes.shape[1])])
        self.eigenvalues_ = 1.0 / (n * np.einsum("ij,ij->j", axes, axes))  # axes are α λ^-1/2
        return axes, gram.mean(axis=0) @ axes


class NystromEmbedding(KernelEmbedding):
    r"""Nyström embedding of kernel features, of a given rank.

    Inner products of images are those of :math:`\tilde K_N = K_{(N,n)} K^\dagger_{(d)}
    K_{(N,n)}^\top`, where :math:`K^\dagger_{(d)}` is the pseudo-inverse of the best rank-d
    approximation of the kernel matrix K of a subsample of size n, as used by Kpotufe and
    Sriperumbudur (2020), section 5.2, for kernel k-means: a point is mapped to :math:`S_d^{-1/2}
    V_d^\top k(x)`, with the d leading eigenpairs of K.

    Parameters
    ----------
    n_components : int
        Rank d. If the kernel matrix has a smaller rank, there are fewer components, with a warning.
    kernel : str or kernel
        A name or an object of :mod:`kmc.kernels`.
    bandwidth : float or "median"
        In the units of X; "median" is the median distance in the subsample. A kernel object has its
        own scale: "median" keeps it, a number multiplies it.
    n_basis : int
        Size n of the subsample, drawn without replacement; all points if there are fewer.
    random_state : int, Generator or None

    Attributes
    ----------
    landmarks_ : ndarray, shape (n_basis, d)
        The subsample.
    projection_ : ndarray, shape (n_basis, n_components)
        An image is ``k(x) @ projection_``.
    kernel_, bandwidth_
        The chosen ones.
    n_features_in_ : int

    Notes
    -----
    A fit takes O(n_basis³) time and O(n_basis²) memory and reads X once, in blocks; ``transform``
    takes O(n_basis n_components) time per point, and O(n_basis) memory per point of a block.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral import NystromEmbedding
    >>> X = np.random.default_rng(0).standard_normal((50, 1))
    >>> images = NystromEmbedding(n_components=8, bandwidth=1.0).fit_transform(X)
    >>> bool(np.abs(images @ images.T - np.exp(-0.5 * (X - X.T) ** 2)).max() < 1e-3)
    True
    """

    def _project(self, gram, rng):
        few = eigen_whitening(gram, most=self.n_components)
        matrix = leading(few, self.n_components, "the kernel matrix", len(gram))
        return matrix, np.zeros(matrix.shape[1])
