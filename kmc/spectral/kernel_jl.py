"""Random projections of kernel features by a Gaussian sketch of the kernel matrix."""

from __future__ import annotations

import numpy as np

from kmc.spectral.embedding import KernelEmbedding, centered


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
