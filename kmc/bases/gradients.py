"""Gradients of kernel sections as a basis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kmc.bases.base import Basis
from kmc.bases.base_jit_state import BaseJitState
from kmc.bases.expansion import KernelExpansion, check_centers
from kmc.bases.gradient_forms import GradientForms, gradient_forms
from kmc.kernels import Kernel


@dataclass(frozen=True, eq=False)
class KernelGradients(Basis):
    r"""Partial derivatives :math:`\varphi_{(a,i)} = \partial_i k(y_a, \cdot)` of kernel sections in their centers.

    The basis of the Nyström estimator of Sutherland, Strathmann, Arbel and Gretton (2018), "Efficient and principled
    score estimation with Nyström kernel exponential families", theorem 1: ``sum_dirichlet`` is its BᵀB (equation 7),
    ``gram`` its G (equation 8), ``sum_linear`` n times its h (equation 9). Function a d + i is the derivative in
    coordinate i at center a.

    Parameters
    ----------
    kernel : Kernel
        Differentiable in both arguments at coincident points. For a metric A, ``Metric(kernel, A)``.
    centers : array_like, shape (m, d)
    components : array_like of int, optional
        The functions to keep, increasing numbers in range(m d): the paper's subsampled components. All by default.

    Raises
    ------
    ValueError
        The centers are not a finite array of points, the components are not increasing numbers in range(m d), or the
        kernel has a kink at coincidence; or third derivatives are needed of a kernel that has none there.

    Notes
    -----
    For radial kernels in any metric ``sum_dirichlet`` takes O(n m² d²) operations while a product BᵀB takes
    O(n m² d³), or O(n d p²) for p components if that is less; see :mod:`kmc.bases.gradient_moments`. Memory is that of
    the result and about 60 MB, for any n; ``gram`` takes that of its result twice.

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
    _selected: np.ndarray = field(init=False, repr=False)  # the components, numbered over those centers
    _forms: GradientForms = field(init=False, repr=False)

    def __post_init__(self):
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel={self.kernel!r}: expected a kernel of kmc.kernels")
        if self.kernel.differentiability < 2:
            raise ValueError(
                f"kernel={self.kernel!r} has no gradients at coincident points "
                f"(differentiability {self.kernel.differentiability:g}): use a smoother one, such as Matern52"
            )
        centers = check_centers(self.centers)
        m, d = centers.shape
        kept = np.arange(m * d) if self.components is None else _check_components(self.components, m * d)
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
        """(n, p): ∂/∂y_ai k(x, y_a)."""
        return self._forms.values(self._points(x))

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """(n, p, d)."""
        return self._forms.gradients(self._points(x))

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """(n, p)."""
        self._check_smooth()
        return self._forms.laplacians(self._points(x))

    def gram(self) -> np.ndarray:
        """(p, p) Gram matrix of the reproducing-kernel space, ∂_i ∂_{j+d} k(y_a, y_b)."""
        return self._forms.gram()

    def sum_dirichlet(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sum over x of w <∇φ, ∇φ'>, (p, p)."""
        return self._forms.sum_dirichlet(self._points(x), np.asarray(weights, dtype=float))

    def sum_linear(self, x: np.ndarray, weights: np.ndarray, base_gradient: np.ndarray | None = None) -> np.ndarray:
        """Sum over x of w (Δφ + <∇φ, g>), (p,), with g = ∇log q0 at the rows of x."""
        self._check_smooth()
        return self._forms.sum_linear(self._points(x), np.asarray(weights, dtype=float), base_gradient)

    def contract_values(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """The combination with coefficients (p,) at the rows of x, shape (n,)."""
        return self.expansion(coefficients).values(x)

    def contract_gradients(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Its gradients (n, d)."""
        return self.expansion(coefficients).gradient(x)

    def contract_laplacians(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Its Laplacians (n,)."""
        return self.expansion(coefficients).laplacian(x)

    def jit_state(
        self, coefficients: np.ndarray, base: BaseJitState | None = None, origin: np.ndarray | None = None
    ) -> Any:
        """Base(x) + the combination at x - origin, for jitted loops (:mod:`kmc.jitted`)."""
        return self.expansion(coefficients).jit_state(base, origin)

    def expansion(self, coefficients: np.ndarray) -> KernelExpansion:
        """The combination with coefficients (p,) as a function."""
        spread = np.zeros(self._used.size)
        spread[self._selected] = coefficients
        return KernelExpansion(self.kernel, self._used, gradients=spread.reshape(self._used.shape))

    def _points(self, x):
        points = np.ascontiguousarray(x, dtype=float)
        if points.ndim != 2 or points.shape[1] != self.centers.shape[1]:
            raise ValueError(f"x has shape {points.shape}: expected (n, {self.centers.shape[1]}), points are rows")
        return points

    def _check_smooth(self):
        if self.kernel.differentiability < 3:
            raise ValueError(
                f"kernel={self.kernel!r} has no third derivatives at coincident points "
                f"(differentiability {self.kernel.differentiability:g}): use a smoother one, such as Matern52"
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
