"""Gradients of kernel sections as a basis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import blas

from kmc.bases import general, gradient_moments
from kmc.bases.base import Basis
from kmc.bases.base_jit_state import BaseJitState
from kmc.bases.expansion import KernelExpansion, check_centers
from kmc.bases.gradient_moments import mirror
from kmc.bases.section_forms import RadialGeometry, profile_and_metric
from kmc.kernels import Kernel, kernel_derivative
from kmc.kernels.metric import mapped
from kmc.njit import njit


@dataclass(frozen=True, eq=False)
class KernelGradients(Basis):
    r"""Partial derivatives :math:`\partial_i k(y_a, \cdot)` of kernel sections in their centers.

    The basis of the Nyström estimator of Sutherland, Strathmann, Arbel and Gretton (2018),
    "Efficient and principled score estimation with Nyström kernel exponential families", theorem 1:
    ``sum_dirichlet`` is its BᵀB (equation 7), ``gram`` its G (equation 8), ``sum_linear`` n times
    its h (equation 9). Function a d + i is the derivative in coordinate i at center a.

    Parameters
    ----------
    kernel : Kernel
        Differentiable in both arguments at coincident points. For a metric A, ``Metric(kernel,
        A)``.
    centers : array_like, shape (m, d)
    components : array_like of int, optional
        The functions to keep, increasing numbers in range(m d): the paper's subsampled components.
        All by default.

    Raises
    ------
    ValueError
        The centers are not a finite array of points, the components are not increasing numbers in
        range(m d), or the kernel has a kink at coincidence; or third derivatives are needed of a
        kernel that has none there.

    Notes
    -----
    For radial kernels in any metric ``sum_dirichlet`` takes O(n m² d²) operations while a product
    BᵀB takes O(n m² d³), or O(n d p²) for p components if that is less; see
    :mod:`kmc.bases.gradient_moments`. Memory is that of the result and about 60 MB, for any n;
    ``gram`` takes that of its result twice.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.bases import KernelGradients
    >>> from kmc.kernels import Gaussian
    >>> basis = KernelGradients(Gaussian(), np.zeros((1, 2)))
    >>> basis.values(np.array([[1.0, 0.0], [0.0, 2.0]])).round(4)
    array([[0.6065, 0.    ],
           [0.    , 0.2707]])
    >>> KernelGradients(Gaussian(), np.zeros((1, 2)), components=[1]).gram()
    array([[1.]])
    """

    kernel: Kernel
    centers: np.ndarray
    components: np.ndarray | None = None
    _used: np.ndarray = field(init=False, repr=False)  # the centers with components that are kept
    # the components, numbered over those centers
    _selected: np.ndarray = field(init=False, repr=False)
    _forms: GradientForms = field(init=False, repr=False)

    def __post_init__(self):
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel={self.kernel!r}: expected a kernel of kmc.kernels")
        if self.kernel.differentiability < 2:
            raise ValueError(
                f"kernel={self.kernel!r} has no gradients at coincident points "
                f"(differentiability {self.kernel.differentiability:g}): use a smoother one, such "
                f"as Matern52"
            )
        centers = check_centers(self.centers)
        m, d = centers.shape
        kept = (
            np.arange(m * d)
            if self.components is None
            else _check_components(self.components, m * d)
        )
        rows, first = np.unique(kept // d, return_inverse=True)
        used, selected = centers[rows], first * d + kept % d
        object.__setattr__(self, "centers", centers)
        object.__setattr__(self, "components", None if self.components is None else kept)
        object.__setattr__(self, "_used", used)
        object.__setattr__(self, "_selected", selected)
        object.__setattr__(self, "_forms", gradient_forms(self.kernel, used, selected))

    @property
    def size(self) -> int:
        """Number of functions p: m d, or the number of components."""
        return len(self._selected)

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return ∂/∂y_ai k(x, y_a), (n, p)."""
        return self._forms.values(self._points(x))

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """Return the gradients, (n, p, d)."""
        return self._forms.gradients(self._points(x))

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """Return the Laplacians, (n, p)."""
        self._check_smooth()
        return self._forms.laplacians(self._points(x))

    def gram(self) -> np.ndarray:
        """Return the (p, p) Gram matrix ∂_i ∂_{j+d} k(y_a, y_b) of the reproducing-kernel space."""
        return self._forms.gram()

    def sum_dirichlet(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sum over x of w <∇φ, ∇φ'>, (p, p)."""
        return self._forms.sum_dirichlet(self._points(x), np.asarray(weights, dtype=float))

    def sum_linear(
        self, x: np.ndarray, weights: np.ndarray, base_gradient: np.ndarray | None = None
    ) -> np.ndarray:
        """Sum over x of w (Δφ + <∇φ, g>), (p,), with g = ∇log q0 at the rows of x."""
        self._check_smooth()
        return self._forms.sum_linear(
            self._points(x), np.asarray(weights, dtype=float), base_gradient
        )

    def contract_values(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the combination with coefficients (p,) at the rows of x, shape (n,)."""
        return self.expansion(coefficients).values(x)

    def contract_gradients(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the gradients of the combination, shape (n, d)."""
        return self.expansion(coefficients).gradient(x)

    def contract_laplacians(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the Laplacians of the combination, shape (n,)."""
        return self.expansion(coefficients).laplacian(x)

    def jit_state(
        self,
        coefficients: np.ndarray,
        base: BaseJitState | None = None,
        origin: np.ndarray | None = None,
    ) -> Any:
        """Return the state of base(x) + the combination at x - origin, for :mod:`kmc.jitted`."""
        return self.expansion(coefficients).jit_state(base, origin)

    def expansion(self, coefficients: np.ndarray) -> KernelExpansion:
        """Return the combination with coefficients (p,) as a function."""
        spread = np.zeros(self._used.size)
        spread[self._selected] = coefficients
        return KernelExpansion(self.kernel, self._used, gradients=spread.reshape(self._used.shape))

    def _points(self, x):
        points = np.ascontiguousarray(x, dtype=float)
        if points.ndim != 2 or points.shape[1] != self.centers.shape[1]:
            raise ValueError(
                f"x has shape {points.shape}: expected (n, {self.centers.shape[1]}), points are "
                f"rows"
            )
        return points

    def _check_smooth(self):
        if self.kernel.differentiability < 3:
            raise ValueError(
                f"kernel={self.kernel!r} has no third derivatives at coincident points "
                f"(differentiability {self.kernel.differentiability:g}): use a smoother one, such "
                f"as Matern52"
            )


def _check_components(components, total):
    expected = f"expected increasing whole numbers from 0 to {total - 1}"
    try:
        kept = np.asarray(components)
    except (TypeError, ValueError) as error:  # for example lists of unequal length
        raise ValueError(f"components={components!r}: {expected}") from error
    if kept.ndim != 1 or kept.dtype.kind not in "iu" or not len(kept):
        raise ValueError(f"components has shape {kept.shape} and dtype {kept.dtype}: {expected}")
    kept = kept.astype(np.intp)
    if kept[0] < 0 or kept[-1] >= total or np.any(np.diff(kept) <= 0):
        raise ValueError(f"components={components!r}: {expected}")
    return kept


# Kernel gradients and their forms: in general, and faster for radial kernels.


def gradient_forms(kernel: Kernel, centers: np.ndarray, selected: np.ndarray) -> GradientForms:
    """Return the fastest forms for a kernel's gradients at centers (m, d).

    The gradients are those ``selected`` in range(m d).
    """
    profile, metric = profile_and_metric(kernel)
    if profile.kind == "distance":
        return RadialForms(kernel, centers, selected, profile, metric)
    return GradientForms(kernel, centers, selected)


class GradientForms:
    """Forms of :class:`kmc.bases.KernelGradients` for any kernel.

    They take its partial derivatives, in slices.
    """

    def __init__(self, kernel: Kernel, centers: np.ndarray, selected: np.ndarray):
        self._kernel, self._centers, self._selected = kernel, centers, selected
        self.size = len(selected)

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return the values at points (n, d), shape (n, p)."""
        return self._kept(kernel_derivative(self._kernel, "y", x, self._centers))

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """Return the gradients, shape (n, p, d)."""
        return self._kept(
            kernel_derivative(self._kernel, "xy", x, self._centers).transpose(0, 1, 3, 2)
        )

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """Return the Laplacians, shape (n, p)."""
        return self._kept(kernel_derivative(self._kernel, "xxy", x, self._centers))

    def gram(self) -> np.ndarray:
        """Return the inner products of the functions, shape (p, p)."""
        block = kernel_derivative(self._kernel, "xy", self._centers, self._centers).transpose(
            0, 2, 1, 3
        )
        return block.reshape(self._centers.size, -1)[np.ix_(self._selected, self._selected)]

    def sum_dirichlet(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return Σ_i w_i <∇φ_a, ∇φ_b>(x_i), shape (p, p)."""
        total = np.zeros((self.size, self.size))
        for rows in self._slices(x):
            total += general.sum_dirichlet(self, x[rows], weights[rows])
        return total

    def sum_linear(
        self, x: np.ndarray, weights: np.ndarray, base_gradient: np.ndarray | None
    ) -> np.ndarray:
        """Return Σ_i w_i (Δφ_a + <∇φ_a, ∇log q0>)(x_i), shape (p,)."""
        total = np.zeros(self.size)
        for rows in self._slices(x):
            total += general.sum_linear(self, x[rows], weights[rows], _part(base_gradient, rows))
        return total

    def _kept(self, block):
        """Return the kept components, (n, p, ...), of an array (n, m, d, ...) of all components."""
        flat = block.reshape(len(block), self._centers.size, *block.shape[3:])
        return flat if self.size == self._centers.size else flat[:, self._selected]

    def _slices(self, x):
        """Return slices with about general.NUMBERS mixed second derivatives each, kept or not."""
        return general.slices(len(x), self._centers.size * x.shape[1])


class RadialForms(GradientForms):
    """Gradients of q(|A(x - y)|²).

    With M = AᵀA, v = M(x - y), p = -2q' and w = -4q'', ∂_x ∂_y k is pM + w v vᵀ.
    """

    def __init__(self, kernel, centers, selected, profile: Kernel, metric: np.ndarray | None):
        super().__init__(kernel, centers, selected)
        self._profile = profile
        self._geometry = RadialGeometry(metric, centers)

    def gram(self) -> np.ndarray:
        """Return the inner products of the functions, shape (p, p)."""
        geometry = self._geometry
        columns = columns_at(self._profile, geometry, geometry.centers, self._selected)
        rows = columns.transpose(2, 1, 0).reshape(-1, self.size)
        return np.ascontiguousarray(rows if len(rows) == self.size else rows[self._selected])

    def sum_dirichlet(self, x, weights):
        """Sum by columns of B or by moments about the centers, whichever is cheaper."""
        x = self._geometry.centered(x)
        sums = (
            gradient_moments.sum_dirichlet
            if self._moments_are_cheaper()
            else sum_dirichlet_by_columns
        )
        return sums(self._profile, self._geometry, self._selected, x, weights)

    def sum_linear(self, x, weights, base_gradient):
        """Return Σ c v + M Σ d v + M Σ p g.

        Here c = -(8q'''u + 4Tq'') + w v·g, d = -8q'', u = |v|² and T = tr M.
        """
        geometry = self._geometry
        total = np.zeros(geometry.centers.shape)
        for rows in general.slices(len(x), 4 * len(total)):
            total += self._linear(
                geometry.centered(x[rows]), weights[rows], _part(base_gradient, rows)
            )
        return geometry.pull(total).reshape(-1)[self._selected]

    def _linear(self, x, weights, g):
        """Return the sum over these points before its multiplication by M, shape (m, d)."""
        geometry, weights = self._geometry, weights[:, None]
        s = geometry.distances(x)
        _, q1, q2, q3 = self._profile.derivatives(s, 3)
        q2 *= weights
        along = (-8.0 * weights) * q3 * geometry.pulled_distances(x, s) - (
            4.0 * geometry.trace
        ) * q2
        if g is not None:
            along -= 4.0 * q2 * geometry.inner(x, geometry.pull(g))
        total = geometry.sum_over_points(along, x) + geometry.pull(
            geometry.sum_over_points(-8.0 * q2, x)
        )
        return total if g is None else total - 2.0 * (q1.T @ (weights * g))

    def _moments_are_cheaper(self):
        """Compare counts of multiplications for each sample.

        Those in thin products cost more than those in square ones.
        """
        m, d = self._geometry.centers.shape
        quadratics = 1 if self._geometry.isotropic else 3
        moments = m**2 * (quadratics * 0.7 * d**2 + 3.5 * d + 20.0)
        return moments < d * self.size**2


def sum_dirichlet_by_columns(
    profile: Kernel,
    geometry: RadialGeometry,
    selected: np.ndarray,
    x: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return Σ_b w_b B_bᵀ B_b, (p, p), at centered x (n, d); arguments as in :func:`columns_at`."""
    p = len(selected)
    total = np.zeros((p, p), order="F")
    for rows in general.slices(len(x), p * x.shape[1]):
        block = columns_at(profile, geometry, x[rows], selected)
        block *= np.sqrt(weights[rows])
        total = blas.dsyrk(
            1.0, block.reshape(p, -1).T, beta=1.0, c=total, trans=1, lower=1, overwrite_c=1
        )
    return mirror(total.T)


def columns_at(
    profile: Kernel, geometry: RadialGeometry, x: np.ndarray, selected: np.ndarray
) -> np.ndarray:
    """Return ∂_i ∂_{j+d} k(x_b, y_a), (p, d, n), for the selected numbers a d + j.

    The index i is in the middle, and x is centered.
    """
    _, q1, q2 = profile.derivatives(geometry.distances(x), 2)
    out = np.empty((len(selected), x.shape[1], len(x)))
    pulled, centers = mapped(x, geometry.matrix), mapped(geometry.centers, geometry.matrix)
    _fill(np.ascontiguousarray(pulled.T), centers, geometry.matrix, q1, q2, selected, out)
    return out


def _part(array, rows):
    return None if array is None else array[rows]


@njit()
def _fill(x, centers, matrix, q1, q2, selected, out):
    """Write -2 q' M - 4 q'' v vᵀ into ``out``.

    Here v = x - y, of pulled points x (d, n) and centers y (m, d).
    """
    d, n = x.shape
    p, w = np.empty(n), np.empty(n)
    for c in range(selected.size):
        a, j = selected[c] // d, selected[c] % d
        for b in range(n):
            p[b] = -2.0 * q1[b, a]
            w[b] = -4.0 * q2[b, a] * (x[j, b] - centers[a, j])
        for i in range(d):
            row, points, center, entry = out[c, i], x[i], centers[a, i], matrix[i, j]
            for b in range(n):
                row[b] = p[b] * entry + w[b] * (points[b] - center)
