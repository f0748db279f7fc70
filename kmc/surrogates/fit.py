"""The fit: from a history of evaluated points to a surrogate of the log-density.

The steps, each in a function: weights by depth, whitening, trend, centers, expansion with a learned metric, and a
repair where the surrogate is shallow and the truth deep.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import linalg

from kmc.checks import check_count, check_number, is_number
from kmc.deprecation import renamed_fields
from kmc.landmarks import spread
from kmc.surrogates import jit_state
from kmc.surrogates.depth import NEGLIGIBLE, depth_weights, edge_of
from kmc.surrogates.expansion import DEGREE, Data, fit_expansion
from kmc.surrogates.metric import gradient_metric, polynomial_metric
from kmc.surrogates.noise import beyond_noise, estimate_noise_sd, highest, no_worse, settled
from kmc.surrogates.score_weight_cv import make_folds, with_best_share
from kmc.surrogates.surrogate import Surrogate, assemble, make_jit_state
from kmc.surrogates.transport import IDENTITY, Transport
from kmc.surrogates.trend import FLATTEST, fit_trend
from kmc.surrogates.walls import learn_wall
from kmc.surrogates.whitening import Whitening, whiten_states

ABOVE_DATA = 3.0  # nats by which a surrogate may exceed the highest value seen
_MOST_QUARTICS = 1400  # polynomials of degree four in eleven variables: a fit takes a few seconds
_VALUES_PER_QUARTIC, _CENTERS_PER_QUARTIC = 1.2, 1.1  # values and centers for each of them
_DEEPER = 16.0  # times the edge: values that show how the target bends


@renamed_fields(good="target_loo_sd")
@dataclass(frozen=True)
class FitOptions:
    """Tunable parts of the surrogate's fit.

    Attributes
    ----------
    n_basis : int
        Kernel sections; twice as many where the leave-one-out sd stays above ``target_loo_sd``.
    target_loo_sd : float
        Leave-one-out sd, in nats and beyond the noise, that calls for no further effort.
    max_values : int
        Values kept for a fit; a quarter of them are the largest old residuals.
    bandwidths : tuple of float
        Candidates, in median distances between centers; infinity stands for polynomials of degree four, which noisy
        values do not get: noise says little between wide kernels.
    score_weight : float or "cv", optional
        Share of the score-matching terms in the objective, in [0, 1); the rest goes to the values. "cv" is a share
        chosen by cross-validation, and what noisy values get by default; exact ones get none, which is best for them.
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


class _Evaluated(NamedTuple):
    """What the steps of a fit share."""

    x: np.ndarray
    log_density: np.ndarray
    depth: np.ndarray  # below the top
    edge: float
    states: np.ndarray
    top: float  # the highest value, noise taken off
    noise_sd: float | None = None  # as far as it is known; None: there is no noise


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
    noisy: bool = False,
    transport: Transport = IDENTITY,
) -> Surrogate:
    """Fit a surrogate to evaluated points.

    Parameters
    ----------
    x : ndarray, shape (n, d)
        Evaluated points, rejected proposals and probes included.
    log_density : ndarray, shape (n,)
        Their values; -inf is a very deep point, and many of them near the states are a wall to learn.
    states : ndarray, shape (k, d)
        States of the chains nearest to the target, for the whitening and the score terms.
    rng : Generator
        Chooses centers and subsets.
    previous : Surrogate, optional
        Its whitening is kept while it serves (``loo_sd`` < .5), and its errors pick which values are kept.
    levels : ndarray, shape (l,), optional
        Log-densities (of u) at which the chains nearest to the target were lately: a target with heavy tails spends its
        time deeper below its mode than a Gaussian, and then values count down to there.
    noisy : bool
        Whether the values are logs of unbiased estimates. Depths are then those of a smoothed log-density (the previous
        fit's, or a first one's), and fits are chosen by what they gain beyond chance.
    transport : Transport
        Coordinates u to fit in: the surrogate is of the density of u there, and so one of x.

    Raises
    ------
    LinAlgError
        If hardly any point has a positive density.
    """
    if options.score_weight is None:
        options = replace(options, score_weight="cv" if noisy else 0.0)
    log_density = log_density - transport.log_jacobian(x)
    x, states = transport(x), transport(states)
    if previous is not None:
        previous = replace(previous, transport=IDENTITY) if previous.transport == transport else None
    fit = _fit_noisy if noisy else _fit_exact
    wall = learn_wall(x, log_density, states, rng)
    if wall is not None:  # what it says about -inf need not be said by smooth functions
        positive = np.isfinite(log_density)
        x, log_density = x[positive], log_density[positive]
    surrogate = fit(x, log_density, states, rng, options, previous, levels)
    return replace(surrogate, transport=transport).with_wall(wall)


def _fit_exact(x, log_density, states, rng, options, previous, levels):
    return _fit(x, log_density, log_density, states, rng, options, previous, levels, None)


def _fit_noisy(x, log_density, states, rng, options, previous, levels):
    finite = tuple(b for b in options.bandwidths if b < np.inf) or options.bandwidths
    options = replace(options, bandwidths=finite)
    known = previous or _fit(x, log_density, log_density, states, rng, options, None, levels, 0.0)
    smooth = settled(log_density, known.log_density(x), known.noise_sd)
    return _fit(x, log_density, smooth, states, rng, options, previous, levels, known.noise_sd)


def _fit(x, log_density, smooth, states, rng, options, previous, levels, noise_sd):
    """A surrogate of the values, which count by the depth of the smooth ones."""
    top = float(smooth.max()) if noise_sd is None else highest(smooth)
    depth = top - smooth
    edge = edge_of(top - levels if levels is not None else np.empty(0), x.shape[1])
    edge = max(edge, _depth_of_enough(x, depth))
    evaluated = _Evaluated(x, log_density, depth, edge, states, top, noise_sd)
    keep = _chosen(evaluated, rng, options, previous)

    whitening = previous.whitening if previous and previous.error_sd < 0.5 else whiten_states(states)
    first = _fit_in(whitening, evaluated, keep, rng, options, previous)
    if first.error_sd < max(0.5, 0.6 * beyond_noise(first.trend_sd, first.noise_sd)):
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
    x, log_density, depth, edge = evaluated[:4]
    noisy = evaluated.noise_sd is not None
    distinct = np.arange(len(x)) if noisy else np.unique(x, axis=0, return_index=True)[1]
    useful = distinct[depth_weights(depth[distinct], edge) > NEGLIGIBLE]
    if len(useful) <= options.max_values:
        return useful
    quarter = options.max_values // 4
    if previous is None or noisy:  # the largest errors are those of the estimates that are far too high
        return rng.permutation(useful)[: options.max_values]
    error = np.sqrt(depth_weights(depth[useful], edge)) * np.abs(log_density[useful] - previous.log_density(x[useful]))
    order = np.argsort(-error)
    rest = rng.permutation(order[quarter:])[: options.max_values - quarter]
    return useful[np.concatenate([order[:quarter], rest])]


def _fit_in(whitening, evaluated, keep, rng, options, previous=None, metric=None):
    """Trend, expansion and repair in given coordinates."""
    x, log_density, depth, edge, states, top, noise_sd = evaluated
    keep = keep[depth_weights(depth[keep], edge) > NEGLIGIBLE]
    x_kept, y = x[keep], log_density[keep]
    weights = depth_weights(depth[keep], edge)
    weights = weights / weights.sum()
    z = whitening(x_kept)
    trend = fit_trend(z, y, weights)
    sharper = _rewhitened(whitening, trend, y, weights, noise_sd or 0.0)
    if sharper is not None:
        whitening, z = sharper, sharper(x_kept)
        trend = fit_trend(z, y, weights)

    data = _data(z, y, weights, trend, whitening, evaluated, rng, options)
    metrics = _known_metrics(whitening, previous) if metric is None else [metric]
    polynomial = _polynomial_metrics(whitening, data, evaluated, rng)
    noise = noise_sd or 0.0
    poor = min(max(options.target_loo_sd, 0.25 * beyond_noise(trend.residual_sd, noise)), 2.0 * options.target_loo_sd)
    factors = _factors(options, previous)
    known = previous is not None and len(previous.expansion.centers) > _quartics(x.shape[1])
    if (
        known
        and (quartic := _all_quartics(data, options, rng)) is not None
        and quartic[1].loo_sd < options.target_loo_sd
    ):
        data, expansion = quartic
    else:
        data, expansion = _with_learned_metric(data, metrics, polynomial, factors, options, rng, poor, noise)
    if options.score_weight == "cv":
        folds = make_folds(x_kept, states, rng)
        expansion = with_best_share(data, expansion, folds, _neighbors(expansion.factor, options), options.jitter)
    noise_sd = 0.0 if noise_sd is None else _noise_sd(data, expansion)
    ceiling = float(y.max()) + ABOVE_DATA
    surrogate = assemble(whitening, trend, expansion, edge, ceiling, top, noise_sd)
    return _repaired(surrogate, data, evaluated, options)


def _noise_sd(data, expansion):
    inside = data.residual - expansion.values(data.z)
    return estimate_noise_sd(data.z @ expansion.metric.T, inside, expansion.residuals, data.weights)


def _rewhitened(whitening, trend, y, weights, noise_sd):
    """Coordinates in which the fitted precision is the identity, where it is far from that and describes the values."""
    eigenvalues, vectors = linalg.eigh(trend.precision)
    sd = beyond_noise(np.sqrt(weights @ (y - weights @ y) ** 2), noise_sd)
    missed = beyond_noise(trend.residual_sd, noise_sd)
    if (eigenvalues.min() > 0.2 and eigenvalues.max() < 20) or missed > 0.5 * sd:
        return None
    usable = np.where(np.isclose(eigenvalues, FLATTEST), 1.0, eigenvalues)
    root = (vectors * np.sqrt(usable)) @ vectors.T
    return Whitening.of(whitening.back(trend.location[None])[0], root @ whitening.matrix)


def _deep_points(evaluated, rng):
    """At most 200 evaluated points that are too deep to be fitted to."""
    negligible = np.flatnonzero(depth_weights(evaluated.depth, evaluated.edge) <= NEGLIGIBLE)
    return evaluated.x[rng.permutation(negligible)[:200]]


def _data(z, y, weights, trend, whitening, evaluated, rng, options):
    deep = np.ascontiguousarray(whitening(_deep_points(evaluated, rng)))
    states = np.ascontiguousarray(whitening(evaluated.states))
    centers = z[spread(z, options.n_basis, rng, weights)]
    bare = make_jit_state(trend, evaluated.edge)
    return Data(
        z=z,
        residual=y - jit_state.values(bare, np.ascontiguousarray(z)),
        weights=weights,
        centers=centers,
        score_weight=0.0 if options.score_weight == "cv" else options.score_weight,
        states=states,
        base_gradient=jit_state.gradients(bare, states),
        deep=deep,
        deep_limit=evaluated.top - evaluated.edge - jit_state.values(bare, deep),
        noisy=evaluated.noise_sd is not None,
    )


def _factors(options, previous):
    """All bandwidths at first; the neighbors of the last choice once a fit is good."""
    if previous is None or previous.error_sd > 0.5:
        return options.bandwidths
    return _neighbors(previous.expansion.factor, options)


def _neighbors(factor, options):
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
    """Metrics of quartic polynomials, expensive ones: of the values that the fit is to, and of many deeper ones too."""
    yield polynomial_metric(data.z, data.residual, data.weights, rng)
    edge = _DEEPER * evaluated.edge
    weights = depth_weights(evaluated.depth, edge)
    rows = np.flatnonzero(weights > NEGLIGIBLE)
    z, y, weights = whitening(evaluated.x[rows]), evaluated.log_density[rows], weights[rows] / weights[rows].sum()
    trend = make_jit_state(fit_trend(z, y, weights), edge)
    yield polynomial_metric(z, y - jit_state.values(trend, np.ascontiguousarray(z)), weights, rng)


def _with_learned_metric(data, metrics, polynomial, factors, options, rng, poor, noise_sd):
    """The expansion in the best of the given and the learned metrics; more centers if it is poor."""
    best = min((fit_expansion(data, metric, factors, options.jitter) for metric in metrics), key=lambda e: e.loo_sd)
    while beyond_noise(best.loo_sd, noise_sd) > poor and (metric := next(polynomial, None)) is not None:
        trial = fit_expansion(data, metric, options.bandwidths, options.jitter)
        best = min(best, trial, key=lambda e: e.loo_sd)
    for _ in range(2):
        trial = fit_expansion(data, gradient_metric(best, data), factors, options.jitter)
        if not _clearly_better(trial, best, data):
            break
        best = trial
    if beyond_noise(best.loo_sd, noise_sd) > options.target_loo_sd and len(data.z) > 4 * options.n_basis:
        data = data._replace(centers=data.z[spread(data.z, 2 * options.n_basis, rng, data.weights)])
        best = fit_expansion(data, best.metric, _neighbors(best.factor, options), options.jitter)
        trial = fit_expansion(data, gradient_metric(best, data), (best.factor,), options.jitter)
        best = min(best, trial, key=lambda e: e.loo_sd)
    if beyond_noise(best.loo_sd, noise_sd) > poor and (quartic := _all_quartics(data, options, rng)) is not None:
        return quartic if quartic[1].loo_sd < 0.5 * best.loo_sd else (data, best)
    return data, best


def _all_quartics(data, options, rng):
    """The expansion in all polynomials of degree four; None where there are too many, or too few values.

    In the isotropic metric: a learned one makes some of them too small to tell from rounding.
    """
    n, dim = data.z.shape
    size = _quartics(dim)
    if np.inf not in options.bandwidths or not len(data.centers) < size <= min(_MOST_QUARTICS, n / _VALUES_PER_QUARTIC):
        return None
    data = data._replace(centers=data.z[rng.permutation(n)[: int(_CENTERS_PER_QUARTIC * size)]])
    return data, fit_expansion(data, np.eye(dim), (np.inf,), options.jitter)


def _quartics(dim):
    return math.comb(dim + DEGREE, DEGREE)


def _clearly_better(trial, best, data):
    if data.noisy:
        return not no_worse(np.stack([trial.residuals, best.residuals], axis=1), data.weights)[1]
    return trial.loo_sd < 0.95 * best.loo_sd


def _repaired(surrogate, data, evaluated, options):
    """Take in evaluated points that the surrogate puts in the bulk and the truth far outside, while the bulk allows it.

    They become centers and lightly weighted data at a depth where no chain would go.
    """
    n, weights = len(data.z), data.weights
    target = evaluated.top - evaluated.edge - 10.0
    bare = make_jit_state(surrogate.trend, evaluated.edge)
    for _ in range(4):
        bad = _violators(surrogate, evaluated)
        if not len(bad):
            break
        z = np.ascontiguousarray(surrogate.whitening(evaluated.x[bad]))
        light = np.concatenate([data.weights, np.full(len(z), 0.02 * data.weights.max())])
        data = data._replace(
            z=np.vstack([data.z, z]),
            residual=np.concatenate([data.residual, target - jit_state.values(bare, z)]),
            weights=light / light.sum(),
            centers=np.vstack([data.centers, z]),
            score_weight=surrogate.expansion.score_weight,
        )
        old = surrogate.expansion
        new = fit_expansion(data, old.metric, (old.factor,), options.jitter)
        error_before, error = (float(np.sqrt(weights @ e.residuals[:n] ** 2)) for e in (old, new))
        if error > max((1.2 if data.noisy else 1.3) * error_before, 0.1):
            break  # a wall that a smooth kernel can build only by spoiling the bulk
        surrogate = surrogate.with_expansion(new)
    return surrogate


def _violators(surrogate, evaluated):
    """Indices of at most fifty points, the worst first."""
    deep = np.flatnonzero(depth_weights(evaluated.depth, evaluated.edge) <= NEGLIGIBLE)
    if not len(deep):
        return deep
    claimed = evaluated.top - surrogate.log_density(evaluated.x[deep])
    order = np.argsort(claimed)
    return deep[order[claimed[order] < evaluated.edge]][:50]
