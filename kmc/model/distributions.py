"""Bring distributions of scipy.stats and of other packages into one form.

The form has a log-density, draws and a transform.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import stats
from scipy.special import betaln, gammaln, xlogy

from kmc.model import transforms
from kmc.model.angles import Direction

_FROZEN_DIRICHLET = type(stats.dirichlet([1.0, 1.0]))
_OF_VECTORS = {
    type(stats.multivariate_normal([0.0, 0.0])): "multivariate_normal",
    type(stats.multivariate_t([0.0, 0.0])): "multivariate_t",
}


class Law(Protocol):
    """The distribution of a value of some shape."""

    @property
    def transform(self) -> transforms.Transform:
        """The transform onto the support."""

    def log_density(self, values: np.ndarray) -> np.ndarray:
        """Return the log-density of each value: (n, *batch, *own shape) -> (n, *batch)."""

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Return draws (*shape, *own shape)."""


def law_of(distribution: Any) -> Law | NormalAround:
    """Return a distribution in that form.

    Raises
    ------
    TypeError, ValueError
        It is not a continuous distribution with numbers as its parameters; the message says what to
        do instead.
    """
    if isinstance(distribution, (LKJFactor, OnCircle, NormalAround)):
        return distribution
    if isinstance(distribution, _FROZEN_DIRICHLET):
        return _OfSimplex(distribution)
    if type(distribution) in _OF_VECTORS:
        return _vector(distribution)
    what = f"distribution={named(distribution)}"
    if isinstance(distribution, (stats.rv_continuous, stats.rv_discrete)):
        raise TypeError(
            f"{what} has no parameters: freeze it by calling it, such as scipy.stats.gamma(2)"
        )
    if _is_discrete(distribution):
        raise TypeError(
            f"{what} is discrete: kmc samples continuous parameters only, so sum it out of the "
            f"likelihood"
        )
    if not (_is_frozen(distribution) and isinstance(distribution.dist, stats.rv_continuous)):
        return _of_another_kind(distribution, what)
    ends = distribution.support()
    if any(map(np.ndim, (*ends, *distribution.args, *distribution.kwds.values()))):
        raise _arrays(what)
    if not ends[0] < ends[1]:
        raise ValueError(f"{what} has no support: its parameters are not those of a distribution")
    return _OfNumber(distribution)


@dataclass(frozen=True)
class _OfNumber:
    """A frozen distribution of scipy.stats."""

    distribution: Any

    @property
    def transform(self) -> transforms.Transform:
        if self.distribution.dist is stats.vonmises or self.distribution.dist.name == "vonmises":
            return _circle(self.distribution)
        return between(*self.distribution.support())

    def log_density(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(self.distribution.logpdf(values))

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return np.asarray(self.distribution.rvs(size=shape, random_state=rng), dtype=float)


@dataclass(frozen=True)
class _OfSimplex:
    """A Dirichlet distribution.

    SciPy's logpdf is not used: it has components along the first axis, and rejects rounded sums.
    """

    distribution: Any

    @property
    def transform(self) -> transforms.Transform:
        return transforms.IsometricLogRatio(len(self.distribution.alpha))

    def log_density(self, values: np.ndarray) -> np.ndarray:
        alpha = self.distribution.alpha
        return xlogy(alpha - 1.0, values).sum(axis=-1) + gammaln(alpha.sum()) - gammaln(alpha).sum()

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return np.asarray(self.distribution.rvs(size=shape, random_state=rng), dtype=float)


@dataclass(frozen=True)
class _OfVector:
    """A multivariate distribution of scipy.stats, which leaves out axes of length 1."""

    distribution: Any
    size: int

    @property
    def transform(self) -> transforms.Transform:
        return transforms.Vector(self.size)

    def log_density(self, values: np.ndarray) -> np.ndarray:
        return np.reshape(self.distribution.logpdf(values), values.shape[:-1])

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        draws = self.distribution.rvs(size=int(np.prod(shape)), random_state=rng)
        return np.reshape(np.asarray(draws, dtype=float), (*shape, self.size))


@dataclass(frozen=True)
class _ByProtocol:
    """A distribution of another package, or a new one of scipy.stats.

    It has ``sample`` instead of ``rvs``.
    """

    distribution: Any
    ends: tuple[float, float]

    @property
    def transform(self) -> transforms.Transform:
        return between(*self.ends)

    def log_density(self, values: np.ndarray) -> np.ndarray:
        return np.reshape(self.distribution.logpdf(values), values.shape)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        if hasattr(self.distribution, "rvs"):
            draws = self.distribution.rvs(shape, random_state=rng)
        else:
            draws = self.distribution.sample(shape, rng=rng)
        return np.reshape(np.asarray(draws, dtype=float), shape)


@dataclass(frozen=True)
class OnCircle:
    """The uniform distribution on a circle."""

    low: float
    high: float

    @property
    def transform(self) -> transforms.Transform:
        """The direction of a point in the plane."""
        return Direction(self.low, self.high)

    def log_density(self, values: np.ndarray) -> np.ndarray:
        """Return a constant."""
        return np.full(values.shape, -np.log(self.high - self.low))

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Return uniform numbers."""
        return rng.uniform(self.low, self.high, shape)


@dataclass(frozen=True)
class NormalAt:
    """Normal distributions, of numbers or of their logarithms."""

    mean: Any  # numbers that broadcast to those of the values
    sd: Any
    of_log: bool

    @property
    def transform(self) -> transforms.Transform:
        """The transform onto the support."""
        return transforms.Above(0.0) if self.of_log else transforms.Identity()

    def log_density(self, values: np.ndarray) -> np.ndarray:
        """Return the log-density of each value."""
        with np.errstate(all="ignore"):
            x = np.log(values) if self.of_log else values
            density = (
                -0.5 * ((x - self.mean) / self.sd) ** 2
                - np.log(self.sd)
                - 0.5 * np.log(2.0 * np.pi)
            )
            return np.asarray(density - x if self.of_log else density)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Return draws (*shape)."""
        x = np.asarray(self.mean + self.sd * rng.standard_normal(shape))
        return np.exp(x) if self.of_log else x


@dataclass(frozen=True)
class NormalAround:
    """Such a distribution with other parameters as its mean or standard deviation, by name."""

    mean: float | str
    sd: float | str
    of_log: bool

    @property
    def parents(self) -> tuple[str, ...]:
        """Names of the parameters that it depends on."""
        return tuple(term for term in (self.mean, self.sd) if isinstance(term, str))

    @property
    def transform(self) -> transforms.Transform:
        """The transform onto the support."""
        return NormalAt(0.0, 1.0, self.of_log).transform

    def at(self, values: Mapping[str, Any], ndim: int) -> NormalAt:
        """Return the distribution of arrays with `ndim` axes, at parameters (n, *shape) by name."""

        def along(term: float | str) -> Any:
            if not isinstance(term, str):
                return term
            array = np.asarray(values[term], float)
            return array.reshape(len(array), *[1] * (ndim + 1 - array.ndim), *array.shape[1:])

        return NormalAt(along(self.mean), along(self.sd), self.of_log)


@dataclass(frozen=True)
class LKJFactor:
    """The Cholesky factor L of a correlation matrix R of density det(R)^(concentration - 1) [1]_.

    The density of L is that of R times the product of L_ii^(size - i), i = 1, ..., size.

    References
    ----------
    .. [1] Lewandowski, Kurowicka and Joe (2009), "Generating random correlation matrices based on
       vines and extended onion method", Journal of Multivariate Analysis 100.
    """

    size: int
    concentration: float

    @property
    def transform(self) -> transforms.Transform:
        """Partial correlations."""
        return transforms.PartialCorrelations(self.size)

    def log_density(self, values: np.ndarray) -> np.ndarray:
        """Return the log-density of factors (..., size, size)."""
        i = np.arange(1, self.size + 1)
        logs = np.log(np.diagonal(values, axis1=-2, axis2=-1))
        k = i[:-1]
        pairs = self.size - k  # equation 16 of the paper
        constant = np.sum((2 * self.concentration - 2 + pairs) * pairs) * np.log(2.0)
        half = self.concentration + 0.5 * (pairs - 1)
        constant += np.sum(pairs * betaln(half, half))
        return logs @ (self.size - i + 2.0 * (self.concentration - 1.0)) - constant

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Return factors from partial correlations, independent beta variables on (-1, 1)."""
        columns = np.tril_indices(self.size, -1)[1]
        half = self.concentration + 0.5 * (self.size - 2 - columns)
        draws = 2.0 * rng.beta(half, half, (*shape, len(columns))) - 1.0
        edge = 1.0 - 1e-12
        return self.transform.constrain(np.arctanh(np.clip(draws, -edge, edge)))


def named(distribution: Any) -> str:
    """Return a readable name; SciPy's own repr is an address."""
    if isinstance(distribution, _FROZEN_DIRICHLET):
        return f"scipy.stats.dirichlet({list(map(float, distribution.alpha))})"
    if type(distribution) in _OF_VECTORS:
        return f"scipy.stats.{_OF_VECTORS[type(distribution)]}(...)"
    if not _is_frozen(distribution):
        return repr(distribution)
    given = [
        *map(repr, distribution.args),
        *(f"{key}={value!r}" for key, value in distribution.kwds.items()),
    ]
    return f"scipy.stats.{distribution.dist.name}({', '.join(given)})"


def _of_another_kind(distribution: Any, what: str) -> Law:
    """Return a law of an object with ``logpdf``, a sampling method and ``support``."""
    support = getattr(distribution, "support", None)
    samples = any(callable(getattr(distribution, name, None)) for name in ("rvs", "sample"))
    if support is None or not samples or not callable(getattr(distribution, "logpdf", None)):
        raise TypeError(
            f"{what}: expected a frozen continuous distribution of one number, such as "
            "scipy.stats.gamma(2), or scipy.stats.dirichlet(alpha); add other priors in "
            "log_density, and declare the support by kmc.Real(), kmc.Positive() or alike"
        )
    ends = support() if callable(support) else support
    if np.shape(ends) != (2,):
        raise _arrays(what)
    low, high = float(ends[0]), float(ends[1])
    if not low < high:
        raise ValueError(
            f"{what} has the support {(low, high)}: expected two ends, the lower one first"
        )
    return _ByProtocol(distribution, (low, high))


def _vector(distribution: Any) -> Law:
    size = int(distribution.dim)
    if (
        type(distribution) is type(stats.multivariate_normal([0.0, 0.0]))
        and distribution.cov_object.rank < size
    ):
        raise ValueError(
            f"distribution={named(distribution)} has a covariance of rank "
            f"{distribution.cov_object.rank}: expected {size}, as the density of {size} numbers"
        )
    return _OfVector(distribution, size)


def _is_discrete(distribution: Any) -> bool:
    if _is_frozen(distribution):
        return isinstance(distribution.dist, stats.rv_discrete)
    if any(cls.__name__ == "ContinuousDistribution" for cls in type(distribution).__mro__):
        # of scipy.stats: it has probabilities of single numbers, too, all of them zero
        return False
    return hasattr(distribution, "pmf") or getattr(distribution, "kind", "continuous") == "discrete"


def _is_frozen(distribution: Any) -> bool:
    return all(hasattr(distribution, name) for name in ("dist", "args", "kwds"))


def _arrays(what: str) -> ValueError:
    return ValueError(
        f"{what} has arrays as its parameters: expected numbers, one prior for each parameter of "
        "the model; kmc.Prior(..., shape=...) is an array of numbers with the same prior"
    )


def between(low: Any, high: Any) -> transforms.Transform:
    """Return the transform onto the numbers between two ends, which may be infinite."""
    low, high = float(low), float(high)
    if np.isfinite(low) and np.isfinite(high):
        return transforms.Between(low, high)
    if np.isfinite(low):
        return transforms.Above(low)
    return transforms.Below(high) if np.isfinite(high) else transforms.Identity()


def _circle(distribution: Any) -> Direction:
    """Return the circle of a von Mises distribution: [-pi, pi), in radians or on its scale."""
    given = dict(zip(("kappa", "loc", "scale"), distribution.args)) | distribution.kwds
    half = np.pi * float(given.get("scale", 1.0))
    return Direction(-half, half)
