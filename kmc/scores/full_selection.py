"""Choice of kernel, bandwidth, base density and regularization of the full estimator, by folds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kmc.checks import as_generator
from kmc.kernels import median_distance
from kmc.scores import candidates
from kmc.scores.base import FittedDensity, FittedExpansion
from kmc.scores.candidates import ScoreSetting
from kmc.scores.full_system import FullSystem
from kmc.scores.in_basis import check_smooth
from kmc.scores.sums import Samples
from kmc.selection import Search, folds_of

SELECTION = 1000
"""Largest number of samples on which candidates are compared."""

TOLERANCE, PRODUCTS = 1e-3, 100
"""Limit on conjugate gradients while candidates are compared: a λ that needs more, and all lower ones, are skipped."""


class Choice(NamedTuple):
    """The chosen parameters."""

    kernel: Any
    bandwidth: float
    base: Any
    regularization: float
    table: dict[str, np.ndarray]  # cv_results_


def choose(model: Any, samples: Samples) -> Choice:
    """Choose a FullKEF's open parameters for samples of positive weight.

    With more than ``SELECTION`` samples, candidates are compared on a random subset of that size; the best λ for n₁ of
    n samples becomes λ (n₁/n)^(1/3), the slowest decay of Sutherland, Strathmann, Arbel and Gretton (2018), theorem 2.
    """
    candidates.check_folds(model.cv)
    if model.cv == "loo":
        raise ValueError("cv='loo': the full estimator has no exact leave-one-out, use a number of folds")
    rng, median = as_generator(model.random_state), median_distance(samples.x)
    search = Search(_regularizations(model.regularization, median))
    settings = list(candidates.settings(model, samples, median))
    for setting in settings:
        check_smooth(setting.kernel, 4)
    chosen, shrinkage = settings[0], 1.0
    if len(settings) * len(search.regularizations) > 1:
        shrinkage = min(SELECTION / len(samples.x), 1.0) ** (1.0 / 3.0)
        chosen = _best(model, _subset(samples, rng), settings, search, rng)
    regularization = shrinkage * search.regularization
    return Choice(chosen.kernel, chosen.candidate.bandwidth, chosen.base, regularization, search.table())


def held_out_objective(density: FittedDensity, samples: Samples) -> float:
    """The mean objective of a density on samples, including the value terms, as in :class:`kmc.scores.sums.Sums`."""
    share = samples.weights / samples.weights.sum()
    gradient = density.gradient(samples.x)
    total = share @ (density.laplacian(samples.x) + 0.5 * np.einsum("nd,nd->n", gradient, gradient))
    if samples.values is not None:
        residual = samples.values - density.log_density(samples.x)
        total += 0.5 * samples.value_weight * (share @ (residual - share @ residual) ** 2)
    return float(total)


def _regularizations(regularization, median):
    found = candidates.regularizations(regularization, median)
    if not np.all(found > 0):
        raise ValueError(
            f"regularization={regularization!r}: expected positive numbers: the full estimator divides by λ, and does "
            "not exist with zero"
        )
    return found


def _subset(samples, rng):
    n = len(samples.x)
    return samples if n <= SELECTION else samples.take(np.sort(rng.choice(n, SELECTION, replace=False)))


def _best(model, samples, settings, search, rng) -> ScoreSetting:
    """The setting with the best regularization, which is kept in ``search``."""
    folds = folds_of(len(samples.x), model.cv, rng)
    best = None
    for setting in settings:
        if search.add(setting.candidate, _held_out(model, samples, setting, folds, search.regularizations)):
            best = setting
    if best is None:
        raise ValueError("no setting of kernel, bandwidth and regularization has a finite held-out objective")
    return best


def _held_out(model, samples, setting, folds, regularizations):
    """Objective (folds, l) of each fold under the fits to the others; NaN where they take too long."""
    descending = np.argsort(-regularizations)
    out = np.full((len(folds), len(regularizations)), np.nan)
    for k, fold in enumerate(folds):
        rest = np.ones(len(samples.x), bool)
        rest[fold] = False
        system, part = FullSystem(setting.kernel, samples.take(rest), setting.base), samples.take(fold)
        path = system.path(model.solver, regularizations[descending], max(model.tolerance, TOLERANCE), PRODUCTS)
        for j, solved in zip(descending, path, strict=True):
            if not solved.converged:
                break
            out[k, j] = held_out_objective(FittedExpansion(samples.center, setting.base, solved.function), part)
    return out
