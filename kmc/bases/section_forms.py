"""How the forms of kernel sections are computed: by the kind of argument that the kernel is a profile of."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np

from kmc.bases import general
from kmc.kernels import Kernel, Metric, Scale, partial, squared_distances


class SectionForms(Protocol):
    """What :class:`kmc.bases.KernelSections` computes; shapes are given there."""

    def values(self, x: np.ndarray) -> np.ndarray: ...
    def gradients(self, x: np.ndarray) -> np.ndarray: ...
    def laplacians(self, x: np.ndarray) -> np.ndarray: ...
    def sum_dirichlet(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray: ...
    def sum_linear(self, x: np.ndarray, weights: np.ndarray, base_gradient: np.ndarray | None) -> np.ndarray: ...
    def contract_gradients(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray: ...


def section_forms(kernel: Kernel, centres: np.ndarray) -> SectionForms:
    """The fastest way for sections of this kernel at centres (m, d)."""
    profile, metric = profile_and_metric(kernel)
    if profile.argument == "distance":
        return RadialForms(profile, metric, centres)
    if profile.argument == "inner-product":
        return DotProductForms(profile, metric, centres)
    return MixedForms(kernel, centres)


def profile_and_metric(kernel: Kernel) -> tuple[Kernel, np.ndarray | None]:
    """A kernel as (profile, A) with kernel(x, y) = profile(Ax, Ay); A (k, d) or None, of all metrics in it."""
    if isinstance(kernel, Metric):
        profile, inner = profile_and_metric(kernel.kernel)
        outer = np.diag(kernel.matrix) if kernel.matrix.ndim == 1 else kernel.matrix
        return profile, outer if inner is None else inner @ outer
    if isinstance(kernel, Scale) and kernel.argument is None:
        profile, metric = profile_and_metric(kernel.kernel)
        return Scale(profile, kernel.factor), metric
    return kernel, None


class RadialForms:
    """Sections of q(|A(x - y)|²), by the derivatives of q. Points are centred: an offset costs no digits."""

    def __init__(self, kernel: Kernel, metric: np.ndarray | None, centres: np.ndarray):
        self._kernel, self._metric = kernel, None if metric is None else Metric(kernel, metric)
        self._pulling = None if metric is None else metric.T @ metric
        self._trace = float(centres.shape[1] if metric is None else np.sum(metric**2))
        self._origin = centres.mean(axis=0)
        self._centres = centres - self._origin
        self._mapped = self._map(self._centres)

    def values(self, x):
        return self._kernel.profile(self._distances(x - self._origin))

    def gradients(self, x):
        """2 q' AᵀA (x - y)."""
        x = x - self._origin
        _, q1 = self._kernel.derivatives(self._distances(x), 1)
        return 2.0 * q1[:, :, None] * self._pull(x[:, None, :] - self._centres)

    def laplacians(self, x):
        """4 q'' |AᵀA (x - y)|² + 2 tr(AᵀA) q'."""
        x = x - self._origin
        s = self._distances(x)
        _, q1, q2 = self._kernel.derivatives(s, 2)
        return 4.0 * q2 * self._pulled_distances(x, s) + 2.0 * self._trace * q1

    def sum_dirichlet(self, x, weights):
        """½ [(T∘S)ᵀT + Tᵀ(T∘S) - D ∘ TᵀT] with T = 2 √w q', S and D the distances of points pulled by AᵀA."""
        x = x - self._origin
        s = self._distances(x)
        _, t = self._kernel.derivatives(s, 1)
        t *= 2.0 * np.sqrt(weights)[:, None]
        s = self._pulled_distances(x, s)
        s *= t
        cross = s.T @ t
        return 0.5 * (cross + cross.T - self._between * (t.T @ t))

    def sum_linear(self, x, weights, base_gradient):
        x = x - self._origin
        s = self._distances(x)
        _, q1, q2 = self._kernel.derivatives(s, 2)
        q2 *= self._pulled_distances(x, s)
        total = 4.0 * (weights @ q2) + 2.0 * self._trace * (weights @ q1)
        if base_gradient is not None:
            g = weights[:, None] * self._pull(base_gradient)  # <AᵀA r, g> = <r, AᵀA g>
            along = np.einsum("nd,nd->n", x, g) @ q1 - np.einsum("md,md->m", q1.T @ g, self._centres)
            total += 2.0 * along
        return total

    def contract_gradients(self, x, coefficients):
        x = x - self._origin
        _, q1 = self._kernel.derivatives(self._distances(x), 1)
        q1 *= 2.0 * coefficients
        return self._pull(x * q1.sum(axis=1)[:, None] - q1 @ self._centres)

    @cached_property
    def _between(self):
        """Distances between centres, both pulled."""
        centres = self._pull(self._centres)
        return squared_distances(centres, centres)

    def _map(self, x):
        return x if self._metric is None else self._metric.map(x)

    def _pull(self, r):
        return r if self._pulling is None else r @ self._pulling

    def _distances(self, x):
        return squared_distances(self._map(x), self._mapped)

    def _pulled_distances(self, x, distances):
        return distances if self._pulling is None else squared_distances(self._pull(x), self._pull(self._centres))


class DotProductForms:
    """Sections of q(<Ax, Ay>): gradients q' AᵀA y, whose directions do not depend on x."""

    def __init__(self, kernel: Kernel, metric: np.ndarray | None, centres: np.ndarray):
        self._kernel = kernel
        self._pulled = centres if metric is None else centres @ (metric.T @ metric)

    def values(self, x):
        return self._kernel.profile(x @ self._pulled.T)

    def gradients(self, x):
        _, q1 = self._kernel.derivatives(x @ self._pulled.T, 1)
        return q1[:, :, None] * self._pulled

    def laplacians(self, x):
        """q'' |AᵀA y|²."""
        return self._kernel.derivatives(x @ self._pulled.T, 2)[2] * np.einsum("md,md->m", self._pulled, self._pulled)

    def sum_dirichlet(self, x, weights):
        _, q1 = self._kernel.derivatives(x @ self._pulled.T, 1)
        half = np.sqrt(weights)[:, None] * q1
        return (half.T @ half) * (self._pulled @ self._pulled.T)

    def sum_linear(self, x, weights, base_gradient):
        _, q1, q2 = self._kernel.derivatives(x @ self._pulled.T, 2)
        total = (weights @ q2) * np.einsum("md,md->m", self._pulled, self._pulled)
        if base_gradient is not None:
            total += np.einsum("md,md->m", q1.T @ (weights[:, None] * base_gradient), self._pulled)
        return total

    def contract_gradients(self, x, coefficients):
        _, q1 = self._kernel.derivatives(x @ self._pulled.T, 1)
        return (q1 * coefficients) @ self._pulled


class MixedForms:
    """Sections of any kernel, by its partial derivatives, in slices of bounded memory."""

    def __init__(self, kernel: Kernel, centres: np.ndarray):
        self._kernel, self._centres = kernel, centres
        self.size = len(centres)

    def values(self, x):
        return partial(self._kernel, "k", x, self._centres)

    def gradients(self, x):
        return partial(self._kernel, "x", x, self._centres)

    def laplacians(self, x):
        return partial(self._kernel, "xx", x, self._centres)

    def sum_dirichlet(self, x, weights):
        return general.sum_dirichlet(self, x, weights)

    def sum_linear(self, x, weights, base_gradient):
        return general.sum_linear(self, x, weights, base_gradient)

    def contract_gradients(self, x, coefficients):
        return np.einsum("nmd,m->nd", self.gradients(x), coefficients, optimize=True)
