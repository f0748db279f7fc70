"""The least-squares loss on values and gradients, as a quadratic of the coefficients."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kmc.forms import Forms
from kmc.linalg import ridge_solution

JITTER = 1e-13
"""Added to the diagonal, in units of its mean: noiseless data are fitted to seven digits."""


@dataclass(frozen=True)
class HermiteLoss:
    r"""E[(f - y)²] + μ E[|∇f - t|²] of f = c + αᵀφ over weighted samples, computed from their forms.

    With M and v the covariances of φ with itself and with y, D = E[<∇φ, ∇φᵀ>] and g = E[<∇φ, t>], the best α solves
    (M + μ D) α = v + μ g. Without an intercept c, M and v are raw second moments: that is A α = b of Cabannes and Bach
    (2023), appendix B.4, where μ = 1.

    Attributes
    ----------
    forms : Forms
        mass and values; also dirichlet and gradients if there are gradients.
    gradient_weight : float
        μ.
    fit_intercept : bool
    """

    forms: Forms
    gradient_weight: float
    fit_intercept: bool

    def __add__(self, other: HermiteLoss) -> HermiteLoss:
        return replace(self, forms=self.forms + other.forms)

    def __sub__(self, other: HermiteLoss) -> HermiteLoss:
        return replace(self, forms=self.forms - other.forms)

    def system(self) -> tuple[np.ndarray, np.ndarray]:
        """The matrix (p, p) and the right side (p,) of the normal equations."""
        forms = self.forms
        if self.fit_intercept:
            matrix, target = forms.centered_mass(), forms.centered_values()
        else:
            matrix, target = forms.get("mass") / forms.weight, forms.get("values") / forms.weight
        if forms.gradients is not None:
            matrix = matrix + self.gradient_weight / forms.weight * forms.get("dirichlet")
            target = target + self.gradient_weight / forms.weight * forms.gradients
        return matrix, target

    def solution(self, penalty: np.ndarray, regularization: float) -> tuple[np.ndarray, float]:
        """α (p,) and c that minimize the loss + λ αᵀPα; c is zero without an intercept."""
        matrix, target = self.system()
        jitter = JITTER * np.trace(matrix) / len(matrix)
        coefficients = ridge_solution(matrix, target, penalty, regularization, jitter)
        return coefficients, self._mean_residual(coefficients) if self.fit_intercept else 0.0

    def __call__(self, coefficients: np.ndarray, intercept: float) -> float:
        """The loss of any f."""
        forms = self.forms
        bias = self._mean_residual(coefficients) - intercept
        spread = coefficients @ (forms.centered_mass() @ coefficients - 2.0 * forms.centered_values())
        loss = bias**2 + forms.value_variance() + spread
        if forms.gradients is not None:
            square = coefficients @ (forms.get("dirichlet") @ coefficients - 2.0 * forms.gradients)
            loss += self.gradient_weight / forms.weight * (square + forms.get("gradient_square"))
        return float(loss)

    def _mean_residual(self, coefficients):
        """E[y - αᵀφ]."""
        return float((self.forms.get("value_sum") - self.forms.get("mean") @ coefficients) / self.forms.weight)
