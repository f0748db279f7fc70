"""The parameters θ_i of a model, each a function of one coordinate x_i, as arrays that jitted loops read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.njit import njit
from kmc.surrogate.coordinates.wall_jit_state import check_arrays

IDENTITY, ABOVE, BELOW, BETWEEN = range(4)
"""Kinds of transforms of one number: those of :mod:`kmc.model.transforms`."""

_OVERFLOW = 700.0  # the exponential of larger numbers overflows


class Transforms(NamedTuple):
    """How each of d parameters depends on its coordinate."""

    kinds: np.ndarray  # (d,) of int
    lower: np.ndarray  # (d,)
    upper: np.ndarray  # (d,)
    ends: np.ndarray  # (d, 2): steepness and length of an interval in x; zeros for log-odds


def check_columns(name: str, array: np.ndarray, shape: tuple[int, ...], least: int, most: int) -> None:
    """Raise a ValueError if an array is not one of whole numbers of this shape, between two bounds."""
    if type(array) is not np.ndarray or array.dtype != np.int64 or array.shape != shape:
        raise ValueError(f"{name} is not an array of whole numbers of shape {shape}")
    if array.size and not (array.min() >= least and array.max() <= most):
        raise ValueError(f"{name} has numbers that are not between {least} and {most}")


def check_transforms(transforms: Transforms, dim: int) -> None:
    """Raise a ValueError unless compiled loops can read the arrays, for ``dim`` parameters."""
    if type(transforms) is not Transforms:
        raise ValueError(f"transforms of type {type(transforms).__name__}")
    check_arrays(transforms, {"lower": (dim,), "upper": (dim,), "ends": (dim, 2)})
    check_columns("kinds of transforms", transforms.kinds, (dim,), IDENTITY, BETWEEN)


@njit()
def _logistic(x):
    return 1.0 / (1.0 + np.exp(-x))


@njit()
def _share(x, steepness, length):
    """Return the share of an interval below x, and its derivative; see :class:`kmc.model.transforms.Between`."""
    if steepness == 0.0:
        share = _logistic(x)
        return share, share * (1.0 - share)
    a, b = steepness * (x + 0.5 * length), steepness * (x - 0.5 * length)
    # log(1 + exp(a)), where exp(a) does not overflow
    rise = max(a, 0.0) + np.log1p(np.exp(-abs(a))) - max(b, 0.0) - np.log1p(np.exp(-abs(b)))
    return rise / (steepness * length), (_logistic(a) - _logistic(b)) / length


@njit()
def constrained(transforms, x, theta, slopes):
    """Write the parameters (d,) at x (d,), and their derivatives, into ``theta`` and ``slopes``."""
    for i in range(x.size):
        kind = transforms.kinds[i]
        if kind == IDENTITY:
            theta[i], slopes[i] = x[i], 1.0
        elif kind == BETWEEN:
            width = transforms.upper[i] - transforms.lower[i]
            share, slope = _share(x[i], transforms.ends[i, 0], transforms.ends[i, 1])
            theta[i], slopes[i] = transforms.lower[i] + width * share, width * slope
        else:
            grown = np.exp(min(x[i], _OVERFLOW))
            if kind == ABOVE:
                theta[i], slopes[i] = transforms.lower[i] + grown, grown
            else:
                theta[i], slopes[i] = transforms.upper[i] - grown, -grown
