"""The bases that Hermite regression compares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kmc import landmarks
from kmc.bases import Basis, FourierFeatures, KernelSections, Monomials
from kmc.bases.base import as_basis, is_basis
from kmc.checks import check_count
from kmc.forms import Forms
from kmc.linalg import ridge_solution
from kmc.selection import kernel_candidates

BANDWIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Candidates of ``bandwidth="cv"``, in median distances between samples."""

BASES = ("sections", "fourier", "monomials")


class HermiteCandidate(NamedTuple):
    """A setting for which regularizations are compared; the fields are columns of the table."""

    kernel: Any
    bandwidth: float


class HermiteSetting(NamedTuple):
    """A candidate, with its kernel, or None, and its basis."""

    candidate: HermiteCandidate
    kernel: Any
    basis: Basis

    def penalty(self) -> np.ndarray:
        """Return the Gram matrix (p, p) of the basis, or the identity if it has none."""
        gram = self.basis.gram()
        return np.eye(self.basis.size) if gram is None else gram


def settings(model: Any, x: np.ndarray, median: float, rng: np.random.Generator) -> list[HermiteSetting]:
    """All settings that the parameters of an estimator leave open; sets its ``landmarks_`` if there are any."""
    if is_basis(model.basis):
        return [_without_kernel(as_basis(model.basis))]
    if not isinstance(model.basis, str) or model.basis not in BASES:
        raise ValueError(f"basis={model.basis!r}: expected {', '.join(map(repr, BASES))} or an object of kmc.bases")
    if model.basis == "monomials":
        check_count(model, "degree", 1)
        return [_without_kernel(Monomials.about(x, model.degree))]
    check_count(model, "n_basis", 1)
    found = kernel_candidates(model, median, BANDWIDTHS)
    candidates = [HermiteCandidate(kernel, bandwidth) for kernel, bandwidth, _ in found]
    kernels = [built for _, _, built in found]
    bases: list[Basis]
    if model.basis == "sections":
        model.landmarks_ = landmarks.choose(model.landmarks, x, model.n_basis, rng, kernels[0])
        bases = [KernelSections(kernel, model.landmarks_) for kernel in kernels]
    else:
        seed = int(rng.integers(2**63))  # the same draw, rescaled, for every bandwidth
        bases = [FourierFeatures.draw(kernel, model.n_basis, x.shape[1], seed) for kernel in kernels]
    return [HermiteSetting(*parts) for parts in zip(candidates, kernels, bases, strict=True)]


def _without_kernel(basis):
    return HermiteSetting(HermiteCandidate(None, np.nan), None, basis)


# The least-squares loss on values and gradients, as a quadratic of the coefficients.

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
        """Return the matrix (p, p) and the right side (p,) of the normal equations."""
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
        """Return the loss of the f with these coefficients α (p,) and this intercept c."""
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
