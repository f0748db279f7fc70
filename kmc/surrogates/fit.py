"""The fit: from a history of evaluated points to a surrogate of the log-density.

The steps, each in a function: weights by depth, whitening, trend, centres, expansion with a learned metric, and a
repair where the surrogate is shallow and the truth deep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import linalg

from kmc.checks import check_count, check_number
from kmc.landmarks import spread
from kmc.surrogates import point
from kmc.surrogates.depth import NEGLIGIBLE, depth_weights, edge_of
from kmc.surrogates.expansion import Data, fit_expansion
from kmc.surrogates.metric import gradient_metric, polynomial_metric
from kmc.surrogates.surrogate import Surrogate, assemble, point_state
from kmc.surrogates.trend import FLATTEST, fit_trend
from kmc.surrogates.whitening import Whitening, whiten_states

_DEEPER = 16.0  # times the edge: values that show how the target bends


@dataclass(frozen=True)
class FitOptions:
    """Tunable parts of the surrogate's fit.

    Attributes
    ----------
    n_basis : int
        Kernel sections; twice as many where the leave-one-out sd stays above ``good``.
    good : float
        Leave-one-out sd, in nats, that calls for no further effort.
    max_values : int
        Values kept for a fit; a quarter of them are the largest old residuals.
    bandwidths : tuple of float
        Candidates, in median distances between centres; infinity stands for polynomials of degree four.
    score_weight : float
        Share of the score-matching terms in the objective, in [0, 1); the rest goes to the values. Zero is best for a
        deterministic log-density.
    jitter : float
        Added to the diagonal of the Gram matrix.
    """

    n_basis: int = 200
    good: float = 0.2
    max_values: int = 2000
    bandwidths: tuple[float, ...] = (0.5, 0.8, 1.2, 2.0, 3.5, 7.0, 14.0, np.inf)
    score_weight: float = 0.0
    jitter: float = 1e-11

    def __post_init__(self):
        check_count(self, "n_basis", 2)
        check_count(self, "max_values", 10)
        check_number(self, "good", 0, np.inf, "[)")
        check_number(self, "score_weight", 0, 1, "[)")
        check_number(self, "jitter", 0, 1)
        if not self.bandwidths or not all(b > 0 for b in self.bandwidths):
            raise ValueError(f"bandwidths={self.bandwidths!r}: expected positive numbers, at least one")


class _Evaluated(NamedTuple):
    """What the steps of a fit share."""

    x: np.ndarray
    log_density: np.ndarray
    depth: np.ndarray  # below the highest value
    edge: float
    states: np.ndarray


def values_needed(dim: int) -> int:
    """Evaluations before a first fit makes sense: a quadratic must be determined."""
    return int(max(10 * dim + 100, 1.15 * _quadratics(dim)))


def fit_surrogate(
    x: np.ndarray,
    log_density: np.ndarray,
    states: np.ndarray,
    rng: np.random.Generator,
    options: FitOptions = FitOptions(),
    previous: Surrogate | None = None,
    levels: np.ndarray | None = None,
) -> Surrogate:
    """Fit a surrogate to evaluated points.

    Parameters
    ----------
    x : ndarray, shape (n, d)
        Evaluated points, rejected proposals and probes included.
    log_density : ndarray, shape (n,)
        Their values; -inf is a very deep point.
    states : ndarray, shape (k, d)
        States of the chains nearest to the target, for the whitening and the score terms.
    rng : Generator
        Chooses centres and subsets.
    previous : Surrogate, optional
        Its whitening is kept while it serves (``loo_sd`` < .5), and its errors pick which values are kept.
    levels : ndarray, shape (l,), optional
        Log-densities at which the chains nearest to the target were lately: a target with heavy tails spends its time
        deeper below its mode than a Gaussian, and then values count down to there.

    Raises
    ------
    LinAlgError
        If hardly any point has a positive density.
    """
    depth = log_density.max() - log_density
    edge = edge_of(log_density.max() - levels if levels is not None else np.empty(0), x.shape[1])
    edge = max(edge, _depth_of_enough(x, depth))
    evaluated = _Evaluated(x, log_density, depth, edge, states)
    keep = _chosen(evaluated, rng, options, previous)

    whitening = previous.whitening if previous and previous.loo_sd < 0.5 else whiten_states(states)
    first = _fit_in(whitening, evaluated, keep, rng, options, previous)
    if first.loo_sd < max(0.5, 0.6 * first.trend_sd):
        return first
    # The kernel found next to nothing: take coordinates and metric from the shallow half alone, then fit the whole.
    shallow = evaluated._replace(edge=0.5 * edge)
    narrow = _fit_in(whiten_states(states), shallow, keep, rng, options)
    again = _fit_in(narrow.whitening, evaluated, keep, rng, options, metric=narrow.expansion.metric)
    return min(first, again, key=lambda s: s.loo_sd)


def _depth_of_enough(x, depth):
    """The depth above which there are enough distinct points for a quadratic; LinAlgError if there are hardly any."""
    dim = x.shape[1]
    _, unique = np.unique(x, axis=0, return_index=True)
    finite = np.sort(depth[unique][np.isfinite(depth[unique])])
    if len(finite) < 2:
        raise np.linalg.LinAlgError("a fit needs two distinct points of positive density")
    enough = max(values_needed(dim) // 2, int(1.1 * _quadratics(dim)))
    return float(finite[min(len(finite), enough) - 1])


def _quadratics(dim):
    return 1 + dim + dim * (dim + 1) // 2


def _chosen(evaluated, rng, options, previous):
    """Indices of distinct points with a weight that counts; at most ``max_values``, the worst known ones among them."""
    x, log_density, depth, edge, _ = evaluated
    _, unique = np.unique(x, axis=0, return_index=True)
    useful = unique[depth_weights(depth[unique], edge) > NEGLIGIBLE]
    if len(useful) <= options.max_values:
        return useful
    quarter = options.max_values // 4
    if previous is None:
        return rng.permutation(useful)[: options.max_values]
    error = np.sqrt(depth_weights(depth[useful], edge)) * np.abs(log_density[useful] - previous.log_density(x[useful]))
    order = np.argsort(-error)
    rest = rng.permutation(order[quarter:])[: options.max_values - quarter]
    return useful[np.concatenate([order[:quarter], rest])]


def _fit_in(whitening, evaluated, keep, rng, options, previous=None, metric=None):
    """Trend, expansion and repair in given coordinates."""
    x, log_density, depth, edge, states = evaluated
    keep = keep[depth_weights(depth[keep], edge) > NEGLIGIBLE]
    x_kept, y = x[keep], log_density[keep]
    weights = depth_weights(depth[keep], edge)
    weights = weights / weights.sum()
    z = whitening(x_kept)
    trend = fit_trend(z, y, weights)
    sharper = _rewhitened(whitening, trend, y, weights)
    if sharper is not None:
        whitening, z = sharper, sharper(x_kept)
        trend = fit_trend(z, y, weights)

    data = _data(z, y, weights, trend, whitening(states), whitening(_deep_points(evaluated, rng)), edge, rng, options)
    metrics = _known_metrics(whitening, previous) if metric is None else [metric]
    polynomial = _polynomial_metrics(whitening, data, evaluated, rng)
    poor = max(options.good, 0.25 * trend.residual_sd)
    data, expansion = _with_learned_metric(data, metrics, polynomial, poor, _factors(options, previous), options, rng)
    ceiling = max(float(y.max()), trend.constant) + 3.0
    surrogate = assemble(whitening, trend, expansion, edge, ceiling)
    return _repaired(surrogate, data, evaluated, options)


def _rewhitened(whitening, trend, y, weights):
    """Coordinates in which the fitted precision is the identity, where it is far from that and describes the values."""
    eigenvalues, vectors = linalg.eigh(trend.precision)
    sd = np.sqrt(weights @ (y - weights @ y) ** 2)
    if (eigenvalues.min() > 0.2 and eigenvalues.max() < 20) or trend.residual_sd > 0.5 * sd:
        return None
    usable = np.where(np.isclose(eigenvalues, FLATTEST), 1.0, eigenvalues)
    root = (vectors * np.sqrt(usable)) @ vectors.T
    return Whitening.of(whitening.back(trend.location[None])[0], root @ whitening.matrix)


def _deep_points(evaluated, rng):
    """At most 200 evaluated points that are too deep to be fitted to."""
    negligible = np.flatnonzero(depth_weights(evaluated.depth, evaluated.edge) <= NEGLIGIBLE)
    return evaluated.x[rng.permutation(negligible)[:200]]


def _data(z, y, weights, trend, states, deep, edge, rng, options):
    centres = z[spread(z, options.n_basis, rng, weights)]
    bare = point_state(trend, edge)
    return Data(
        z=z,
        residual=y - point.values(bare, np.ascontiguousarray(z)),
        weights=weights,
        centres=centres,
        score_weight=options.score_weight,
        states=states,
        base_gradient=point.gradients(bare, np.ascontiguousarray(states)),
        deep=deep,
        deep_limit=y.max() - edge - point.values(bare, np.ascontiguousarray(deep)),
    )


def _factors(options, previous):
    """All bandwidths at first; the neighbours of the last choice once a fit is good."""
    if previous is None or previous.loo_sd > 0.5:
        return options.bandwidths
    return _neighbours(previous.expansion.factor, options)


def _neighbours(factor, options):
    order = sorted(options.bandwidths)
    at = order.index(factor)
    return tuple(order[max(at - 1, 0) : at + 2])


def _known_metrics(whitening, previous):
    """What is known before the fit: nothing, or the last metric, which other coordinates do not make obsolete."""
    isotropic = np.eye(len(whitening.matrix))
    if previous is None:
        return [isotropic]
    if whitening is previous.whitening:
        return [previous.expansion.metric]
    return [isotropic, previous.expansion.metric @ previous.whitening.matrix @ whitening.inverse]


def _polynomial_metrics(whitening, data, evaluated, rng):
    """Metrics of quartic polynomials, dear ones: of the values that the fit is to, and of many deeper ones too."""
    yield polynomial_metric(data.z, data.residual, data.weights, rng)
    edge = _DEEPER * evaluated.edge
    weights = depth_weights(evaluated.depth, edge)
    rows = np.flatnonzero(weights > NEGLIGIBLE)
    z, y, weights = whitening(evaluated.x[rows]), evaluated.log_density[rows], weights[rows] / weights[rows].sum()
    trend = point_state(fit_trend(z, y, weights), edge)
    yield polynomial_metric(z, y - point.values(trend, np.ascontiguousarray(z)), weights, rng)


def _with_learned_metric(data, metrics, polynomial, poor, factors, options, rng):
    """The expansion in the best of the given and the learned metrics; more centres if it is poor."""
    best = min((fit_expansion(data, metric, factors, options.jitter) for metric in metrics), key=lambda e: e.loo_sd)
    while best.loo_sd > poor and (metric := next(polynomial, None)) is not None:
        trial = fit_expansion(data, metric, options.bandwidths, options.jitter)
        best = min(best, trial, key=lambda e: e.loo_sd)
    for _ in range(2):
        trial = fit_expansion(data, gradient_metric(best, data), factors, options.jitter)
        if not trial.loo_sd < 0.95 * best.loo_sd:
            break
        best = trial
    if best.loo_sd > options.good and len(data.z) > 4 * options.n_basis:
        data = data._replace(centres=data.z[spread(data.z, 2 * options.n_basis, rng, data.weights)])
        best = fit_expansion(data, best.metric, _neighbours(best.factor, options), options.jitter)
        trial = fit_expansion(data, gradient_metric(best, data), (best.factor,), options.jitter)
        best = min(best, trial, key=lambda e: e.loo_sd)
    return data, best


def _repaired(surrogate, data, evaluated, options):
    """Take in evaluated points that the surrogate puts in the bulk and the truth far outside, while the bulk allows it.

    They become centres and lightly weighted data at a depth where no chain would go.
    """
    n, weights = len(data.z), data.weights
    target = evaluated.log_density.max() - evaluated.edge - 10.0
    bare = point_state(surrogate.trend, evaluated.edge)
    for _ in range(4):
        bad = _violators(surrogate, evaluated)
        if not len(bad):
            break
        z = np.ascontiguousarray(surrogate.whitening(evaluated.x[bad]))
        light = np.concatenate([data.weights, np.full(len(z), 0.02 * data.weights.max())])
        data = data._replace(
            z=np.vstack([data.z, z]),
            residual=np.concatenate([data.residual, target - point.values(bare, z)]),
            weights=light / light.sum(),
            centres=np.vstack([data.centres, z]),
        )
        old = surrogate.expansion
        new = fit_expansion(data, old.metric, (old.factor,), options.jitter)
        error_before, error = (float(np.sqrt(weights @ e.residuals[:n] ** 2)) for e in (old, new))
        if error > max(1.3 * error_before, 0.1):
            break  # a wall that a smooth kernel can build only by spoiling the bulk
        surrogate = surrogate.with_expansion(new)
    return surrogate


def _violators(surrogate, evaluated):
    """Indices of at most fifty points, the worst first."""
    deep = np.flatnonzero(depth_weights(evaluated.depth, evaluated.edge) <= NEGLIGIBLE)
    if not len(deep):
        return deep
    claimed = evaluated.log_density.max() - surrogate.log_density(evaluated.x[deep])
    order = np.argsort(claimed)
    return deep[order[claimed[order] < evaluated.edge]][:50]
