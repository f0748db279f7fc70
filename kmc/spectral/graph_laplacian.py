"""Graph Laplacians and classical diffusion maps, the baselines of the Galerkin method."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import eigsh

from kmc.bases import Basis
from kmc.bases.base import as_basis, is_basis
from kmc.checks import check_count, check_number, length
from kmc.errors import KmcWarning
from kmc.forms import accumulate
from kmc.selection import Numbers
from kmc.source import gathered
from kmc.spectral.eigenfunctions import EigenfunctionMap
from kmc.spectral.galerkin_method import whitening
from kmc.spectral.neighbors import Neighbors, automatic_bandwidth, gaussian

DENSE = 500
"""Points up to which all eigenvectors are computed."""

NO_EDGE = 1e-10
"""Weights below this, relative to the square roots of the two degrees, count as zero."""


class GraphLaplacian(EigenfunctionMap):
    r"""Eigenfunctions of the Laplacian by finite differences between neighbors.

    With Gaussian weights :math:`k_{ij} = \exp(-|x_i - x_j|^2 / 2h^2)`, degrees :math:`q_i = \sum_j k_{ij}` and
    :math:`w_{ij} = k_{ij} / (q_i q_j)^\alpha`, these are diffusion maps (Coifman and Lafon 2006): the eigenvectors of
    :math:`(I - D^{-1} W) / (h^2/2)`, :math:`D_{ii} = \sum_j w_{ij}`, extended to other points by Nyström's formula.
    With a ``basis`` the energy :math:`\sum_{ij} w_{ij} (f(x_i) - f(x_j))^2 / 2` is restricted to the span of its
    functions, a p × p instead of an n × n problem: equation 16 and appendix B.1 of Cabannes and Bach (2023).

    For samples of a density p this estimates the operator :math:`-\Delta - 2(1 - \alpha) \nabla\log p \cdot
    \nabla`: for α = 1/2 the generator of Langevin dynamics, as in :class:`DiffusionMap`; for α = 1 the Laplacian of the
    manifold, for any density; for α = 0 the plain normalized graph Laplacian.

    Parameters
    ----------
    n_components : int
    bandwidth : float or "auto"
        h, in the units of X. "auto": where d log(sum of all weights) / d log h is largest.
    n_neighbors : int or None
        Number of neighbors of each point, including itself; None joins all, in O(n²) time.
    alpha : float
        Between 0 and 1.
    basis : Basis, optional
        Functions to which the problem is restricted.

    Attributes
    ----------
    eigenvalues_ : ndarray, shape (k,)
        Ascending, without the constant.
    bandwidth_ : float
        h.
    embedding_ : ndarray, shape (n, k)
        The eigenfunctions at the points of the fit: mean zero and variance one, in the weights that α implies.
    n_features_in_ : int

    Notes
    -----
    The eigenvalues converge as n grows and h falls, at a rate that worsens with the dimension: see the figures of
    :class:`DiffusionMap` and of ``benchmarks/spectral_galerkin.py``. Time O(n log n) for few neighbors in few
    dimensions. Points of the fit are mapped to their rows of the embedding; others, without a basis, by Nyström's
    formula over their nearest points of the fit.

    Memory is O(n d + n k) for k neighbors, O(n²) if all points are joined.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral import GraphLaplacian
    >>> angle = np.linspace(0, 2 * np.pi, 500, endpoint=False)
    >>> circle = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> GraphLaplacian(n_components=4, bandwidth=0.1).fit(circle).eigenvalues_.round(2)  # 1, 1, 4, 4
    array([1.  , 1.  , 3.98, 3.98])
    """

    def __init__(
        self,
        n_components: int = 10,
        bandwidth: Numbers = "auto",
        n_neighbors: int | None = 64,
        alpha: float = 0.5,
        basis: Basis | None = None,
    ):
        self.n_components = n_components
        self.bandwidth = bandwidth
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.basis = basis

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the eigenfunctions of a sample.

        Parameters
        ----------
        X : array_like (n, d), memory map, dask array, iterator of blocks (k, d), or list of these
            n >= 3. A graph needs all points at once: they are collected in memory.
        y : None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Points are invalid, or a parameter is out of its range; the message names it.

        Warns
        -----
        KmcWarning
            The graph is not connected, so eigenfunctions only say which part a point is in; or there are fewer
            eigenfunctions than ``n_components``.
        """
        x = self._check_points(gathered(X)[0], fitting=True, least=3)
        check_count(self, "n_components", 1)
        check_number(self, "alpha", 0, 1, ends="[]")
        if self.n_neighbors is not None:
            check_count(self, "n_neighbors", 2)
        if self.basis is not None and not is_basis(self.basis):
            raise TypeError(f"basis={self.basis!r}: expected None or an object of kmc.bases")
        if isinstance(self.bandwidth, str) and self.bandwidth != "auto":
            raise ValueError(f"bandwidth={self.bandwidth!r}: expected 'auto' or a positive number")
        graph = Neighbors(x, self.n_neighbors)
        self._graph = graph
        self.bandwidth_ = (
            automatic_bandwidth(graph) if isinstance(self.bandwidth, str) else length("bandwidth", self.bandwidth)
        )
        if self.basis is None:
            self._fit_graph(graph)
        else:
            self._fit_basis(graph, as_basis(self.basis))
        if len(self.eigenvalues_) < self.n_components:
            warnings.warn(
                f"n_components={self.n_components}: there are only {len(self.eigenvalues_)} eigenfunctions",
                KmcWarning,
                stacklevel=2,
            )
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:  # type: ignore[override]
        """:meth:`fit`, and return the embedding."""
        return self.fit(X).embedding_

    def gradient(self, X: Any) -> np.ndarray:
        """Gradients of the eigenfunctions at the rows of X (n, d), shape (n, k, d); only with a ``basis``."""
        if self.basis is None:
            raise TypeError("basis=None: eigenvectors of a graph have no gradients, fit with a basis")
        return super().gradient(X)

    def _fit_graph(self, graph):
        """Eigenvectors of D^-1/2 W D^-1/2, which is similar to D^-1 W."""
        weights = graph.matrix(self.bandwidth_)
        self._degree_powers = weights.sum(axis=1) ** -self.alpha  # q^-α
        weights = _scaled(weights, self._degree_powers)
        degrees = weights.sum(axis=1)
        similar = _scaled(weights, degrees**-0.5)
        _warn_of_parts(similar)
        values, vectors = _greatest(similar, min(self.n_components + 1, len(degrees) - 1))
        functions = vectors * np.sqrt(degrees.sum() / degrees)[:, None]
        self.eigenvalues_ = (1.0 - values[1:]) / (0.5 * self.bandwidth_**2)
        self.embedding_, self._transition_eigenvalues = functions[:, 1:], values[1:]

    def _fit_basis(self, graph, basis):
        """Galerkin: energy and second moments of the functions, for the density p^(2 - 2α) that α implies."""
        phi = basis.values(graph.points)
        q = np.concatenate([np.asarray(k.sum(axis=1)) for _, k in graph.rows(self.bandwidth_)])
        scaled, energy = q**-self.alpha, np.zeros((basis.size, basis.size))
        for rows, k in graph.rows(self.bandwidth_):
            spread = k @ (np.column_stack([phi, np.ones(len(q))]) * scaled[:, None])
            spread *= scaled[rows, None]
            energy += phi[rows].T @ (spread[:, -1:] * phi[rows] - spread[:, :-1])
        mass = accumulate(basis, graph.points, ("mass",), weights=q ** (1.0 - 2.0 * self.alpha))
        w = whitening(basis, mass, True, 2e-8)
        matrix = w.T @ energy @ w / (0.5 * self.bandwidth_**2 * mass.weight)
        values, vectors = linalg.eigh(0.5 * (matrix + matrix.T), check_finite=False)
        coefficients = w @ vectors[:, : self.n_components]
        self.basis_, self.coefficients_ = basis, coefficients
        self.means_ = mass.get("mean") @ coefficients / mass.weight
        self.eigenvalues_, self.embedding_ = values[: self.n_components], phi @ coefficients - self.means_

    def _eigenfunctions(self, x):
        """Combinations of the basis; without one, f(x) = Σ_j P(x, x_j) f(x_j) / μ, or the value at a fitted point."""
        if self.basis is not None:
            return super()._eigenfunctions(x)
        s, indices = self._graph.nearest(x)
        weights = gaussian(s - s.min(axis=1, keepdims=True), self.bandwidth_) * self._degree_powers[indices]
        weights /= weights.sum(axis=1, keepdims=True)
        out = np.einsum("nk,nkj->nj", weights, self.embedding_[indices]) / self._transition_eigenvalues
        own = np.take_along_axis(indices, np.argmin(s, axis=1)[:, None], axis=1)[:, 0]
        known = s.min(axis=1) == 0.0
        out[known] = self.embedding_[own[known]]
        return out


def _warn_of_parts(similar):
    """Warn of disconnected parts; weights that are negligible relative to the degrees connect nothing."""
    parts = csgraph.connected_components(sparse.csr_array(similar > NO_EDGE), directed=False)[0]
    if parts > 1:
        warnings.warn(
            f"the graph has {parts} parts that are not connected: the first {parts - 1} eigenfunctions only say which "
            "part a point is in; raise n_neighbors or the bandwidth",
            KmcWarning,
            stacklevel=4,
        )


def _scaled(weights, factors):
    """Diag(factors) W diag(factors)."""
    if not sparse.issparse(weights):
        return factors[:, None] * weights * factors
    diagonal = sparse.dia_array((factors[None], [0]), shape=weights.shape)
    return (diagonal @ weights @ diagonal).tocsr()


def _greatest(matrix, count):
    """The largest eigenvalues of a symmetric matrix, descending, and their vectors."""
    n = matrix.shape[0]
    if n <= DENSE or not sparse.issparse(matrix):
        dense = matrix.toarray() if sparse.issparse(matrix) else matrix
        values, vectors = linalg.eigh(dense, subset_by_index=[n - count, n - 1], check_finite=False)
    else:
        start = np.random.default_rng(0).standard_normal(n)  # the same for every fit
        values, vectors = eigsh(matrix, count, which="LA", v0=start, ncv=min(n, max(4 * count, 40)))
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order]
