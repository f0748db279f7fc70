"""Held-out objectives of a ridge system from sums, by folds or by exact leave-one-out, without refitting a model."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy import linalg

from kmc.bases import Basis
from kmc.linalg import ridge_solution, ridge_system
from kmc.scores.sums import Samples, Sums, accumulate_sums


class HeldOut(Protocol):
    """One basis and base density, to be compared with others."""

    total: Sums

    def objectives(self, penalty: np.ndarray, regularizations: np.ndarray, jitter: Any) -> np.ndarray:
        """Objective (parts, l) of each held-out part at the coefficients of the others, for each regularization."""


class Folds:
    """K-fold: one sum for each fold; its training set is the whole minus the fold."""

    def __init__(self, basis: Basis, samples: Samples, base: Any, folds: list[np.ndarray]):
        self.parts = [accumulate_sums(basis, samples.take(fold), base) for fold in folds]
        self.total = self.parts[0]
        for part in self.parts[1:]:
            self.total = self.total + part

    def objectives(self, penalty: np.ndarray, regularizations: np.ndarray, jitter: Any) -> np.ndarray:
        """See :class:`HeldOut`."""
        out = np.empty((len(self.parts), len(regularizations)))
        for k, part in enumerate(self.parts):
            training, held_out = (self.total - part).objective(), part.objective()
            for j, regularization in enumerate(regularizations):
                out[k, j] = held_out(ridge_solution(training.matrix, -training.linear, penalty, regularization, jitter))
        return out


class LeaveOneOut:
    r"""Exact leave-one-out of the score-matching objective, at the cost of a triangular solve.

    With M = BᵀB + nλP over all samples, B_b and h_b the gradients and the linear term of sample b, H_b = B_b M⁻¹ B_bᵀ:
    the fit without b has at b the gradient g = (I - H_b)⁻¹ (B_b β + B_b M⁻¹ h_b) and the linear term
    h_b·β + h_bᵀ M⁻¹ h_b + (B_b M⁻¹ h_b)·g, by the Sherman–Morrison–Woodbury formula. nλ stays that of all samples.
    """

    def __init__(self, basis: Basis, samples: Samples, base: Any, block: int = 128):
        if samples.values is not None:
            raise ValueError("cv='loo': leave-one-out is for samples without values, use a number of folds")
        self.basis, self.samples, self.base, self.block = basis, samples, base, block
        self.total = accumulate_sums(basis, samples, base)

    def objectives(self, penalty: np.ndarray, regularizations: np.ndarray, jitter: Any) -> np.ndarray:
        """See :class:`HeldOut`; a part is a sample."""
        whole, n = self.total.objective(), self.total.forms.weight
        factors = [
            linalg.cholesky(n * ridge_system(whole.matrix, penalty, r, jitter), lower=True) for r in regularizations
        ]
        coefficients = [-linalg.cho_solve((factor, True), n * whole.linear) for factor in factors]
        parts = []
        for start in range(0, len(self.samples.x), self.block):
            samples = self.samples.take(np.arange(start, min(start + self.block, len(self.samples.x))))
            rows = self._rows(samples)
            parts.append(np.stack([_left_out(f, c, *rows) for f, c in zip(factors, coefficients, strict=True)], axis=1))
        return np.concatenate(parts)

    def _rows(self, samples):
        """Gradients (n, d, p), linear terms (n, p), base terms (n,) and weights (n,) of some samples."""
        gradients, g = self.basis.gradients(samples.z), self.base.gradient(samples.x)
        linear = self.basis.laplacians(samples.z) + np.einsum("npd,nd->np", gradients, g)
        base = self.base.laplacian(samples.x) + 0.5 * np.einsum("nd,nd->n", g, g)
        return np.swapaxes(gradients, 1, 2), linear, base, samples.weights


def _left_out(factor, coefficients, gradients, linear, base, weights):
    """Weighted objective of each sample at the coefficients fitted without it, (n,)."""
    n, d, p = gradients.shape
    w = weights[:, None]
    b = linalg.solve_triangular(factor, gradients.reshape(n * d, p).T, lower=True).T.reshape(n, d, p)
    a = linalg.solve_triangular(factor, linear.T, lower=True).T  # L⁻¹ h_b
    cross = np.einsum("ndp,np->nd", b, a)
    hat = np.einsum("ndp,nep->nde", b, b)
    g = np.linalg.solve(np.eye(d) - w[:, :, None] * hat, (gradients @ coefficients + w * cross)[:, :, None])[:, :, 0]
    term = linear @ coefficients + weights * (np.einsum("np,np->n", a, a) + np.einsum("nd,nd->n", cross, g))
    return weights * (0.5 * np.einsum("nd,nd->n", g, g) + term + base)
