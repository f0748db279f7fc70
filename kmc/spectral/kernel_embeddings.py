"""Embeddings of points whose inner products approximate a kernel: random, by principal components, and by landmarks."""

from __future__ import annotations

import numpy as np

from kmc.linalg import eigen_whitening
from kmc.spectral.embedding import ROUNDING, KernelEmbedding, centered, leading


class KernelJL(KernelEmbedding):
    r"""Gaussian sketch of kernel features, in the sense of Johnson and Lindenstrauss.

    With the kernel matrix :math:`\bar K` of a subsample :math:`X_1, \dots, X_n`, centered, and a matrix Z (d, n) of
    independent standard normal numbers, a point is mapped to

    .. math:: x \mapsto \frac{1}{n^{3/2} \sqrt d}\, Z \bar K\, \bar k(x), \qquad
              \bar k(x)_i = \langle k(x, \cdot) - \mu,\; k(X_i, \cdot) - \mu \rangle, \quad
              \mu = \frac1n \sum_i k(X_i, \cdot):

    the centered K-JL of Kpotufe and Sriperumbudur (2020), "Gaussian sketching yields a J-L lemma in RKHS", sections 3
    and 5. Inner products of images estimate :math:`\langle f, \Sigma^3 g \rangle` of the features f and g, with Σ the
    covariance operator (theorem 1), so that points far apart along the leading directions of kernel PCA stay far apart,
    at the cost of two matrix products.

    Parameters
    ----------
    n_components : int
        Dimension d of the embedding. More components give a better estimate, also beyond the rank of the kernel matrix.
    kernel : str or kernel
        A name or an object of :mod:`kmc.kernels`. The paper's Gaussian kernel exp(-|x - y|²/σ²) is kmc's with
        bandwidth σ/√2.
    bandwidth : float or "median"
        In the units of X; "median" is the median distance in the subsample. A kernel object has its own scale:
        "median" keeps it, a number multiplies it.
    n_basis : int
        Size n of the subsample, drawn without replacement; all points if there are fewer.
    random_state : int, Generator or None

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
    A fit takes O(n_basis² n_components) time and O(n_basis²) memory and reads X once, in blocks; ``transform`` takes
    O(n_basis n_components) time per point, and O(n_basis) memory per point of a block.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral import KernelJL
    >>> X = np.random.default_rng(0).standard_normal((500, 3))
    >>> KernelJL(n_components=5, random_state=0).fit_transform(X).shape
    (500, 5)
    """

    sketch_: np.ndarray

    def _project(self, gram, rng):
        n = len(gram)
        self.sketch_ = rng.standard_normal((self.n_components, n))
        sketched = (centered(gram) @ self.sketch_.T) / (n**1.5 * np.sqrt(self.n_components))
        # K̄ times the centering matrix equals K̄: k̄(x) need not be centered in both arguments
        return sketched, gram.mean(axis=0) @ sketched


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
        few = eigen_whitening(matrix, tolerance, self.n_components)
        axes = leading(few, self.n_components, "the centered kernel matrix", n)
        axes *= np.sign(axes[np.argmax(np.abs(axes), axis=0), np.arange(axes.shape[1])])
        self.eigenvalues_ = 1.0 / (n * np.einsum("ij,ij->j", axes, axes))  # axes are α λ^-1/2
        return axes, gram.mean(axis=0) @ axes


class NystromEmbedding(KernelEmbedding):
    r"""Nyström embedding of kernel features, of a given rank.

    Inner products of images are those of :math:`\tilde K_N = K_{(N,n)} K^\dagger_{(d)} K_{(N,n)}^\top`, where
    :math:`K^\dagger_{(d)}` is the pseudo-inverse of the best rank-d approximation of the kernel matrix K of a subsample
    of size n, as used by Kpotufe and Sriperumbudur (2020), section 5.2, for kernel k-means: a point is mapped to
    :math:`S_d^{-1/2} V_d^\top k(x)`, with the d leading eigenpairs of K.

    Parameters
    ----------
    n_components : int
        Rank d. If the kernel matrix has a smaller rank, there are fewer components, with a warning.
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
    landmarks_ : ndarray, shape (n_basis, d)
        The subsample.
    projection_ : ndarray, shape (n_basis, n_components)
        An image is ``k(x) @ projection_``.
    kernel_, bandwidth_
        The chosen ones.
    n_features_in_ : int

    Notes
    -----
    A fit takes O(n_basis³) time and O(n_basis²) memory and reads X once, in blocks; ``transform`` takes
    O(n_basis n_components) time per point, and O(n_basis) memory per point of a block.

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
