"""Values and gradients of a function at the samples, as a linear operator of the full estimator."""

from __future__ import annotations

import numpy as np

from kmc.bases import KernelExpansion
from kmc.kernels import Kernel
from kmc.scores.full_operator import GradientGram


class EvaluationOperator:
    r"""E f: √w ∇f at each sample and, with a weight γ of values, also √(γw) (f - f̄).

    Half of |E f|² is the quadratic part of the objective, times Σ w. f̄ is the weighted mean of f over the samples,
    because the constant in the log-density is free.

    Parameters
    ----------
    kernel : Kernel
        The kernel of the space of f.
    points : ndarray, shape (n, d)
    weights : ndarray, shape (n,)
        Positive.
    value_weight : float, optional
        γ; no values by default.
    """

    def __init__(self, kernel: Kernel, points: np.ndarray, weights: np.ndarray, value_weight: float | None = None):
        self.kernel, self.points, self.weights, self.value_weight = kernel, points, weights, value_weight
        self._gram = GradientGram(kernel, points, sections=value_weight is not None)
        self._root = np.sqrt(weights)
        self._scale = np.tile(self._root[:, None], self.shape[1])
        if value_weight is not None:
            self._scale[:, -1] *= np.sqrt(value_weight)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of E f: (n, d), or (n, d + 1) with values."""
        return self._gram.shape

    def rows(self, gradients: np.ndarray, values: np.ndarray) -> np.ndarray:
        """E f from gradients (n, d) and values (n,) of f at the points; the values are not used without γ."""
        if self.value_weight is None:
            return self._scale * gradients
        return self._centered(self._scale * np.column_stack([gradients, values]))

    def of(self, function: KernelExpansion) -> np.ndarray:
        """E f."""
        gradients = function.gradient(self.points)
        return self.rows(gradients, gradients[:, 0] if self.value_weight is None else function.values(self.points))

    def moment(self, gradients: np.ndarray, laplacians: np.ndarray) -> np.ndarray:
        """E f for f = Σ_a <g_a, ∂k(x_a, ·)> + l_a Δk(x_a, ·), with g (n, d) and l (n,)."""
        out = self._gram.moment(gradients, laplacians)
        out *= self._scale
        return out if self.value_weight is None else self._centered(out)

    def coefficients(self, dual: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """E* u for u in the range of E: coefficients (n, d) of ∂_i k(x_a, ·) and, with values, (n,) of k(x_a, ·)."""
        scaled = self._scale * dual
        return (scaled, None) if self.value_weight is None else (scaled[:, :-1], scaled[:, -1])

    def adjoint(self, dual: np.ndarray) -> KernelExpansion:
        """E* u as a function."""
        gradients, sections = self.coefficients(dual)
        return KernelExpansion(self.kernel, self.points, sections=sections, gradients=gradients)

    def product(self, dual: np.ndarray) -> np.ndarray:
        """E E* u for u in the range of E, in O(n² d) time and O(n d) memory."""
        out = self._gram(self._scale * dual)
        out *= self._scale
        return out if self.value_weight is None else self._centered(out)

    def dense(self) -> np.ndarray:
        """E E* as a symmetric matrix."""
        matrix, scale = self._gram.dense(), self._scale.reshape(-1)
        matrix *= scale
        matrix *= scale[:, None]
        if self.value_weight is not None:
            _project_out(matrix, self._constant())
        return matrix

    def _constant(self):
        """The unit vector of values that a constant function would have."""
        out = np.zeros(self.shape)
        out[:, -1] = self._root / np.linalg.norm(self._root)
        return out.reshape(-1)

    def _centered(self, rows):
        values = rows[:, -1]
        values -= self._root * (self._root @ values / self.weights.sum())
        return rows


def _project_out(matrix, direction):
    """(I - ssᵀ) M (I - ssᵀ) in place, for a symmetric M and a unit vector s."""
    image = matrix @ direction
    image -= 0.5 * (direction @ image) * direction
    matrix -= np.outer(direction, image)
    matrix -= np.outer(image, direction)
