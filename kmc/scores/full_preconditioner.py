"""An approximate inverse of the full estimator's matrix, from a few landmarks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg

from kmc.bases import KernelExpansion, KernelGradients
from kmc.forms import accumulate
from kmc.scores.full_evaluation import EvaluationOperator

LEAST_RANK = 32


class Preconditioner:
    r"""Nyström approximation of E E* by the gradients Φ of the kernel at m samples, inverted for every shift.

    E E* is replaced by :math:`B G^{-1} B^\top` with B = E Φ and G the Gram matrix of Φ. Let W whiten G and
    diagonalize BᵀB, into Λ. Then the inverse of the approximation plus μI is
    :math:`(I - B W (\Lambda + \mu)^{-1} W^\top B^\top)/\mu` (Sherman–Morrison–Woodbury). B is not stored: its products
    are expansions in the kernel, O(n m d).

    Parameters
    ----------
    evaluation : EvaluationOperator
        The operator E.
    rank : int
        About m d, the number of functions in Φ. They cost O(n rank²) time and O(rank²) memory.
    """

    def __init__(self, evaluation: EvaluationOperator, rank: int):
        self._evaluation = evaluation
        n, d = evaluation.points.shape
        m = min(-(-max(rank, LEAST_RANK) // d), n)
        self._centers = evaluation.points[np.random.default_rng(0).choice(n, m, replace=False)]
        basis = KernelGradients(evaluation.kernel, self._centers)
        gram = basis.gram()
        np.einsum("ii->i", gram)[:] += 1e-10 * np.trace(gram) / len(gram)
        self._values, self._whitening = linalg.eigh(self._squares(basis), gram, check_finite=False)
        self._noise = 1e-6 * self._values[-1]  # error of Λ, where whitening amplifies the rounding of BᵀB

    def at(self, shift: float) -> Callable[[np.ndarray], np.ndarray]:
        """The approximate inverse of E E* + shift I, positive definite."""
        floor = max(shift, self._noise)  # Λ + floor exceeds Λ and its error: the difference below stays positive
        kept = self._values > 0.1 * floor
        whitening, inverse = self._whitening[:, kept], 1.0 / (self._values[kept] + floor)

        def apply(residual):
            inner = self._evaluation.adjoint(residual).gradient(self._centers).reshape(-1)
            outer = whitening @ (inverse * (whitening.T @ inner))
            smooth = KernelExpansion(
                self._evaluation.kernel, self._centers, gradients=outer.reshape(self._centers.shape)
            )
            return (residual - self._evaluation.of(smooth)) / shift

        return apply

    def _squares(self, basis):
        """BᵀB."""
        evaluation = self._evaluation
        if evaluation.value_weight is None:
            return accumulate(basis, evaluation.points, ("dirichlet",), weights=evaluation.weights).get("dirichlet")
        sums = accumulate(basis, evaluation.points, ("dirichlet", "mass"), weights=evaluation.weights)
        return sums.get("dirichlet") + evaluation.value_weight * sums.weight * sums.centered_mass()
