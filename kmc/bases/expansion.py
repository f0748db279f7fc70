"""Combinations of kernel sections and their derivatives, as returned by fits, at many points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from kmc.arrays import as_array, check_magnitude
from kmc.bases import general
from kmc.bases.base_jit_state import BaseJitState
from kmc.bases.expansion_jit_state import ExpansionState, expansion_state
from kmc.bases.section_forms import RadialGeometry, profile_and_metric
from kmc.kernels import Kernel, kernel_derivative

_NUMBERS = 2**18  # in one array of a pass over points: 2 MB, so that a few of them fit in the cache


@dataclass(frozen=True, eq=False)
class KernelExpansion:
    r"""A combination of a kernel's sections, their gradients and their Laplacians in the centers.

    .. math:: f(x) = \sum_a \alpha_a\, k(y_a, x) + \langle \beta_a, \partial_y k(y_a, x) \rangle
                     + \gamma_a\, \Delta_y k(y_a, x).

    Fits of kernel exponential families are such functions: sections in the "lite" form, gradients
    in the Nyström form, gradients and Laplacians in the full one (Sutherland, Strathmann, Arbel and
    Gretton 2018, equations 2, 3 and 5).

    Parameters
    ----------
    kernel : Kernel
        For a metric A, ``Metric(kernel, A)``.
    centers : array_like, shape (m, d)
    sections, gradients, laplacians : array_like, shape (m,), (m, d) and (m,), optional
        The coefficients α, β and γ; missing ones are zeros.

    Raises
    ------
    ValueError
        An array has another shape or is not finite; or the kernel has too few derivatives where
        points coincide for the requested quantity.

    Notes
    -----
    For radial kernels in any metric memory is about 30 MB, for any number of points; others need
    arrays of partial derivatives, in slices of 16 MB.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.bases import KernelExpansion
    >>> from kmc.kernels import Gaussian
    >>> f = KernelExpansion(Gaussian(), [[0.0, 0.0]], gradients=[[1.0, 0.0]])  # x_1 exp(-|x|²/2)
    >>> x = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> f.values(x).round(4)
    array([0.    , 0.6065])
    >>> f.gradient(x[:1])
    array([[1., 0.]])
    """

    kernel: Kernel
    centers: np.ndarray
    sections: np.ndarray | None = None
    gradients: np.ndarray | None = None
    laplacians: np.ndarray | None = None
    _forms: _Forms = field(init=False, repr=False)

    def __post_init__(self):
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel={self.kernel!r}: expected a kernel of kmc.kernels")
        centers = check_centers(self.centers)
        object.__setattr__(self, "centers", centers)
        for name in ("sections", "gradients", "laplacians"):
            shape = centers.shape if name == "gradients" else centers.shape[:1]
            object.__setattr__(self, name, _check_coefficients(name, getattr(self, name), shape))
        profile, metric = profile_and_metric(self.kernel)
        forms: _Forms = _GeneralForms(self)
        if profile.kind == "distance":
            forms = _RadialForms(self, profile, RadialGeometry(metric, centers))
        object.__setattr__(self, "_forms", forms)

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return f at the rows of x (n, d), shape (n,)."""
        return self._evaluate(self._forms.values, x, "values", 0)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return ∇f at the rows of x (n, d), shape (n, d)."""
        return self._evaluate(self._forms.gradient, x, "gradient", 1)

    def laplacian(self, x: np.ndarray) -> np.ndarray:
        """Return Δf at the rows of x (n, d), shape (n,)."""
        return self._evaluate(self._forms.laplacian, x, "Laplacian", 2)

    def hessian(self, x: np.ndarray) -> np.ndarray:
        """Return the matrices of second derivatives at the rows of x (n, d), shape (n, d, d).

        Only for radial kernels; TypeError otherwise.
        """
        if not isinstance(self._forms, _RadialForms):
            raise TypeError(
                f"kernel={self.kernel!r}: no Hessian of this expansion is known; use a radial "
                f"kernel"
            )
        self._check_smooth("Hessian", 2)
        x = np.ascontiguousarray(x, dtype=float)
        return np.array([self._forms.hessian(row) for row in x]).reshape(*x.shape, x.shape[1])

    def jit_state(
        self, base: BaseJitState | None = None, origin: np.ndarray | None = None
    ) -> ExpansionState:
        """Return the state of base(x) + f(x - origin) for jitted loops, see :mod:`kmc.jitted`.

        Parameters
        ----------
        base : BaseJitState, optional
            A log-density to add; none by default.
        origin : ndarray, shape (d,), optional
            Zero by default.

        Raises
        ------
        TypeError
            The kernel is not composed of built-in radial ones.
        """
        return expansion_state(self, base, origin)

    def _evaluate(
        self, evaluate: Callable[[np.ndarray], np.ndarray], x: Any, what: str, order: int
    ) -> np.ndarray:
        self._check_smooth(what, order)
        x = np.ascontiguousarray(x, dtype=float)
        if x.ndim != 2 or x.shape[1] != self.centers.shape[1]:
            raise ValueError(
                f"x has shape {x.shape}: expected (n, {self.centers.shape[1]}), points are rows"
            )
        out = np.empty(x.shape if order == 1 else len(x))
        for rows in general.slices(len(x), self._forms.numbers_per_point):
            out[rows] = evaluate(x[rows])
        return out

    def _check_smooth(self, what, order):
        """Raise an error if the kernel has too few derivatives.

        Gradients at a kink are zero by convention.
        """
        taken = 2 if self.laplacians is not None else 1 if self.gradients is not None else 0
        if taken + order > max(self.kernel.differentiability, 1):
            raise ValueError(
                f"kernel={self.kernel!r}: the {what} of this expansion needs derivatives of order "
                f"{taken + order}, but at coincident points there are "
                f"{self.kernel.differentiability:g}: use a smoother kernel"
            )


def check_centers(centers: Any) -> np.ndarray:
    """Return centers as a contiguous array (m, d) of finite numbers, or raise an error."""
    out = as_array("centers", centers)
    if out.ndim != 2 or 0 in out.shape:
        raise ValueError(f"centers has shape {out.shape}: expected (m, d), points are rows")
    if not np.all(np.isfinite(out)):
        raise ValueError("centers contains NaN or infinity: expected finite numbers")
    check_magnitude("centers", out)
    return out


def _check_coefficients(name, coefficients, shape):
    if coefficients is None:
        return None
    out = as_array(name, coefficients)
    if out.shape != shape:
        raise ValueError(f"{name} has shape {out.shape}: expected {shape}")
    if not np.all(np.isfinite(out)):
        raise ValueError(f"{name} contains NaN or infinity: expected finite numbers")
    return out


class _Forms(Protocol):
    """Evaluation of an expansion, in slices of points with general.NUMBERS numbers each."""

    numbers_per_point: int

    def values(self, x: np.ndarray) -> np.ndarray: ...
    def gradient(self, x: np.ndarray) -> np.ndarray: ...
    def laplacian(self, x: np.ndarray) -> np.ndarray: ...


class _RadialForms:
    """q(|A(x - y)|²): all partials consist of M = AᵀA, v = M(x - y), u = |v|² and T = tr M.

    See :mod:`kmc.kernels`.
    """

    def __init__(self, expansion: KernelExpansion, profile: Kernel, geometry: RadialGeometry):
        self._profile, self._geometry = profile, geometry
        self._alpha, self._beta, self._gamma = (
            expansion.sections,
            expansion.gradients,
            expansion.laplacians,
        )
        self._pulled: Any = (
            None if expansion.gradients is None else geometry.pull(expansion.gradients)
        )
        self.numbers_per_point = len(expansion.centers) * (general.NUMBERS // _NUMBERS)

    def values(self, x):
        """Return Σ α q - 2q' (v·β) + γ (4q''u + 2Tq')."""
        x, s, q = self._profiles(x, 0)
        out = np.zeros(len(x))
        if self._alpha is not None:
            out += q[0] @ self._alpha
        if self._beta is not None:
            out -= 2.0 * np.einsum(
                "nm,nm->n", q[1], self._geometry.inner_at_centers(x, self._pulled)
            )
        if self._gamma is not None:
            out += self._section_laplacian(x, s, q) @ self._gamma
        return out

    def gradient(self, x):
        """Return Σ c v - 2q' Mβ + 8γq'' Mv, c = 2αq' - 4q''(v·β) + γ(8q'''u + 4Tq'')."""
        geometry, trace = self._geometry, self._geometry.trace
        x, s, q = self._profiles(x, 1)
        c = np.zeros_like(s)
        if self._alpha is not None:
            c += (2.0 * self._alpha) * q[1]
        if self._beta is not None:
            c -= 4.0 * q[2] * geometry.inner_at_centers(x, self._pulled)
        if self._gamma is not None:
            c += self._gamma * (8.0 * q[3] * geometry.pulled_distances(x, s) + (4.0 * trace) * q[2])
        total = geometry.sum_over_centers(c, x)
        if self._beta is not None:
            total -= 2.0 * (q[1] @ self._beta)
        if self._gamma is not None:
            total += geometry.pull(geometry.sum_over_centers((8.0 * self._gamma) * q[2], x))
        return geometry.pull(total)

    def laplacian(self, x):
        """Return Σ α (4q''u + 2Tq') - (8q'''u + 4Tq'')(v·β) - 8q'' (Mv·β) + γ Δ_x Δ_y q."""
        geometry, trace = self._geometry, self._geometry.trace
        x, s, q = self._profiles(x, 2)
        out = np.zeros(len(x))
        if self._alpha is not None:
            out += self._section_laplacian(x, s, q) @ self._alpha
        if self._beta is not None:
            third = 8.0 * q[3] * geometry.pulled_distances(x, s) + (4.0 * trace) * q[2]
            out -= np.einsum("nm,nm->n", third, geometry.inner_at_centers(x, self._pulled))
            twice = geometry.inner_at_centers(x, geometry.pull(self._pulled))
            out -= 8.0 * np.einsum("nm,nm->n", q[2], twice)
        if self._gamma is not None:
            u, squared = geometry.pulled_distances(x, s), float(np.sum(geometry.matrix**2))
            fourth = 16.0 * (q[4] * u + trace * q[3]) * u + 32.0 * q[
                3
            ] * geometry.twice_pulled_distances(x, s)
            out += (fourth + (8.0 * squared + 4.0 * trace**2) * q[2]) @ self._gamma
        return out

    def hessian(self, x):
        """Return the Hessian (d, d) at a point x (d,): the sum over centers of these terms.

        α (2q' M + 4q'' vvᵀ) - 8q''' (v·β) vvᵀ - 4q'' (Mβ vᵀ + v (Mβ)ᵀ + (v·β) M)
        + γ ((8q'''u + 4Tq'') M + (16q''''u + 8Tq''') vvᵀ + 16q''' (Mv vᵀ + v (Mv)ᵀ) + 8q'' M²).
        """
        geometry = self._geometry
        z, _, q = self._profiles(x[None], 2)
        v, q = geometry.pull(z - geometry.centers), [part[0] for part in q]
        once, twice = np.zeros(len(v)), np.zeros(len(v))
        out = np.zeros((len(x), len(x)))
        if self._alpha is not None:
            once, twice = 2.0 * self._alpha * q[1], 4.0 * self._alpha * q[2]
        if self._beta is not None:
            inner = np.einsum("md,md->m", v, self._beta)
            once, twice = once - 4.0 * q[2] * inner, twice - 8.0 * q[3] * inner
            mixed = (4.0 * q[2][:, None] * self._pulled).T @ v
            out -= mixed + mixed.T
        if self._gamma is not None:
            u, trace = np.einsum("md,md->m", v, v), geometry.trace
            once = once + self._gamma * (8.0 * q[3] * u + 4.0 * trace * q[2])
            twice = twice + self._gamma * (16.0 * q[4] * u + 8.0 * trace * q[3])
            mixed = ((16.0 * self._gamma * q[3])[:, None] * geometry.pull(v)).T @ v
            out += (
                mixed + mixed.T + 8.0 * float(self._gamma @ q[2]) * geometry.pull(geometry.matrix)
            )
        return out + once.sum() * geometry.matrix + (twice[:, None] * v).T @ v

    def _profiles(self, x, order):
        """Return centered points, squared distances and derivatives of q for the coefficients."""
        x = self._geometry.centered(x)
        s = self._geometry.distances(x)
        taken = 2 if self._gamma is not None else 1 if self._beta is not None else 0
        return x, s, self._profile.derivatives(s, order + taken)

    def _section_laplacian(self, x, s, q):
        return (
            4.0 * q[2] * self._geometry.pulled_distances(x, s) + (2.0 * self._geometry.trace) * q[1]
        )


class _GeneralForms:
    """Any kernel, by its partial derivatives."""

    def __init__(self, expansion: KernelExpansion):
        self._expansion = expansion
        m, d = expansion.centers.shape
        self.numbers_per_point = m * d * d

    def values(self, x):
        return self._contracted(x, "k", "y", "yy")

    def gradient(self, x):
        return self._contracted(x, "x", "xy", "xyy")

    def laplacian(self, x):
        return self._contracted(x, "xx", "xxy", "xxyy")

    def _contracted(self, x, section, gradient, laplacian):
        f = self._expansion
        total = 0.0
        for name, coefficients in [
            (section, f.sections),
            (gradient, f.gradients),
            (laplacian, f.laplacians),
        ]:
            if coefficients is not None:
                subscripts = "nm...,m->n..." if coefficients.ndim == 1 else "nm...d,md->n..."
                total = total + np.einsum(
                    subscripts, kernel_derivative(f.kernel, name, x, f.centers), coefficients
                )
        return total
