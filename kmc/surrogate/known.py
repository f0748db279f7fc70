"""What is known of a model: functions of one coordinate each, as arrays that jitted loops read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kmc.njit import njit

IDENTITY, ABOVE, BELOW, BETWEEN = range(4)
"""Kinds of transforms of one number: those of :mod:`kmc.model.transforms`."""

SMALLEST_SD, LARGEST_SD = 1e-150, 1e150
"""Standard deviations of hierarchical priors beyond do not change any more."""

_OVERFLOW = 700.0  # the exponential of larger numbers overflows


class Splines(NamedTuple):
    """Σ_i f_i(x_i), where f_i is a cubic Hermite spline between its nodes, and linear beyond them.

    Without nodes, it is zero.
    """

    nodes: np.ndarray  # (d, n), increasing
    values: np.ndarray  # (d, n)
    slopes: np.ndarray  # (d, n)

    def divided(self, temperature: float) -> Splines:
        """Return the splines of functions that are divided by a temperature."""
        return self._replace(values=self.values / temperature, slopes=self.slopes / temperature)

    def values_and_gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums (n,) and their gradients (n, d) at the rows of x (n, d)."""
        return _values_and_gradients(self, np.ascontiguousarray(x))


class KnownPart(NamedTuple):
    """What is known of a log-density: functions of single coordinates u_i of a transport."""

    transport: Any
    splines: Splines


class Transforms(NamedTuple):
    """How each of d parameters depends on its coordinate."""

    kinds: np.ndarray  # (d,) of int
    lower: np.ndarray  # (d,)
    upper: np.ndarray  # (d,)
    ends: np.ndarray  # (d, 2): steepness and length of an interval in x; zeros for log-odds


class Hierarchy(NamedTuple):
    """A hierarchical prior, whose coordinates u are sampled while the likelihood is one of x.

    The fields are those of :class:`kmc.surrogate.coordinates.noncentered.NonCentered` and
    :class:`Splines` of all u_i; x is sampled instead of u where ``noncentered`` is false. The
    likelihood's coordinates are (x - center) whitening.
    """

    transforms: Transforms
    means: np.ndarray  # (d,) of int
    sds: np.ndarray  # (d,) of int
    numbers: np.ndarray  # (d, 2)
    known: Splines
    noncentered: np.ndarray  # (d,) of bool
    center: np.ndarray  # (d,)
    whitening: np.ndarray  # (d, d)


def check_arrays(owner: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise a ValueError if a field is not an array of floats of this shape."""
    for name, shape in shapes.items():
        array = getattr(owner, name)
        if type(array) is not np.ndarray or array.dtype != np.float64 or array.shape != shape:
            raise ValueError(f"{name} is not an array of numbers of shape {shape}")


def check_columns(
    name: str, array: np.ndarray, shape: tuple[int, ...], least: int, most: int
) -> None:
    """Raise a ValueError if an array is not of whole numbers of this shape, between two bounds."""
    if type(array) is not np.ndarray or array.dtype != np.int64 or array.shape != shape:
        raise ValueError(f"{name} is not an array of whole numbers of shape {shape}")
    if array.size and not (array.min() >= least and array.max() <= most):
        raise ValueError(f"{name} has numbers that are not between {least} and {most}")


def check_splines(splines: Splines, dim: int) -> None:
    """Raise a ValueError unless compiled loops can read the arrays, for ``dim`` coordinates."""
    if type(splines) is not Splines:
        raise ValueError(f"splines of type {type(splines).__name__}")
    check_arrays(splines, dict.fromkeys(splines._fields, (dim, splines.nodes.shape[-1])))
    if splines.nodes.shape[1] == 1 or not np.all(np.diff(splines.nodes) > 0.0):
        raise ValueError("nodes of splines are not increasing")


def check_transforms(transforms: Transforms, dim: int) -> None:
    """Raise a ValueError unless compiled loops can read the arrays, for ``dim`` parameters."""
    if type(transforms) is not Transforms:
        raise ValueError(f"transforms of type {type(transforms).__name__}")
    check_arrays(transforms, {"lower": (dim,), "upper": (dim,), "ends": (dim, 2)})
    check_columns("kinds of transforms", transforms.kinds, (dim,), IDENTITY, BETWEEN)


def no_splines(dim: int) -> Splines:
    """Return those that are zero."""
    return Splines(*np.empty((3, dim, 0)))


def no_hierarchy() -> Hierarchy:
    """Return one of no parameters: what is sampled is what is regressed."""
    none, columns = np.empty(0), np.empty(0, np.int64)
    return Hierarchy(
        Transforms(columns, none, none, np.empty((0, 2))),
        columns,
        columns,
        np.empty((0, 2)),
        no_splines(0),
        np.empty(0, bool),
        none,
        np.empty((0, 0)),
    )


def check_flags(name: str, array: np.ndarray, dim: int) -> None:
    """Raise a ValueError if an array is not one of ``dim`` truth values."""
    if type(array) is not np.ndarray or array.dtype != bool or array.shape != (dim,):
        raise ValueError(f"{name} is not an array of bool of shape {(dim,)}")


@njit(allocates=False)
def value_and_gradient(splines, x, gradient):
    """Return the sum at x (d,), and write its gradient into ``gradient`` (d,)."""
    total = 0.0
    last = splines.nodes.shape[1] - 1
    for i in range(x.size):
        if last < 0:
            gradient[i] = 0.0
            continue
        nodes, values, slopes = splines.nodes[i], splines.values[i], splines.slopes[i]
        if x[i] <= nodes[0] or x[i] >= nodes[last]:
            end = 0 if x[i] <= nodes[0] else last
            total += values[end] + slopes[end] * (x[i] - nodes[end])
            gradient[i] = slopes[end]
            continue
        k = min(np.searchsorted(nodes, x[i], side="right"), last) - 1  # also where x is NaN
        h = nodes[k + 1] - nodes[k]
        t = (x[i] - nodes[k]) / h
        rise = (values[k + 1] - values[k]) / h
        # The polynomial is values[k] + h t (slopes[k] + t (b + t c)).
        b = 3.0 * rise - 2.0 * slopes[k] - slopes[k + 1]
        c = slopes[k] + slopes[k + 1] - 2.0 * rise
        total += values[k] + h * t * (slopes[k] + t * (b + t * c))
        gradient[i] = slopes[k] + t * (2.0 * b + 3.0 * t * c)
    return total


@njit()
def _values_and_gradients(splines, points):
    found, gradients = np.empty(len(points)), np.empty(points.shape)
    for i in range(len(points)):
        found[i] = value_and_gradient(splines, points[i], gradients[i])
    return found, gradients


@njit(allocates=False)
def _logistic(x):
    return 1.0 / (1.0 + np.exp(-x))


@njit(allocates=False)
def _share(x, steepness, length):
    """Return the share of an interval below x, and its derivative.

    See :class:`kmc.model.transforms.Between`.
    """
    if steepness == 0.0:
        share = _logistic(x)
        return share, share * (1.0 - share)
    a, b = steepness * (x + 0.5 * length), steepness * (x - 0.5 * length)
    # log(1 + exp(a)), where exp(a) does not overflow
    rise = max(a, 0.0) + np.log1p(np.exp(-abs(a))) - max(b, 0.0) - np.log1p(np.exp(-abs(b)))
    return rise / (steepness * length), (_logistic(a) - _logistic(b)) / length


@njit(allocates=False)
def constrained(transforms, x, theta, slopes):
    """Write the parameters (d,) at x (d,), and their derivatives, into ``theta`` and ``slopes``."""
    for i in range(x.size):
        theta[i], slopes[i] = constrained_at(transforms, i, x[i])


@njit(allocates=False)
def constrained_at(transforms, i, x):
    """Return the i-th parameter where its coordinate is x, and its derivative."""
    kind = transforms.kinds[i]
    if kind == IDENTITY:
        return x, 1.0
    if kind == BETWEEN:
        width = transforms.upper[i] - transforms.lower[i]
        share, slope = _share(x, transforms.ends[i, 0], transforms.ends[i, 1])
        return transforms.lower[i] + width * share, width * slope
    grown = np.exp(min(x, _OVERFLOW))
    if kind == ABOVE:
        return transforms.lower[i] + grown, grown
    return transforms.upper[i] - grown, -grown


# Hierarchical priors: x_i = m_i + s_i u_i, where m_i and s_i may be parameters that come before.
# The functions below take them as a NamedTuple with the first five fields of Hierarchy. Where
# ``noncentered`` (d,) is true, the coordinates are u, else x.


@njit(allocates=False)
def _mean_and_sd(prior, i, theta):
    j, k = prior.means[i], prior.sds[i]
    mean = theta[j] if j >= 0 else prior.numbers[i, 0]
    sd = theta[k] if k >= 0 else prior.numbers[i, 1]
    return mean, min(max(sd, SMALLEST_SD), LARGEST_SD)


@njit(allocates=False)
def from_u(prior, noncentered, u, x, theta, slopes):
    """Write x (d,), the parameters θ (d,) and their derivatives along x, of the coordinates u."""
    for i in range(u.size):
        x[i] = u[i]
        if noncentered[i]:
            mean, sd = _mean_and_sd(prior, i, theta)
            x[i] = mean + sd * u[i]
        theta[i], slopes[i] = constrained_at(prior.transforms, i, x[i])


@njit(allocates=False)
def log_prior(prior, noncentered, x, theta, u, along, along_theta):
    """Return the prior density of the coordinates, and write its gradient along x into ``along``.

    That along θ is added to ``along_theta``. For non-centered coordinates ``u`` is given, and it is
    the gradient along these; for others it is written.
    """
    for i in range(x.size):
        if not noncentered[i]:
            mean, sd = _mean_and_sd(prior, i, theta)
            u[i] = (x[i] - mean) / sd
    total = value_and_gradient(prior.known, u, along)
    for i in range(x.size):
        j, k = prior.means[i], prior.sds[i]
        if noncentered[i] or (j < 0 and k < 0):
            continue
        _, sd = _mean_and_sd(prior, i, theta)
        along[i] /= sd
        total -= np.log(sd)
        if j >= 0:
            along_theta[j] -= along[i]
        if k >= 0:
            along_theta[k] -= along[i] * u[i] + 1.0 / sd
    return total


@njit(allocates=False)
def gradient_along_u(prior, noncentered, u, theta, slopes, along_u, along):
    """Turn the gradient along x (d,) into that along the coordinates, in place.

    ``along_u`` is added where these are non-centered.
    """
    for i in range(u.size - 1, -1, -1):  # parameters before those that they depend on
        if noncentered[i]:
            j, k = prior.means[i], prior.sds[i]
            if j >= 0:
                along[j] += along[i] * slopes[j]
            if k >= 0:
                along[k] += along[i] * u[i] * slopes[k]
            _, sd = _mean_and_sd(prior, i, theta)
            along[i] = along_u[i] + along[i] * sd


@njit()
def log_priors(prior, noncentered, points):
    """Return densities (n,) of the coordinates at points x (n, d), and gradients along x (n, d)."""
    d = points.shape[1]
    theta, slopes, along_theta, u, x = (
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
    )
    found, gradients = np.empty(len(points)), np.empty(points.shape)
    centered = np.zeros(d, np.bool_)
    for i in range(len(points)):
        from_u(prior, centered, points[i], x, theta, slopes)
        along_theta[:] = 0.0
        found[i] = log_prior(prior, centered, x, theta, u, gradients[i], along_theta)
        for j in range(d):
            if noncentered[j]:  # the density of u_j is that of x_j times its sd
                _, sd = _mean_and_sd(prior, j, theta)
                found[i] += np.log(sd)
                if prior.sds[j] >= 0:
                    along_theta[prior.sds[j]] += 1.0 / sd
        for j in range(d):
            gradients[i, j] += along_theta[j] * slopes[j]
    return found, gradients
