"""Declare common priors by name, thinly over scipy.stats.

Any other continuous distribution of scipy.stats works as well: see :class:`kmc.Prior`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from kmc.arrays import as_array
from kmc.checks import check_count, check_number
from kmc.model import transforms
from kmc.model.distributions import LKJFactor, NormalAround, OnCircle, between
from kmc.model.parameters import check_interval
from kmc.model.priors import WithPrior


@dataclass(frozen=True)
class Normal(WithPrior):
    """A normal prior.

    Parameters
    ----------
    mean, sd : float or str
        Numbers, or names of parameters that are declared before: the prior of a hierarchical model.
        Their shapes broadcast to that of this parameter.
    shape : int or tuple of int, optional
        Of an array of independent numbers with this prior, as for :class:`kmc.Real`.

    Examples
    --------
    >>> import kmc
    >>> kmc.Normal(0, 1, shape=3)
    Normal(mean=0.0, sd=1.0, shape=(3,))

    Eight effects around an unknown mean, with an unknown standard deviation:

    >>> import numpy as np
    >>> parameters = {
    ...     "mu": kmc.Normal(0, 5),
    ...     "tau": kmc.HalfNormal(5),
    ...     "theta": kmc.Normal("mu", "tau", shape=8),
    ... }
    >>> model = kmc.Model(lambda p: -0.5 * float(p["theta"] @ p["theta"]), parameters=parameters)
    >>> model.prior_draws(np.random.default_rng(0), 100)["theta"].shape
    (100, 8)

    >>> kmc.Normal(0, -1)
    Traceback (most recent call last):
        ...
    ValueError: sd=-1: expected a number in (0, inf)
    """

    mean: float | str
    sd: float | str
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_unless_named(self, mean=-np.inf, sd=0.0)

    @property
    def distribution(self) -> Any:
        """The frozen distribution of scipy.stats; or one that depends on other parameters."""
        if isinstance(self.mean, str) or isinstance(self.sd, str):
            return NormalAround(self.mean, self.sd, of_log=False)
        return stats.norm(self.mean, self.sd)


@dataclass(frozen=True)
class HalfNormal(WithPrior):
    """The absolute value of a normal number of mean 0: for scales.

    Parameters
    ----------
    sd : float
        Standard deviation of the normal number.
    shape : int or tuple of int, optional
        As for :class:`Normal`.

    Examples
    --------
    >>> import kmc
    >>> kmc.HalfNormal(2)
    HalfNormal(sd=2.0, shape=None)
    """

    sd: float
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, sd=0.0)

    @property
    def distribution(self) -> Any:
        """The frozen distribution of scipy.stats."""
        return stats.halfnorm(scale=self.sd)


@dataclass(frozen=True)
class LogNormal(WithPrior):
    """A positive number whose log is normal.

    Parameters
    ----------
    mean, sd : float or str
        Mean and standard deviation of the log: numbers or names of parameters, as for
        :class:`Normal`.
    shape : int or tuple of int, optional
        As for :class:`Normal`.

    Examples
    --------
    >>> import kmc
    >>> float(kmc.LogNormal(0, 1).distribution.median())
    1.0
    """

    mean: float | str
    sd: float | str
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_unless_named(self, mean=-np.inf, sd=0.0)
        if not isinstance(self.mean, str) and abs(self.mean) > 700.0:
            raise ValueError(
                f"mean={self.mean!r}: expected the log of a float64, between -700 and 700"
            )

    @property
    def distribution(self) -> Any:
        """The frozen distribution of scipy.stats; or one that depends on other parameters."""
        if isinstance(self.mean, str) or isinstance(self.sd, str):
            return NormalAround(self.mean, self.sd, of_log=True)
        return stats.lognorm(self.sd, scale=np.exp(self.mean))


@dataclass(frozen=True)
class Uniform(WithPrior):
    """A uniform prior between two bounds: :class:`kmc.Interval`, with start points drawn from it.

    Parameters
    ----------
    low, high : float
    shape : int or tuple of int, optional
        As for :class:`Normal`.

    Examples
    --------
    >>> import kmc
    >>> kmc.Uniform(0, 10).transform
    Between(lower=0.0, upper=10.0)
    """

    low: float
    high: float
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_interval(self, "low", "high")

    @property
    def distribution(self) -> Any:
        """The frozen distribution of scipy.stats."""
        return stats.uniform(self.low, self.high - self.low)


@dataclass(frozen=True)
class Exponential(WithPrior):
    """An exponential prior.

    Parameters
    ----------
    rate : float
        One over the mean.
    shape : int or tuple of int, optional
        As for :class:`Normal`.

    Examples
    --------
    >>> import kmc
    >>> float(kmc.Exponential(0.1).distribution.mean())
    10.0
    """

    rate: float
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, rate=0.0)

    @property
    def distribution(self) -> Any:
        """The frozen distribution of scipy.stats."""
        return stats.expon(scale=1.0 / self.rate)


@dataclass(frozen=True)
class Gamma(WithPrior):
    """A gamma prior, of mean alpha / rate.

    Parameters
    ----------
    alpha, rate : float
    shape : int or tuple of int, optional
        As for :class:`Normal`: of the array, not the shape parameter of the distribution.

    Examples
    --------
    >>> import kmc
    >>> float(kmc.Gamma(3, 2).distribution.mean())
    1.5
    """

    alpha: float
    rate: float
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, alpha=0.0, rate=0.0)

    @property
    def distribution(self) -> Any:
        """The frozen distribution of scipy.stats."""
        return stats.gamma(self.alpha, scale=1.0 / self.rate)


@dataclass(frozen=True)
class Beta(WithPrior):
    """A beta prior, for a number between 0 and 1, of mean alpha / (alpha + beta).

    Parameters
    ----------
    alpha, beta : float
    shape : int or tuple of int, optional
        As for :class:`Normal`.

    Examples
    --------
    >>> import kmc
    >>> float(kmc.Beta(1, 3).distribution.mean())
    0.25
    """

    alpha: float
    beta: float
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, alpha=0.0, beta=0.0)

    @property
    def distribution(self) -> Any:
        """The frozen distribution of scipy.stats."""
        return stats.beta(self.alpha, self.beta)


@dataclass(frozen=True)
class StudentT(WithPrior):
    """Student's t distribution; ``df=1`` is the Cauchy distribution.

    Parameters
    ----------
    df : float
        Degrees of freedom.
    center, scale : float
    shape : int or tuple of int, optional
        As for :class:`Normal`.

    Examples
    --------
    >>> import kmc
    >>> kmc.StudentT(3, scale=2.5)
    StudentT(df=3.0, center=0.0, scale=2.5, shape=None)
    """

    df: float
    center: float = 0.0
    scale: float = 1.0
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, df=0.0, center=-np.inf, scale=0.0)

    @property
    def distribution(self) -> Any:
        """The frozen distribution of scipy.stats."""
        return stats.t(self.df, self.center, self.scale)


@dataclass(frozen=True)
class Dirichlet(WithPrior):
    """A Dirichlet prior of positive numbers with the sum 1: of a :class:`kmc.Simplex`.

    Parameters
    ----------
    alpha : sequence of float
        One for each component, at least two.
    shape : int or tuple of int, optional
        Of an array of such vectors.

    Examples
    --------
    >>> import kmc
    >>> kmc.Dirichlet([1, 1, 2])
    Dirichlet(alpha=(1.0, 1.0, 2.0), shape=None)
    """

    alpha: Any
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        expected = f"alpha={self.alpha!r}: expected at least two positive numbers"
        try:
            alpha = as_array("alpha", self.alpha)
        except (TypeError, ValueError) as error:
            raise TypeError(expected) from error
        if alpha.ndim != 1 or len(alpha) < 2 or not np.all((alpha > 0) & np.isfinite(alpha)):
            raise ValueError(expected)
        object.__setattr__(self, "alpha", tuple(map(float, alpha)))

    @property
    def distribution(self) -> Any:
        """The frozen distribution of scipy.stats."""
        return stats.dirichlet(self.alpha)


@dataclass(frozen=True)
class InverseGamma(WithPrior):
    """An inverse gamma prior, of mean scale / (alpha - 1): for variances.

    Parameters
    ----------
    alpha, scale : float
    shape : int or tuple of int, optional
        As for :class:`Normal`.

    Examples
    --------
    >>> import kmc
    >>> float(kmc.InverseGamma(3, 2).distribution.mean())
    1.0
    """

    alpha: float
    scale: float
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, alpha=0.0, scale=0.0)

    @property
    def distribution(self) -> Any:
        """The frozen distribution of scipy.stats."""
        return stats.invgamma(self.alpha, scale=self.scale)


@dataclass(frozen=True)
class Cauchy(WithPrior):
    """A Cauchy prior.

    Parameters
    ----------
    center, scale : float
    shape : int or tuple of int, optional
        As for :class:`Normal`.

    Examples
    --------
    >>> import kmc
    >>> float(kmc.Cauchy(1, 2).distribution.median())
    1.0
    """

    center: float
    scale: float
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, center=-np.inf, scale=0.0)

    @property
    def distribution(self) -> Any:
        """The frozen distribution of scipy.stats."""
        return stats.cauchy(self.center, self.scale)


@dataclass(frozen=True)
class TruncatedNormal(WithPrior):
    """A normal prior between bounds.

    Parameters
    ----------
    mean, sd : float
        Of the normal distribution before it is cut off.
    low, high : float, optional
        By default there is no bound.
    shape : int or tuple of int, optional
        As for :class:`Normal`.

    Examples
    --------
    >>> import kmc
    >>> kmc.TruncatedNormal(1, 2, low=0).transform
    Above(lower=0.0)
    """

    mean: float
    sd: float
    low: float = -np.inf
    high: float = np.inf
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, mean=-np.inf, sd=0.0)
        for name, unbounded in (("low", -np.inf), ("high", np.inf)):
            if getattr(self, name) != unbounded:
                _check(self, **{name: -np.inf})
        if not self.low < self.high:
            raise ValueError(f"low={self.low!r} and high={self.high!r}: expected low < high")

    @property
    def distribution(self) -> Any:
        """The frozen distribution of scipy.stats."""
        ends = (self.low - self.mean) / self.sd, (self.high - self.mean) / self.sd
        return stats.truncnorm(*ends, self.mean, self.sd)

    @property
    def transform(self) -> transforms.Transform:
        """The transform onto the numbers between the bounds, which the distribution rounds."""
        return between(self.low, self.high)


@dataclass(frozen=True)
class VonMises(WithPrior):
    """A von Mises prior of an angle in radians, in [-pi, pi): the circle's normal distribution.

    Parameters
    ----------
    center : float
    concentration : float
        About one over the variance, if large.
    shape : int or tuple of int, optional
        As for :class:`Normal`. Each number adds two to the model's `dim`, as for
        :class:`kmc.Angle`.

    Examples
    --------
    >>> import kmc
    >>> kmc.Model(lambda p: 0.0, parameters={"phase": kmc.VonMises(0, 2)}).dim
    2
    """

    center: float
    concentration: float
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, center=-np.inf, concentration=0.0)

    @property
    def distribution(self) -> Any:
        """The frozen distribution of scipy.stats."""
        return stats.vonmises(self.concentration, self.center)


@dataclass(frozen=True)
class CircularUniform(WithPrior):
    """A uniform prior on a circle: :class:`kmc.Circular`, with start points drawn from it.

    Parameters
    ----------
    low, high : float, optional
        Draws are in [low, high); by default an angle in [-pi, pi).
    shape : int or tuple of int, optional
        As for :class:`Normal`. Each number adds two to the model's `dim`.

    Examples
    --------
    >>> import kmc
    >>> kmc.CircularUniform(0, 24)
    CircularUniform(low=0.0, high=24.0, shape=None)
    """

    low: float = -np.pi
    high: float = np.pi
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_interval(self, "low", "high")

    @property
    def distribution(self) -> Any:
        """The distribution, of kmc."""
        return OnCircle(self.low, self.high)


@dataclass(frozen=True)
class LKJ(WithPrior):
    """A prior of correlation matrices R, with density det(R)^(concentration - 1).

    The parameter is the Cholesky factor L of R = L L^T, see :class:`kmc.CorrelationCholesky`, as
    for Stan's ``lkj_corr_cholesky``.

    Parameters
    ----------
    size : int
        Rows of the matrix, at least 2.
    concentration : float
        1: uniform on all correlation matrices; larger: weaker correlations.
    shape : int or tuple of int, optional
        Of an array of such factors.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> model = kmc.Model(lambda p: 0.0, parameters={"factor": kmc.LKJ(2, 1)})
    >>> model.prior.log_density(model.constrain(np.zeros((1, 1))))  # uniform on (-1, 1)
    array([-0.69])
    """

    size: int
    concentration: float = 1.0
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self, "size", 2)
        _check(self, concentration=0.0)

    @property
    def distribution(self) -> Any:
        """The distribution, of kmc."""
        return LKJFactor(int(self.size), self.concentration)


def _check_unless_named(prior: Any, **least: float) -> None:
    """Check what is not the name of a parameter."""
    _check(
        prior,
        **{name: low for name, low in least.items() if not isinstance(getattr(prior, name), str)},
    )


def _check(prior: Any, **least: float) -> None:
    """Convert to floats, and check that they exceed these bounds."""
    for name, low in least.items():
        check_number(prior, name, low)
        object.__setattr__(prior, name, float(getattr(prior, name)))
