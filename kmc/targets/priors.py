"""Parameters with a prior: any continuous distribution of scipy.stats, whose support determines the transform."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import stats
from scipy.special import gammaln, xlogy

from kmc.checks import is_number
from kmc.targets import transforms
from kmc.targets.angles import Direction, circle_attrs
from kmc.targets.parameters import Parameter

_FROZEN_DIRICHLET = type(stats.dirichlet([1.0, 1.0]))
_LEAST = np.finfo(np.float64).tiny
_NIL = float(np.log(np.finfo(np.float64).smallest_subnormal))  # the exponential of less is zero


@runtime_checkable
class Distribution(Protocol):
    """The interface of SciPy's frozen distributions."""

    def logpdf(self, x: Any) -> Any:
        """Log of the density."""


class WithPrior(Parameter):
    """A parameter with a prior.

    Attributes
    ----------
    distribution : frozen distribution of scipy.stats
        The distribution of one value.
    """

    @property
    @abstractmethod
    def distribution(self) -> Any:
        """See above."""

    @property
    def transform(self) -> transforms.Transform:
        """The transform onto the support of the distribution."""
        return _transform(self.distribution)

    @property
    def attrs(self) -> dict[str, Any]:
        """For an angle, the circle on which it lies; otherwise nothing."""
        transform = self.transform
        return circle_attrs(transform.low, transform.high) if isinstance(transform, Direction) else {}


class Prior(WithPrior):
    """A parameter with a prior from scipy.stats, independent of the other parameters.

    The support of the distribution becomes that of the parameter, its log-density is added to what the model's function
    returns, start points are drawn from it, and draws from it are stored in the results, in the group ``prior``.
    Where the density is zero in double precision, as beyond 38 standard deviations of a normal
    distribution, so is that of the posterior, and the model's function is not called.
    In a :class:`kmc.Model` the distribution itself can be given: ``parameters={"b": scipy.stats.gamma(2)}``.

    Parameters
    ----------
    distribution : frozen distribution of scipy.stats
        A continuous distribution of a single number, with numbers as its parameters, such as ``scipy.stats.gamma(2)``;
        or ``scipy.stats.dirichlet(alpha)``, for a :class:`kmc.Simplex`. With ``scipy.stats.vonmises(kappa, loc)`` the
        parameter is a :class:`kmc.Angle`.
    shape : int or tuple of int, optional
        Shape of an array of independent numbers with this prior, as for :class:`kmc.Real`.

    Raises
    ------
    TypeError, ValueError
        Not such a distribution; the message says what to do instead.

    Examples
    --------
    >>> import scipy.stats
    >>> import kmc
    >>> model = kmc.Model(
    ...     lambda p: -0.5 * (p["mean"] / p["sd"]) ** 2,  # the log-likelihood alone
    ...     parameters={"mean": kmc.Normal(0, 10), "sd": kmc.Prior(scipy.stats.invgamma(3))},
    ... )
    >>> model.prior.log_density(model.constrain(np.zeros((1, 2))))
    array([-4.92])
    """

    def __init__(self, distribution: Any, shape: Any = None):
        _check(distribution)
        self._distribution, self.shape = distribution, shape
        self.__post_init__()

    @property
    def distribution(self) -> Any:
        """The frozen distribution of scipy.stats."""
        return self._distribution

    def __repr__(self) -> str:
        return f"Prior({_named(self.distribution)}, shape={self.shape!r})"


class JointPrior:
    """The joint prior of all parameters that have one: they are independent.

    Parameters
    ----------
    priors : mapping of str to WithPrior
    batches : mapping of str to tuple of int
        The shape of the array of each parameter's values.
    """

    def __init__(self, priors: Mapping[str, WithPrior], batches: Mapping[str, tuple[int, ...]]):
        self._laws = {name: (prior.distribution, prior.transform, batches[name]) for name, prior in priors.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters that have a prior."""
        return tuple(self._laws)

    def log_density(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """The sum of the log-densities (n,) at values (n, *shape) by name; parameters without a prior add nothing.

        It is -inf where the density of one number is zero in double precision, more than 38 standard
        deviations from the mean of a normal distribution; and where a distribution's own
        log-density is NaN, from overflow far out in a tail.
        """
        total: Any = 0.0
        for name, (distribution, _, _) in self._laws.items():
            with np.errstate(over="ignore", invalid="ignore"):
                each = _log_density(distribution, values[name])
            each = np.where(each < _NIL, -np.inf, each)
            total = total + each.sum(axis=tuple(range(1, each.ndim)))
        return np.where(np.isnan(total), -np.inf, total)

    def contradicted(self, values: Mapping[str, np.ndarray]) -> list[str]:
        """Names of the parameters half of whose values (n, *shape) lie where their prior is nearly zero.

        Nearly: in nats, half as low as what is zero in double precision.
        """
        found = []
        for name, (distribution, _, _) in self._laws.items():
            each = _log_density(distribution, values[name])
            if np.any(np.median(each, axis=0) < 0.5 * _NIL):
                found.append(name)
        return found

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """As :meth:`draw`."""
        return self.draw(rng, n)

    def draw(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draws (n, *shape) by name; draws that rounding put on the edge of the support are moved inside."""
        return {
            name: _draw(distribution, transform, rng, (n, *batch))
            for name, (distribution, transform, batch) in self._laws.items()
        }


def as_parameter(name: str, given: Any) -> Parameter:
    """Convert what a user gave to a parameter.

    Raises
    ------
    TypeError, ValueError
    """
    if isinstance(given, Parameter):
        return given
    where = f"parameters[{name!r}]={given!r}"
    expected = (
        "expected kmc.Real(), kmc.Positive() or alike, or a prior such as kmc.Normal(0, 1) or scipy.stats.gamma(2)"
    )
    if isinstance(given, type) and issubclass(given, Parameter):
        raise TypeError(f"{where}: {expected}; call it, kmc.{given.__name__}(...)")
    if _is_distribution(given):
        try:
            return Prior(given)
        except (TypeError, ValueError) as error:
            raise type(error)(f"parameters[{name!r}]: {error}") from None
    if isinstance(given, (tuple, list)) and len(given) == 2 and all(map(is_number, given)):
        low, high = given
        raise TypeError(f"{where}: {expected}; for numbers between two bounds kmc.Interval({low!r}, {high!r})")
    raise TypeError(f"{where}: {expected}")


def _is_distribution(given: Any) -> bool:
    """Whether it is a distribution, valid or not: its own check says why not."""
    return not isinstance(given, type) and any(
        callable(getattr(given, method, None)) for method in ("logpdf", "logpmf", "rvs", "sample")
    )


def _check(distribution: Any) -> None:
    what = f"distribution={_named(distribution)}"
    if isinstance(distribution, _FROZEN_DIRICHLET):
        return
    if isinstance(distribution, (stats.rv_continuous, stats.rv_discrete)):
        raise TypeError(f"{what} has no parameters: freeze it by calling it, such as scipy.stats.gamma(2)")
    if isinstance(getattr(distribution, "dist", None), stats.rv_discrete) or hasattr(distribution, "pmf"):
        raise TypeError(f"{what} is discrete: kmc samples continuous parameters only, so sum it out of the likelihood")
    if not (_is_frozen(distribution) and isinstance(distribution.dist, stats.rv_continuous)):
        raise TypeError(
            f"{what}: expected a frozen continuous distribution of one number, such as scipy.stats.gamma(2), or "
            "scipy.stats.dirichlet(alpha); add other priors in log_density, and declare the support by kmc.Real(), "
            "kmc.Positive() or alike"
        )
    ends = distribution.support()
    if any(map(np.ndim, (*ends, *distribution.args, *distribution.kwds.values()))):
        raise ValueError(
            f"{what} has arrays as its parameters: expected numbers, one prior for each parameter of the model; "
            "kmc.Prior(..., shape=...) is an array of numbers with the same prior"
        )
    if not ends[0] < ends[1]:
        raise ValueError(f"{what} has no support: its parameters are not those of a distribution")


def _is_frozen(distribution: Any) -> bool:
    return all(hasattr(distribution, name) for name in ("dist", "args", "kwds"))


def _named(distribution: Any) -> str:
    """A readable name; SciPy's own repr is an address."""
    if isinstance(distribution, _FROZEN_DIRICHLET):
        return f"scipy.stats.dirichlet({list(map(float, distribution.alpha))})"
    if not _is_frozen(distribution):
        return repr(distribution)
    given = [*map(repr, distribution.args), *(f"{key}={value!r}" for key, value in distribution.kwds.items())]
    return f"scipy.stats.{distribution.dist.name}({', '.join(given)})"


def _transform(distribution: Any) -> transforms.Transform:
    if isinstance(distribution, _FROZEN_DIRICHLET):
        return transforms.IsometricLogRatio(len(distribution.alpha))
    if distribution.dist is stats.vonmises or distribution.dist.name == "vonmises":
        return _circle(distribution)
    low, high = map(float, distribution.support())
    if np.isfinite(low) and np.isfinite(high):
        return transforms.Between(low, high)
    if np.isfinite(low):
        return transforms.Above(low)
    return transforms.Below(high) if np.isfinite(high) else transforms.Identity()


def _circle(distribution: Any) -> Direction:
    """The circle of a von Mises distribution: [-pi, pi), in radians or on its scale."""
    given = dict(zip(("kappa", "loc", "scale"), distribution.args)) | distribution.kwds
    half = np.pi * float(given.get("scale", 1.0))
    return Direction(-half, half)


def _log_density(distribution: Any, values: np.ndarray) -> np.ndarray:
    """Log-density of each value: (n, *batch, *own shape) -> (n, *batch)."""
    if not isinstance(distribution, _FROZEN_DIRICHLET):
        return np.asarray(distribution.logpdf(values))
    alpha = distribution.alpha  # SciPy's logpdf has components along the first axis, and rejects rounded sums
    return xlogy(alpha - 1.0, values).sum(axis=-1) + gammaln(alpha.sum()) - gammaln(alpha).sum()


def _draw(
    distribution: Any, transform: transforms.Transform, rng: np.random.Generator, shape: tuple[int, ...]
) -> np.ndarray:
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        values = np.asarray(distribution.rvs(size=shape, random_state=rng), dtype=float)
    if isinstance(transform, transforms.IsometricLogRatio):
        return np.maximum(values, _LEAST)
    if isinstance(transform, Direction):
        return transform.constrain(transform.unconstrain(values))
    inside = np.sort(transform.constrain(np.array([-1e300, 1e300])))
    return np.clip(values, *inside)
