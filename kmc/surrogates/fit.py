"""The fit: from a history of evaluated points to a surrogate of the log-density.

The steps: weights by depth (:mod:`kmc.surrogates.fit_task`), whitening, trend, centers, expansion
(:mod:`kmc.surrogates.expansion_search`), and a repair where the surrogate is shallow but the truth is deep
(:mod:`kmc.surrogates.repair`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import linalg

from kmc.landmarks import spread
from kmc.surrogates import jit_state
from kmc.surrogates.depth import NEGLIGIBLE, depth_weights
from kmc.surrogates.expansion import Data, Expansion
from kmc.surrogates.expansion_search import GOOD_FIT, best_expansion
from kmc.surrogates.fit_options import FitOptions
from kmc.surrogates.fit_task import FitTask, WeightedValues
from kmc.surrogates.necks import NO_NECKS, Necks
from kmc.surrogates.noise import beyond_noise, estimate_noise_sd, settled
from kmc.surrogates.repair import repaired
from kmc.surrogates.slopes import Slopes, pulled_back
from kmc.surrogates.surrogate import Surrogate, assemble, make_jit_state
from kmc.surrogates.terms import TermExpansion
from kmc.surrogates.transport import IDENTITY, Transport
from kmc.surrogates.trend import FLATTEST, fit_independent, fit_trend
from kmc.surrogates.walls import learn_wall
from kmc.surrogates.whitening import Whitening, whiten_states
from kmc.surrogates.wide_trend import is_wide, values_for

# "Tried" is docs/what-was-tried.md; the others were set by hand.
DEFAULTS = FitOptions()
ABOVE_DATA = 3.0  # nats by which a surrogate may exceed the highest value seen (tried: modes)
_OLD_ERRORS = 4  # one in so many of the kept values is chosen by its old error
_ISOTROPIC = 0.2, 20.0  # range of eigenvalues of the trend's precision in which coordinates are kept
_TREND_FITS = 0.5  # largest residual, relative to the values' sd, of a trend that may correct the coordinates
_MOST_DEEP = 200  # points known to be deep, which kernels must keep out of the bulk
_FOUND_LITTLE = 0.6  # of the trend's residual sd: with a larger error, the fit starts again from the shallow values
_SHALLOW = 0.5  # times the edge: depth of these values


def fit_surrogate(
    x: np.ndarray,
    log_density: np.ndarray,
    states: np.ndarray,
    *,
    rng: np.random.Generator,
    options: FitOptions = DEFAULTS,
    previous: Surrogate | None = None,
    levels: np.ndarray | None = None,
    noisy: bool = False,
    transport: Transport = IDENTITY,
    gradients: np.ndarray | None = None,
    only_terms: bool = False,
    roughness_sd: float = 0.0,
    necks: Necks = NO_NECKS,
    few_values: bool = False,
) -> Surrogate:
    """Fit a surrogate to evaluated points.

    Parameters
    ----------
    x : ndarray, shape (n, d)
        Evaluated points, including rejected proposals and probes.
    log_density : ndarray, shape (n,)
        Their values; -inf is a very deep point, and many of these near the states are a wall to learn.
    states : ndarray, shape (k, d)
        States of the chains nearest to the target, for the whitening.
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
        For exact values, the sd of differences that no smooth function can follow (:mod:`kmc.mcmc.probes`): the
        fit is then not improved beyond it.
    necks : Necks
        Known ones: what turns values of the density of u into heights. ``levels`` are heights.
    few_values : bool
        Whether there are hardly more values than a quadratic has terms: then no more count than these.

    Raises
    ------
    LinAlgError
        Hardly any point has a positive density; or, with ``only_terms``, there are too few values.
    """
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
    task = FitTask(
        x, log_density, states, options, rng, previous, levels, gradients, only_terms, roughness_sd, necks, few_values
    )
    surrogate = _fit_noisy(task) if noisy else _fit(task.with_depths(log_density + necks.correction(x), None))
    return replace(surrogate, transport=transport).with_wall(wall)


def _fit_noisy(task: FitTask) -> Surrogate:
    options = task.options
    finite = tuple(b for b in options.bandwidths if b < np.inf) or options.bandwidths
    task = task._replace(options=replace(options, bandwidths=finite))
    known = task.previous or _fit(task.with_depths(task.log_density, 0.0))
    smooth = settled(task.log_density, known.log_density(task.x), known.noise_sd)
    return _fit(task.with_depths(smooth, known.noise_sd))


def _fit(task: FitTask) -> Surrogate:
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


def _chosen(task: FitTask) -> np.ndarray:
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


def _fit_in(whitening: Whitening, task: FitTask, keep: np.ndarray, *, metric: np.ndarray | None = None) -> Surrogate:
    """Trend, expansion and repair in given coordinates, and in a given metric or the best of several."""
    keep = keep[depth_weights(task.depth[keep], task.edge) > NEGLIGIBLE]
    values = _with_trend(whitening, task, keep)
    data = _data(values, task)
    data, expansion = best_expansion(data, values, task, metric=metric)
    found = Necks.of(expansion.terms.groups, task.states) if isinstance(expansion, TermExpansion) else NO_NECKS
    ceiling = float((values.y + found.correction(task.x[keep])).max()) + ABOVE_DATA
    surrogate = assemble(
        values.whitening,
        values.trend,
        expansion,
        edge=task.edge,
        ceiling=ceiling,
        top=task.top,
        noise_sd=_noise_sd(data, expansion) if task.noisy and isinstance(expansion, Expansion) else task.roughness_sd,
        necks=found,
    )
    return repaired(surrogate, data, task)


def _with_trend(whitening: Whitening, task: FitTask, keep: np.ndarray) -> WeightedValues:
    """The values with these indices and their trend, in coordinates that the trend may correct."""
    x, y = task.x[keep], task.log_density[keep]
    weights = depth_weights(task.depth[keep], task.edge)
    weights = weights / weights.sum()
    z, slopes = whitening(x), _slopes(whitening, task, keep, weights=weights)
    if task.sparse:
        return WeightedValues(whitening, z, y, weights, fit_independent(z, y, weights), slopes)
    values = WeightedValues(whitening, z, y, weights, fit_trend(z, y, weights, slopes=slopes), slopes)
    sharper = _rewhitened(values, task.noise)
    if sharper is None:
        return values
    z, slopes = sharper(x), _slopes(sharper, task, keep, weights=weights)
    return WeightedValues(sharper, z, y, weights, fit_trend(z, y, weights, slopes=slopes), slopes)


def _slopes(whitening: Whitening, task: FitTask, keep: np.ndarray, *, weights: np.ndarray) -> Slopes | None:
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


def _rewhitened(values: WeightedValues, noise_sd: float) -> Whitening | None:
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


def _deep_points(task: FitTask) -> np.ndarray:
    """Some evaluated points that are too deep for the fit."""
    negligible = np.flatnonzero(depth_weights(task.depth, task.edge) <= NEGLIGIBLE)
    return task.x[task.rng.permutation(negligible)[:_MOST_DEEP]]


def _data(values: WeightedValues, task: FitTask) -> Data:
    z, options = values.z, task.options
    deep_x = _deep_points(task)
    deep = np.ascontiguousarray(values.whitening(deep_x))
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
        deep=deep,
        deep_limit=task.top - task.edge - task.necks.correction(deep_x) - jit_state.values(bare, deep),
        noisy=task.noisy,
        slopes=slopes,
    )
