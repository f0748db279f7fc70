"""Score matching in a finite basis: accumulate the forms, choose open parameters by cross-validation, solve one ridge.

f = Σ β_i φ_i minimizes ½ βᵀ A β + hᵀ β + ½ λ βᵀ P β, with A = E[<∇φ, ∇φᵀ>] and h = E[Δφ + <∇φ, ∇log q0>] over weighted
samples and P the penalty, in general the Gram matrix of the reproducing-kernel space: β = -(A + λP)⁻¹ h. Sutherland,
Strathmann, Arbel and Gretton (2018), theorem 1 and lemma 4. With log-density values y at the samples,
½ γ E[(f + c - (y - log q0))²] is added for the best constant c: A gains γ Cov(φ, φ), and h gains -γ Cov(φ, y - log q0).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from kmc.bases import Basis
from kmc.checks import as_generator, check_number
from kmc.kernels import median_distance
from kmc.kernels.names import kernel_of
from kmc.linalg import ridge_solution
from kmc.scores import candidates
from kmc.scores.base import FittedExpansion
from kmc.scores.held_out import Folds, HeldOut, LeaveOneOut
from kmc.scores.sums import Samples, Sums, accumulate_sums
from kmc.selection import Search, folds_of, listed


class Model(Protocol):
    """An estimator in a finite basis. Its parameters and fitted values are attributes."""

    kernel: Any
    bandwidth: Any
    regularization: Any
    base: Any
    value_weight: float
    jitter: Any
    cv: Any
    random_state: Any

    def _draw(self, samples: Samples, kernel: Any, rng: np.random.Generator) -> None:
        """Draw what all candidates share: landmarks, components, the seed of the frequencies."""

    def _basis(self, kernel: Any) -> Basis:
        """The basis with this kernel, in centered coordinates."""

    def _penalties(self, basis: Basis) -> dict[str, np.ndarray]:
        """Penalty matrices (p, p) by name; several are compared."""

    def _function(self, basis: Basis, coefficients: np.ndarray) -> Any:
        """f in centered coordinates, with ``values``, ``gradient`` and ``laplacian`` at points."""


def fit(model: Any, samples: Samples) -> Sums:
    """Choose open parameters, solve, and set the estimator's fitted attributes."""
    if not isinstance(model.jitter, str) or model.jitter != "auto":
        check_number(model, "jitter", 0, ends="[)")
    candidates.check_folds(model.cv)
    rng = as_generator(model.random_state)
    median = median_distance(samples.x)
    first = listed("kernel", model.kernel)[0]
    model.center_ = samples.center
    model._draw(samples, kernel_of(first, median if isinstance(first, str) else 1.0), rng)
    search = Search(candidates.regularizations(model.regularization, median))
    total = _searched(model, samples, list(candidates.settings(model, samples, median)), search, rng)
    model.regularization_ = search.regularization
    model.cv_results_ = search.table()
    solve(model, total)
    return total


def solve(model: Any, total: Sums) -> None:
    """Solve the ridge system with the chosen parameters; sets ``coefficients_`` and ``density_``."""
    objective = total.objective()
    penalty = model._penalties(model.basis_)[model.penalty_]
    model.coefficients_ = ridge_solution(
        objective.matrix, -objective.linear, penalty, model.regularization_, model.jitter
    )
    function = model._function(model.basis_, model.coefficients_)
    model.density_ = FittedExpansion(model.center_, model.base_density_, function)


def _searched(model, samples, settings, search, rng) -> Sums:
    """Set the chosen parameters, except the regularization, which is in ``search``; return the sums of all samples."""
    folds = folds_of(len(samples.x), model.cv, rng) if model.cv != "loo" else None
    chosen: Sums | None = None
    for candidate, kernel, base in settings:
        basis = model._basis(kernel)
        penalties = model._penalties(basis)
        if len(settings) * len(penalties) * len(search.regularizations) == 1:
            _choose(model, candidate._replace(penalty=next(iter(penalties))), kernel, base, basis)
            return accumulate_sums(basis, samples, base)
        held_out: HeldOut = LeaveOneOut(basis, samples, base) if folds is None else Folds(basis, samples, base, folds)
        for name, penalty in penalties.items():
            this = candidate._replace(penalty=name)
            if search.add(this, held_out.objectives(penalty, search.regularizations, model.jitter)):
                _choose(model, this, kernel, base, basis)
                chosen = held_out.total
    if chosen is None:
        raise ValueError("no setting of kernel, bandwidth and regularization has a finite held-out objective")
    return chosen


def _choose(model, candidate, kernel, base, basis):
    model.kernel_, model.bandwidth_, model.penalty_ = kernel, candidate.bandwidth, candidate.penalty
    model.base_density_, model.basis_ = base, basis
