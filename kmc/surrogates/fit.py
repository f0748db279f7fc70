"""The fit: from a history of evaluated points to a surrogate of the log-density.

The steps, each in a function: weights by depth, whitening, trend, centers, expansion with a learned metric, and a
repair where the surrogate is shallow but the truth is deep.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import linalg

from kmc.checks import check_count, check_number, is_number
from kmc.deprecation import renamed_fields
from kmc.landmarks import spread
from kmc.surrogates import jit_state
from kmc.surrogates.depth import NEGLIGIBLE, depth_weights, edge_of
from kmc.surrogates.expansion import DEGREE, Data, Expansion, fit_expansion
from kmc.surrogates.metric import gradient_metric, polynomial_metric, slopes_metric
from kmc.surrogates.noise import beyond_noise, estimate_noise_sd, highest, no_worse, settled
from kmc.surrogates.score_weight_cv import make_folds, with_best_share
from kmc.surrogates.slopes import Slopes, pulled_back
from kmc.surrogates.surrogate import Surrogate, assemble, make_jit_state
from kmc.surrogates.term_search import find_factors
from kmc.surrogates.terms import TermExpansion, Terms, fit_terms
from kmc.surrogates.transport import IDENTITY, Transport
from kmc.surrogates.trend import FLATTEST, Trend, fit_independent, fit_trend
from kmc.surrogates.walls import learn_wall
from kmc.surrogates.whitening import Whitening, whiten_states
from kmc.surrogates.wide_trend import is_wide, terms_of, values_for, values_for_any, values_for_structure

# Settings of the fit. "Prototypes" are runs from before this package, "tried" is docs/what-was-tried.md; others were
# set by hand.
GOOD_FIT = 0.5  # nats of error: a better fit passes its coordinates and bandwidth on to the next (prototypes)
ABOVE_DATA = 3.0  # nats by which a surrogate may exceed the highest value seen (tried: modes)

_LEAST_VALUES = 100, 10  # for a first fit: constant, per dimension (prototypes)
_VALUES_PER_TERM = 1.15  # values per term of a quadratic, in a first fit (prototypes)
_HEAVY_PER_TERM = 1.1  # fewest values of full weight per term of a quadratic (tried: Gaussian 50-d)
_OLD_ERRORS = 4  # one in so many of the kept values is chosen by its old error (prototypes)
_ISOTROPIC = 0.2, 20.0  # range of eigenvalues of the trend's precision in which coordinates are kept (prototypes)
_TREND_FITS = 0.5  # largest residual, relative to the values' sd, of a trend that may correct the coordinates
_MOST_DEEP = 200  # points known to be deep, which kernels must keep out of the bulk
_DEEPER = 16.0  # times the edge: depth of values used to find how the target bends (tried: quartics)
_POOR = 0.25  # of the trend's residual sd: with a larger error, metrics of quartics are tried ...
_POOR_AT_MOST = 2.0  # ... and with more than this multiple of target_loo_sd in any case
_METRIC_PASSES = 2  # refits in the metric of the last fit's gradients (prototypes)
_BETTER = 0.95  # largest fraction of the error left by a metric for another pass
_MORE_CENTERS = 2  # times as many if the error stays above target_loo_sd (tried: funnel) ...
_VALUES_PER_CENTER = 4  # ... and there are more than so many values per center
_MOST_QUARTICS = 1400  # as many as polynomials of degree four in eleven variables: a fit takes a few seconds
_VALUES_PER_QUARTIC, _CENTERS_PER_QUARTIC = 1.2, 1.1  # values and centers per polynomial
_WORTH_QUARTICS = 0.5  # largest fraction of the error left by them, for them to be used
_VALUES_PER_QUADRATIC = 1.5  # values per term of a quadratic for a search of terms
_WORTH_TERMS = 0.5  # largest fraction of the error left by terms, for them to be used, if it is small at all
_MORE_VALUES = 1.3  # times as many values as at the last search of terms, for another one
_FOUND_LITTLE = 0.6  # of the trend's residual sd: with a larger error, the fit starts again from the shallow values
_SHALLOW = 0.5  # times the edge: depth of these values (prototypes)
_REPAIRS = 4  # passes in which violators are added (prototypes)
_MOST_VIOLATORS = 50  # at a time
_REPAIR_DEPTH = 10.0  # nats below the edge: value assigned to violators (tried: edge + 10)
_REPAIR_WEIGHT = 0.02  # their weight, relative to the largest (prototypes)
_SPOILT = 1.3  # times the error: a repair that increases it more is undone (tried: 1.3)
_SPOILT_NOISY = 1.2  # the same for noisy values (tried: noisy targets)
_HARMLESS = 0.1  # nats: repairs that leave a smaller error are never undone


@renamed_fields(good="target_loo_sd")
@dataclass(frozen=True)
class FitOptions:
    """Tunable parts of the surrogate's fit.

    Attributes
    ----------
    n_basis : int
        Number of kernel sections; twice as many if the leave-one-out sd stays above ``target_loo_sd``.
    target_loo_sd : float
        Leave-one-out sd, in nats and beyond the noise, that is good enough.
    max_values : int
        Values kept for a fit; a quarter of them are the largest old residuals. In more than 53 dimensions 1.3 for each
        term of a quadratic are kept, if that is more.
    bandwidths : tuple of float
        Candidates, in median distances between centers; infinity means polynomials of degree four, which are not used
        for noisy values: noise hides the differences between wide kernels.
    score_weight : float or "cv", optional
        Weight of the score-matching terms in the objective, in [0, 1); the rest is that of the values. "cv" chooses it
        by cross-validation, and is the default for noisy values; for exact values the default is 0, which is best
        there.
    jitter : float
        Added to the diagonal of the Gram matrix.
    """

    n_basis: int = 200
    target_loo_sd: float = 0.2
    max_values: int = 2000
    bandwidths: tuple[float, ...] = (0.5, 0.8, 1.2, 2.0, 3.5, 7.0, 14.0, np.inf)
    score_weight: float | str | None = None
    jitter: float = 1e-11

    def __post_init__(self):
        check_count(self, "n_basis", 2)
        check_count(self, "max_values", 10)
        check_number(self, "target_loo_sd", 0, np.inf, "[)")
        if isinstance(self.score_weight, str):
            if self.score_weight != "cv":
                raise ValueError(f"score_weight={self.score_weight!r}: expected 'cv' or a number in [0, 1)")
        elif self.score_weight is not None:
            check_number(self, "score_weight", 0, 1, "[)")
        check_number(self, "jitter", 0, 1)
        widths = self.bandwidths
        if not isinstance(widths, Sequence) or not widths or not all(is_number(b) and b > 0 for b in widths):
            raise ValueError(f"bandwidths={self.bandwidths!r}: expected positive numbers, at least one")


class _Task(NamedTuple):
    """Data shared by the steps of a fit: the values, their properties, and the options."""

    x: np.ndarray  # (n, d)
    log_density: np.ndarray  # (n,)
    states: np.ndarray  # (k, d)
    options: FitOptions
    rng: np.random.Generator
    previous: Surrogate | None
    levels: np.ndarray | None  # (l,) of the chains' recent states
    gradients: np.ndarray | None = None  # (n, d) of the log-density; rows of NaN where they are not known
    only_terms: bool = False
    roughness_sd: float = 0.0  # of exact values
    # Set together with the depths:
    depth: np.ndarray = np.empty(0)  # (n,) below the top
    edge: float = 0.0
    top: float = 0.0  # the highest value, without noise
    noise_sd: float | None = None  # as far as it is known; None: there is no noise

    @property
    def noisy(self) -> bool:
        """Whether the values are estimates."""
        return self.noise_sd is not None

    @property
    def noise(self) -> float:
        """The sd of noise or roughness, below which no error need be."""
        return self.noise_sd or self.roughness_sd

    @property
    def sparse(self) -> bool:
        """Whether terms of few coordinates explain all: then in coordinates of the user, without a full quadratic."""
        previous = self.previous
        known = previous is not None and isinstance(previous.expansion, TermExpansion)
        return is_wide(self.x.shape[1]) and (self.only_terms or known)

    def with_depths(self, smooth: np.ndarray, noise_sd: float | None) -> _Task:
        """A copy with depths, edge and top from values (n,) without their noise."""
        top = float(smooth.max()) if noise_sd is None else highest(smooth)
        depth = top - smooth
        edge = edge_of(top - self.levels if self.levels is not None else np.empty(0), self.x.shape[1])
        edge = max(edge, _depth_of_enough(self.x, depth, self.gradients))
        return self._replace(depth=depth, edge=edge, top=top, noise_sd=noise_sd)


class _Weighted(NamedTuple):
    """Values to be fitted, in whitened coordinates."""

    whitening: Whitening
    z: np.ndarray  # (n, d)
    y: np.ndarray  # (n,)
    weights: np.ndarray  # (n,), summing to one
    trend: Trend
    slopes: Slopes | None = None  # the known gradients


def values_needed(dim: int) -> int:
    """Evaluations before a first fit makes sense: enough to determine a quadratic."""
    least, each = _LEAST_VALUES
    return int(max(each * dim + least, _VALUES_PER_TERM * terms_of(dim)))


def fit_surrogate(
    x: np.ndarray,
    log_density: np.ndarray,
    states: np.ndarray,
    *,
    rng: np.random.Generator,
    options: FitOptions = FitOptions(),
    previous: Surrogate | None = None,
    levels: np.ndarray | None = None,
    noisy: bool = False,
    transport: Transport = IDENTITY,
    gradients: np.ndarray | None = None,
    only_terms: bool = False,
    roughness_sd: float = 0.0,
) -> Surrogate:
    """Fit a surrogate to evaluated points.

    Parameters
    ----------
    x : ndarray, shape (n, d)
        Evaluated points, including rejected proposals and probes.
    log_density : ndarray, shape (n,)
        Their values; -inf is a very deep point, and many of these near the states are a wall to learn.
    states : ndarray, shape (k, d)
        States of the chains nearest to the target, for the whitening and the score terms.
    rng : Generator
        For the choice of centers and subsets.
    options : FitOptions
    previous : Surrogate, optional
        Its whitening is kept if its error is below ``GOOD_FIT``, and its errors select values to keep.
    levels : ndarray, shape (l,), optional
        Recent log-densities (of u) of the chains nearest to the target: for a target with heavy tails they are deeper
        below its mode than for a Gaussian, and then values count down to there.
    noisy : bool
        Whether the values are logs of unbiased estimates. Depths are then those of a smoothed log-density (the previous
        fit's, or a first one's), and fits are compared by their gain beyond chance.
    transport : Transport
        Coordinates u of the fit: a surrogate of the density of u gives one of the density of x.
    gradients : ndarray, shape (n, d), optional
        Gradients of the log-density at x, which are fitted, too; rows of NaN where they are not known.
    only_terms : bool
        Whether to try products of few coordinates and their exponentials alone (:mod:`kmc.surrogates.terms`).

    roughness_sd : float
        For exact values, the sd of differences that no smooth function can follow (:mod:`kmc.mcmc.roughness`): the
        fit is then not improved beyond it.

    Raises
    ------
    LinAlgError
        Hardly any point has a positive density; or, with ``only_terms``, there are too few values.
    """
    if options.score_weight is None:
        options = replace(options, score_weight="cv" if noisy else 0.0)
    log_density = log_density - transport.log_jacobian(x)
    x, states = transport(x), transport(states)
    if gradients is not None and transport != IDENTITY:
        gradients = pulled_back(transport, x, gradients)
    if previous is not None:
        previous = replace(previous, transport=IDENTITY) if previous.transport == transport else None
    wall = learn_wall(x, log_density, states, rng=rng)
    if wall is not None:  # smooth functions need not represent the -inf that the wall explains
        positive = np.isfinite(log_density)
        x, log_density = x[positive], log_density[positive]
        gradients = None if gradients is None else gradients[positive]
    task = _Task(x, log_density, states, options, rng, previous, levels, gradients, only_terms, roughness_sd)
    surrogate = _fit_noisy(task) if noisy else _fit(task.with_depths(log_density, None))
    return replace(surrogate, transport=transport).with_wall(wall)


def _fit_noisy(task: _Task) -> Surrogate:
    options = task.options
    finite = tuple(b for b in options.bandwidths if b < np.inf) or options.bandwidths
    task = task._replace(options=replace(options, bandwidths=finite))
    known = task.previous or _fit(task.with_depths(task.log_density, 0.0))
    smooth = settled(task.log_density, known.log_density(task.x), known.noise_sd)
    return _fit(task.with_depths(smooth, known.noise_sd))


def _fit(task: _Task) -> Surrogate:
    """A surrogate of the values, weighted by depth."""
    previous = task.previous
    keep = _chosen(task)
    keep_old = previous is not None and previous.error_sd < GOOD_FIT and not task.sparse
    whitening = previous.whitening if previous and keep_old else _by_states(task.states)
    first = _fit_in(whitening, task, keep)
    found = first.error_sd < max(GOOD_FIT, _FOUND_LITTLE * beyond_noise(first.trend_sd, first.noise_sd))
    if found or task.only_terms or is_wide(task.x.shape[1]):  # with many terms, each fit takes long
        return first
    # The kernel found almost no structure: take coordinates and metric from the shallow half alone, then fit the whole.
    afresh = task._replace(previous=None)
    narrow = _fit_in(whiten_states(task.states), afresh._replace(edge=_SHALLOW * task.edge), keep)
    again = _fit_in(narrow.whitening, afresh, keep, metric=narrow.expansion.metric)
    return min(first, again, key=lambda s: s.loo_sd)


def _by_states(states: np.ndarray) -> Whitening:
    """Whitening by states; in many dimensions without correlations, which hide a simple structure (some are noise)."""
    if is_wide(states.shape[1]):
        spread = states.std(axis=0)
        return Whitening.of(states.mean(axis=0), np.diag(1.0 / np.where(spread > 0, spread, 1.0)))
    return whiten_states(states)


def _depth_of_enough(x: np.ndarray, depth: np.ndarray, gradients: np.ndarray | None) -> float:
    """The depth above which there are enough distinct points for a quadratic; LinAlgError if there are hardly any.

    A gradient counts as so many values as it has components.
    """
    dim = x.shape[1]
    _, unique = np.unique(x, axis=0, return_index=True)
    finite = np.sort(depth[unique][np.isfinite(depth[unique])])
    if len(finite) < 2:
        raise np.linalg.LinAlgError("a fit needs two distinct points of positive density")
    enough = max(values_needed(dim) // 2, int(_HEAVY_PER_TERM * terms_of(dim)))
    if is_wide(dim) and len(finite) < values_for_any(dim):  # too few for any quadratic: those near the bulk count
        enough = values_for_structure(dim)
    if gradients is None:
        return float(finite[min(len(finite), enough) - 1])
    known = unique[np.isfinite(depth[unique])]
    known = known[np.argsort(depth[known])]
    counts = np.cumsum(1 + dim * ~np.isnan(gradients[known, 0]))
    return float(finite[min(int(np.searchsorted(counts, enough)), len(finite) - 1)])


def _chosen(task: _Task) -> np.ndarray:
    """Indices of distinct points with sufficient weight; at most ``max_values``, including the worst known ones."""
    x, depth, edge, previous = task.x, task.depth, task.edge, task.previous
    most = max(task.options.max_values, values_for(x.shape[1]) if is_wide(x.shape[1]) else 0)
    distinct = np.arange(len(x)) if task.noisy else np.unique(x, axis=0, return_index=True)[1]
    useful = distinct[depth_weights(depth[distinct], edge) > NEGLIGIBLE]
    if len(useful) <= most:
        return useful
    worst = most // _OLD_ERRORS
    if previous is None or task.noisy:  # with noise, the largest errors are those of estimates that are far too high
        return task.rng.permutation(useful)[:most]
    error = np.abs(task.log_density[useful] - previous.log_density(x[useful]))
    order = np.argsort(-(np.sqrt(depth_weights(depth[useful], edge)) * error))
    rest = task.rng.permutation(order[worst:])[: most - worst]
    return useful[np.concatenate([order[:worst], rest])]


def _fit_in(whitening: Whitening, task: _Task, keep: np.ndarray, *, metric: np.ndarray | None = None) -> Surrogate:
    """Trend, expansion and repair in given coordinates, and in a given metric or the best of several."""
    options = task.options
    keep = keep[depth_weights(task.depth[keep], task.edge) > NEGLIGIBLE]
    values = _with_trend(whitening, task, keep)
    data = _data(values, task)
    metrics = _known_metrics(values.whitening, task.previous) if metric is None else [metric]
    known: tuple[Data, Expansion | TermExpansion] | None
    if task.only_terms:
        known = _known_terms(data, values.whitening, task) or _new_terms(data, values.whitening, task)
    else:
        known = _known_quartics(data, task) or _known_terms(data, values.whitening, task)
    data, expansion = known or _with_learned_metric(data, metrics, values, task=task)
    if isinstance(expansion, Expansion) and options.score_weight == "cv":
        folds = make_folds(task.x[keep], task.states, task.rng)
        factors = _neighbors(expansion.factor, options)
        expansion = with_best_share(data, expansion, folds, factors=factors, jitter=options.jitter)
    ceiling = float(values.y.max()) + ABOVE_DATA
    surrogate = assemble(
        values.whitening,
        values.trend,
        expansion,
        edge=task.edge,
        ceiling=ceiling,
        top=task.top,
        noise_sd=_noise_sd(data, expansion) if task.noisy and isinstance(expansion, Expansion) else task.roughness_sd,
    )
    return _repaired(surrogate, data, task)


def _with_trend(whitening: Whitening, task: _Task, keep: np.ndarray) -> _Weighted:
    """The values with these indices and their trend, in coordinates that the trend may correct."""
    x, y = task.x[keep], task.log_density[keep]
    weights = depth_weights(task.depth[keep], task.edge)
    weights = weights / weights.sum()
    z, slopes = whitening(x), _slopes(whitening, task, keep, weights=weights)
    if task.sparse:
        return _Weighted(whitening, z, y, weights, fit_independent(z, y, weights), slopes)
    values = _Weighted(whitening, z, y, weights, fit_trend(z, y, weights, slopes=slopes), slopes)
    sharper = _rewhitened(values, task.noise)
    if sharper is None:
        return values
    z, slopes = sharper(x), _slopes(sharper, task, keep, weights=weights)
    return _Weighted(sharper, z, y, weights, fit_trend(z, y, weights, slopes=slopes), slopes)


def _slopes(whitening: Whitening, task: _Task, keep: np.ndarray, *, weights: np.ndarray) -> Slopes | None:
    """The known gradients at the values with these indices and weights; the best part, if there are very many."""
    if task.gradients is None:
        return None
    rows = np.flatnonzero(~np.isnan(task.gradients[keep, 0]))
    most = most_gradients(task.x.shape[1], task.options)
    rows = rows[np.argsort(-weights[rows], kind="stable")[:most]]
    at = keep[rows]
    return Slopes(whitening(task.x[at]), task.gradients[at] @ whitening.inverse, weights[rows])


def most_gradients(dim: int, options: FitOptions) -> int:
    """The number of gradients that a fit uses: as many components as it has values, and enough for a quadratic."""
    return max(options.max_values // dim, dim)


def _noise_sd(data: Data, expansion: Expansion) -> float:
    inside = data.residual - expansion.values(data.z)
    return estimate_noise_sd(
        data.z @ expansion.metric.T, inside=inside, left_out=expansion.residuals, weights=data.weights
    )


def _rewhitened(values: _Weighted, noise_sd: float) -> Whitening | None:
    """Coordinates in which the fitted precision is the identity, if it is far from that and describes the values."""
    whitening, trend, y, weights = values.whitening, values.trend, values.y, values.weights
    eigenvalues, vectors = linalg.eigh(trend.precision)
    sd = beyond_noise(np.sqrt(weights @ (y - weights @ y) ** 2), noise_sd)
    missed = beyond_noise(trend.residual_sd, noise_sd)
    low, high = _ISOTROPIC
    if (eigenvalues.min() > low and eigenvalues.max() < high) or missed > _TREND_FITS * sd:
        return None
    usable = np.where(np.isclose(eigenvalues, FLATTEST), 1.0, eigenvalues)
    root = (vectors * np.sqrt(usable)) @ vectors.T
    return Whitening.of(whitening.back(trend.location[None])[0], root @ whitening.matrix)


def _deep_points(task: _Task) -> np.ndarray:
    """Some evaluated points that are too deep for the fit."""
    negligible = np.flatnonzero(depth_weights(task.depth, task.edge) <= NEGLIGIBLE)
    return task.x[task.rng.permutation(negligible)[:_MOST_DEEP]]


def _data(values: _Weighted, task: _Task) -> Data:
    z, options = values.z, task.options
    deep = np.ascontiguousarray(values.whitening(_deep_points(task)))
    states = np.ascontiguousarray(values.whitening(task.states))
    centers = z[spread(z, options.n_basis, task.rng, values.weights)]
    bare = make_jit_state(values.trend, task.edge)
    slopes = values.slopes
    if slopes:
        trend = jit_state.gradients(bare, np.ascontiguousarray(slopes.z))
        slopes = slopes._replace(gradient=slopes.gradient - trend)
    return Data(
        z=z,
        residual=values.y - jit_state.values(bare, np.ascontiguousarray(z)),
        weights=values.weights,
        centers=centers,
        score_weight=0.0 if isinstance(options.score_weight, str) else options.score_weight or 0.0,
        states=states,
        base_gradient=jit_state.gradients(bare, states),
        deep=deep,
        deep_limit=task.top - task.edge - jit_state.values(bare, deep),
        noisy=task.noisy,
        slopes=slopes,
    )


def _factors(options: FitOptions, previous: Surrogate | None) -> tuple[float, ...]:
    """All bandwidths at first; only neighbors of the last choice once a fit is good."""
    if previous is None or previous.error_sd > GOOD_FIT:
        return options.bandwidths
    return _neighbors(previous.expansion.factor, options)


def _neighbors(factor: float, options: FitOptions) -> tuple[float, ...]:
    """The bandwidth and its neighbors."""
    order = sorted(options.bandwidths)
    at = order.index(factor)
    return tuple(order[max(at - 1, 0) : at + 2])


def _known_metrics(whitening: Whitening, previous: Surrogate | None) -> list[np.ndarray]:
    """Metrics known before the fit: none, or the last metric, which remains valid in other coordinates."""
    isotropic = np.eye(len(whitening.matrix))
    if previous is None:
        return [isotropic]
    if whitening is previous.whitening:
        return [previous.expansion.metric]
    return [isotropic, previous.expansion.metric @ previous.whitening.matrix @ whitening.inverse]


def _polynomial_metrics(data: Data, whitening: Whitening, task: _Task) -> Iterator[np.ndarray]:
    """Metrics of quartic polynomials, which are expensive: from the values of the fit, and from many deeper ones."""
    if is_wide(task.x.shape[1]):  # no number of values that is affordable determines them
        return
    yield polynomial_metric(data.z, data.residual, data.weights, rng=task.rng)
    edge = _DEEPER * task.edge
    weights = depth_weights(task.depth, edge)
    rows = np.flatnonzero(weights > NEGLIGIBLE)
    z, y, weights = whitening(task.x[rows]), task.log_density[rows], weights[rows] / weights[rows].sum()
    trend = make_jit_state(fit_trend(z, y, weights), edge)
    yield polynomial_metric(z, y - jit_state.values(trend, np.ascontiguousarray(z)), weights, rng=task.rng)


def _with_learned_metric(
    data: Data, metrics: Sequence[np.ndarray], values: _Weighted, *, task: _Task
) -> tuple[Data, Expansion | TermExpansion]:
    """The expansion in the best of the given and the learned metrics, with more centers if it is poor."""
    options, noise = task.options, task.noise
    factors, target = _factors(options, task.previous), options.target_loo_sd
    poor = min(max(target, _POOR * beyond_noise(values.trend.residual_sd, noise)), _POOR_AT_MOST * target)
    polynomial = _polynomial_metrics(data, values.whitening, task)
    if data.slopes:
        metrics = [*metrics, slopes_metric(data.slopes)]

    best = min(
        (fit_expansion(data, metric, factors, jitter=options.jitter) for metric in metrics), key=lambda e: e.loo_sd
    )
    while beyond_noise(best.loo_sd, noise) > poor and (metric := next(polynomial, None)) is not None:
        trial = fit_expansion(data, metric, options.bandwidths, jitter=options.jitter)
        best = min(best, trial, key=lambda e: e.loo_sd)
    for _ in range(_METRIC_PASSES):
        trial = fit_expansion(data, gradient_metric(best, data), factors, jitter=options.jitter)
        if not _clearly_better(trial, best, data):
            break
        best = trial
    if beyond_noise(best.loo_sd, noise) > target and len(data.z) > _VALUES_PER_CENTER * options.n_basis:
        centers = data.z[spread(data.z, _MORE_CENTERS * options.n_basis, task.rng, data.weights)]
        data = data._replace(centers=centers)
        best = fit_expansion(data, best.metric, _neighbors(best.factor, options), jitter=options.jitter)
        trial = fit_expansion(data, gradient_metric(best, data), (best.factor,), jitter=options.jitter)
        best = min(best, trial, key=lambda e: e.loo_sd)
    found: tuple[Data, Expansion | TermExpansion] = data, best
    if beyond_noise(best.loo_sd, noise) > poor and (quartic := _all_quartics(data, task)) is not None:
        found = quartic if quartic[1].loo_sd < _WORTH_QUARTICS * best.loo_sd else found
    if beyond_noise(found[1].loo_sd, noise) > poor or data.slopes:  # with gradients, leave-one-out is optimistic
        terms = _found_terms(data, values.whitening, task)
        if terms is not None and terms.loo_sd < min(_WORTH_TERMS * found[1].loo_sd, GOOD_FIT):
            return data, terms
    return found


def _known_quartics(data: Data, task: _Task) -> tuple[Data, Expansion] | None:
    """The expansion in all polynomials of degree four, if the last fit had them and they are still good enough."""
    previous = task.previous
    if previous is None or len(previous.expansion.centers) <= _quartics(task.x.shape[1]):
        return None
    found = _all_quartics(data, task)
    return found if found is not None and found[1].loo_sd < task.options.target_loo_sd else None


def _all_quartics(data: Data, task: _Task) -> tuple[Data, Expansion] | None:
    """The expansion in all polynomials of degree four; None if there are too many of them, or too few values.

    In the isotropic metric: in a learned one, some of them would be as small as rounding errors.
    """
    n, dim = data.z.shape
    size, options = _quartics(dim), task.options
    if np.inf not in options.bandwidths or not len(data.centers) < size <= min(_MOST_QUARTICS, n / _VALUES_PER_QUARTIC):
        return None
    data = data._replace(centers=data.z[task.rng.permutation(n)[: int(_CENTERS_PER_QUARTIC * size)]])
    return data, fit_expansion(data, np.eye(dim), (np.inf,), jitter=options.jitter)


def _known_terms(data: Data, whitening: Whitening, task: _Task) -> tuple[Data, TermExpansion] | None:
    """The expansion in the terms of the last fit, or in ones found again; None if there were none or they are poor."""
    previous = task.previous
    if previous is None or not isinstance(previous.expansion, TermExpansion):
        return None
    last = previous.expansion
    best = fit_terms(data, _in_coordinates(last.terms, previous.whitening, whitening), n_searched=last.n_searched)
    if best.loo_sd > task.options.target_loo_sd and len(task.x) > _MORE_VALUES * last.n_searched:
        again = _found_terms(data, whitening, task)
        best = min(best, again or best, key=lambda e: e.loo_sd)
    return (data, best) if best.loo_sd < GOOD_FIT else None


def _new_terms(data: Data, whitening: Whitening, task: _Task) -> tuple[Data, TermExpansion]:
    found = _found_terms(data, whitening, task)
    if found is None:
        raise np.linalg.LinAlgError("too few values for a search of terms")
    return data, found


def _in_coordinates(terms: Terms, old: Whitening, new: Whitening) -> Terms:
    """The same functions of u, from the coordinates of one whitening to those of another."""
    step = new.matrix @ old.inverse
    return terms.rewhitened(Whitening.of(old(new.origin[None])[0], step))


def _found_terms(data: Data, whitening: Whitening, task: _Task) -> TermExpansion | None:
    """The expansion in the best terms of coordinates u; None for noisy or too few values, or if there are gradients."""
    (n, dim), weights = data.z.shape, data.weights
    needed = values_for_structure(dim) if is_wide(dim) else _VALUES_PER_QUADRATIC * terms_of(dim)
    if data.noisy or np.inf not in task.options.bandwidths or n < needed:
        return None
    u = whitening.back(data.z)
    center = weights @ u
    spreads = np.sqrt(weights @ (u - center) ** 2)
    v = (u - center) / spreads
    rng = np.random.default_rng(n)  # its own, so that a search that finds nothing changes no draw
    best = find_factors(v, data.residual, weights, spreads=spreads, center=center, rng=rng)
    matrix, shift = whitening.inverse / spreads[:, None], (center - whitening.origin) / spreads
    terms = Terms(best.factors, best.drivers, best.rates, matrix, shift, best.ties, best.groups)
    found = fit_terms(data, terms, n_searched=len(task.x))
    return found._replace(loo_sd=max(found.loo_sd, best.error))


def _quartics(dim: int) -> int:
    """Number of polynomials of degree four."""
    return math.comb(dim + DEGREE, DEGREE)


def _clearly_better(trial: Expansion, best: Expansion, data: Data) -> bool:
    if data.noisy:
        return not no_worse(np.stack([trial.residuals, best.residuals], axis=1), data.weights)[1]
    return trial.loo_sd < _BETTER * best.loo_sd


def _repaired(surrogate: Surrogate, data: Data, task: _Task) -> Surrogate:
    """Add evaluated points that the surrogate puts in the bulk but the truth far outside, while the bulk allows it.

    They become centers and lightly weighted data at a depth where no chain would go.
    """
    n, weights = len(data.z), data.weights
    target = task.top - task.edge - _REPAIR_DEPTH
    bare = make_jit_state(surrogate.trend, task.edge)
    for _ in range(_REPAIRS):
        bad = _violators(surrogate, task)
        if not len(bad):
            break
        z = np.ascontiguousarray(surrogate.whitening(task.x[bad]))
        light = np.concatenate([data.weights, np.full(len(z), _REPAIR_WEIGHT * data.weights.max())])
        slopes = data.slopes
        if slopes:
            slopes = slopes._replace(weights=slopes.weights / light.sum())
        data = data._replace(
            slopes=slopes,
            z=np.vstack([data.z, z]),
            residual=np.concatenate([data.residual, target - jit_state.values(bare, z)]),
            weights=light / light.sum(),
            centers=np.vstack([data.centers, z]),
            score_weight=surrogate.expansion.score_weight,
        )
        old = surrogate.expansion
        if isinstance(old, TermExpansion):
            new: Expansion | TermExpansion = fit_terms(data, old.terms, n_searched=old.n_searched)
        else:
            new = fit_expansion(data, old.metric, (old.factor,), jitter=task.options.jitter)
        error_before, error = (float(np.sqrt(weights @ e.residuals[:n] ** 2)) for e in (old, new))
        if error > max((_SPOILT_NOISY if data.noisy else _SPOILT) * error_before, _HARMLESS):
            break  # a wall that a smooth kernel can represent only at the expense of the bulk
        surrogate = surrogate.with_expansion(new)
    return surrogate


def _violators(surrogate: Surrogate, task: _Task) -> np.ndarray:
    """Indices of points, the worst first."""
    deep = np.flatnonzero(depth_weights(task.depth, task.edge) <= NEGLIGIBLE)
    if not len(deep):
        return deep
    claimed = task.top - surrogate.log_density(task.x[deep])
    order = np.argsort(claimed)
    return deep[order[claimed[order] < task.edge]][:_MOST_VIOLATORS]
