"""Graph Laplacians and classical diffusion maps, the baselines of the Galerkin method."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, splu

from kmc.bases import Basis
from kmc.bases.base import as_basis, is_basis
from kmc.checks import check_count, check_number, length
from kmc.errors import warn
from kmc.forms import accumulate
from kmc.selection import Numbers
from kmc.source import gathered
from kmc.spectral.eigenfunctions import EigenfunctionMap
from kmc.spectral.galerkin_method import whitening
from kmc.spectral.neighbors import (
    Neighbors,
    automatic_count,
    check_distances,
    dimension,
    exponent,
    gaussian,
    local_bandwidths,
)

DENSE = 500
"""Points up to which all eigenvectors are computed."""

FACTORIZED = 3000
"""Points up to which the matrix is factorized in any dimension.

The factors fill up as dimension and points grow.
"""

ITERATIONS = 300
"""Restarts of the Lanczos method, at most."""

BEYOND = 10.0
"""Bandwidths from the nearest point of the fit beyond which there is a warning."""

LOOP = 1e-12
"""With automatic bandwidths, the weight of a point with itself. A weight of one, as in diffusion
maps, lowers all eigenvalues by about one over the number of neighbors; with none, a point without
neighbors would have no degree."""

NARROWER = 0.7
DEPENDS = 0.14
"""A fit is repeated with so many times the automatic bandwidths.

A larger change of log λ₁ than the second number causes a warning.
"""

VARIES = 0.14
"""A fit is repeated with either half of the points: λ₁ differs from their mean by a bias of the
order of one over the number of neighbors, and half of their difference is a standard error. A
larger sum of both, relative to λ₁, causes a warning. Of 55 fits to von Mises points, all that are
off by more than a tenth exceed it or the limit above."""

NO_EDGE = 1e-10
"""Weights below this, relative to the square roots of the two degrees, count as zero."""


class GraphLaplacian(EigenfunctionMap):
    r"""Eigenfunctions of the Laplacian by finite differences between neighbors.

    With Gaussian weights :math:`k_{ij} = \exp(-|x_i - x_j|^2 / 2 h_i h_j)`, degrees :math:`q_i =
    \sum_j k_{ij}` and :math:`w_{ij} = k_{ij} / (q_i q_j)^\alpha`, these are diffusion maps (Coifman
    and Lafon 2006): the eigenvectors of :math:`(I - D^{-1} W) / (h^2/2)`, :math:`D_{ii} = \sum_j
    w_{ij}`, extended to other points by Nyström's formula. By default the bandwidths :math:`h_i
    \propto q_i^{-1/d}` follow the density of the samples, with the exponents for which the limit is
    the same operator (Berry and Harlim 2016, "Variable bandwidth diffusion kernels"). With a
    ``basis`` the energy :math:`\sum_{ij} w_{ij} (f(x_i) - f(x_j))^2 / 2` is restricted to the span
    of its functions, a p × p instead of an n × n problem: equation 16 and appendix B.1 of Cabannes
    and Bach (2023).

    For samples of a density p this estimates the operator :math:`-\Delta - 2(1 - \alpha) \nabla\log
    p \cdot \nabla`: for α = 1/2 the generator of Langevin dynamics, as in :class:`DiffusionMap`;
    for α = 1 the Laplacian of the manifold, for any density; for α = 0 the plain normalized graph
    Laplacian.

    Parameters
    ----------
    n_components : int
    bandwidth : float or "auto"
        h, in the units of X, the same everywhere. "auto": local bandwidths, such that the last
        neighbor of nearly all points is at least three of them away; with a ``basis``, their median
        everywhere.
    n_neighbors : int, "auto" or None
        Number of neighbors of each point, including itself; "auto": a twelfth of the points, but
        from 64 to 256. None joins all, in O(n²) time.
    alpha : float
        Between 0 and 1.
    basis : Basis, optional
        Functions to which the problem is restricted.
    metric : str or callable
        Of the distances: "euclidean", "precomputed" (``fit`` takes the distances (n, n) between all
        points, and ``transform`` those (m, n) to the points of the fit), or a name or function that
        :func:`scipy.spatial.distance.cdist` takes, in O(n²) time.

    Attributes
    ----------
    eigenvalues_ : ndarray, shape (k,)
        Ascending, without the constant.
    bandwidth_ : float
        h, or the median of local ones.
    bandwidths_ : ndarray, shape (n,)
        Of each point of the fit.
    dimension_ : int
        Of the data, estimated from the distances of neighbors.
    embedding_ : ndarray, shape (n, k)
        The eigenfunctions at the points of the fit: mean zero and variance one, in the weights that
        α implies.
    n_features_in_ : int

    Notes
    -----
    The eigenvalues converge as n grows and h falls, at a rate that worsens with the dimension: see
    the figures of :class:`DiffusionMap` and of ``benchmarks/spectral_galerkin.py``. Time O(n log n)
    for few neighbors in few dimensions. Points of the fit are mapped to their rows of the
    embedding; others, without a basis, by Nyström's formula over their nearest points of the fit.

    Eigenproblems in one or two dimensions, and of up to 3,000 points, are solved with a sparse
    factorization, others by the Lanczos method, with a bound on its iterations.

    Memory is O(n d + n k) for k neighbors, O(n²) if all points are joined.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral import GraphLaplacian
    >>> angle = np.linspace(0, 2 * np.pi, 500, endpoint=False)
    >>> circle = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> # 1, 1, 4, 4
    >>> GraphLaplacian(n_components=4, bandwidth=0.1).fit(circle).eigenvalues_.round(2)
    array([1.  , 1.  , 3.98, 3.98])
    """

    def __init__(
        self,
        n_components: int = 10,
        bandwidth: Numbers = "auto",
        n_neighbors: int | str | None = "auto",
        alpha: float = 0.5,
        basis: Basis | None = None,
        metric: Any = "euclidean",
    ):
        self.n_components = n_components
        self.bandwidth = bandwidth
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.basis = basis
        self.metric = metric

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
            Points are invalid, or a parameter is out of its range; the message names it. Or the
            eigenproblem was not solved within the bound on iterations.

        Warns
        -----
        KmcWarning
            The graph is not connected, so eigenfunctions only say which part a point is in; there
            are fewer eigenfunctions than ``n_components``; or with automatic bandwidths, the first
            eigenvalue changes by more than a seventh if they are narrower, or those of either half
            of the points differ: the samples do not determine it.
        """
        x = self._check_points(gathered(X)[0], fitting=True, least=3)
        check_count(self, "n_components", 1)
        check_number(self, "alpha", 0, 1, ends="[]")
        if isinstance(self.n_neighbors, str) and self.n_neighbors != "auto":
            raise ValueError(
                f"n_neighbors={self.n_neighbors!r}: expected 'auto', None or a whole number of at "
                f"least 2"
            )
        if not isinstance(self.n_neighbors, str) and self.n_neighbors is not None:
            check_count(self, "n_neighbors", 2)
        if self.basis is not None and not is_basis(self.basis):
            raise TypeError(f"basis={self.basis!r}: expected None or an object of kmc.bases")
        if isinstance(self.bandwidth, str) and self.bandwidth != "auto":
            raise ValueError(f"bandwidth={self.bandwidth!r}: expected 'auto' or a positive number")
        if not callable(self.metric) and not isinstance(self.metric, str):
            raise TypeError(f"metric={self.metric!r}: expected a name or a callable of two points")
        if isinstance(self.metric, str) and self.metric == "precomputed":
            check_distances(x)
            if self.basis is not None:
                raise ValueError("metric='precomputed': a basis needs points, not distances")
        count = automatic_count(len(x)) if isinstance(self.n_neighbors, str) else self.n_neighbors
        graph = Neighbors(x, count, self.metric)
        self._graph = graph
        self.dimension_ = dimension(graph.local())
        local = isinstance(self.bandwidth, str)
        h = (
            local_bandwidths(graph)
            if local
            else np.full(len(x), length("bandwidth", self.bandwidth))
        )
        self.bandwidth_ = float(np.median(h))
        if self.basis is None:
            self.bandwidths_ = h
            self._fit_graph(
                graph,
                self.alpha + 0.5 * (self.dimension_ + 2) * exponent(self.dimension_)
                if local
                else self.alpha,
            )
        else:
            self.bandwidths_ = np.full(len(x), self.bandwidth_)
            self._fit_basis(graph, as_basis(self.basis))
        if len(self.eigenvalues_) < self.n_components:
            warn(
                f"n_components={self.n_components}: there are only {len(self.eigenvalues_)} "
                f"eigenfunctions"
            )
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:  # type: ignore[override]
        """Fit, and return the embedding of the same points."""
        return self.fit(X).embedding_

    def gradient(self, X: Any) -> np.ndarray:
        """Return the gradients (n, k, d) of the eigenfunctions at the rows of X (n, d).

        This is possible only with a ``basis``.
        """
        if self.basis is None:
            raise TypeError(
                "basis=None: eigenvectors of a graph have no gradients, fit with a basis"
            )
        return super().gradient(X)

    def _fit_graph(self, graph, alpha):
        """Eigenvectors of (D - W) f = λ D h²/2 f.

        With bandwidths proportional to q^β, the exponent that gives the operator of α is α + (d +
        2) β / 2, applied to the density estimate with weights h^-d (Berry and Harlim 2016,
        corollary 1).
        """
        count = min(self.n_components + 1, len(graph.points) - 1)
        automatic = isinstance(self.bandwidth, str)
        loop = LOOP if automatic else 1.0
        weights = graph.matrix(self.bandwidths_, loop)
        powers, self.eigenvalues_, vectors, mass = self._solve(
            weights, self.bandwidths_, alpha, count
        )
        self._degree_powers = powers
        _warn_of_parts(_scaled(weights, (np.asarray(weights.sum(axis=1))) ** -0.5))
        self.embedding_ = vectors * np.sqrt(mass.sum() / mass)[:, None]
        if automatic:
            narrow = NARROWER * self.bandwidths_
            first = self._solve(graph.matrix(narrow, loop), narrow, alpha, min(2, count))[1][0]
            if not abs(np.log(max(first, 1e-300) / max(self.eigenvalues_[0], 1e-300))) < DEPENDS:
                warn(
                    f"the first eigenvalue depends on the bandwidth: {self.eigenvalues_[0]:.4g}, "
                    f"and {first:.4g} with {NARROWER} times the bandwidths; give more points or "
                    "more n_neighbors, or fit a DiffusionMap"
                )
            else:
                self._check_halves(weights, alpha)

    def _check_halves(self, weights, alpha):
        """Warn if the first eigenvalue of either half of the points is far from that of all.

        Also warn if those of the halves are far from each other.
        """
        rows = np.random.default_rng(0).permutation(weights.shape[0])  # the same for every fit
        halves = [np.sort(half) for half in np.array_split(rows, 2)]
        if len(halves[1]) < 3:
            return
        found = [
            self._solve(weights[half][:, half], self.bandwidths_[half], alpha, 2)[1][0]
            for half in halves
        ]
        relative = np.array(found) / max(self.eigenvalues_[0], 1e-300)
        if not abs(relative.mean() - 1.0) + 0.5 * abs(relative[0] - relative[1]) < VARIES:
            warn(
                f"the points hardly determine the first eigenvalue: {self.eigenvalues_[0]:.4g}, "
                f"and {found[0]:.4g} and {found[1]:.4g} with either half of them; give more points "
                "or more n_neighbors, or fit a DiffusionMap"
            )

    def _solve(self, weights, h, alpha, count):
        """Return q^-α (n,), eigenvalues and vectors of S^-1 (D - W) S^-1, and S² = D h²/2 (n,).

        The weights are (n, n).
        """
        powers = (weights.sum(axis=1) * (h / self.bandwidth_) ** -self.dimension_) ** -alpha
        weights = _scaled(weights, powers)
        degrees = weights.sum(axis=1)
        similar = _scaled(weights, degrees**-0.5)
        rates = np.sqrt(2.0) / h
        values, vectors = _least(_scaled(similar, rates), rates**2, count, self.dimension_)
        return powers, values[1:], vectors[:, 1:], degrees / rates**2

    def _fit_basis(self, graph, basis):
        """Fit by the Galerkin method, for the density p^(2 - 2α) that α implies.

        It takes the energy and the second moments of the functions.
        """
        phi = basis.values(graph.points)
        q = np.concatenate([np.asarray(k.sum(axis=1)) for _, k in graph.rows(self.bandwidths_)])
        scaled, energy = q**-self.alpha, np.zeros((basis.size, basis.size))
        for rows, k in graph.rows(self.bandwidths_):
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
        self.eigenvalues_, self.embedding_ = (
            values[: self.n_components],
            phi @ coefficients - self.means_,
        )

    def _eigenfunctions(self, x):
        """Return combinations of the basis.

        Without a basis they are Σ_j P(x, x_j) f(x_j) / (1 - λ h²/2), or the values of the fit at
        its own points.
        """
        if self.basis is not None:
            return super()._eigenfunctions(x)
        s, indices = self._graph.nearest(x)
        own = np.take_along_axis(indices, np.argmin(s, axis=1)[:, None], axis=1)[:, 0]
        h = self.bandwidths_[own]
        squares = h[:, None] * self.bandwidths_[indices]
        exponents = s / squares
        weights = (
            gaussian(exponents - exponents.min(axis=1, keepdims=True), 1.0)
            * self._degree_powers[indices]
        )
        weights /= weights.sum(axis=1, keepdims=True)
        out = np.einsum("nk,nkj->nj", weights, self.embedding_[indices]) / (
            1.0 - np.outer(0.5 * h**2, self.eigenvalues_)
        )
        beyond = np.count_nonzero(s.min(axis=1) > (BEYOND * h) ** 2)
        if beyond:
            warn(
                f"{beyond} of {len(x)} points in X are farther than {BEYOND:g} bandwidths from "
                f"all points of the fit: "
                "the eigenfunctions are not known there, and those of the nearest points are given"
            )
        known = s.min(axis=1) == 0.0
        out[known] = self.embedding_[own[known]]
        return out


def _warn_of_parts(similar):
    """Warn of disconnected parts; weights negligible relative to the degrees connect nothing."""
    parts = csgraph.connected_components(sparse.csr_array(similar > NO_EDGE), directed=False)[0]
    if parts > 1:
        warn(
            f"the graph has {parts} parts that are not connected: the first {parts - 1} "
            "eigenfunctions only say which part a point is in; raise n_neighbors or the bandwidth"
        )


def _scaled(weights, factors):
    """Return diag(factors) W diag(factors)."""
    if not sparse.issparse(weights):
        return factors[:, None] * weights * factors
    diagonal = sparse.dia_array((factors[None], [0]), shape=weights.shape)
    return (diagonal @ weights @ diagonal).tocsr()


def _least(matrix, diagonal, count, dimension):
    """Return the smallest eigenvalues of diag(diagonal) - matrix, ascending, and their vectors.

    Raises
    ------
    ValueError
        The iteration did not converge.
    """
    n = len(diagonal)
    if n <= DENSE or not sparse.issparse(matrix):
        dense = np.diag(diagonal) - (matrix.toarray() if sparse.issparse(matrix) else matrix)
        return linalg.eigh(dense, subset_by_index=[0, count - 1], check_finite=False)
    system = (sparse.dia_array((diagonal[None], [0]), shape=(n, n)) - matrix).tocsc()
    start = np.random.default_rng(0).standard_normal(n)  # the same for every fit
    options = {"k": count, "v0": start, "ncv": min(n, max(4 * count, 40)), "maxiter": ITERATIONS}
    try:
        if n <= FACTORIZED or dimension <= 2:
            shift = -1e-9 * diagonal.max()
            factors = splu(
                system - shift * sparse.eye_array(n, format="csc"),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
            inverse = LinearOperator((n, n), factors.solve, dtype=float)
            values, vectors = eigsh(system, sigma=shift, OPinv=inverse, **options)
        else:
            values, vectors = eigsh(system, which="SA", **options)
    except ArpackNoConvergence as error:
        raise ValueError(
            f"the {count} smallest eigenvalues of the graph on n={n} points (dimension "
            f"{dimension}) did not converge in {ITERATIONS} iterations: ask for fewer components, "
            "give fewer points or a larger bandwidth, or fit a DiffusionMap"
        ) from error
    order = np.argsort(values)
    return values[order], vectors[:, order]
