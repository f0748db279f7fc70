r"""The linear system of the full estimator, for every regularization, dense or matrix-free.

Let E f be the gradients of f at the samples and, if log-density values y are known, its values, weighted and
centered (:class:`~kmc.scores.full_evaluation.EvaluationOperator`), and ȳ their targets: zeros, and y - log q0.
The objective plus its penalty, times W = Σ w, is

.. math:: \tfrac12 |E f - \bar y|^2 + W \langle \hat\xi, f \rangle + \tfrac{W \lambda}{2} |f|^2 ,

minimized over the reproducing-kernel space by

.. math:: f = E^* u - \hat\xi / \lambda, \qquad (E E^* + W \lambda I)\, u = E \hat\xi / \lambda + \bar y :

equations 2 to 4 of Sutherland, Strathmann, Arbel and Gretton (2018), with weights and values; β is E* u. At the
solution :math:`E f = \bar y - W \lambda u`, so the residual of the system is an error of the fitted gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from kmc.bases import KernelExpansion
from kmc.kernels import Kernel
from kmc.krylov import solve_shifted
from kmc.scores.full_evaluation import EvaluationOperator
from kmc.scores.full_preconditioner import Preconditioner
from kmc.scores.sums import Samples

DENSE = 1000
"""Largest number of unknowns for which the solver "auto" is "dense"."""


class Solved(NamedTuple):
    """The solution for one regularization."""

    function: KernelExpansion  # f, in centered coordinates
    coefficients: np.ndarray  # β (n, d)
    error: float = 0.0  # bound on the relative error of E f - ȳ; 0 for a direct solution
    iterations: int = 0  # 0 for a direct solution
    converged: bool = True


class FullSystem:
    """The parts shared by all regularizations, for one kernel, base density and set of samples.

    Parameters
    ----------
    kernel : Kernel
    samples : Samples
        Samples of positive weight.
    base : density
    """

    def __init__(self, kernel: Kernel, samples: Samples, base: Any):
        valued = samples.values is not None
        self._evaluation = EvaluationOperator(
            kernel, samples.z, samples.weights, samples.value_weight if valued else None
        )
        self._total = float(samples.weights.sum())
        self._share = samples.weights / self._total
        self._drift = self._share[:, None] * base.gradient(samples.x)
        self._moment = self._evaluation.moment(self._drift, self._share)  # E ξ, equation 3
        nothing, target = np.zeros(samples.x.shape), np.zeros(len(samples.x))
        if samples.values is not None:
            target = samples.values - base.log_density(samples.x)
        self._target = self._evaluation.rows(nothing, target)

    @property
    def size(self) -> int:
        """Number of unknowns, n d, or n (d + 1) with values."""
        return self._target.size

    def solver(self, name: str) -> str:
        """The solver "dense" or "cg"; "auto" depends on the size."""
        if name != "auto":
            return name
        return "dense" if self.size <= DENSE else "cg"

    def path(self, solver: str, regularizations: np.ndarray, tolerance: float, most: int) -> Iterator[Solved]:
        """Solve for each regularization, with the named solver."""
        if self.solver(solver) == "dense":
            return self.dense(regularizations)
        return self.iterative(regularizations, tolerance, most)

    def dense(self, regularizations: np.ndarray) -> Iterator[Solved]:
        """Solve for each regularization: a single one by Cholesky factorization, several by one eigendecomposition.

        Memory is that of one matrix of ``size``² numbers, two with values, three to four for the eigendecomposition.
        """
        if len(regularizations) == 1:
            yield self._by_cholesky(regularizations[0])
            return
        matrix = self._evaluation.dense()
        eigenvalues, vectors = linalg.eigh(matrix, overwrite_a=True, check_finite=False, driver="evd")
        eigenvalues = np.maximum(eigenvalues, 0.0)
        for regularization in regularizations:
            rotated = vectors.T @ self._rhs(regularization).reshape(-1)
            yield self._solved(vectors @ (rotated / (eigenvalues + self._total * regularization)), regularization)

    def iterative(self, regularizations: np.ndarray, tolerance: float, most: int) -> Iterator[Solved]:
        """Solve for each regularization by conjugate gradients, with one preconditioner.

        ``tolerance`` bounds the error of E f relative to E f - ȳ, ``most`` the number of products. Memory is O(n d) and
        the square of the preconditioner's rank, about 3 √size.
        """
        preconditioner = Preconditioner(self._evaluation, round(3.0 * np.sqrt(self.size)))
        for regularization in regularizations:
            shift = self._total * regularization
            found = solve_shifted(
                self._evaluation.product,
                shift,
                self._rhs(regularization),
                precondition=preconditioner.at(shift),
                tolerance=tolerance,
                most=most,
            )
            yield self._solved(found.x, regularization)._replace(
                error=found.error, iterations=found.iterations, converged=found.converged
            )

    def _rhs(self, regularization):
        return self._moment / regularization + self._target

    def _by_cholesky(self, regularization):
        matrix = self._evaluation.dense()
        np.einsum("ii->i", matrix)[:] += self._total * regularization
        norm = max(np.abs(row).sum() for row in matrix)
        factor, info = linalg.lapack.dpotrf(matrix.T, lower=1, overwrite_a=1, clean=0)
        if info or linalg.lapack.dpocon(factor, norm, uplo="L")[0] < np.finfo(float).eps:
            raise ValueError(
                f"regularization={regularization:g}: the system of {self.size} equations is singular to working "
                "precision, use a larger regularization"
            )
        dual, _ = linalg.lapack.dpotrs(factor, self._rhs(regularization).reshape(-1), lower=1)
        return self._solved(dual, regularization)

    def _solved(self, dual, regularization):
        coefficients, sections = self._evaluation.coefficients(dual.reshape(self._target.shape))
        function = KernelExpansion(
            self._evaluation.kernel,
            self._evaluation.points,
            sections=sections,
            gradients=coefficients - self._drift / regularization,
            laplacians=-self._share / regularization,
        )
        return Solved(function, coefficients)
