"""Kernel principal components of a subsample, extended to all points."""

from __future__ import annotations

import numpy as np

from kmc.linalg import eigen_whitening
from kmc.spectral.embedding import ROUNDING, KernelEmbedding, centered, leading


class KernelPCA(KernelEmbedding):
    r"""Kernel principal component analysis (Schölkopf, Smola and Müller 1998) on a subsample, extended to all points.

    With the eigenpairs :math:`(\lambda_k, \alpha_k)` of the centered kernel matrix of a subsample
    :math:`X_1, \dots, X_n`, a point is mapped to
    :math:`\lambda_k^{-1/2} \sum_i \alpha_{ki}\, \langle k(x, \cdot) - \mu, k(X_i, \cdot) \rangle`, its coordinate along
    the k-th principal axis, of unit length in the kernel's space; μ is the mean of the :math:`k(X_i, \cdot)`. Kpotufe
    and Sriperumbudur (2020), section 5.2, compare their sketch with this on large data.

    Parameters
    ----------
    n_components : int
        Number of axes. If the centered kernel matrix has a smaller rank, there are fewer, with a warning.
    kernel : str or kernel
        A name or an object of :mod:`kmc.kernels`.
    bandwidth : float or "median"
        In the units of X; "median" is the median distance in the subsample. A kernel object has its own scale:
        "median" keeps it, a number multiplies it.
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
    A fit takes O(n_basis³) time and O(n_basis²) memory and reads X once, in blocks; ``transform`` takes
    O(n_basis n_components) time per point, and O(n_basis) memory per point of a block. The sign of an axis is such that
    the largest coefficient of a point of the subsample is positive.

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
        # for a wide kernel, little remains after centering, and the rounding of the whole matrix is in the remainder
        tolerance = max(2e-8, ROUNDING * np.trace(gram) / np.linalg.norm(matrix))
        axes = leading(eigen_whitening(matrix, tolerance), self.n_components, "the centered kernel matrix", n)
        axes *= np.sign(axes[np.argmax(np.abs(axes), axis=0), np.arange(axes.shape[1])])
        self.eigenvalues_ = 1.0 / (n * np.einsum("ij,ij->j", axes, axes))  # axes are α λ^-1/2
        return axes, gram.mean(axis=0) @ axes
