"""The choice of a transition operator's bandwidth, metric and regularization.

Settings are compared by held-out parts of trajectories.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from kmc.bases import Whitened
from kmc.bases.base import as_basis
from kmc.forms import Lagged, accumulate_folds_each
from kmc.kernels import Metric, kernel_of, median_distance
from kmc.selection import held_out
from kmc.source import SEGMENTS, Sample, Source, folds
from kmc.spectral.generator_selection import N_FOLDS, regularizations
from kmc.spectral.sections import candidates, draw_landmarks, whitened_sections
from kmc.spectral.transition_modes import (
    Covariances,
    SomePairs,
    TransitionModes,
    covariances,
    subspaces,
    thinned,
    timescales,
    transition_ritz,
    vamp2,
)

MOST_PAIRS = 30_000
"""Largest number of pairs by which settings are compared; the chosen one is fitted to all pairs."""

WIDE = 3
"""Number of bandwidths, the largest ones, that are tried in the metric of the modes, too."""

POWER = 4
"""Of the time scale of a mode, for its share in the metric. The mean square of its gradient is
about inverse to the time scale: with a power of one all modes would have equal shares. Of 2, 4 and
8, this one had the best scores."""

FLOOR = 1e-6
"""Squared scale of a direction in which no mode varies, relative to the one of most variation."""

MOST_GRADIENTS = 2_000
"""Samples by which the metric is found."""


def chosen_setting(
    model: Any,
    bandwidths: list[float],
    bases: list[Whitened],
    source: Source,
    lagtime: int,
    points: np.ndarray,
) -> Selected:
    """Choose bandwidth and metric by some pairs if there are many, and the regularization by all.

    A metric is tried if there are several bandwidths, the kernel of the model is given by name, and
    the data can be read again. It is found by the modes of the best bandwidth, at ``points`` (n,
    d).
    """
    epsilons = regularizations(model.regularization)
    count, reversible, several = model.n_components, bool(model.reversible), len(bases) > 1

    def candidates(bandwidths, bases, data, metric=None):
        found = zip(bandwidths, bases, moments(bases, data, lagtime, reversible))
        settings = epsilons if len(bases) * len(epsilons) > 1 else []
        return [
            TransitionCandidate.judged(*one, metric, settings, count, reversible) for one in found
        ]

    some = (
        thinned(source, lagtime, MOST_PAIRS)
        if several and not source.once and source.rows is not None
        else None
    )
    data = source if some is None else some
    tried = candidates(bandwidths, bases, data)
    selected = select(tried, epsilons, count, reversible)
    if several and isinstance(model.kernel, str) and not source.once:
        metric = metric_of_modes(selected, points, lagtime)
        if metric is not None:
            kernel, wide = (
                Metric(kernel_of(model.kernel, 1.0), metric),
                np.argsort(bandwidths)[-WIDE:],
            )
            mapped = [
                whitened_sections(kernel, bandwidths[i], bases[i].basis.centers) for i in wide
            ]
            tried += candidates([bandwidths[i] for i in wide], mapped, data, metric)
            selected = select(tried, epsilons, count, reversible)
    if some is None:
        return selected
    best = selected.candidate
    final = select(
        candidates([best.bandwidth], [best.basis], source, best.metric), epsilons, count, reversible
    )
    return final._replace(table=_updated(selected.table, final))


def compared_bases(
    model: Any, sample: Sample, rng: np.random.Generator
) -> tuple[list[float], list[Whitened]]:
    """Return bandwidths to compare and their bases, or NaN and the given functions at one scale."""
    if not isinstance(model.basis, str):
        basis = as_basis(model.basis, needs=("values",))
        spread = basis.values(sample.x).std(axis=0)
        return [np.nan], [Whitened(basis, np.diag(1.0 / np.where(spread > 0, spread, 1.0)))]
    bandwidths = candidates(model, sample)
    # the same landmarks for every bandwidth, unless their choice depends on it
    seed = int(rng.integers(2**63))
    centers = [draw_landmarks(model, sample, b, np.random.default_rng(seed)) for b in bandwidths]
    return bandwidths, [whitened_sections(model.kernel, b, c) for b, c in zip(bandwidths, centers)]


def metric_of_modes(selected: Selected, x: np.ndarray, lagtime: int) -> np.ndarray | None:
    """Return A (d, d) of a kernel k(Ax, Ay).

    Directions are longer the more the slowest modes vary along them. A² is the mean of g gᵀ for the
    gradients g of the modes at the points x (n, d), weighted by time scales. The median distance of
    the points stays the same. None if there is nothing to learn: a single dimension, no time scale,
    no pairs to hold out.
    """
    modes, basis = selected.modes, selected.candidate.basis
    scales = timescales(
        modes.eigenvalues if selected.reversible else modes.singular_values, lagtime
    )
    if (
        x.shape[1] == 1
        or np.all(np.isnan(scales))
        or not np.any(np.isfinite(selected.table["score"]))
    ):
        return None
    shares = (np.nan_to_num(scales) / np.nanmax(scales)) ** POWER
    gradients = basis.basis.contract_gradients_each(
        x[:: -(-len(x) // MOST_GRADIENTS)], basis.matrix @ modes.left
    )
    values, vectors = np.linalg.eigh(
        np.einsum("k,nki,nkj->ij", shares, gradients, gradients, optimize=True)
    )
    if not values[-1] > 0:
        return None
    metric = (vectors * np.sqrt(np.maximum(values, 0.0) + FLOOR * values[-1])) @ vectors.T
    return metric * (median_distance(x) / median_distance(x @ metric))


class TransitionCandidate(NamedTuple):
    """A bandwidth, its basis, and the moments of the pairs."""

    bandwidth: float
    basis: Whitened
    segments: list[Lagged]  # of parts of the data in time
    metric: np.ndarray | None = None  # (d, d)
    # (f, e, 2) on held-out folds, for each ε, of all modes and of the first one
    scores: np.ndarray | None = None

    @property
    def folds(self) -> list[Lagged]:
        """The moments of each fold; the segments go to the folds in turn."""
        return _in_turn(self.segments)

    def total(self) -> Lagged:
        """Return the moments of all pairs."""
        return sum(self.segments[1:], self.segments[0])

    @classmethod
    def judged(
        cls,
        bandwidth: float,
        basis: Whitened,
        segments: list[Lagged],
        metric: np.ndarray | None,
        epsilons: Sequence[float],
        count: int,
        reversible: bool,
    ) -> Self:
        """Make one with its scores, if there are any ε."""
        one = cls(bandwidth, basis, segments, metric)
        return (
            one._replace(scores=_held_out(one, epsilons, count, reversible))
            if len(epsilons)
            else one
        )


class Selected(NamedTuple):
    """The chosen setting, and its fit."""

    candidate: TransitionCandidate
    regularization: float
    modes: TransitionModes
    reversible: bool
    table: dict[str, np.ndarray]  # empty if there was nothing to choose


def moments(
    bases: Sequence[Whitened], data: Source | SomePairs, lagtime: int, reversible: bool
) -> list[list[Lagged]]:
    """Return the moments of each basis, by a single pass.

    They are those of parts of the data in time, or of folds of some pairs.
    """
    summed = [basis.basis if _is_late(basis) else basis for basis in bases]
    if isinstance(data, SomePairs):
        found = [_in_turn(data.moments(basis, reversible)) for basis in summed]
    else:
        x, labels = folds(data, SEGMENTS)
        options: Any = {"weights": data.weights, "lagtime": lagtime, "block": 4096}
        sums = accumulate_folds_each(
            summed, x, ("reversible" if reversible else "lagged",), labels, **options
        )
        found = [[part.get("lagged") for part in parts] for parts in sums]
    return [
        [part.within(basis.matrix) for part in parts] if _is_late(basis) else parts
        for basis, parts in zip(bases, found)
    ]


def _in_turn(segments: list[Lagged]) -> list[Lagged]:
    """Return the moments of each fold, to which segments belong in turn."""
    return [sum(part[1:], part[0]) for k in range(N_FOLDS) if (part := segments[k::N_FOLDS])]


def _is_late(basis: Whitened) -> bool:
    """Whether to whiten moments instead of samples.

    That is less work if the functions are nearly as many as the sections. The kernel matrix is
    well-conditioned then: no eigenvalue of the operator changes by more than 1e-7.
    """
    p, r = basis.matrix.shape
    return 3 * p**2 < 2 * p * r + 3 * r**2


def _updated(table: dict[str, np.ndarray], selected: Selected) -> dict[str, np.ndarray]:
    """Return the table, with the scores of the chosen bandwidth and metric by all pairs."""
    if not selected.table:
        return table
    score = table["score"].copy()
    best = selected.candidate
    rows = (table["bandwidth"] == best.bandwidth) & (table["metric"] == (best.metric is not None))
    score[rows] = selected.table["score"]
    return table | {"score": score}


def select(
    candidates: Sequence[TransitionCandidate],
    epsilons: Sequence[float],
    count: int,
    reversible: bool,
) -> Selected:
    """Fit ``count`` modes with the setting of the largest mean score on held-out folds.

    The scores of faster and of rare modes are noise in some folds, that of the first mode alone
    hardly is. Of the settings whose first mode has a mean score within a standard error of the best
    one's, the one with the largest score of all modes is used. If there are too few pairs to hold
    some out (``score`` is NaN), the setting in the middle is used.
    """
    none = np.full((0, len(epsilons), 2), np.nan)
    parts = [none if candidate.scores is None else candidate.scores for candidate in candidates]
    scores = np.array(
        [
            part[..., 0].mean(axis=0) if len(part) > 1 else np.full(len(epsilons), np.nan)
            for part in parts
        ]
    )
    if np.any(np.isfinite(scores)):
        i, j = divmod(_chosen(parts, scores), len(epsilons))
    else:
        i, j = len(candidates) // 2, len(epsilons) // 2
    modes = modes_of(candidates[i].total(), epsilons[j], count, reversible)
    table = {
        "bandwidth": np.repeat([candidate.bandwidth for candidate in candidates], len(epsilons)),
        "regularization": np.tile(epsilons, len(candidates)),
        "metric": np.repeat(
            [candidate.metric is not None for candidate in candidates], len(epsilons)
        ),
        "score": scores.ravel() + 1.0,
    }
    return Selected(
        candidates[i], float(epsilons[j]), modes, reversible, table if scores.size > 1 else {}
    )


def _chosen(parts: Sequence[np.ndarray], scores: np.ndarray) -> int:
    """Return the number of the setting to use.

    Each candidate's part has the scores of each fold, of all modes and of the first one alone, (f,
    e, 2).
    """
    best = int(np.nanargmax(scores))
    # in some folds, no function of a narrow kernel varies
    if len({len(part) for part in parts}) > 1:
        return best
    each = np.concatenate(parts, axis=1)
    first = each[..., 1]
    behind = first[:, [int(np.argmax(first.mean(axis=0)))]] - first
    error = behind.std(axis=0, ddof=1) / np.sqrt(len(behind))
    return int(
        np.argmax(np.where(behind.mean(axis=0) <= error, each[..., 0].mean(axis=0), -np.inf))
    )


def modes_of(lagged: Lagged, epsilon: float, count: int, reversible: bool) -> TransitionModes:
    """Return the ``count`` leading modes at one regularization."""
    c = covariances(lagged, reversible)
    ((left, right),) = subspaces(c, [epsilon], count)
    return transition_ritz(c, left, right)


def _held_out(candidate: TransitionCandidate, epsilons, count, reversible) -> np.ndarray:
    """Scores of all modes and of the first one alone, in each fold and for each ε, (f, e, 2)."""
    whole = candidate.total()
    found = []
    for rest, part in held_out(
        [fold for fold in candidate.folds if 0 < fold.weight < whole.weight], whole
    ):
        fitted, judged = covariances(rest, reversible), covariances(part, reversible)
        if fitted.vary():
            found.append(
                [_scores(fitted, judged, *sides) for sides in subspaces(fitted, epsilons, count)]
            )
    return np.array(found).reshape(-1, len(epsilons), 2)


def _scores(
    fitted: Covariances, judged: Covariances, left: np.ndarray, right: np.ndarray
) -> tuple[float, float]:
    modes = transition_ritz(fitted, left, right)
    return vamp2(judged, left, right), vamp2(judged, modes.left[:, :1], modes.right[:, :1])
