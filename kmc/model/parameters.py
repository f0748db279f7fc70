"""Declarations of parameters: their shapes and supports."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kmc.arrays import as_array
from kmc.checks import check_count, check_number
from kmc.model import transforms


class Parameter(ABC):
    """A parameter of a :class:`kmc.Model`.

    Attributes
    ----------
    shape : tuple of int or None
        Shape of the array of values, each of which may have a shape of its own; None: a single
        value, unless the model's `dims` say otherwise.
    start : float or None
        A plausible value, around which chains start; of parameters from other packages.
    """

    shape: Any
    start: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _as_shape(self.shape))

    @property
    @abstractmethod
    def transform(self) -> transforms.Transform:
        """The map from R^k onto the support of one value."""

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of the variable in the results."""
        return {}


@dataclass(frozen=True)
class Real(Parameter):
    """Real numbers.

    Parameters
    ----------
    shape : int or tuple of int, optional
        ``Real()`` is a number, ``Real(3)`` a vector of three and ``Real((2, 3))`` a matrix.

    Examples
    --------
    >>> import kmc
    >>> kmc.Real(3)
    Real(shape=(3,))
    """

    shape: Any = None

    @property
    def transform(self) -> transforms.Transform:
        """The identity: every real number is allowed."""
        return transforms.Identity()


@dataclass(frozen=True)
class Positive(Parameter):
    """Positive numbers: exp(x).

    Parameters
    ----------
    shape : int or tuple of int, optional
        As for :class:`Real`.

    Examples
    --------
    >>> import kmc
    >>> kmc.Positive((2, 3)).shape
    (2, 3)
    """

    shape: Any = None

    @property
    def transform(self) -> transforms.Transform:
        """exp(x)."""
        return transforms.Above(0.0)


@dataclass(frozen=True)
class LowerBound(Parameter):
    """Numbers above a bound: lower + exp(x).

    Parameters
    ----------
    lower : float
    shape : int or tuple of int, optional
        As for :class:`Real`.

    Examples
    --------
    >>> import kmc
    >>> kmc.LowerBound(1)
    LowerBound(lower=1.0, shape=None)
    """

    lower: float
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_bounds(self, "lower")

    @property
    def transform(self) -> transforms.Transform:
        """lower + exp(x)."""
        return transforms.Above(self.lower)


@dataclass(frozen=True)
class UpperBound(Parameter):
    """Numbers below a bound: upper - exp(x).

    Parameters
    ----------
    upper : float
    shape : int or tuple of int, optional
        As for :class:`Real`.

    Examples
    --------
    >>> import kmc
    >>> kmc.UpperBound(0, shape=2)
    UpperBound(upper=0.0, shape=(2,))
    """

    upper: float
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_bounds(self, "upper")

    @property
    def transform(self) -> transforms.Transform:
        """upper - exp(x)."""
        return transforms.Below(self.upper)


@dataclass(frozen=True)
class Interval(Parameter):
    """Numbers between two bounds, linear in x but near the bounds.

    They are lower + (upper - lower) (log(1 + exp(2 x + 8)) - log(1 + exp(2 x - 8))) / 16: the
    middle half of the interval has the x between -2 and 2, and the log-density keeps its shape
    there.

    Parameters
    ----------
    lower, upper : float
    shape : int or tuple of int, optional
        As for :class:`Real`.

    Examples
    --------
    >>> import kmc
    >>> kmc.Interval(0, 1)
    Interval(lower=0.0, upper=1.0, shape=None)
    >>> kmc.Interval(1, 0)
    Traceback (most recent call last):
        ...
    ValueError: lower=1.0 and upper=0.0: expected lower < upper, with numbers in between
    """

    lower: float
    upper: float
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_interval(self, "lower", "upper")

    @property
    def transform(self) -> transforms.Transform:
        """A smooth step of x, linear in its middle, scaled to the interval."""
        return transforms.Between(self.lower, self.upper)


@dataclass(frozen=True)
class Simplex(Parameter):
    """Positive numbers with the sum 1: a softmax (isometric log-ratio).

    The log-density is with respect to all components except one, as for a Dirichlet distribution.

    Parameters
    ----------
    size : int
        At least 2.
    shape : int or tuple of int, optional
        Shape of an array of simplexes: ``Simplex(4, shape=3)`` has three of them, the rows of a (3,
        4) array.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> model = kmc.Model(lambda p: 0.0, parameters={"share": kmc.Simplex(4)})
    >>> model.dim
    3
    >>> model.constrain(np.zeros((1, 3)))
    {'share': array([[0.25, 0.25, 0.25, 0.25]])}
    """

    size: int
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self, "size", 2)

    @property
    def transform(self) -> transforms.Transform:
        """The map from size - 1 numbers to size positive ones that sum to one."""
        return transforms.IsometricLogRatio(int(self.size))


@dataclass(frozen=True)
class Ordered(Parameter):
    """Numbers in increasing order: the exponentials of x are the steps.

    Parameters
    ----------
    size : int
        At least 2.
    shape : int or tuple of int, optional
        Shape of an array of such vectors, as for :class:`Simplex`.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> model = kmc.Model(lambda p: 0.0, parameters={"cuts": kmc.Ordered(3)})
    >>> model.constrain(np.zeros((1, 3)))
    {'cuts': array([[0., 1., 2.]])}
    """

    size: int
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self, "size", 2)

    @property
    def transform(self) -> transforms.Transform:
        """The first number, and positive steps exp(x) after it."""
        return transforms.Increasing(int(self.size))


@dataclass(frozen=True)
class CorrelationCholesky(Parameter):
    """The lower Cholesky factor L of a correlation matrix L L^T.

    The canonical partial correlations are tanh(x). The log-density is with respect to the elements
    below the diagonal of L, as for Stan's ``lkj_corr_cholesky``. For a density of the correlation
    matrix itself, add the sum over i = 1, ..., `size` of (`size` - i) log L_ii.

    Parameters
    ----------
    size : int
        At least 2.
    shape : int or tuple of int, optional
        Shape of an array of such factors, as for :class:`Simplex`.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> model = kmc.Model(lambda p: 0.0, parameters={"factor": kmc.CorrelationCholesky(2)})
    >>> factor = model.constrain(np.arctanh([[0.6]]))["factor"][0]
    >>> factor @ factor.T
    array([[1. , 0.6],
           [0.6, 1. ]])
    """

    size: int
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self, "size", 2)

    @property
    def transform(self) -> transforms.Transform:
        """The map from one number for each pair to the Cholesky factor, by partial correlations."""
        return transforms.PartialCorrelations(int(self.size))


@dataclass(frozen=True)
class PositiveDefinite(Parameter):
    """Symmetric positive-definite matrices, such as covariances: L L^T with a Cholesky factor L.

    The log-density is with respect to the elements on and below the diagonal.

    Parameters
    ----------
    size : int
        Rows of the matrix, at least 1.
    shape : int or tuple of int, optional
        Shape of an array of such matrices, as for :class:`Simplex`.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> model = kmc.Model(lambda p: 0.0, parameters={"cov": kmc.PositiveDefinite(2)})
    >>> model.constrain(np.array([[0.0, 0.5, 0.0]]))
    {'cov': array([[[1.  , 0.5 ],
            [0.5 , 1.25]]])}
    """

    size: int
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self, "size", 1)

    @property
    def transform(self) -> transforms.Transform:
        """The map from the numbers of a Cholesky factor, with the logarithms of its diagonal."""
        return transforms.CholeskySquare(int(self.size))


@dataclass(frozen=True, eq=False)
class Fixed:
    """A known value: the function gets it as it gets a parameter, and it is not sampled.

    In a :class:`kmc.Model` a number can be given as it is: ``parameters={"a": kmc.Real(), "b":
    3.0}``. The values are in the group ``constant_data`` of the results, not among the draws.

    Parameters
    ----------
    value : float or array_like

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> model = kmc.Model(
    ...     lambda p: -p["a"] ** 2 - p["b"].sum(),
    ...     parameters={"a": kmc.Real(), "b": kmc.Fixed([1, 2])},
    ... )
    >>> model.dim, float(model.call(np.zeros(1)))
    (1, -3.0)
    """

    value: Any

    def __post_init__(self) -> None:
        expected = f"value={self.value!r}: expected a finite number, or an array of them"
        try:
            value = np.array(as_array("value", self.value), dtype=float)
        except (TypeError, ValueError) as error:
            raise TypeError(expected) from error
        if not (value.size and np.isfinite(value).all()):
            raise ValueError(expected)
        object.__setattr__(self, "value", value if value.ndim else float(value))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value."""
        return np.shape(self.value)


def check_interval(parameter: Any, low: str, high: str) -> None:
    """Check two finite bounds, with numbers in between, and convert them to floats.

    They are given by the names of their attributes.
    """
    _check_bounds(parameter, low, high)
    ends = getattr(parameter, low), getattr(parameter, high)
    between = np.nextafter(*ends) < ends[1]
    if not (between and np.finfo(float).tiny < ends[1] - ends[0] < np.inf):
        raise ValueError(
            f"{low}={ends[0]!r} and {high}={ends[1]!r}: expected {low} < {high}, with numbers in "
            f"between"
        )


def _check_bounds(parameter: Any, *names: str) -> None:
    for name in names:
        check_number(parameter, name, -np.inf)
        object.__setattr__(parameter, name, float(getattr(parameter, name)))


def _as_shape(shape: Any) -> tuple[int, ...] | None:
    expected = f"shape={shape!r}: expected a whole number of at least 1, or a tuple of them"
    if shape is None:
        return None
    try:
        if isinstance(shape, (bool, np.bool_)):
            raise TypeError
        lengths = (
            tuple(map(operator.index, shape))
            if isinstance(shape, (tuple, list))
            else (operator.index(shape),)
        )
    except TypeError:
        raise TypeError(expected) from None
    if min(lengths, default=1) < 1:
        raise ValueError(expected)
    return lengths
