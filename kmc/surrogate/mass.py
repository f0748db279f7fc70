"""Depths below the highest log-density, the temperature, and spurious mass.

Values count by their depth, and at the temperature enough of them do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kmc.surrogate.mean import Mean
from kmc.surrogate.regression import Regression


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
    limit: float = 4.0
    """Multiples of that depth below which values say "deep", and nothing else."""


@dataclass(frozen=True)
class DensitySettings:
    """How a posterior mean becomes a density with finite mass."""

    curvature: float = -0.1
    """Greatest curvature of the quadratic, in nats per squared standard deviation: a normal 2.2
    times as wide as the draws. Flatter ones have mass where no evaluation is.
    """
    cap: tuple[float, float] = (2.0, 0.5)
    """Nats above the highest value that the density cannot exceed, plus nats per dimension: the
    mode of a normal is d/2 above its typical draws.
    """


DEPTH, DENSITY = DepthSettings(), DensitySettings()
_LOW, _BELOW = 0.01, 3.0  # quantile of levels, and times its distance from the median: the floor
_RISING = 0.1  # part of the greatest curvature, upwards: such a quadratic rises
_TEMPERATURES = 100  # most that are tried
_STEP = 3.0  # standard deviations of the draws, of differences for a curvature


def bulk_depth(dim: int) -> float:
    """Return the depth d/2 + 2 sqrt(d) + 3 below the mode.

    Practically all of a Gaussian's draws lie within it.
    """
    return dim / 2 + 2 * np.sqrt(dim) + 3


def floor_of(levels: np.ndarray) -> float:
    """Return the log-density below which hardly any draw lies, from those of draws (n,).

    Three times as far below the median as the 1 % quantile: of normal distributions and Student's t
    at most one draw in 70,000 lies lower.
    """
    low, median = np.quantile(levels, [_LOW, 0.5])
    return float(median - _BELOW * (median - low))


def full_depth(dim: int) -> float:
    """Return the depth to which values count fully."""
    return DEPTH.base + DEPTH.slope * dim


def deepest(dim: int) -> float:
    """Return the depth below which values say "deep", and nothing else."""
    return DEPTH.limit * full_depth(dim)


def by_depth(values: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return values (n,), those below the limit replaced by it, and their noise (n,).

    The noise is zero for those that count fully.
    """
    highest = values.max()
    depth = np.minimum(highest - values, deepest(dim))
    return highest - depth, noise_at(depth, dim)


def noise_at(depth: np.ndarray, dim: int) -> np.ndarray:
    """Return the noise of values at depths (n,), (n,)."""
    return DEPTH.noise * np.maximum(depth - full_depth(dim), 0.0)


def temperature_of(depths: np.ndarray, counted: int, dim: int) -> float:
    """Return the temperature, at least 1, at which ``counted`` values count fully.

    ``depths`` (n,) are log-densities minus the highest one, in nats: at most 0. When all first
    values are thousands of nats deep, the posterior is a needle that no chain finds. The tempered
    one is as wide as what is known, and the temperature falls as higher values are found.
    """
    return max(1.0, float(np.sort(-depths)[:counted][-1]) / full_depth(dim))


def tempered_apart(
    depths: np.ndarray, added: np.ndarray, counted: int, dim: int
) -> tuple[float, np.ndarray, float]:
    """Return the temperature, depths (n,) at it, and the highest of these before it is taken off.

    What is ``added`` (n,) is not divided: at a temperature of the whole, scales of a hierarchy
    would be of any size. The temperature is the lowest at which ``counted`` values count fully,
    about.
    """
    rest = depths - added
    most = temperature_of(rest - rest.max(), counted, dim)
    for temperature in np.geomspace(1.0, most, _TEMPERATURES):
        heights = added + rest / temperature
        if np.sum(heights.max() - heights < full_depth(dim)) >= counted:
            break
    return float(temperature), heights - heights.max(), float(heights.max())


def without_known(
    values: np.ndarray, added: np.ndarray, finite: np.ndarray, near: np.ndarray, lowest: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the values (n,) without their ``added`` part, and where to learn them (n,), bool.

    Where that part is deep alone, nothing has to be learned, and the rest may be of any size. The
    limit of depth is one of the rest.
    """
    rest = np.where(finite, values - added, values)
    return np.maximum(rest, rest[near].max() + lowest), added > added[near].min() + lowest


def without_spurious_mass(
    regression: Regression,
    prior: np.ndarray | None = None,
    known: np.ndarray | None = None,
    curvature: float = DENSITY.curvature,
) -> Mean:
    """Return the posterior mean of y, with a quadratic that rises in no direction.

    The regression is one of y + z' P z / 2, with the precision P = ``prior`` (d, d) of a prior
    mean, if there is one. The quadratic of ``known`` (d, d) is added to y elsewhere. Where the
    quadratic would rise, or fall too slowly to bound the mass, it is bent down, and the constant
    and the other kernels are solved again around it: they know nothing beyond the data, so a
    quadratic that is known to be flat is left, as one between walls is.
    """
    mean = regression.mean
    shift = np.zeros((len(mean.linear),) * 2) if prior is None else 0.5 * prior
    added = -shift if known is None else known - shift
    eigenvalues, vectors = np.linalg.eigh(mean.quadratic[:, :, 0] + added)
    flat = eigenvalues > curvature
    doubt = _curvature_sds(regression, vectors[:, flat].T)
    flat[flat] = (doubt > abs(curvature)) | (eigenvalues[flat] > _RISING * abs(curvature))
    if flat.any():
        bent = (vectors * np.where(flat, curvature, eigenvalues)) @ vectors.T
        mean = regression.solved.around(mean.linear, (bent - added)[:, :, None])
    return mean._replace(quadratic=mean.quadratic - shift[:, :, None])


def _curvature_sds(regression, directions):
    """Return the standard deviations of half the curvature along directions (k, d) in z, (k,)."""
    found = []
    for direction in directions:
        z = _STEP * np.stack([direction, -direction, 0.0 * direction])
        covariance = regression.conditional(regression.coordinates.back(z)).covariances()
        difference = np.array([0.5, 0.5, -1.0]) / _STEP**2
        found.append(np.sqrt(max(difference @ covariance @ difference, 0.0)))
    return np.array(found)
