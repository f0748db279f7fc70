"""Parameters with a prior: any continuous distribution of scipy.stats.

Its support determines the transform.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from kmc.checks import is_number
from kmc.model import transforms
from kmc.model.angles import Direction, circle_attrs
from kmc.model.distributions import Law, NormalAround, NormalAt, law_of, named
from kmc.model.parameters import Fixed, Parameter

_LEAST = np.finfo(np.float64).tiny
_NIL = float(np.log(np.finfo(np.float64).smallest_subnormal))  # the exponential of less is zero


@runtime_checkable
class Distribution(Protocol):
    """The interface of SciPy's frozen distributions."""

    def logpdf(self, x: Any) -> Any:
        """Return the log of the density."""


class WithPrior(Parameter):
    """A parameter with a prior.

    Attributes
    ----------
    distribution : distribution
        Of one value, in a form that :func:`kmc.model.distributions.law_of` knows.
    """

    @property
    @abstractmethod
    def distribution(self) -> Any:
        """See above."""

    @property
    def transform(self) -> transforms.Transform:
        """The transform onto the support of the distribution."""
        return law_of(self.distribution).transform

    @property
    def attrs(self) -> dict[str, Any]:
        """For an angle, the circle on which it lies; otherwise nothing."""
        transform = self.transform
        return (
            circle_attrs(transform.low, transform.high) if isinstance(transform, Direction) else {}
        )


class Prior(WithPrior):
    """A parameter with a prior of scipy.stats or another package, independent of other parameters.

    The support of the distribution becomes that of the parameter, its log-density is added to what
    the model's function returns, start points are drawn from it, and draws from it are stored in
    the results, in the group ``prior``. Where the density is zero in double precision, as beyond 38
    standard deviations of a normal distribution, so is that of the posterior, and the model's
    function is not called. In a :class:`kmc.Model` the distribution itself can be given:
    ``parameters={"b": scipy.stats.gamma(2)}``.

    Parameters
    ----------
    distribution : distribution of scipy.stats or PreliZ
        A continuous distribution of a single number, with numbers as its parameters, such as
        ``scipy.stats.gamma(2)``, ``scipy.stats.Normal(mu=1.0)`` or ``preliz.Gamma(2, 1)``;
        ``scipy.stats.multivariate_normal(mean, cov)`` or ``multivariate_t``, for a vector; or
        ``scipy.stats.dirichlet(alpha)``, for a :class:`kmc.Simplex`. With
        ``scipy.stats.vonmises(kappa, loc)`` the parameter is a :class:`kmc.Angle`. Any other object
        will do that has the methods ``logpdf(x)`` and ``rvs(size, random_state)`` and an attribute
        or method ``support``, its two ends.
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
        law_of(distribution)
        self._distribution, self.shape = distribution, shape
        self.__post_init__()

    @property
    def distribution(self) -> Any:
        """The distribution."""
        return self._distribution

    def __repr__(self) -> str:
        return f"Prior({named(self.distribution)}, shape={self.shape!r})"


class JointPrior:
    """The joint prior of all parameters that have one.

    Each is independent, or given parameters that were declared before.

    Parameters
    ----------
    priors : mapping of str to WithPrior
    batches : mapping of str to tuple of int
        The shape of the array of each parameter's values.
    fixed : mapping of str to float or ndarray, optional
        Known values, which priors may name.

    Raises
    ------
    ValueError
        A prior names something that is not a number or an array of numbers with a prior declared
        before.
    """

    def __init__(
        self,
        priors: Mapping[str, WithPrior],
        batches: Mapping[str, tuple[int, ...]],
        fixed: Mapping[str, Any] | None = None,
    ):
        self._fixed = {
            name: np.asarray(value, float)[None] for name, value in (fixed or {}).items()
        }
        self._laws: dict[str, tuple[Law | NormalAround, transforms.Transform, tuple[int, ...]]] = {}
        for name, prior in priors.items():
            law = law_of(prior.distribution)
            for parent in law.parents if isinstance(law, NormalAround) else ():
                self._check_parent(name, batches[name], parent)
            self._laws[name] = law, prior.transform, batches[name]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters that have a prior."""
        return tuple(self._laws)

    @property
    def depends(self) -> bool:
        """Whether a prior names other parameters."""
        return bool(self.around)

    @property
    def around(self) -> Mapping[str, NormalAround]:
        """The priors that name other parameters, by parameter."""
        return {
            name: law for name, (law, _, _) in self._laws.items() if isinstance(law, NormalAround)
        }

    def log_density(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the sum of the log-densities (n,) at values (n, *shape) by name.

        Parameters without a prior add nothing.

        It is -inf where the density of one number is zero in double precision, more than 38
        standard deviations from the mean of a normal distribution; and where a distribution's own
        log-density is NaN, from overflow far out in a tail.
        """
        total: Any = 0.0
        for name, law in self._at(values):
            with np.errstate(over="ignore", invalid="ignore"):
                each = law.log_density(values[name])
            each = each if isinstance(law, NormalAt) else np.where(each < _NIL, -np.inf, each)
            total = total + each.sum(axis=tuple(range(1, each.ndim)))
        return np.where(np.isnan(total), -np.inf, total)

    def contradicted(self, values: Mapping[str, np.ndarray]) -> list[str]:
        """Return names of parameters with half of their values (n, *shape) at a nearly zero prior.

        Nearly: in nats, half as low as what is zero in double precision.
        """
        found = []
        for name, law in self._at(values):
            each = law.log_density(values[name])
            if np.any(np.median(each, axis=0) < 0.5 * _NIL):
                found.append(name)
        return found

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw as :meth:`draw` does."""
        return self.draw(rng, n)

    def draw(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw values (n, *shape) by name.

        Those that rounding put on the edge of the support are moved inside.
        """
        drawn: dict[str, np.ndarray] = {}
        for name, law in self._at(drawn):  # parents first
            _, transform, batch = self._laws[name]
            drawn[name] = _draw(law, transform, rng, (n, *batch))
        return drawn

    def _at(self, values: Mapping[str, np.ndarray]) -> Iterator[tuple[str, Law]]:
        """Yield each distribution, at the values (n, *shape) of the parameters it depends on."""
        for name, (law, _, batch) in self._laws.items():
            own = (
                law.at({**self._fixed, **values}, len(batch))
                if isinstance(law, NormalAround)
                else law
            )
            yield name, own

    def _check_parent(self, name: str, batch: tuple[int, ...], parent: str) -> None:
        shape = self._fixed[parent].shape[1:] if parent in self._fixed else None
        if parent in self._laws:
            _, transform, own = self._laws[parent]
            shape = own if not transform.shape else None
        if shape is None:
            raise ValueError(
                f"parameters[{name!r}] names {parent!r}: expected one of "
                f"{', '.join(map(repr, self._laws)) or 'none'}, "
                "parameters with priors of single numbers that are declared before it"
            )
        if len(shape) > len(batch) or any(
            k not in (1, m) for k, m in zip(shape[::-1], batch[::-1], strict=False)
        ):
            raise ValueError(
                f"parameters[{name!r}] of shape {batch} names {parent!r} of shape {shape}: "
                "expected a shape that broadcasts to it"
            )


def as_parameter(name: str, given: Any) -> Parameter | Fixed:
    """Convert what a user gave to a parameter.

    Raises
    ------
    TypeError, ValueError
    """
    if isinstance(given, (Parameter, Fixed)):
        return given
    if is_number(given):
        return Fixed(given)
    where = f"parameters[{name!r}]={given!r}"
    expected = (
        "expected kmc.Real(), kmc.Positive() or alike, a prior such as kmc.Normal(0, 1) or "
        "scipy.stats.gamma(2), or a known number"
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
        raise TypeError(
            f"{where}: {expected}; for numbers between two bounds kmc.Interval({low!r}, {high!r})"
        )
    raise TypeError(f"{where}: {expected}")


def _is_distribution(given: Any) -> bool:
    """Return whether the object is a distribution, valid or not: its own check says why not."""
    return not isinstance(given, type) and any(
        callable(getattr(given, method, None)) for method in ("logpdf", "logpmf", "rvs", "sample")
    )


def _draw(
    law: Law, transform: transforms.Transform, rng: np.random.Generator, shape: tuple[int, ...]
) -> np.ndarray:
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        values = law.draw(rng, shape)
    if isinstance(transform, transforms.IsometricLogRatio):
        return np.maximum(values, _LEAST)
    if isinstance(transform, Direction):
        return transform.constrain(transform.unconstrain(values))
    if transform.shape:
        return values
    inside = np.sort(transform.constrain(np.array([-1e300, 1e300])))
    return np.clip(values, *inside)
