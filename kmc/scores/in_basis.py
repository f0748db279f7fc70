"""Score matching in a finite basis.

Accumulate the forms, choose open parameters by cross-validation, and solve one ridge.

f = Σ β_i φ_i minimizes ½ βᵀ A β + hᵀ β + ½ λ βᵀ P β, with A = E[<∇φ, ∇φᵀ>] and h = E[Δφ + <∇φ, ∇log
q0>] over weighted samples and P the penalty, in general the Gram matrix of the reproducing-kernel
space: β = -(A + λP)⁻¹ h. Sutherland, Strathmann, Arbel and Gretton (2018), theorem 1 and lemma 4.
With log-density values y at the samples, ½ γ E[(f + c - (y - log q0))²] is added for the best
constant c: A gains γ Cov(φ, φ), and h gains -γ Cov(φ, y - log q0).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from kmc import landmarks
from kmc.bases import Basis
from kmc.checks import check_count, check_number, is_whole
from kmc.kernels import kernel_of, median_distance
from kmc.linalg import ridge_solution
from kmc.scores import choice
from kmc.scores.base import REFIT_GROWTH, FittedExpansion, KernelScoreEstimator
from kmc.scores.sums import Samples, Sums, accumulate_sums
from kmc.seeds import as_generator
from kmc.selection import Search, folds_of, held_out, listed, numbers_or

BANDWIDTHS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Candidates of ``bandwidth="cv"``, in median distances between samples."""

REGULARIZATIONS = tuple(10.0 ** np.arange(-8.0, 2.0))
"""Candidates of ``regularization="cv"``, in units of 1 / (median distance)².

The units of x therefore do not matter.
"""

MANY = 500
"""Functions from which on trying a regularization is expensive: far too small ones are left out."""

BATCH = 3
"""Regularizations that are tried before the next decision whether smaller ones are needed."""


class RidgeModel(Protocol):
    """An estimator in a finite basis. Its parameters and fitted values are attributes."""

    kernel: Any
    bandwidth: Any
    regularization: Any
    base: Any
    value_weight: float
    jitter: Any
    cv: int
    random_state: Any

    def _draw(self, samples: Samples, kernel: Any, rng: np.random.Generator) -> None:
        """Draw what all candidates share: landmarks, components, the seed of the frequencies."""

    def _basis(self, kernel: Any) -> Basis:
        """Return the basis with this kernel, in centered coordinates."""

    def _penalties(self, basis: Basis) -> dict[str, np.ndarray]:
        """Return penalty matrices (p, p) by name; several are compared."""

    def _function(self, basis: Basis, coefficients: np.ndarray) -> Any:
        """Return f of centered points, with ``values``, ``gradient`` and ``laplacian``."""


class BasisEstimator(KernelScoreEstimator):
    """Base of the estimators that are linear in a finite basis; see :class:`RidgeModel`."""

    _basis_follows_data = True

    center_: np.ndarray
    landmarks_: np.ndarray
    basis_: Basis
    base_density_: Any
    density_: FittedExpansion

    def _fit(self, samples: Samples) -> None:
        self._stream = _Stream(samples, fit(self, samples), self._basis_follows_data)

    def _extend(self, block: Samples) -> None:
        self._stream.add(self, block)

    def jit_state(self) -> Any:
        """Return the estimated log-density for jitted loops, see :mod:`kmc.jitted`.

        It is None unless the base density is flat, Gaussian or Student-t, and the kernel composed
        of built-in radial ones: without it, samplers call the estimator's methods.
        """
        self._check_fitted()
        return self.density_.jit_state()


class _Stream:
    """The blocks so far: as samples if the basis will depend on them, and as sums.

    The work per sample does not grow with their number: a block's sums are added; the system is
    solved once n has grown by a factor, and samples that are kept are joined, and fitted anew, once
    it has doubled.
    """

    def __init__(self, samples: Samples, total: Sums, keep: bool):
        self.n = self.n_solved = self.n_chosen = len(samples.x)
        self.samples = samples if keep else None
        self._blocks: list[Samples] = []  # those that followed
        # O(p²) memory that a single fit does not need: summed again if the stream continues
        self.total: Sums | None = None if keep else total

    def add(self, model: Any, block: Samples) -> None:
        total = self.total
        if total is None:
            assert self.samples is not None
            total = accumulate_sums(model.basis_, self.samples, model.base_density_)
        self.n += len(block.x)
        if self.samples is not None:
            self._blocks.append(block)
            if self.n >= 2 * self.n_chosen:
                self.samples, self._blocks = self.samples.joined(*self._blocks), []
                self.total = fit(model, self.samples)
                self.n_solved = self.n_chosen = self.n
                return
        self.total = total + accumulate_sums(
            model.basis_, block._replace(center=model.center_), model.base_density_
        )
        if self.n >= REFIT_GROWTH * self.n_solved:
            solve(model, self.total)
            self.n_solved = self.n


def fit(model: Any, samples: Samples) -> Sums:
    """Choose open parameters, solve, and set the estimator's fitted attributes."""
    if not isinstance(model.jitter, str) or model.jitter != "auto":
        check_number(model, "jitter", 0, ends="[)")
    check_folds(model.cv)
    rng = as_generator(model.random_state)
    median = median_distance(samples.x)
    first = listed(
        "kernel", choice.FIXED["kernel"] if "kernel" in choice.open_names(model) else model.kernel
    )[0]
    model.center_ = samples.center
    model._draw(samples, kernel_of(first, median if isinstance(first, str) else 1.0), rng)
    search = Search(candidate_regularizations(model.regularization, median))
    total = _searched(
        model, samples, list(candidate_settings(model, samples, median, rng)), search, rng
    )
    model.regularization_ = search.regularization
    model.cv_results_ = search.table()
    solve(model, total)
    return total


def solve(model: Any, total: Sums) -> None:
    """Solve the ridge system with the chosen parameters; set ``coefficients_`` and ``density_``."""
    objective = total.objective()
    penalty = model._penalties(model.basis_)[model.penalty_]
    model.coefficients_ = ridge_solution(
        objective.matrix, -objective.linear, penalty, model.regularization_, model.jitter
    )
    function = model._function(model.basis_, model.coefficients_)
    model.density_ = FittedExpansion(model.center_, model.base_density_, function)


class ScoreCandidate(NamedTuple):
    """A setting for which regularizations are compared; the fields are columns of the table."""

    kernel: Any
    bandwidth: float
    base: Any
    penalty: str


class ScoreSetting(NamedTuple):
    """A candidate, with its kernel and its fitted base density."""

    candidate: ScoreCandidate
    kernel: Any
    base: Any


def candidate_settings(
    model: Any, samples: Samples, median: float, rng: np.random.Generator
) -> Iterator[ScoreSetting]:
    """Yield all combinations of an estimator's kernels, bandwidths and base densities.

    The penalty is still "norm".
    """
    for kernel, bandwidth, base, built, density in choice.settings(
        model, samples, median, BANDWIDTHS, rng
    ):
        yield ScoreSetting(ScoreCandidate(kernel, bandwidth, base, "norm"), built, density)


def candidate_regularizations(regularization: Any, median: float) -> np.ndarray:
    """Return the λ of each candidate, in the given order."""
    return numbers_or("regularization", regularization, np.array(REGULARIZATIONS) / median**2)


def check_folds(cv: Any) -> None:
    """Check a number of folds."""
    if not is_whole(cv) or cv < 2:
        raise ValueError(f"cv={cv!r}: expected a whole number of folds, at least 2")


class Folds:
    """K-fold: one sum for each fold; its training set is the whole minus the fold."""

    def __init__(self, basis: Basis, samples: Samples, base: Any, folds: list[np.ndarray]):
        self.parts = [accumulate_sums(basis, samples.take(fold), base) for fold in folds]
        self.total = self.parts[0]
        for part in self.parts[1:]:
            self.total = self.total + part

    def objectives(
        self, penalty: np.ndarray, regularizations: np.ndarray, jitter: Any
    ) -> np.ndarray:
        """Return the objective (parts, l) of each fold at the coefficients of the others.

        There is a column for each regularization. With ``MANY`` functions the regularizations are
        tried in batches, from the largest to the smallest. Once the two smallest so far are worse
        than the best one in every fold, the others are left out (NaN).
        """
        out = np.full((len(self.parts), len(regularizations)), np.nan)
        order = np.argsort(-regularizations, kind="stable")
        size = BATCH if len(penalty) >= MANY else len(order)
        for start in range(0, len(order), size):
            batch = order[start : start + size]
            for k, (rest, part) in enumerate(held_out(self.parts, self.total)):
                training, objective = rest.objective(), part.objective()
                for j in batch:
                    out[k, j] = objective(
                        ridge_solution(
                            training.matrix, -training.linear, penalty, regularizations[j], jitter
                        )
                    )
            mean = out.mean(axis=0)
            best = out[:, [np.argmin(np.where(np.isfinite(mean), mean, np.inf))]]
            if np.all(out[:, batch[-2:]] > best):
                break
        return out


def _searched(model, samples, settings, search, rng) -> Sums:
    """Set the chosen parameters, and return the sums of all samples.

    The regularization is not set: it is in ``search``.
    """
    folds = folds_of(len(samples.x), model.cv, rng)
    for candidate, kernel, base in settings:
        basis = model._basis(kernel)
        penalties = model._penalties(basis)
        if len(settings) * len(penalties) * len(search.regularizations) == 1:
            _choose(model, candidate._replace(penalty=next(iter(penalties))), kernel, base, basis)
            return accumulate_sums(basis, samples, base)
        sums = Folds(basis, samples, base, folds)
        for name, penalty in penalties.items():
            this = candidate._replace(penalty=name)
            objectives = sums.objectives(penalty, search.regularizations, model.jitter)
            search.add(this, objectives, (this, kernel, base, basis, sums.total))
    *chosen, total = search.best()
    _choose(model, *chosen)
    return total


def _choose(model, candidate, kernel, base, basis):
    model.kernel_, model.bandwidth_, model.penalty_ = kernel, candidate.bandwidth, candidate.penalty
    model.base_density_, model.basis_ = base, basis


def draw_landmarks(model: Any, samples: Samples, kernel: Any, rng: np.random.Generator) -> None:
    """Set ``landmarks_`` (m, d), in the user's coordinates."""
    check_count(model, "n_basis", 1)
    if isinstance(model.landmarks, str):
        model.landmarks_ = samples.center + landmarks.choose(
            model.landmarks, samples.z, model.n_basis, rng, kernel
        )
    else:
        model.landmarks_ = landmarks.choose(model.landmarks, samples.x, model.n_basis, rng)


def check_smooth(kernel: Any, derivatives: int) -> None:
    """Raise a ValueError if a kernel's sections have fewer derivatives than the estimator needs."""
    if kernel.differentiability < derivatives:
        raise ValueError(
            f"kernel={kernel!r} has {kernel.differentiability:g} derivatives at coincident points: "
            f"this estimator needs {derivatives}, use 'gaussian', 'inverse-multiquadric', "
            "'matern52' or 'matern72'"
        )
