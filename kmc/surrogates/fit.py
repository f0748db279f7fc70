"""The fit: from a history of evaluated points to a surrogate of the log-density.

The steps, each in a function: weights by depth, whitening, trend, centres, expansion with a learned metric, and a
repair where the surrogate is shallow and the truth deep.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from kmc.bases import KernelSections
from kmc.landmarks import spread
from kmc.linalg import symmetric_power
from kmc.surrogates import point
from kmc.surrogates.expansion import Data, Expansion, fit_expansion
from kmc.surrogates.metric import gradient_metric, polynomial_metric
from kmc.surrogates.trend import FLATTEST, Trend, fit_trend


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
        Candidates, in median distances between centres.
    score_weight : float
        Share of the score-matching terms in the objective, in [0, 1); the rest goes to the values. Zero is best for a
        deterministic log-density.
    jitter : float
        Added to the diagonal of the Gram matrix.
    """

    n_basis: int = 200
    good: float = 0.2
    max_values: int = 2000
    bandwidths: tuple[float, ...] = (0.5, 0.8, 1.2, 2.0, 3.5, 7.0, 14.0)
    score_weight: float = 0.0
    jitter: float = 1e-11


@dataclass(frozen=True)
class Whitening:
    """z = matrix (x - origin)."""

    origin: np.ndarray
    matrix: np.ndarray
    inverse: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Whitened coordinates of the rows of x."""
        return (x - self.origin) @ self.matrix.T

    def back(self, z: np.ndarray) -> np.ndarray:
        """Original coordinates of the rows of z."""
        return self.origin + z @ self.inverse.T


@dataclass(frozen=True)
class Surrogate:
    """A fitted surrogate log s, up to no constant: it approximates the log-density itself.

    Attributes
    ----------
    whitening : Whitening
        Between the user's coordinates x and those of the fit, z.
    point : PointState
        The surrogate in z, for jitted loops.
    loo_sd, trend_sd : float
        Weighted sd of the leave-one-out residuals, and of the residuals of the trend alone.
    edge : float
        Depth below the highest value down to which values have full weight.
    """

    whitening: Whitening
    point: point.PointState
    trend: Trend
    expansion: Expansion
    loo_sd: float
    trend_sd: float
    edge: float
    n_values: int

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """log s at the rows of x (n, d), shape (n,)."""
        return point.values(self.point, np.ascontiguousarray(self.whitening(x)))

    def rewhitened(self, draws: np.ndarray) -> Surrogate:
        """The same function in coordinates in which ``draws`` (n, d), given in the present ones, are white."""
        step = whiten_states(draws)
        inverse = step.inverse
        basis = self.expansion.basis
        metric = inverse if basis.metric is None else basis.metric @ inverse
        sections = KernelSections(basis.kernel, step(basis.centres), metric)
        trend = self.trend._replace(
            location=step(self.trend.location[None])[0], precision=inverse.T @ self.trend.precision @ inverse
        )
        origin = self.whitening.back(step.origin[None])[0]
        whitening = _whitening(origin, step.matrix @ self.whitening.matrix)
        return _assemble(whitening, trend, self.expansion._replace(basis=sections), self.edge, self.point.ceiling)


def bulk_depth(dim: int) -> float:
    """Depth below the mode within which practically all of a Gaussian's draws lie: d/2 + 2 sqrt(d) + 3."""
    return dim / 2 + 2 * np.sqrt(dim) + 3


def values_needed(dim: int) -> int:
    """Evaluations before a first fit makes sense: a quadratic must be determined."""
    return int(max(10 * dim + 100, 1.15 * (1 + dim + dim * (dim + 1) / 2)))


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
    """
    depth = log_density.max() - log_density
    edge = _edge(log_density.max() - levels if levels is not None else np.empty(0), x.shape[1])
    keep = _chosen(x, log_density, depth, edge, rng, options, previous)

    whitening = previous.whitening if previous and previous.loo_sd < 0.5 else whiten_states(states)
    first = _fit_in(whitening, x, log_density, depth, edge, keep, states, rng, options, previous)
    if first.loo_sd < max(0.5, 0.6 * first.trend_sd):
        return first
    # The kernel found next to nothing: look at the shallow half alone for coordinates and metric, then come back to the whole.
    narrow = _fit_in(whiten_states(states), x, log_density, depth, 0.5 * edge, keep, states, rng, options, None)
    metric = narrow.expansion.basis.metric
    again = _fit_in(narrow.whitening, x, log_density, depth, edge, keep, states, rng, options, None, metric)
    return min(first, again, key=lambda s: s.loo_sd)


def whiten_states(states: np.ndarray) -> Whitening:
    """Whitening by the mean and covariance of states (k, d), shrunk a little towards their diagonal."""
    d = states.shape[1]
    origin = states.mean(axis=0)
    covariance = np.atleast_2d(np.cov(states.T))
    share = d / (len(states) + d)
    covariance = (1 - share) * covariance + share * np.diag(np.diag(covariance))
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    correlation = covariance / np.outer(scale, scale)
    root = symmetric_power(correlation, -0.5, floor=1e-10)
    return _whitening(origin, root / scale)


def _whitening(origin, matrix):
    return Whitening(origin, matrix, np.linalg.inv(matrix))  # SciPy's warns of mere differences in units


def _weights(depth, edge):
    """Full weight down to the edge, then falling as the fourth power of depth."""
    return (1.0 + np.maximum(depth - edge, 0.0) / 4.0) ** -4.0


def _edge(depths, dim):
    bulk = bulk_depth(dim)
    if not len(depths):
        return bulk
    return float(max(np.quantile(np.minimum(depths, 2 * bulk), 0.95), bulk))  # some may be infinite


def _chosen(x, log_density, depth, edge, rng, options, previous):
    """Indices of distinct points with a weight that counts; at most ``max_values``, the worst known ones among them."""
    _, unique = np.unique(x, axis=0, return_index=True)
    useful = unique[_weights(depth[unique], edge) > 1e-4]
    if len(useful) <= options.max_values:
        return useful
    quarter = options.max_values // 4
    if previous is None:
        return rng.permutation(useful)[: options.max_values]
    error = np.sqrt(_weights(depth[useful], edge)) * np.abs(log_density[useful] - previous.log_density(x[useful]))
    order = np.argsort(-error)
    rest = rng.permutation(order[quarter:])[: options.max_values - quarter]
    return useful[np.concatenate([order[:quarter], rest])]


def _fit_in(whitening, x, log_density, depth, edge, keep, states, rng, options, previous, metric=None):
    """Trend, expansion and repair in given coordinates."""
    keep = keep[_weights(depth[keep], edge) > 1e-4]
    x_kept, y = x[keep], log_density[keep]
    weights = _weights(depth[keep], edge)
    weights = weights / weights.sum()
    z = whitening(x_kept)
    trend = fit_trend(z, y, weights)
    sharper = _rewhitened(whitening, trend, y, weights)
    if sharper is not None:
        whitening, z = sharper, sharper(x_kept)
        trend = fit_trend(z, y, weights)

    data = _data(z, y, weights, trend, whitening(states), rng, options)
    if metric is None and previous is not None and whitening is previous.whitening:
        metric = previous.expansion.basis.metric
    start = np.eye(z.shape[1]) if metric is None else metric
    data, expansion = _with_learned_metric(data, start, _factors(options, previous), options, rng)
    ceiling = max(float(y.max()), trend.constant) + 3.0
    surrogate = _assemble(whitening, trend, expansion, edge, ceiling)
    for _ in range(4):
        bad = _violators(surrogate, x, log_density, depth, edge)
        if not len(bad):
            break
        data, repaired = _repaired(data, expansion, whitening(x[bad]), trend, y.max(), edge, options)
        if _error(repaired, weights) > max(1.3 * _error(expansion, weights), 0.1):
            break  # a wall that a smooth kernel can build only by spoiling the bulk
        expansion = repaired
        surrogate = _assemble(whitening, trend, expansion, edge, ceiling)
    return surrogate


def _rewhitened(whitening, trend, y, weights):
    """Coordinates in which the fitted precision is the identity, where it is far from that and describes the values."""
    eigenvalues, vectors = linalg.eigh(trend.precision)
    sd = np.sqrt(weights @ (y - weights @ y) ** 2)
    if (eigenvalues.min() > 0.2 and eigenvalues.max() < 20) or trend.residual_sd > 0.5 * sd:
        return None
    usable = np.where(np.isclose(eigenvalues, FLATTEST), 1.0, eigenvalues)
    root = (vectors * np.sqrt(usable)) @ vectors.T
    return _whitening(whitening.back(trend.location[None])[0], root @ whitening.matrix)


def _data(z, y, weights, trend, states, rng, options):
    centres = z[spread(z, options.n_basis, rng, weights)]
    bare = _point(trend)
    return Data(
        z=z,
        residual=y - point.values(bare, np.ascontiguousarray(z)),
        weights=weights,
        centres=centres,
        score_weight=options.score_weight,
        states=states,
        base_gradient=point.gradients(bare, np.ascontiguousarray(states)),
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


def _with_learned_metric(data, metric, factors, options, rng):
    """The expansion in the better of the given metric and those learned from gradients; more centres if it is poor."""
    best = fit_expansion(data, metric, factors, options.jitter)
    if best.loo_sd > options.good:
        trial = fit_expansion(data, polynomial_metric(data, rng), options.bandwidths, options.jitter)
        best = min(best, trial, key=lambda e: e.loo_sd)
    for _ in range(2):
        trial = fit_expansion(data, gradient_metric(best, data), factors, options.jitter)
        if not trial.loo_sd < 0.95 * best.loo_sd:
            break
        best = trial
    if best.loo_sd > options.good and len(data.z) > 4 * options.n_basis:
        data = data._replace(centres=data.z[spread(data.z, 2 * options.n_basis, rng, data.weights)])
        best = fit_expansion(data, best.basis.metric, _neighbours(best.factor, options), options.jitter)
        trial = fit_expansion(data, gradient_metric(best, data), (best.factor,), options.jitter)
        best = min(best, trial, key=lambda e: e.loo_sd)
    return data, best


def _error(expansion, weights):
    """Leave-one-out sd over the data proper, which come first."""
    return float(np.sqrt(weights @ expansion.residuals[: len(weights)] ** 2))


def _violators(surrogate, x, log_density, depth, edge):
    """Evaluated points that the surrogate puts in the bulk and the truth far outside."""
    deep = np.flatnonzero(_weights(depth, edge) <= 1e-4)
    if not len(deep):
        return deep
    claimed = log_density.max() - surrogate.log_density(x[deep])
    wrong = deep[claimed < edge]
    return wrong[np.argsort(claimed[claimed < edge])][:50]


def _repaired(data, expansion, z_bad, trend, top, edge, options):
    """Add violators as centres and as lightly weighted data, at a depth where no chain would go."""
    target = np.full(len(z_bad), top - edge - 10.0)
    bare = point.values(_point(trend), np.ascontiguousarray(z_bad))
    weights = np.concatenate([data.weights, np.full(len(z_bad), 0.02 * data.weights.max())])
    data = data._replace(
        z=np.vstack([data.z, z_bad]),
        residual=np.concatenate([data.residual, target - bare]),
        weights=weights / weights.sum(),
        centres=np.vstack([data.centres, z_bad]),
    )
    return data, fit_expansion(data, expansion.basis.metric, (expansion.factor,), options.jitter)


def _assemble(whitening, trend, expansion, edge, ceiling):
    return Surrogate(
        whitening=whitening,
        point=_point(trend, expansion, ceiling),
        trend=trend,
        expansion=expansion,
        loo_sd=expansion.loo_sd,
        trend_sd=trend.residual_sd,
        edge=edge,
        n_values=len(expansion.residuals),
    )


def _point(trend, expansion=None, ceiling=np.inf):
    """The trend alone, or the whole surrogate, as arrays for the jitted loops."""
    dim = len(trend.location)
    cap = bulk_depth(dim) + 30.0
    common = (
        np.ascontiguousarray(trend.location),
        np.ascontiguousarray(trend.precision),
        trend.dof,
        cap,
        dim / 2 + 2.0,
    )
    if expansion is None:
        return point.PointState(trend.constant, *common, np.eye(dim), np.zeros((dim, 1)), np.zeros(1), 1.0)
    basis = expansion.basis
    metric = np.eye(dim) if basis.metric is None else np.ascontiguousarray(basis.metric)
    centres = np.ascontiguousarray((basis.centres @ metric.T).T)
    constant = trend.constant + expansion.offset
    reach = float(np.quantile(np.linalg.norm(basis.centres, axis=1), 0.95))
    kernel = (metric, centres, expansion.coefficients, basis.kernel.rate)
    return point.PointState(constant, *common, *kernel, ceiling, reach)
