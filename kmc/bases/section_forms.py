"""Forms of kernel sections, and points and centers in a metric.

There are forms for each kind of argument of a kernel's profile.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.linalg.blas import dgemm, dsyrk

from kmc.bases import general
from kmc.bases.base import Both
from kmc.kernels import Gaussian, Kernel, Metric, Scale, kernel_derivative, squared_distances
from kmc.kernels.exponentials import exponential
from kmc.kernels.metric import mapped
from kmc.njit import njit

ROWS = 1024  # per block


class RadialGeometry:
    """Differences between points x and centers y in a metric A, with M = AᵀA.

    Points are relative to the mean of the centers: an offset costs no digits.

    Parameters
    ----------
    metric : ndarray, shape (k, d), or None for the identity
    centers : ndarray, shape (m, d)

    Attributes
    ----------
    origin : ndarray, shape (d,)
    centers : ndarray, shape (m, d)
        Relative to the origin.
    trace : float
        tr M.
    """

    def __init__(self, metric: np.ndarray | None, centers: np.ndarray):
        self.origin = centers.mean(axis=0)
        self.centers = centers - self.origin
        self.trace = float(centers.shape[1] if metric is None else np.sum(metric**2))
        self._metric = metric
        self._mapped = self.centers if metric is None else mapped(self.centers, metric)

    @cached_property
    def principal(self) -> tuple[np.ndarray | None, np.ndarray]:
        """A' (k', d) with orthogonal rows and A'ᵀA' = M, and their squared lengths (k',).

        For the identity, A' is None.
        """
        if self._metric is None:
            return None, np.ones(self.centers.shape[1])
        _, lengths, rows = np.linalg.svd(self._metric, full_matrices=False)
        kept = lengths > lengths[0] * np.finfo(float).eps
        return lengths[kept, None] * rows[kept], lengths[kept] ** 2

    @cached_property
    def isotropic(self) -> bool:
        """Whether the metric has the same unit of length in every direction of its range."""
        spread = self.principal[1]
        return bool(np.ptp(spread) <= 1e-14 * spread[0])

    @cached_property
    def matrix(self) -> np.ndarray:
        """M, (d, d)."""
        return np.eye(len(self.origin)) if self._metric is None else self._metric.T @ self._metric

    def centered(self, x: np.ndarray) -> np.ndarray:
        """Return x relative to the origin; all methods below take such points."""
        return x - self.origin

    def distances(self, x: np.ndarray) -> np.ndarray:
        """Return |A(x - y)|², (n, m)."""
        return squared_distances(
            x if self._metric is None else mapped(x, self._metric), self._mapped
        )

    def pulled_distances(self, x: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """Return |M(x - y)|², (n, m), given ``distances(x)``."""
        return distances if self._metric is None else self._distances(x, self.matrix)

    def twice_pulled_distances(self, x: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """Return |AM(x - y)|², (n, m), given ``distances(x)``."""
        return distances if self._metric is None else self._distances(x, self._metric @ self.matrix)

    def pull(self, r: np.ndarray) -> np.ndarray:
        """Return M r for the rows of r."""
        return r if self._metric is None else r @ self.matrix

    def inner(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Return <x_b - y_a, g_b>, (n, m), for vectors g (n, d) at the points."""
        return np.einsum("nd,nd->n", x, g)[:, None] - g @ self.centers.T

    def inner_at_centers(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Return <x_b - y_a, g_a>, (n, m), for vectors g (m, d) at the centers."""
        return x @ g.T - np.einsum("md,md->m", self.centers, g)

    def sum_over_points(self, coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return Σ_b coefficients_ba (x_b - y_a), (m, d)."""
        return coefficients.T @ x - coefficients.sum(axis=0)[:, None] * self.centers

    def sum_over_centers(self, coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return Σ_a coefficients_ba (x_b - y_a), (n, d)."""
        return coefficients.sum(axis=1)[:, None] * x - coefficients @ self.centers

    def _distances(self, x, matrix):
        return squared_distances(mapped(x, matrix), mapped(self.centers, matrix))


class SectionForms(Protocol):
    """The computations of :class:`kmc.bases.KernelSections`; shapes are given there."""

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return the functions at points (n, d), shape (n, p)."""

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """Return the gradients at points (n, d), shape (n, p, d)."""

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """Return the Laplacians at points (n, d), shape (n, p)."""

    def sum_dirichlet(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return Σ_i w_i <∇φ_a, ∇φ_b>(x_i), shape (p, p)."""

    @property
    def sum_mass_and_dirichlet(self) -> Both | None:
        """A function that sums both forms in one pass; None if the kernel is not radial."""

    def sum_linear(
        self, x: np.ndarray, weights: np.ndarray, base_gradient: np.ndarray | None
    ) -> np.ndarray:
        """Return Σ_i w_i (Δφ_a + <∇φ_a, ∇log q0>)(x_i), shape (p,)."""

    def directional(self, x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return the derivatives along a vector at each point, ``vectors`` (n, d), shape (n, m)."""

    def contract_gradients(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return Σ_a c_a ∇φ_a for coefficients c (m,), shape (n, d)."""


def section_forms(kernel: Kernel, centers: np.ndarray) -> SectionForms:
    """Return the fastest forms for sections of this kernel at centers (m, d)."""
    profile, metric = profile_and_metric(kernel)
    if profile.kind == "distance":
        return RadialForms(profile, metric, centers)
    if profile.kind == "inner-product":
        return DotProductForms(profile, metric, centers)
    return MixedForms(kernel, centers)


def profile_and_metric(kernel: Kernel) -> tuple[Kernel, np.ndarray | None]:
    """Split a kernel into (profile, A) with kernel(x, y) = profile(Ax, Ay).

    A (k, d) combines the metrics around the profile, and is None if there are none.
    """
    if isinstance(kernel, Metric):
        profile, inner = profile_and_metric(kernel.kernel)
        outer = np.diag(kernel.matrix) if kernel.matrix.ndim == 1 else kernel.matrix
        return profile, outer if inner is None else inner @ outer
    if isinstance(kernel, Scale) and kernel.kind is None:
        profile, metric = profile_and_metric(kernel.kernel)
        return Scale(profile, kernel.factor), metric
    return kernel, None


class RadialForms:
    """Sections of q(|A(x - y)|²), by the derivatives of q.

    Points are centered: an offset costs no digits.
    """

    def __init__(self, kernel: Kernel, metric: np.ndarray | None, centers: np.ndarray):
        self._kernel, self._geometry = kernel, RadialGeometry(metric, centers)

    def values(self, x):
        """Return the functions at points (n, d), shape (n, m)."""
        return self._kernel.profile(self._geometry.distances(self._geometry.centered(x)))

    def gradients(self, x):
        """Return 2 q' AᵀA (x - y)."""
        x, _, (_, q1) = self._profiles(x, 1)
        return 2.0 * q1[:, :, None] * self._geometry.pull(x[:, None, :] - self._geometry.centers)

    def laplacians(self, x):
        """Return 4 q'' |AᵀA (x - y)|² + 2 tr(AᵀA) q'."""
        x, s, (_, q1, q2) = self._profiles(x, 2)
        return 4.0 * q2 * self._geometry.pulled_distances(x, s) + 2.0 * self._geometry.trace * q1

    def sum_dirichlet(self, x, weights):
        """Return ½ [(T∘S)ᵀT + Tᵀ(T∘S) - D ∘ TᵀT] with T = 2 √w q'.

        S and D are the distances of points pulled by AᵀA.
        """
        x, s, (_, t) = self._profiles(x, 1)
        t *= 2.0 * np.sqrt(weights)[:, None]
        s = self._geometry.pulled_distances(x, s)
        s *= t
        cross = s.T @ t
        return 0.5 * (cross + cross.T - self._between * (t.T @ t))

    def sum_mass_and_dirichlet(self, x, weights):
        """Return the sums (m,), scatter and Dirichlet form (m, m) in one pass.

        See :func:`mass_and_dirichlet`.
        """
        return mass_and_dirichlet(self._kernel, self._geometry, self._between, x, weights)

    def sum_linear(self, x, weights, base_gradient):
        """Return Σ_i w_i (Δφ_a + <∇φ_a, ∇log q0>)(x_i), shape (m,)."""
        x, s, (_, q1, q2) = self._profiles(x, 2)
        q2 *= self._geometry.pulled_distances(x, s)
        total = 4.0 * (weights @ q2) + 2.0 * self._geometry.trace * (weights @ q1)
        if base_gradient is not None:
            g = weights[:, None] * self._geometry.pull(base_gradient)  # <AᵀA r, g> = <r, AᵀA g>
            along = np.einsum("nd,nd->n", x, g) @ q1
            total += 2.0 * (along - np.einsum("md,md->m", q1.T @ g, self._geometry.centers))
        return total

    def directional(self, x, vectors):
        """Return 2 q' <A(x - y), Av>."""
        x, _, (_, q1) = self._profiles(x, 1)
        q1 *= self._geometry.inner(x, 2.0 * self._geometry.pull(vectors))
        return q1

    def contract_gradients(self, x, coefficients):
        """Return Σ_a c_a ∇φ_a for coefficients c (m,), shape (n, d)."""
        x, _, (_, q1) = self._profiles(x, 1)
        q1 *= 2.0 * coefficients
        return self._geometry.pull(self._geometry.sum_over_centers(q1, x))

    def contract_gradients_each(self, x, coefficients):
        """Return the gradients for each column of the coefficients (m, k), shape (n, k, d)."""
        x, _, (_, q1) = self._profiles(x, 1)
        centers, k = self._geometry.centers, coefficients.shape[1]
        both = np.hstack(
            [
                coefficients,
                (coefficients[:, :, None] * centers[:, None, :]).reshape(len(centers), -1),
            ]
        )
        sums = q1 @ (2.0 * both)
        along = sums[:, :k, None] * x[:, None, :] - sums[:, k:].reshape(len(x), k, -1)
        return self._geometry.pull(along)

    @cached_property
    def _between(self):
        """Distances between centers, both pulled."""
        centers = self._geometry.centers
        return self._geometry.pulled_distances(centers, self._geometry.distances(centers))

    def _profiles(self, x, order):
        """Return centered points, squared distances, and derivatives of q there."""
        x = self._geometry.centered(x)
        s = self._geometry.distances(x)
        return x, s, self._kernel.derivatives(s, order)


class DotProductForms:
    """Sections of q(<Ax, Ay>): gradients q' AᵀA y, whose directions do not depend on x."""

    sum_mass_and_dirichlet = None

    def __init__(self, kernel: Kernel, metric: np.ndarray | None, centers: np.ndarray):
        self._kernel = kernel
        self._pulled = centers if metric is None else centers @ (metric.T @ metric)

    def values(self, x):
        """Return the functions at points (n, d), shape (n, m)."""
        return self._kernel.profile(x @ self._pulled.T)

    def gradients(self, x):
        """Return the gradients, shape (n, m, d)."""
        _, q1 = self._kernel.derivatives(x @ self._pulled.T, 1)
        return q1[:, :, None] * self._pulled

    def laplacians(self, x):
        """Return q'' |AᵀA y|²."""
        return self._kernel.derivatives(x @ self._pulled.T, 2)[2] * np.einsum(
            "md,md->m", self._pulled, self._pulled
        )

    def sum_dirichlet(self, x, weights):
        """Return Σ_i w_i <∇φ_a, ∇φ_b>(x_i), shape (m, m)."""
        _, q1 = self._kernel.derivatives(x @ self._pulled.T, 1)
        half = np.sqrt(weights)[:, None] * q1
        return (half.T @ half) * (self._pulled @ self._pulled.T)

    def sum_linear(self, x, weights, base_gradient):
        """Return Σ_i w_i (Δφ_a + <∇φ_a, ∇log q0>)(x_i), shape (m,)."""
        _, q1, q2 = self._kernel.derivatives(x @ self._pulled.T, 2)
        total = (weights @ q2) * np.einsum("md,md->m", self._pulled, self._pulled)
        if base_gradient is not None:
            total += np.einsum("md,md->m", q1.T @ (weights[:, None] * base_gradient), self._pulled)
        return total

    def directional(self, x, vectors):
        """Return the derivatives along a vector at each point, ``vectors`` (n, d), shape (n, m)."""
        _, q1 = self._kernel.derivatives(x @ self._pulled.T, 1)
        return q1 * (vectors @ self._pulled.T)

    def contract_gradients(self, x, coefficients):
        """Return Σ_a c_a ∇φ_a for coefficients c (m,), shape (n, d)."""
        _, q1 = self._kernel.derivatives(x @ self._pulled.T, 1)
        return (q1 * coefficients) @ self._pulled


class MixedForms:
    """Sections of any kernel, by its partial derivatives, in slices of bounded memory."""

    sum_mass_and_dirichlet = None

    def __init__(self, kernel: Kernel, centers: np.ndarray):
        self._kernel, self._centers = kernel, centers
        self.size = len(centers)

    def values(self, x):
        """Return the functions at points (n, d), shape (n, m)."""
        return kernel_derivative(self._kernel, "k", x, self._centers)

    def gradients(self, x):
        """Return the gradients, shape (n, m, d)."""
        return kernel_derivative(self._kernel, "x", x, self._centers)

    def laplacians(self, x):
        """Return the Laplacians, shape (n, m)."""
        return kernel_derivative(self._kernel, "xx", x, self._centers)

    def sum_dirichlet(self, x, weights):
        """Return Σ_i w_i <∇φ_a, ∇φ_b>(x_i), shape (m, m)."""
        return general.sum_dirichlet(self, x, weights)

    def sum_linear(self, x, weights, base_gradient):
        """Return Σ_i w_i (Δφ_a + <∇φ_a, ∇log q0>)(x_i), shape (m,)."""
        return general.sum_linear(self, x, weights, base_gradient)

    def directional(self, x, vectors):
        """Return the derivatives along a vector at each point, ``vectors`` (n, d), shape (n, m)."""
        return general.directional(self, x, vectors)

    def contract_gradients(self, x, coefficients):
        """Return Σ_a c_a ∇φ_a for coefficients c (m,), shape (n, d)."""
        return np.einsum("nmd,m->nd", self.gradients(x), coefficients, optimize=True)


def mass_and_dirichlet(
    kernel: Any,
    geometry: RadialGeometry,
    between: np.ndarray,
    x: np.ndarray,
    weights: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Σ w φ (m,), Σ w (φ - φ̄)(φ - φ̄)ᵀ and Σ w <∇φ, ∇φᵀ>, (m, m).

    The functions φ are sections of q(|A(x - y)|²) at y. With T = 2 √w q' and S, D the distances of
    points to centers and between centers (both pulled by AᵀA), the second is ½ [(T∘S)ᵀT + Tᵀ(T∘S) -
    D∘TᵀT] (Cabannes and Bach 2023, algorithm 3, without its loops). For a Gaussian, T is the mass's
    own matrix up to a factor, and one product less is needed. Functions are shifted by their value
    at a reference before they are squared, so that a large mean costs no digits. Products are
    summed in place.
    """
    m = len(geometry.centers)
    count, shift = (float(len(x)) if weights is None else float(weights.sum())), np.zeros(m)
    total, (scatter, cross, square) = np.zeros(m), (np.zeros((m, m), order="F") for _ in range(3))
    gaussian = isinstance(kernel, Gaussian)
    for start in range(0, len(x), ROWS):
        points = geometry.centered(x[start : start + ROWS])
        root = np.ones(len(points)) if weights is None else np.sqrt(weights[start : start + ROWS])
        s = geometry.distances(points)
        pulled = geometry.pulled_distances(points, s)
        if gaussian:
            q = np.empty_like(s)
            _gaussian(s, kernel.rate, q)
        else:
            q, slope = kernel.derivatives(s, 1)
        if start == 0:
            shift = q.mean(axis=0)
        if gaussian:
            slope = np.empty_like(s)  # √w q: T up to its factor
            _scale_gaussian(q, slope, pulled, root, shift)
        else:
            _scale(q, slope, pulled, root, shift)
            square = dsyrk(1.0, slope.T, 1.0, square, overwrite_c=1)
        total += root @ q
        scatter = dsyrk(1.0, q.T, 1.0, scatter, overwrite_c=1)
        cross = dgemm(1.0, pulled.T, slope.T, 1.0, cross, trans_b=1, overwrite_c=1)
    factor = (2.0 * kernel.rate) ** 2 if gaussian else 0.0
    _finish(scatter, cross, square, between, total, shift, count, factor)
    return total + count * shift, scatter.T, cross.T  # symmetric: in the order of rows


@njit(error_model="numpy")
def _finish(scatter, cross, square, between, total, shift, count, factor):
    """Center the upper triangle of ``scatter``, and replace ``cross`` by the Dirichlet form.

    For a Gaussian, ``factor`` is (2 rate)², and ``square`` is not read.
    """
    m = len(total)
    for j in range(m):
        for i in range(j + 1):
            own, apart = scatter[i, j], cross[i, j] + cross[j, i]
            if factor > 0.0:
                raw = own + shift[i] * total[j] + total[i] * shift[j] + count * shift[i] * shift[j]
                energy = 0.5 * factor * (apart - between[j, i] * raw)
            else:
                energy = 0.5 * (apart - between[j, i] * square[i, j])
            cross[i, j] = cross[j, i] = energy
            if count > 0.0:
                own -= total[i] * total[j] / count
            scatter[i, j] = scatter[j, i] = own


@njit(error_model="numpy")
def _gaussian(s, rate, q):
    n, m = s.shape
    for i in range(n):
        for j in range(m):
            q[i, j] = exponential(-rate * s[i, j])


@njit(error_model="numpy")
def _scale_gaussian(q, half, pulled, root, shift):
    """Write √w q into ``half``, and replace ``pulled`` S by S √w q and ``q`` by √w (q - shift)."""
    n, m = q.shape
    for i in range(n):
        w = root[i]
        for j in range(m):
            half[i, j] = w * q[i, j]
            pulled[i, j] *= half[i, j]
            q[i, j] = w * (q[i, j] - shift[j])


@njit(error_model="numpy")
def _scale(q, slope, pulled, root, shift):
    """Replace ``slope`` q' by T = 2 √w q', ``pulled`` S by S T, and ``q`` by √w (q - shift)."""
    n, m = q.shape
    for i in range(n):
        w = root[i]
        for j in range(m):
            slope[i, j] *= 2.0 * w
            pulled[i, j] *= slope[i, j]
            q[i, j] = w * (q[i, j] - shift[j])
