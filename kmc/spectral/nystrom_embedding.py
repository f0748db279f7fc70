"""Coordinates in which inner products are those of the Nyström approximation of the kernel."""

from __future__ import annotations

import numpy as np

from kmc.linalg import eigen_whitening
from kmc.spectral.embedding import KernelEmbedding, leading


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
        matrix = leading(eigen_whitening(gram), self.n_components, "the kernel matrix", len(gram))
        return matrix, np.zeros(matrix.shape[1])
