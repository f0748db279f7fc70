"""What coordinates of a posterior are, and how far its log-density is from a quadratic in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy import linalg

from kmc.surrogate.covariance import terms_of
from kmc.surrogate.mass import bulk_depth

# Set by hand.
CURVED = 0.5  # misfit of the best quadratic, in nats, from which on coordinates are searched
LARGEST_DIM = 12  # for refined funnels and bends, and for bends along two parameters
EVALUATIONS = 15  # of the least squares that refines one
_MOST_POINTS = 600  # with which it is refined
_DEPTH = 2.0  # times the bulk: deeper values are not used
_NEGLIGIBLE = 1e-4  # values with smaller weights are left out
_FALL, _POWER = 4.0, 4.0  # scale in nats, and power, of the decrease of weights below the edge
_LEAST_SPARE = 1e-3  # smallest fraction of spare values in generalized cross-validation
# of a quadratic, in 54 dimensions and more: guesses are compared by fewer features
_MANY_TERMS = 1500
_VALUES_PER_TERM = 1.3  # values that a quadratic of so many terms is fitted to
_JITTER = 1e-9  # relative to the mean eigenvalue, in the normal equations


class Transport(Protocol):
    """A bijection u of R^d."""

    @property
    def driver(self) -> int | None:
        """The parameter that sets the scale of others."""

    @property
    def size(self) -> int:
        """Number of learned parameters."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the coordinates u of the rows of x (n, d)."""

    def back(self, u: np.ndarray) -> np.ndarray:
        """Return the rows of x that have the coordinates u (n, d)."""

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return log |du/dx| at the rows of x, shape (n,)."""


@dataclass(frozen=True)
class Identity:
    """u = x.

    With ``apart``, what is known of the log-density is left out of the regression, and added to it:
    see :mod:`kmc.surrogate.known`.
    """

    apart: bool = False

    driver: ClassVar[None] = None
    size: ClassVar[int] = 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the rows unchanged."""
        return x

    def back(self, u: np.ndarray) -> np.ndarray:
        """Return the rows unchanged."""
        return u

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return zeros (n,)."""
        return np.zeros(len(x))


IDENTITY = Identity()
APART = Identity(apart=True)


def is_wide(dim: int) -> bool:
    """Return whether a quadratic has so many terms that guesses are compared by fewer."""
    return terms_of(dim) > _MANY_TERMS


def _some_of(rows: np.ndarray, dim: int) -> np.ndarray:
    """Return these indices, or in many dimensions as many, evenly spread, as a fit can afford."""
    most = int(_VALUES_PER_TERM * terms_of(dim))
    if not is_wide(dim) or len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).round().astype(int)]


def products(z: np.ndarray) -> np.ndarray:
    """Return the features (n, 1 + d + d (d + 1) / 2): 1, z_i and z_i z_j, i <= j."""
    n, d = z.shape
    out = np.empty((n, terms_of(d)))
    out[:, 0], out[:, 1 : 1 + d] = 1.0, z
    end = 1 + d
    for i in range(d):
        begin, end = end, end + d - i
        np.multiply(z[:, i : i + 1], z[:, i:], out=out[:, begin:end])
    return out


def squares(z: np.ndarray) -> np.ndarray:
    """Return the features (n, 1 + 2 d): 1, z_i and z_i²."""
    return np.hstack([np.ones((len(z), 1)), z, z**2])


@dataclass(frozen=True)
class Misfit:
    """Distance of the log-density from a quadratic in the coordinates of a transport."""

    transport: Transport
    x: np.ndarray  # relevant points there, with their values in x and weights
    log_density: np.ndarray
    weights: np.ndarray
    sd: float

    @classmethod
    def of(
        cls,
        transport: Transport,
        x: np.ndarray,
        log_density: np.ndarray,
        *,
        features: Callable[[np.ndarray], np.ndarray] = products,
    ) -> Misfit:
        """Return the distance from what the features span: all quadratics, or a part of them."""
        values = log_density - transport.log_jacobian(x)
        # 1 down to an edge, and then falling with the fourth power of the depth below it.
        below = np.maximum(values.max() - values - _DEPTH * bulk_depth(x.shape[1]), 0.0)
        weights = (1.0 + below / _FALL) ** -_POWER
        rows = _some_of(np.flatnonzero(weights > _NEGLIGIBLE), x.shape[1])
        x, log_density, weights = x[rows], log_density[rows], weights[rows] / weights[rows].sum()
        sd = float(
            np.linalg.norm(residuals(transport, x, log_density, weights=weights, features=features))
        )
        spare = 1.0 - (features(x[:1]).size + transport.size) * np.sum(weights**2)
        sd /= max(spare, _LEAST_SPARE)  # by generalized cross-validation
        return cls(transport, x, log_density, weights, sd)

    def some(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return some of the points, evenly spread, with their values and weights."""
        rows = slice(None, None, max(len(self.x) // _MOST_POINTS, 1))
        return self.x[rows], self.log_density[rows], self.weights[rows]


def residuals(
    transport: Transport,
    x: np.ndarray,
    log_density: np.ndarray,
    *,
    weights: np.ndarray,
    features: Callable[[np.ndarray], np.ndarray] = products,
) -> np.ndarray:
    """Return weighted residuals (n,) of least squares by features in a transport's coordinates."""
    u, values = transport(x), log_density - transport.log_jacobian(x)
    scale = u.std(axis=0)
    design = features((u - u.mean(axis=0)) / np.where(scale > 0, scale, 1.0))
    root = np.sqrt(weights)
    design, values = root[:, None] * design, root * values
    gram = design.T @ design
    gram[np.diag_indices_from(gram)] += _JITTER * np.trace(gram) / len(gram)
    return values - design @ linalg.solve(
        gram, design.T @ values, assume_a="pos", check_finite=False
    )
