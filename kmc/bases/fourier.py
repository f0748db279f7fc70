"""Random Fourier features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from kmc.bases.base import Basis
from kmc.bases.base_jit_state import BaseJitState, flat
from kmc.bases.fourier_jit_state import FourierState
from kmc.bases.trigonometry import cosines_and_sines
from kmc.checks import as_array
from kmc.kernels import Kernel, frequencies


@dataclass(frozen=True, eq=False)
class FourierFeatures(Basis):
    r"""Features :math:`\varphi_j(x) = \sqrt{2/p}\, a_j \cos(\omega_j^\top x + b_j)`.

    With frequencies from the spectral density of a kernel, and phases uniform on [0, 2π),
    :math:`E\,\varphi(x)^\top \varphi(y) = k(x, y)` (Rahimi and Recht 2007, algorithm 1), see :meth:`draw`. The number
    of features does not depend on the data.

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
                raise ValueError(f"{name} has shape {array.shape}: expected ({len(omega)},), one for each frequency")
            arrays[name] = np.array(np.broadcast_to(array, len(omega)))
        for name, array in arrays.items():
            if not np.all(np.isfinite(array)):
                raise ValueError(f"{name} contains NaN or infinity: expected finite numbers")
        arrays["_scale"] = np.sqrt(2.0 / len(omega)) * arrays["amplitudes"]
        arrays["_squares"] = np.einsum("pd,pd->p", omega, omega)
        for name, array in arrays.items():
            object.__setattr__(self, name, array)

    @classmethod
    def draw(cls, kernel: Kernel, count: int, dim: int, rng: np.random.Generator | int | None) -> Self:
        """``count`` random features of a stationary kernel on R^dim.

        The same state of ``rng`` gives frequencies that scale with the kernel's bandwidth, and the same phases.
        """
        rng = np.random.default_rng(rng)
        omega, amplitudes = frequencies(kernel, count, dim, rng)
        return cls(omega, rng.uniform(0.0, 2.0 * np.pi, count), amplitudes)

    @property
    def size(self) -> int:
        """Number of features p."""
        return len(self.frequencies)

    def values(self, x: np.ndarray) -> np.ndarray:
        """(n, p) values."""
        return self._cosines_and_sines(x)[0]

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """(n, p, d): -√(2/p) a sin(ωᵀx + b) ω."""
        return -self._cosines_and_sines(x)[1][:, :, None] * self.frequencies

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """(n, p): -|ω|² φ."""
        return self.values(x) * -self._squares

    def gram(self) -> np.ndarray:
        """(p, p) identity: the features are an orthonormal basis of their own finite-dimensional space."""
        return np.eye(self.size)

    def sum_dirichlet(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sum over x of w <∇φ_a, ∇φ_b>, (p, p): <ω_a, ω_b> times one product of sines."""
        half = self._cosines_and_sines(x)[1]
        half *= np.sqrt(weights)[:, None]
        return (self.frequencies @ self.frequencies.T) * (half.T @ half)

    def sum_linear(self, x: np.ndarray, weights: np.ndarray, base_gradient: np.ndarray | None = None) -> np.ndarray:
        """Sum over x of w (Δφ_a + <∇φ_a, g>), (p,), with g = ∇log q0 at the rows of x."""
        cosines, sines = self._cosines_and_sines(x)
        total = -(weights @ cosines) * self._squares
        if base_gradient is not None:
            along = sines.T @ (weights[:, None] * base_gradient)  # (p, d)
            total -= np.einsum("pd,pd->p", along, self.frequencies)
        return total

    def directional(self, x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """(n, p) derivatives <∇φ_a, v> along a vector at each point, ``vectors`` (n, d)."""
        return -self._cosines_and_sines(x)[1] * (vectors @ self.frequencies.T)

    def derivative(self, x: np.ndarray, index: Sequence[int]) -> np.ndarray:
        """(n, p) partial derivatives ∂^α: each derivative shifts the cosine by a quarter turn."""
        order = sum(index)
        wave = self._cosines_and_sines(x)[order % 2]
        sign = 1.0 if order % 4 in (0, 3) else -1.0
        return wave * (sign * np.prod(self.frequencies ** np.asarray(index), axis=1))

    def contract_gradients(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Its gradients (n, d)."""
        return self._cosines_and_sines(x)[1] @ (-coefficients[:, None] * self.frequencies)

    def contract_laplacians(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Its Laplacians (n,)."""
        return self.values(x) @ (-self._squares * coefficients)

    def contract_hessians(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Its matrices of second derivatives (n, d, d): -Σ β φ ω ωᵀ."""
        waves = self.values(x) * -coefficients
        return (waves[:, None, :] * self.frequencies.T) @ self.frequencies

    def jit_state(
        self, coefficients: np.ndarray, base: BaseJitState | None = None, origin: np.ndarray | None = None
    ) -> FourierState:
        """The combination with coefficients (p,) for jitted loops, see :meth:`kmc.bases.Contraction.jit_state`."""
        dim = self.frequencies.shape[1]
        return FourierState(
            *(flat(dim) if base is None else base),
            np.zeros(dim) if origin is None else np.array(origin, dtype=float),
            np.array(self.frequencies.T, order="C"),
            self.phases.copy(),
            self._scale * coefficients,
        )

    def _cosines_and_sines(self, x):
        """√(2/p) a times the cosines, and the sines, of all angles, (n, p) both."""
        angles = x @ self.frequencies.T
        angles += self.phases
        cosines, sines = np.empty_like(angles), np.empty_like(angles)
        cosines_and_sines(angles.reshape(-1), cosines.reshape(-1), sines.reshape(-1))
        cosines *= self._scale
        sines *= self._scale
        return cosines, sines
