r"""The linear system of the full estimator, for every regularization, dense or matrix-free.

Let E f be the gradients of f at the samples and, if log-density values y are known, its values,
weighted and centered (:class:`EvaluationOperator`), and ȳ their targets: zeros, and y - log q0. The
objective plus its penalty, times W = Σ w, is

.. math:: \tfrac12 |E f - \bar y|^2 + W \langle \hat\xi, f \rangle + \tfrac{W \lambda}{2} |f|^2 ,

minimized over the reproducing-kernel space by

.. math:: f = E^* u - \hat\xi / \lambda, \qquad
    (E E^* + W \lambda I)\, u = E \hat\xi / \lambda + \bar y :

equations 2 to 4 of Sutherland, Strathmann, Arbel and Gretton (2018), with weights and values; β is
E* u. At the solution :math:`E f = \bar y - W \lambda u`, so the residual of the system is an error
of the fitted gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from kmc.bases import KernelExpansion, KernelGradients
from kmc.forms import accumulate
from kmc.kernels import Kernel
from kmc.linalg import solve_shifted
from kmc.scores.full_operator import GradientGram
from kmc.scores.sums import Samples

DENSE = 1000
"""Largest number of unknowns for which the solver "auto" is "dense"."""

LEAST_RANK = 32


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
        """Return the name of the solver, "dense" or "cg"; "auto" depends on the size."""
        if name != "auto":
            return name
        return "dense" if self.size <= DENSE else "cg"

    def path(
        self, solver: str, regularizations: np.ndarray, tolerance: float, most: int
    ) -> Iterator[Solved]:
        """Solve for each regularization, with the named solver."""
        if self.solver(solver) == "dense":
            return self.dense(regularizations)
        return self.iterative(regularizations, tolerance, most)

    def dense(self, regularizations: np.ndarray) -> Iterator[Solved]:
        """Solve for each regularization.

        A single one is solved by Cholesky factorization, several by one eigendecomposition. Memory
        is that of one matrix of ``size``² numbers, two with values, three to four for the
        eigendecomposition.
        """
        if len(regularizations) == 1:
            yield self._by_cholesky(regularizations[0])
            return
        matrix = self._evaluation.dense()
        eigenvalues, vectors = linalg.eigh(
            matrix, overwrite_a=True, check_finite=False, driver="evd"
        )
        eigenvalues = np.maximum(eigenvalues, 0.0)
        for regularization in regularizations:
            rotated = vectors.T @ self._rhs(regularization).reshape(-1)
            yield self._solved(
                vectors @ (rotated / (eigenvalues + self._total * regularization)), regularization
            )

    def iterative(
        self, regularizations: np.ndarray, tolerance: float, most: int
    ) -> Iterator[Solved]:
        """Solve for each regularization by conjugate gradients, with one preconditioner.

        ``tolerance`` bounds the error of E f relative to E f - ȳ, ``most`` the number of products.
        Memory is O(n d) and the square of the preconditioner's rank, about 3 √size.
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
                f"regularization={regularization:g}: the system of {self.size} equations is "
                "singular to working precision, use a larger regularization"
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


class EvaluationOperator:
    r"""E f: √w ∇f at each sample and, with a weight γ of values, also √(γw) (f - f̄).

    Half of |E f|² is the quadratic part of the objective, times Σ w. f̄ is the weighted mean of f
    over the samples, because the constant in the log-density is free.

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

    def __init__(
        self,
        kernel: Kernel,
        points: np.ndarray,
        weights: np.ndarray,
        value_weight: float | None = None,
    ):
        self.kernel, self.points, self.weights, self.value_weight = (
            kernel,
            points,
            weights,
            value_weight,
        )
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
        """Return E f from gradients (n, d) and values (n,) of f at the points.

        The values are not used without γ.
        """
        if self.value_weight is None:
            return self._scale * gradients
        return self._centered(self._scale * np.column_stack([gradients, values]))

    def of(self, function: KernelExpansion) -> np.ndarray:
        """Return E f."""
        gradients = function.gradient(self.points)
        return self.rows(
            gradients,
            gradients[:, 0] if self.value_weight is None else function.values(self.points),
        )

    def moment(self, gradients: np.ndarray, laplacians: np.ndarray) -> np.ndarray:
        """Return E f for f = Σ_a <g_a, ∂k(x_a, ·)> + l_a Δk(x_a, ·), with g (n, d) and l (n,)."""
        out = self._gram.moment(gradients, laplacians)
        out *= self._scale
        return out if self.value_weight is None else self._centered(out)

    def coefficients(self, dual: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the coefficients of E* u, for u in the range of E.

        They are (n, d) for ∂_i k(x_a, ·) and, with values, (n,) for k(x_a, ·).
        """
        scaled = self._scale * dual
        return (scaled, None) if self.value_weight is None else (scaled[:, :-1], scaled[:, -1])

    def adjoint(self, dual: np.ndarray) -> KernelExpansion:
        """Return E* u as a function."""
        gradients, sections = self.coefficients(dual)
        return KernelExpansion(self.kernel, self.points, sections=sections, gradients=gradients)

    def product(self, dual: np.ndarray) -> np.ndarray:
        """Return E E* u for u in the range of E, in O(n² d) time and O(n d) memory."""
        out = self._gram(self._scale * dual)
        out *= self._scale
        return out if self.value_weight is None else self._centered(out)

    def dense(self) -> np.ndarray:
        """Return E E* as a symmetric matrix."""
        matrix, scale = self._gram.dense(), self._scale.reshape(-1)
        matrix *= scale
        matrix *= scale[:, None]
        if self.value_weight is not None:
            # Along the weighted values of a constant function, with gradients of zero.
            constant = np.zeros(self.shape)
            constant[:, -1] = self._root / np.linalg.norm(self._root)
            _project_out(matrix, constant.reshape(-1))
        return matrix

    def _centered(self, rows):
        values = rows[:, -1]
        values -= self._root * (self._root @ values / self.weights.sum())
        return rows


class Preconditioner:
    r"""Nyström approximation of E E* by kernel gradients Φ at m samples, inverted for every shift.

    E E* is replaced by :math:`B G^{-1} B^\top` with B = E Φ and G the Gram matrix of Φ. Let W
    whiten G and diagonalize BᵀB, into Λ. Then the inverse of the approximation plus μI is :math:`(I
    - B W (\Lambda + \mu)^{-1} W^\top B^\top)/\mu` (Sherman–Morrison–Woodbury). B is not stored: its
    products are expansions in the kernel, O(n m d).

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
        # error of Λ, where whitening amplifies the rounding of BᵀB
        self._noise = 1e-6 * self._values[-1]

    def at(self, shift: float) -> Callable[[np.ndarray], np.ndarray]:
        """Return the approximate inverse of E E* + shift I, as a function of a residual.

        It is positive definite.
        """
        # Λ + floor exceeds Λ and its error: the difference below stays positive
        floor = max(shift, self._noise)
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
        """Return BᵀB."""
        evaluation = self._evaluation
        if evaluation.value_weight is None:
            return accumulate(
                basis, evaluation.points, ("dirichlet",), weights=evaluation.weights
            ).get("dirichlet")
        sums = accumulate(
            basis, evaluation.points, ("dirichlet", "mass"), weights=evaluation.weights
        )
        return sums.get("dirichlet") + evaluation.value_weight * sums.weight * sums.centered_mass()


def _project_out(matrix, direction):
    """Replace M by (I - ssᵀ) M (I - ssᵀ) in place, for a symmetric M and a unit vector s."""
    image = matrix @ direction
    image -= 0.5 * (direction @ image) * direction
    matrix -= np.outer(direction, image)
    matrix -= np.outer(image, direction)
