"""Random Fourier features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from kmc import jitted
from kmc.arrays import as_array
from kmc.bases.base import Basis
from kmc.bases.base_jit_state import BaseJitState, base_value_and_gradient, flat
from kmc.kernels import Kernel, frequencies
from kmc.kernels.exponentials import ROUND
from kmc.njit import njit


@dataclass(frozen=True, eq=False)
class FourierFeatures(Basis):
    r"""Features :math:`\varphi_j(x) = \sqrt{2/p}\, a_j \cos(\omega_j^\top x + b_j)`.

    With frequencies from the spectral density of a kernel, and phases uniform on [0, 2π),
    :math:`E\,\varphi(x)^\top \varphi(y) = k(x, y)` (Rahimi and Recht 2007, algorithm 1), see
    :meth:`draw`. The number of features does not depend on the data.

    Parameters
    ----------
    frequencies : array_like, shape (p, d)
        ω, in radians per unit of x.
    phases : array_like, shape (p,)
        b, in radians.
    amplitudes : float or array_like, shape (p,)
        a; √k(0) of a kernel.

    Raises
    ------
    ValueError
        Arrays have other shapes, or are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.bases import FourierFeatures
    >>> from kmc.kernels import Gaussian
    >>> features = FourierFeatures.draw(Gaussian(2.0), 4000, 3, np.random.default_rng(0))
    >>> x, y = np.zeros((1, 3)), np.array([[1.0, 1.0, 1.0]])
    >>> float((features.values(x) @ features.values(y).T)[0, 0]), float(np.exp(-3 / 8))
    (0.6..., 0.6...)

    Notes
    -----
    Far from the origin the angles lose digits: center the data.
    """

    frequencies: np.ndarray
    phases: np.ndarray
    amplitudes: Any = 1.0
    _scale: np.ndarray = field(init=False, repr=False)  # (p,)
    _squares: np.ndarray = field(init=False, repr=False)  # (p,) |ω|²

    def __post_init__(self):
        omega = as_array("frequencies", self.frequencies)
        if omega.ndim != 2 or 0 in omega.shape:
            raise ValueError(f"frequencies has shape {omega.shape}: expected (p, d)")
        arrays = {"frequencies": omega}
        for name in ("phases", "amplitudes"):
            array = as_array(name, getattr(self, name))
            if array.shape != (len(omega),) and not (name == "amplitudes" and array.ndim == 0):
                raise ValueError(
                    f"{name} has shape {array.shape}: expected ({len(omega)},), one for each "
                    f"frequency"
                )
            arrays[name] = np.array(np.broadcast_to(array, len(omega)))
        for name, array in arrays.items():
            if not np.all(np.isfinite(array)):
                raise ValueError(f"{name} contains NaN or infinity: expected finite numbers")
        arrays["_scale"] = np.sqrt(2.0 / len(omega)) * arrays["amplitudes"]
        arrays["_squares"] = np.einsum("pd,pd->p", omega, omega)
        for name, array in arrays.items():
            object.__setattr__(self, name, array)

    @classmethod
    def draw(
        cls, kernel: Kernel, count: int, dim: int, rng: np.random.Generator | int | None
    ) -> Self:
        """Draw ``count`` random features of a stationary kernel on R^dim.

        The same state of ``rng`` gives frequencies that scale with the kernel's bandwidth, and the
        same phases.
        """
        rng = np.random.default_rng(rng)
        omega, amplitudes = frequencies(kernel, count, dim, rng)
        return cls(omega, rng.uniform(0.0, 2.0 * np.pi, count), amplitudes)

    @property
    def size(self) -> int:
        """Number of features p."""
        return len(self.frequencies)

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return the (n, p) values."""
        return self._cosines_and_sines(x)[0]

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """Return -√(2/p) a sin(ωᵀx + b) ω, (n, p, d)."""
        return -self._cosines_and_sines(x)[1][:, :, None] * self.frequencies

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """Return -|ω|² φ, (n, p)."""
        return self.values(x) * -self._squares

    def gram(self) -> np.ndarray:
        """Return the identity (p, p): the features are an orthonormal basis of their own space."""
        return np.eye(self.size)

    def sum_dirichlet(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sum over x of w <∇φ_a, ∇φ_b>, (p, p): <ω_a, ω_b> times one product of sines."""
        half = self._cosines_and_sines(x)[1]
        half *= np.sqrt(weights)[:, None]
        return (self.frequencies @ self.frequencies.T) * (half.T @ half)

    def sum_linear(
        self, x: np.ndarray, weights: np.ndarray, base_gradient: np.ndarray | None = None
    ) -> np.ndarray:
        """Sum over x of w (Δφ_a + <∇φ_a, g>), (p,), with g = ∇log q0 at the rows of x."""
        cosines, sines = self._cosines_and_sines(x)
        total = -(weights @ cosines) * self._squares
        if base_gradient is not None:
            along = sines.T @ (weights[:, None] * base_gradient)  # (p, d)
            total -= np.einsum("pd,pd->p", along, self.frequencies)
        return total

    def directional(self, x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return the (n, p) derivatives <∇φ_a, v> at each point, with v from ``vectors`` (n, d)."""
        return -self._cosines_and_sines(x)[1] * (vectors @ self.frequencies.T)

    def derivative(self, x: np.ndarray, index: Sequence[int]) -> np.ndarray:
        """Return ∂^α of the functions, (n, p): each order shifts the cosine by a quarter turn."""
        order = sum(index)
        wave = self._cosines_and_sines(x)[order % 2]
        sign = 1.0 if order % 4 in (0, 3) else -1.0
        return wave * (sign * np.prod(self.frequencies ** np.asarray(index), axis=1))

    def contract_gradients(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the gradients of the combination, shape (n, d)."""
        return self._cosines_and_sines(x)[1] @ (-coefficients[:, None] * self.frequencies)

    def contract_laplacians(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the Laplacians of the combination, shape (n,)."""
        return self.values(x) @ (-self._squares * coefficients)

    def contract_hessians(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the combination, (n, d, d): -Σ β φ ω ωᵀ."""
        waves = self.values(x) * -coefficients
        return (waves[:, None, :] * self.frequencies.T) @ self.frequencies

    def jit_state(
        self,
        coefficients: np.ndarray,
        base: BaseJitState | None = None,
        origin: np.ndarray | None = None,
    ) -> FourierState:
        """Return the state of the combination with coefficients (p,).

        See :meth:`kmc.bases.Contraction.jit_state`.
        """
        dim = self.frequencies.shape[1]
        return FourierState(
            *(flat(dim) if base is None else base),
            np.zeros(dim) if origin is None else np.array(origin, dtype=float),
            np.array(self.frequencies.T, order="C"),
            self.phases.copy(),
            self._scale * coefficients,
        )

    def _cosines_and_sines(self, x):
        """Return √(2/p) a times the cosines, and the sines, of all angles, (n, p) both."""
        angles = x @ self.frequencies.T
        angles += self.phases
        cosines, sines = np.empty_like(angles), np.empty_like(angles)
        cosines_and_sines(angles.reshape(-1), cosines.reshape(-1), sines.reshape(-1))
        cosines *= self._scale
        sines *= self._scale
        return cosines, sines


# A combination of Fourier features at one point, with a base density, inside jitted loops.


class FourierState(NamedTuple):
    """A combination of Fourier features plus a base log-density, as arrays and numbers.

    The value is base(x) + Σ_j coefficients_j cos(ω_j·(x - origin) + phases_j); see
    :class:`kmc.bases.base_jit_state.BaseJitState`.
    """

    constant: float
    location: np.ndarray  # (d,)
    precision: np.ndarray  # (d, d)
    dof: float
    origin: np.ndarray  # (d,)
    # (d, p): coordinate-major, so that the loops over features are contiguous
    frequencies: np.ndarray
    phases: np.ndarray  # (p,)
    coefficients: np.ndarray  # (p,), those of the features times their scale


@njit()
def workspace(state):
    """Return scratch arrays for :func:`value_and_gradient`."""
    d, p = state.frequencies.shape
    return np.empty(d), np.empty((3, p))


@njit()
def value_and_gradient(state, x, gradient, work):
    """Return the value at x (d,), and write the gradient into ``gradient`` (d,)."""
    d, p = state.frequencies.shape
    slope, rows = work
    angles, cosines, sines = rows[0], rows[1], rows[2]
    for j in range(p):
        angles[j] = state.phases[j]
    for i in range(d):
        r = x[i] - state.origin[i]
        frequencies = state.frequencies[i]
        for j in range(p):
            angles[j] += r * frequencies[j]
    cosines_and_sines(angles, cosines, sines)
    value = base_value_and_gradient(
        state.constant, state.location, state.precision, state.dof, x, gradient
    )
    value += np.dot(state.coefficients, cosines)
    for j in range(p):
        sines[j] *= state.coefficients[j]
    np.dot(state.frequencies, sines, slope)
    for i in range(d):
        gradient[i] -= slope[i]
    return value


jitted.register(FourierState, workspace, value_and_gradient)


# Sine and cosine, written so that the compiler vectorizes the loop (libm's are not vectorized).

_MOST = 1e6  # beyond, multiples of π/2 are no longer exact

_TWO_OVER_PI = 0.6366197723675814
_HALF_PI_HIGH = 1.57079632673412561417  # 33 bits: whole multiples up to 2^20 are exact
_HALF_PI_LOW = 6.07710050650619224932e-11


@njit()
def cosines_and_sines(angles, cosines, sines):
    """Write cosines and sines of angles (n,) into the other arrays, to an absolute error of 2e-16.

    The remainder r of the angle after whole multiples of π/2, |r| <= π/4, goes into the polynomials
    of fdlibm (Sun Microsystems, 1993); which of the two is the sine, and the signs, depend on the
    multiple modulo four.
    """
    largest = 0.0
    for a in range(angles.size):
        largest = max(largest, abs(angles[a]))
    if not largest < _MOST:
        for a in range(angles.size):
            cosines[a] = np.cos(angles[a])
            sines[a] = np.sin(angles[a])
        return
    for a in range(angles.size):
        n = (angles[a] * _TWO_OVER_PI + ROUND) - ROUND
        quarter = n - 4.0 * np.floor(0.25 * n)
        r = (angles[a] - n * _HALF_PI_HIGH) - n * _HALF_PI_LOW
        z = r * r
        s = 1.58969099521155010221e-10
        s = s * z - 2.50507602534068634195e-08
        s = s * z + 2.75573137070700676789e-06
        s = s * z - 1.98412698298579493134e-04
        s = s * z + 8.33333333332248946124e-03
        s = s * z - 1.66666666666666324348e-01
        s = r + r * z * s
        c = -1.13596475577881948265e-11
        c = c * z + 2.08757232129817482790e-09
        c = c * z - 2.75573143513906633035e-07
        c = c * z + 2.48015872894767294178e-05
        c = c * z - 1.38888888888741095749e-03
        c = c * z + 4.16666666666666019037e-02
        c = (1.0 - 0.5 * z) + z * z * c
        odd = quarter == 1.0 or quarter == 3.0
        cosine = s if odd else c
        sine = c if odd else s
        cosines[a] = -cosine if quarter == 1.0 or quarter == 2.0 else cosine
        sines[a] = -sine if quarter >= 2.0 else sine
