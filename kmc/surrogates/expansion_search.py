"""Which expansion represents the trend's residual: the metric and bandwidth, all quartics, or products of few terms.

Candidates are compared by their leave-one-out errors, from cheap to expensive, until one of them is good enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from kmc.landmarks import spread
from kmc.surrogates import jit_state
from kmc.surrogates.depth import NEGLIGIBLE, depth_weights
from kmc.surrogates.expansion import DEGREE, Data, Expansion, fit_expansion
from kmc.surrogates.fit_options import FitOptions
from kmc.surrogates.fit_task import FitTask, WeightedValues
from kmc.surrogates.metric import gradient_metric, polynomial_metric, slopes_metric
from kmc.surrogates.noise import beyond_noise, no_worse
from kmc.surrogates.surrogate import Surrogate, make_jit_state
from kmc.surrogates.term_groups import KNOWN
from kmc.surrogates.term_search import find_factors
from kmc.surrogates.terms import TermExpansion, Terms, fit_terms
from kmc.surrogates.trend import fit_trend
from kmc.surrogates.whitening import Whitening
from kmc.surrogates.wide_trend import is_wide, terms_of, values_for_structure

# "Tried" is docs/what-was-tried.md; the others were set by hand.
GOOD_FIT = 0.5  # nats of error: a better fit passes its coordinates and bandwidth on to the next
_DEEPER = 16.0  # times the edge: depth of values used to find how the target bends (tried: quartics)
_POOR = 0.25  # of the trend's residual sd: with a larger error, metrics of quartics are tried ...
_POOR_AT_MOST = 2.0  # ... and with more than this multiple of target_loo_sd in any case
_METRIC_PASSES = 2  # refits in the metric of the last fit's gradients
_BETTER = 0.95  # largest fraction of the error left by a metric for another pass
_MORE_CENTERS = 2  # times as many if the error stays above target_loo_sd (tried: funnel) ...
_VALUES_PER_CENTER = 4  # ... and there are more than so many values per center
_MOST_QUARTICS = 1400  # as many as polynomials of degree four in eleven variables: a fit takes a few seconds
_VALUES_PER_QUARTIC, _CENTERS_PER_QUARTIC = 1.2, 1.1  # values and centers per polynomial
_WORTH_QUARTICS = 0.5  # largest fraction of the error left by them, for them to be used
_VALUES_PER_QUADRATIC = 1.5  # values per term of a quadratic for a search of terms
_WORTH_TERMS = 0.5  # largest fraction of the error left by terms, for them to be used, if it is small at all
_MORE_VALUES = 1.3  # times as many values as at the last search of terms, for another one


def best_expansion(
    data: Data, values: WeightedValues, task: FitTask, *, metric: np.ndarray | None = None
) -> tuple[Data, Expansion | TermExpansion]:
    """An expansion of the last fit's kind if that is still good, otherwise the best one; in this metric, if given.

    The data are returned as well, because an expansion may have more centers.
    """
    known: tuple[Data, Expansion | TermExpansion] | None
    if task.only_terms:
        known = _known_terms(data, values.whitening, task) or _new_terms(data, values.whitening, task)
    else:
        known = _known_quartics(data, task) or _known_terms(data, values.whitening, task)
    metrics = _known_metrics(values.whitening, task.previous) if metric is None else [metric]
    return known or _with_learned_metric(data, metrics, values, task=task)


def _known_terms(data: Data, whitening: Whitening, task: FitTask) -> tuple[Data, TermExpansion] | None:
    """The expansion in the terms of the last fit, or in ones found again; None if there were none or they are poor."""
    previous = task.previous
    if previous is None or not isinstance(previous.expansion, TermExpansion):
        return None
    last = previous.expansion
    best = fit_terms(data, _in_coordinates(last.terms, previous.whitening, whitening), n_searched=last.n_searched)
    if best.loo_sd > KNOWN and len(task.x) > _MORE_VALUES * last.n_searched:
        again = _found_terms(data, whitening, task)
        best = min(best, again or best, key=lambda e: e.loo_sd)
    return (data, best) if best.loo_sd < GOOD_FIT else None


def _new_terms(data: Data, whitening: Whitening, task: FitTask) -> tuple[Data, TermExpansion]:
    found = _found_terms(data, whitening, task)
    if found is None:
        raise np.linalg.LinAlgError("too few values for a search of terms")
    return data, found


def _known_quartics(data: Data, task: FitTask) -> tuple[Data, Expansion] | None:
    """The expansion in all polynomials of degree four, if the last fit had them and they are still good enough."""
    previous = task.previous
    if previous is None or len(previous.expansion.centers) <= _quartics(task.x.shape[1]):
        return None
    found = _all_quartics(data, task)
    return found if found is not None and found[1].loo_sd < task.options.target_loo_sd else None


def _known_metrics(whitening: Whitening, previous: Surrogate | None) -> list[np.ndarray]:
    """Metrics known before the fit: none, or the last metric, which remains valid in other coordinates."""
    isotropic = np.eye(len(whitening.matrix))
    if previous is None:
        return [isotropic]
    if whitening is previous.whitening:
        return [previous.expansion.metric]
    return [isotropic, previous.expansion.metric @ previous.whitening.matrix @ whitening.inverse]


def _with_learned_metric(
    data: Data, metrics: Sequence[np.ndarray], values: WeightedValues, *, task: FitTask
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
        best = fit_expansion(data, best.metric, neighbors(best.factor, options), jitter=options.jitter)
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


def _polynomial_metrics(data: Data, whitening: Whitening, task: FitTask) -> Iterator[np.ndarray]:
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


def _all_quartics(data: Data, task: FitTask) -> tuple[Data, Expansion] | None:
    """The expansion in all polynomials of degree four; None if there are too many of them, or too few values.

    In the isotropic metric: in a learned one, some of them would be as small as rounding errors.
    """
    n, dim = data.z.shape
    size, options = _quartics(dim), task.options
    if np.inf not in options.bandwidths or not len(data.centers) < size <= min(_MOST_QUARTICS, n / _VALUES_PER_QUARTIC):
        return None
    data = data._replace(centers=data.z[task.rng.permutation(n)[: int(_CENTERS_PER_QUARTIC * size)]])
    return data, fit_expansion(data, np.eye(dim), (np.inf,), jitter=options.jitter)


def _found_terms(data: Data, whitening: Whitening, task: FitTask) -> TermExpansion | None:
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


def _in_coordinates(terms: Terms, old: Whitening, new: Whitening) -> Terms:
    """The same functions of u, from the coordinates of one whitening to those of another."""
    step = new.matrix @ old.inverse
    return terms.rewhitened(Whitening.of(old(new.origin[None])[0], step))


def _factors(options: FitOptions, previous: Surrogate | None) -> tuple[float, ...]:
    """All bandwidths at first; only neighbors of the last choice once a fit is good."""
    if previous is None or previous.error_sd > GOOD_FIT:
        return options.bandwidths
    return neighbors(previous.expansion.factor, options)


def neighbors(factor: float, options: FitOptions) -> tuple[float, ...]:
    """The bandwidth and its neighbors."""
    order = sorted(options.bandwidths)
    at = order.index(factor)
    return tuple(order[max(at - 1, 0) : at + 2])


def _quartics(dim: int) -> int:
    """Number of polynomials of degree four."""
    return math.comb(dim + DEGREE, DEGREE)


def _clearly_better(trial: Expansion, best: Expansion, data: Data) -> bool:
    if data.noisy:
        return not no_worse(np.stack([trial.residuals, best.residuals], axis=1), data.weights)[1]
    return trial.loo_sd < _BETTER * best.loo_sd
