"""Learn a posterior by rounds: fit, sample the surrogate, choose a batch, evaluate, compare with
the prediction.

The evaluations so far are regressed by a Gaussian process. Chains sample its mean at several
powers, and their draws are the candidates of the next evaluations: those that are uncertain
although their density is not small. Each batch is predicted before it is evaluated, and learning
ends when the predictions are good or the budget is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from kmc.surrogate import chains as surrogate_chains
from kmc.surrogate.chains import Box, Chains
from kmc.surrogate.covariance import Coordinates, scaled_coordinates
from kmc.surrogate.density import DENSITY, DEPTH, by_depth, doubt, jit_state, without_spurious_mass
from kmc.surrogate.mean import Mean, bump_gradients, mean_values
from kmc.surrogate.regression import STARTS, Observations, Regression, condition, fit

Evaluate = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Settings:
    """Numbers of the rounds."""

    powers: tuple[float, ...] = (1.0, 0.5, 1 / 6)
    """Powers of the surrogate that chains sample: at 1/6 a normal is 2.4 times as wide."""
    chains: tuple[int, ...] = (24, 12, 12)
    """Number of chains at each power."""
    iterations: int = 30
    """Trajectories of each chain in a round."""
    restarted: float = 1 / 6
    """Share of the chains that start from the best evaluated points in each round, in case that all
    are stuck.
    """
    candidates: tuple[int, ...] = (160, 120, 120)
    """Draws at each power among which a batch is chosen."""
    height: float = 0.3
    """Weight of a candidate's predicted log-density beside its log variance: an exploration's
    compromise.
    """
    variance: tuple[float, float] = (1e-6, 25.0)
    """Least and greatest variance that counts in a score, in squared nats: more than 5 nats say no
    more than 5.
    """
    growth: float = 0.05
    """Size of a batch as a share of the evaluations so far, at least half of the dimension."""
    refit: float = 0.15
    """Growth of the number of evaluations after which hyperparameters are fitted again."""
    reach: float = 1.5
    """Chains stay in the box of the points that count, so many times as large."""
    precision: float = 0.1
    """Error in nats of the last predictions at which learning ends."""


SETTINGS = Settings()


class Prediction(NamedTuple):
    """Compare predicted and evaluated log-densities of one batch, without its first point."""

    mean: np.ndarray  # (b,)
    sd: np.ndarray  # (b,)
    value: np.ndarray  # (b,)
    weight: np.ndarray  # (b,), density relative to typical draws, at most 1


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A fit, as a density that can be sampled."""

    regression: Regression
    mean: Mean  # of the tempered log-density: nats below the highest value, over the temperature
    highest: float  # value
    temperature: float  # 1 as soon as enough values count
    cap: float  # of the tempered log-density
    box: Box

    @property
    def coordinates(self) -> Coordinates:
        """Those of the regression."""
        return self.regression.coordinates

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return log-densities at the rows of x (n, d), without the cap."""
        return self.highest + self.temperature * mean_values(self.mean, self.coordinates, x)[:, 0]

    def sample(self, chains: Chains, iterations: int, rng: np.random.Generator, *, cautious: bool = False):
        """Run chains, see :func:`kmc.surrogate.chains.sample`; cautious ones keep to what is known.

        Learning is not cautious: where a high mean is wrong, an evaluation says so.
        """
        doubts = doubt(self.regression)
        return surrogate_chains.sample(
            jit_state(self.mean, self.coordinates.metric, self.cap),
            doubts if cautious else doubts._replace(points=doubts.points[:0]),
            self.coordinates,
            chains,
            box=self.box,
            iterations=iterations,
            rng=rng,
        )


@dataclass(frozen=True, eq=False)
class Round:
    """The state of learning after a fit, before the next batch."""

    points: np.ndarray  # (n, d), all evaluated ones
    values: np.ndarray  # (n,)
    surrogate: Surrogate
    chains: Chains
    draws: np.ndarray  # (m, d), of the surrogate at power 1: of the posterior if the temperature is 1
    predictions: tuple[Prediction, ...] = field(default=())

    @property
    def error(self) -> float:
        """The error of the last predictions in nats, see :func:`prediction_error`."""
        return prediction_error(self.predictions)

    def sample(self, iterations: int, rng: np.random.Generator) -> np.ndarray:
        """Return draws (m, d) of cautious chains from the best points: the second half of twice as many iterations."""
        best = _best(self.values)
        starts = self.points[rng.choice(best, len(self.chains.powers))]
        chains = replace(self.chains, positions=starts)
        found, _ = self.surrogate.sample(chains, 2 * iterations, rng, cautious=True)
        return found.positions[iterations:, chains.powers == 1.0].reshape(-1, self.points.shape[1])


def learn(
    evaluate: Evaluate,
    initial: np.ndarray,
    *,
    budget: int,
    rng: np.random.Generator,
    settings: Settings = SETTINGS,
) -> Round:
    """Learn until the last predictions are good, or ``budget`` evaluations are used.

    Good is an error of at most ``settings.precision``.

    Parameters
    ----------
    evaluate : callable
        Of points (b, d): their log-densities (b,), which may be -inf.
    initial : ndarray, shape (n, d)
        First points, evaluated first; n >= 2.
    budget : int
        Number of evaluations, those of first points included.
    rng : Generator

    Raises
    ------
    ValueError
        The first points are fewer than two or more than the budget, or none has a finite
        log-density.
    """
    for found in rounds(evaluate, initial, budget=budget, rng=rng, settings=settings):
        if found.error <= settings.precision and found.surrogate.temperature == 1.0:
            break
    return found


def rounds(
    evaluate: Evaluate,
    initial: np.ndarray,
    *,
    budget: int,
    rng: np.random.Generator,
    settings: Settings = SETTINGS,
) -> Iterator[Round]:
    """Yield each round, to the budget; see :func:`learn`."""
    points = np.array(initial, dtype=float)
    if points.ndim != 2 or not 2 <= len(points) <= budget:
        raise ValueError(f"initial has shape {points.shape}: expected (n, d), n from 2 to budget={budget}")
    values = np.asarray(evaluate(points), dtype=float)
    if not np.isfinite(values).any():
        raise ValueError(
            f"initial: none of the {len(points)} points has a finite log-density; "
            "give at least one where the density is positive"
        )
    dim = points.shape[1]
    coordinates = scaled_coordinates(points)
    chains: Chains | None = None
    surrogate: Surrogate | None = None
    predictions: list[Prediction] = []
    due = 0.0
    while True:
        # Fit; hyperparameters stay for a while, as they cost most.
        search = len(values) >= due
        surrogate = fit_surrogate(points, values, coordinates, surrogate, search=search, settings=settings)
        if search:
            due = len(values) * (1.0 + settings.refit)

        # Sample the surrogate.
        chains = _restarted(chains, points, values, rng, settings)
        found, chains = surrogate.sample(chains, settings.iterations, rng)
        later = found.positions[settings.iterations // 3 :]
        draws = later[:, chains.powers == 1.0].reshape(-1, dim)
        yield Round(points, values, surrogate, chains, draws, tuple(predictions))
        left = budget - len(values)
        if left <= 0:
            return

        # Choose, predict, evaluate.
        candidates = _candidates(later, chains.powers, rng, settings)
        batch = min(max(2, dim // 2, int(settings.growth * len(values))), left)
        chosen, mean, sd = choose(surrogate, candidates, batch, settings)
        new = np.asarray(evaluate(candidates[chosen]), dtype=float)
        typical = np.median(surrogate.values(draws))
        # The first of a batch is where the prediction is highest, so it is too high: no test of the others.
        weight = np.exp(np.minimum(mean - typical, 0.0))
        predictions.append(Prediction(mean[1:], sd[1:], new[1:], weight[1:]))
        points = np.vstack([points, candidates[chosen]])
        values = np.append(values, new)
        coordinates = learned_coordinates(surrogate, draws, points)


def fit_surrogate(
    points: np.ndarray,
    values: np.ndarray,
    coordinates: Coordinates,
    previous: Surrogate | None = None,
    *,
    search: bool = True,
    settings: Settings = SETTINGS,
) -> Surrogate:
    """Fit the regression and make it a density.

    Hyperparameters are those of the previous fit, or searched for from these and from fixed starts.
    """
    dim = points.shape[1]
    finite = np.isfinite(values)
    highest = float(values[finite].max())
    known = np.where(finite, values, values[finite].min() - 10.0) - highest
    temperature = temperature_of(known, dim)
    known = known / temperature
    compressed, noise = by_depth(known, dim)
    observations = Observations(points, compressed, noise)
    theta = None if previous is None else _at_temperature(previous, temperature)
    if theta is not None and not search:
        regression = condition(observations, coordinates, theta)
    else:
        starts = STARTS if theta is None else (theta, *STARTS)
        plain = replace(coordinates, metric=np.eye(dim))
        metrics = [coordinates] if np.allclose(coordinates.metric, plain.metric) else [coordinates, plain]
        fits = [fit(observations, metric, starts) for metric in metrics]
        regression = min(fits, key=lambda found: found.negative_log_likelihood)
    mean = without_spurious_mass(regression)
    cap = DENSITY.cap[0] + DENSITY.cap[1] * dim
    return Surrogate(regression, mean, highest, temperature, cap, _box(points, known, settings))


def temperature_of(depths: np.ndarray, dim: int) -> float:
    """Return the temperature at which d + 2 values count fully, at least 1: minus ``depths`` are
    nats below the highest.

    When all first values are thousands of nats deep, the posterior is a needle that no chain finds.
    The tempered one is as wide as what is known, and the temperature falls as higher values are
    found.
    """
    return max(1.0, float(np.sort(-depths)[: dim + 2][-1]) / (DEPTH.base + DEPTH.slope * dim))


def choose(
    surrogate: Surrogate, candidates: np.ndarray, count: int, settings: Settings = SETTINGS
) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Choose a batch: indices, predicted log-densities and their standard deviations.

    The first has the largest predicted log-density plus one standard deviation. The others, one
    after the other, have the largest log variance + ``settings.height`` times predicted
    log-density, the variance conditional on those chosen.
    """
    # All of this in units of the temperature.
    mean = np.minimum(mean_values(surrogate.mean, surrogate.coordinates, candidates)[:, 0], 0.0)
    joint = surrogate.regression.conditional(candidates)
    variances = joint.variances.copy()
    noise = np.exp(2.0 * surrogate.regression.hyperparameters.noise)
    columns = np.empty((0, len(candidates)))
    chosen: list[int] = []
    for k in range(min(count, len(candidates))):
        score = np.log(np.clip(variances, *settings.variance)) + settings.height * mean
        if k == 0:
            score = mean + np.sqrt(variances)
        score[chosen] = -np.inf
        j = int(np.argmax(score))
        chosen.append(j)

        # Conditional on a value at j: one step of a Cholesky factorization.
        column = joint.covariances(j) - columns.T @ columns[:, j]
        column /= np.sqrt(variances[j] + noise)
        columns = np.vstack([columns, column])
        variances = np.maximum(variances - column**2, 0.0)
    sd = surrogate.temperature * np.sqrt(joint.variances[chosen])
    return chosen, surrogate.highest + surrogate.temperature * mean[chosen], sd


def learned_coordinates(surrogate: Surrogate, draws: np.ndarray, points: np.ndarray) -> Coordinates:
    """Return coordinates in which draws are white, narrower where the quadratic is, and the bumps'
    metric.

    In the common eigenbasis of both, the larger precision counts: draws that are stuck are narrow,
    and so is a quadratic that is known better than sampled. The metric stretches z where the bumps
    have steep gradients.
    """
    dim = draws.shape[1]
    old = surrogate.coordinates
    covariance = np.cov(draws.T).reshape(dim, dim) + 1e-9 * np.diag(points.var(axis=0))
    precision = -2.0 * old.whitening @ surrogate.mean.quadratic[:, :, 0] @ old.whitening.T
    root = np.linalg.cholesky(covariance)
    ratios, vectors = np.linalg.eigh(root.T @ precision @ root)
    root = root @ vectors / np.sqrt(np.clip(ratios, 1.0, 1e6))
    whitening = np.linalg.inv(root).T

    # Root mean squares of the bumps' slopes along z, relative to their geometric mean.
    slopes = bump_gradients(surrogate.mean, old, draws[::8])[:, :, 0] @ root
    squares, vectors = np.linalg.eigh(slopes.T @ slopes / len(slopes))
    metric = np.eye(dim)
    if squares[-1] > 1e-8:
        stretch = np.sqrt(np.maximum(squares, 1e-3 * squares[-1]))
        stretch /= np.exp(np.log(stretch).mean())
        metric = (vectors * np.clip(stretch, 0.1, 10.0)) @ vectors.T
    return Coordinates(draws.mean(axis=0), whitening, metric)


def prediction_error(predictions: tuple[Prediction, ...], least: int = 10) -> float:
    """Return the root mean square error in nats of the last batches, weighted by density; at least
    ``least`` values.

    Infinite if there are fewer.
    """
    errors, weights = np.empty(0), np.empty(0)
    for batch in reversed(predictions):
        error = np.where(np.isfinite(batch.value), batch.value - batch.mean, -1e3)
        errors, weights = np.append(errors, error), np.append(weights, batch.weight)
        if weights.sum() >= least:
            return float(np.sqrt(np.average(errors**2, weights=weights)))
    return float("inf")


def _at_temperature(previous, temperature):
    """Return the hyperparameters of a fit in units of another temperature."""
    theta, shift = previous.regression.hyperparameters, np.log(previous.temperature / temperature)
    return theta._replace(quadratic=theta.quadratic + shift, gaussian=theta.gaussian + shift, noise=theta.noise + shift)


def _box(points, values, settings):
    """Return the box of the points that count, or of the best ones, enlarged."""
    dim = points.shape[1]
    full = DEPTH.base + DEPTH.slope * dim
    near = points[values > -2.0 * full]
    if len(near) < 2 * dim:
        near = points[np.argsort(-values, kind="stable")[: 2 * dim]]
    low, high = near.min(axis=0), near.max(axis=0)
    center, half = (low + high) / 2, settings.reach * (high - low) / 2
    return Box(center - half - 1e-12, center + half + 1e-12)


def _best(values):
    """Return the indices of the best quarter of all values, at least five."""
    return np.argsort(-values, kind="stable")[: max(5, len(values) // 4)]


def _restarted(chains, points, values, rng, settings):
    """Return chains of which some, or all that there are not yet, start from the best points."""
    best = _best(values)
    if chains is None:
        powers = np.repeat(settings.powers, settings.chains)
        return surrogate_chains.started(points[rng.choice(best, len(powers))], powers)
    again = rng.random(len(chains.positions)) < settings.restarted
    positions = chains.positions.copy()
    positions[again] = points[rng.choice(best, int(again.sum()))]
    return replace(chains, positions=positions)


def _candidates(positions, powers, rng, settings):
    """Return some distinct draws (n, k, d) of each power."""
    pool = []
    for power, count in zip(settings.powers, settings.candidates):
        draws = positions[:, powers == power].reshape(-1, positions.shape[2])
        pool.append(draws[rng.choice(len(draws), min(count, len(draws)), replace=False)])
    return np.unique(np.concatenate(pool), axis=0)
