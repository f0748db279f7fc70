"""The weight of score terms in the surrogate's objective, by cross-validation.

Noise affects values but not states: if it is large, the score-matching objective at the states of the chains can add
information to the values. How much shows in held-out values, whose squared residuals have the variance of the noise
as an additive constant. A state that is itself an evaluated point must be held out together with its value, because a
high estimate has made it a state: leave-one-out, which holds out the values alone, would count that noise twice. Hence
folds of points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.bases import KernelSections, Whitened
from kmc.forms import accumulate_folds
from kmc.kernels import Metric
from kmc.linalg import cholesky_whitening, ridge_path
from kmc.surrogates.expansion import REGULARIZATIONS, Data, Expansion, fit_kernel, kernel_of_width, system
from kmc.surrogates.noise import no_worse

# "Tried" is docs/what-was-tried.md, noisy targets; others were set by hand.
SHARES = (0.0, 0.05, 0.2, 0.6)  # candidates
FOLDS = 5
_CENTERS = 100  # centers used for the choice (tried: half as many centers)
_ERRORS = 2.0  # standard errors by which score terms must improve the fit (tried: one, two)


class PointFolds(NamedTuple):
    """The fold of every value (n,) and of every state (k,); a state that is an evaluated point is in its fold."""

    values: np.ndarray
    states: np.ndarray


def make_folds(x: np.ndarray, states: np.ndarray, rng: np.random.Generator) -> PointFolds:
    """Random folds of the distinct rows of x (n, d) and states (k, d)."""
    _, row = np.unique(np.vstack([x, states]), axis=0, return_inverse=True)
    row = row.ravel()
    labels = (rng.permutation(row.max() + 1) % FOLDS)[row]
    return PointFolds(labels[: len(x)], labels[len(x) :])


def with_best_share(
    data: Data, expansion: Expansion, folds: PointFolds, *, factors: tuple[float, ...], jitter: float
) -> Expansion:
    """The given expansion, or one with score terms if held-out values clearly prefer it.

    Score terms push the surrogate down wherever the chains have not been, where values rarely contradict, as there are
    few: a chain that finds such a place stays for long. A gain that could be chance is not worth that risk.
    Weight, bandwidth and ridge are chosen together, from :data:`SHARES`, ``factors`` and REGULARIZATIONS.
    """
    if any(len(np.unique(labels)) < FOLDS for labels in folds):
        return expansion
    few = data._replace(centers=data.centers[:: -(-len(data.centers) // _CENTERS)])
    found = [_held_out(few, expansion.metric, folds, factor=factor, jitter=jitter) for factor in factors]
    residuals = np.stack(found, axis=2)  # (n, shares, factors, regularizations)
    flat = residuals.reshape(len(data.z), -1)
    errors = data.weights @ flat**2
    values_only = int(np.argmin(errors.reshape(residuals.shape[1:])[0]))
    best = int(np.argmin(errors))
    if no_worse(flat[:, [values_only, best]], data.weights, _ERRORS)[0]:
        return expansion
    share, factor, at = np.unravel_index(best, residuals.shape[1:])
    chosen = data._replace(score_weight=SHARES[share])
    return fit_kernel(
        chosen, expansion.metric, factors[factor], jitter=jitter, regularization=float(REGULARIZATIONS[at])
    )


def _held_out(data: Data, metric: np.ndarray, folds: PointFolds, *, factor: float, jitter: float) -> np.ndarray:
    """Residuals (n, shares, regularizations) of the values of every fold from the fit to the others."""
    kernel = kernel_of_width(data.centers @ metric.T, factor)
    sections = KernelSections(Metric(kernel, metric), data.centers)
    whitening = cholesky_whitening(sections.gram(), jitter)
    basis = Whitened(sections, whitening)
    phi = basis.values(data.z)
    values = accumulate_folds(
        basis, data.z, ("mass", "values"), folds.values, weights=data.weights, values=data.residual
    )
    scores = accumulate_folds(
        sections, data.states, ("dirichlet", "linear"), folds.states, base_gradient=data.base_gradient
    )
    all_values, all_scores = sum(values[1:], values[0]), sum(scores[1:], scores[0])
    out = np.empty((len(data.z), len(SHARES), len(REGULARIZATIONS)))
    for fold in range(FOLDS):
        rows = folds.values == fold
        kept, kept_scores = all_values - values[fold], all_scores - scores[fold]
        mean, value_mean = kept.get("mean") / kept.weight, kept.get("value_sum") / kept.weight
        for i, share in enumerate(SHARES):
            path = ridge_path(*system(kept, kept_scores, whitening, share=share))
            coefficients = np.stack([path.coefficients(float(r)) for r in REGULARIZATIONS], axis=1)
            out[rows, i] = (data.residual[rows] - value_mean)[:, None] - (phi[rows] - mean) @ coefficients
    return out
