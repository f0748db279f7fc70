"""The regression's mean as a log-density: values by depth, no spurious mass, and compiled
evaluation at one point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kmc.kernels.exponentials import exponential
from kmc.njit import njit
from kmc.surrogate.covariance import SHRINK, inverted
from kmc.surrogate.mean import Mean
from kmc.surrogate.regression import ExactSolved, Regression


@dataclass(frozen=True)
class DepthSettings:
    """Which values count, by their depth below the highest one; all depths are in nats."""

    base: float = 3.0
    """Depth of values that count fully, in no dimension."""
    slope: float = 1.5
    """Its increase per dimension: log-densities of a normal's draws are d/2 below its mode on
    average, and within 3 + 1.5 d with probability 0.998 or more.
    """
    noise: float = 0.1
    """Noise of deeper values, as a share of their excess: the regression need not hold there.
    Learning this share by marginal likelihood was tried, and was worse: there are more deep values
    than others, and these decide.
    """
    compressed: float = 4.0
    """Multiples of that depth beyond which values are compressed logarithmically: they say deep,
    and nothing else.
    """


@dataclass(frozen=True)
class DensitySettings:
    """How a posterior mean becomes a density with finite mass."""

    curvature: float = -0.01
    """Greatest curvature of the quadratic, in nats per squared standard deviation: a normal ten
    times as wide.
    """
    cap: tuple[float, float] = (2.0, 0.5)
    """Nats above the highest value that the density cannot exceed, plus nats per dimension: the
    mode of a normal is d/2 above its typical draws.
    """


DEPTH, DENSITY = DepthSettings(), DensitySettings()


def by_depth(values: np.ndarray, dim: int, settings: DepthSettings = DEPTH) -> tuple[np.ndarray, np.ndarray]:
    """Return values (n,), deep ones compressed, and their noise (n,), zero for those that count
    fully.

    With the depth D below the highest value, D_0 of what counts fully and D_1 where compression
    begins, D > D_1 becomes D_1 (1 + log(D / D_1)).
    """
    highest = values.max()
    depth = highest - values
    full = settings.base + settings.slope * dim
    deep = settings.compressed * full
    compressed = np.minimum(depth, deep) + deep * np.log(np.maximum(depth, deep) / deep)
    return highest - compressed, settings.noise * np.maximum(np.minimum(depth, deep) - full, 0.0)


def without_spurious_mass(regression: Regression, curvature: float = DENSITY.curvature) -> Mean:
    """Return the posterior mean with a quadratic that falls in all directions.

    Where it would rise, or fall too slowly to bound the mass, it is bent down, and the constant and
    the Gaussian kernel are solved again around it.
    """
    mean = regression.mean
    eigenvalues, vectors = np.linalg.eigh(mean.quadratic[:, :, 0])
    if eigenvalues[-1] <= curvature:
        return mean
    bent = (vectors * np.minimum(eigenvalues, curvature)) @ vectors.T
    return regression.solved.around(mean.linear, bent[:, :, None])


class JitState(NamedTuple):
    """A mean of one output in plain arrays, for jitted loops in the coordinates z."""

    constant: float
    cap: float
    rate: float  # 1 / l²
    linear: np.ndarray  # (d,)
    quadratic: np.ndarray  # (d, d)
    metric: np.ndarray  # (d, d)
    centers: np.ndarray  # (d, m): the loops go along points
    weights: np.ndarray  # (m,)
    slope_centers: np.ndarray  # (k, d)
    slopes: np.ndarray  # (k, d)


def jit_state(mean: Mean, metric: np.ndarray, cap: float = np.inf) -> JitState:
    """Return the state of the first output, smoothly bounded by ``cap``."""
    return JitState(
        float(mean.constant[0]),
        float(cap),
        1.0 / mean.length**2,
        np.ascontiguousarray(mean.linear[:, 0]),
        np.ascontiguousarray(mean.quadratic[:, :, 0]),
        np.ascontiguousarray(metric),
        np.ascontiguousarray(mean.centers.T),
        np.ascontiguousarray(mean.weights[:, 0]),
        np.ascontiguousarray(mean.slope_centers),
        np.ascontiguousarray(mean.slopes[:, :, 0]),
    )


class Doubt(NamedTuple):
    """Standard deviations of the regression in plain arrays, for jitted loops; of none if there are no points."""

    points: np.ndarray  # (n, d), in z
    precision: np.ndarray  # (n, n), the inverse of the covariance matrix of the values, noise included
    quadratic: float  # a²
    gaussian: float  # b²


def doubt(regression: Regression) -> Doubt:
    """Return the doubt of an exact regression of values; of others, with many values or gradients, none."""
    theta, dim = regression.hyperparameters, len(regression.coordinates.center)
    points, precision = np.empty((0, dim)), np.empty((0, 0))
    if isinstance(regression.solved, ExactSolved) and not len(regression.mean.slope_centers):
        points = np.ascontiguousarray(regression.solved.posterior.places.z)
        precision = inverted(regression.solved.lower)
    return Doubt(
        points,
        np.ascontiguousarray(precision),
        float(np.exp(2.0 * theta.quadratic)),
        float(np.exp(2.0 * theta.gaussian)),
    )


@njit(fastmath={"reassoc", "contract"})
def deviation(doubt: Doubt, state: JitState, z: np.ndarray, work: np.ndarray) -> float:
    """Return the standard deviation at z (d,), without that of the constant; ``work`` has n + d places.

    In points of the regression, state.centers are doubt.points in the metric.
    """
    n, dim = doubt.points.shape
    if n == 0:
        return 0.0
    cross, u = work[:n], work[n : n + dim]
    norm = 0.0
    for j in range(dim):
        norm += z[j] * z[j]
        u[j] = 0.0
        for i in range(dim):
            u[j] += z[i] * state.metric[i, j]
    for a in range(n):
        cross[a] = 0.0
    for i in range(dim):
        for a in range(n):
            cross[a] += (u[i] - state.centers[i, a]) ** 2
    for a in range(n):
        product = 0.0
        for i in range(dim):
            product += z[i] * doubt.points[a, i]
        cross[a] = doubt.gaussian * exponential(-0.5 * state.rate * cross[a])
        cross[a] += doubt.quadratic * (1.0 + product / SHRINK) ** 2
    variance = doubt.quadratic * (1.0 + norm / SHRINK) ** 2 + doubt.gaussian
    for a in range(n):
        row = 0.0
        for b in range(a):
            row += doubt.precision[a, b] * cross[b]
        variance -= cross[a] * (2.0 * row + doubt.precision[a, a] * cross[a])
    return np.sqrt(max(variance, 0.0))


@njit(fastmath={"reassoc", "contract"})
def value_and_gradient(state: JitState, z: np.ndarray, gradient: np.ndarray, work: np.ndarray) -> float:
    """Return the value at z (d,) and write the gradient along z into ``gradient`` (d,); ``work``
    has (m + 2 d,) places.

    Values t near the cap c become c - log(1 + exp(c - t)).
    """
    dim, m = state.centers.shape
    heights, u, along_u = work[:m], work[m : m + dim], work[m + dim : m + 2 * dim]
    for j in range(dim):
        u[j] = 0.0
        for i in range(dim):
            u[j] += z[i] * state.metric[i, j]

    # The polynomial.
    value = state.constant
    for i in range(dim):
        row = 0.0
        for j in range(dim):
            row += state.quadratic[i, j] * z[j]
        value += z[i] * (state.linear[i] + row)
        gradient[i] = state.linear[i] + 2.0 * row

    # Gaussian bumps: heights are distances first, then w k.
    for a in range(m):
        heights[a] = 0.0
    for i in range(dim):
        for a in range(m):
            heights[a] += (u[i] - state.centers[i, a]) ** 2
    total = 0.0
    for a in range(m):
        heights[a] = state.weights[a] * exponential(-0.5 * state.rate * heights[a])
        total += heights[a]
    value += total
    for i in range(dim):
        toward = 0.0
        for a in range(m):
            toward += heights[a] * state.centers[i, a]
        along_u[i] = state.rate * (toward - u[i] * total)

    # Bumps of known gradients: (v·r) k.
    for a in range(state.slope_centers.shape[0]):
        s = 0.0
        rise = 0.0
        for i in range(dim):
            r = u[i] - state.slope_centers[a, i]
            s += r * r
            rise += r * state.slopes[a, i]
        k = exponential(-0.5 * state.rate * s)
        value += k * rise
        for i in range(dim):
            r = u[i] - state.slope_centers[a, i]
            along_u[i] += k * (state.slopes[a, i] - state.rate * rise * r)
    for i in range(dim):
        for j in range(dim):
            gradient[i] += state.metric[i, j] * along_u[j]

    # The cap; far below it, and without one, nothing changes.
    below = state.cap - value
    if below > 40.0:
        return value
    if below < -40.0:
        share, capped = 0.0, state.cap - np.exp(below)
    else:
        share, capped = 1.0 / (1.0 + np.exp(-below)), state.cap - np.log1p(np.exp(below))
    for i in range(dim):
        gradient[i] *= share
    return capped
