"""The kernels of kmc, each through its profile q and the derivatives of q.

For a radial kernel k(x, y) = q(s), s = |x - y|², an estimator needs only q, q', ... at squared
distances: the gradient of a section is 2 q' r and its Laplacian is 4 q'' s + 2 d q', with r = x -
y. Dot-product kernels k(x, y) = q(t), t = <x, y>, are not invariant under translations: center the
data, or choose the origin.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import perm
from typing import Any, Protocol

import numpy as np

from kmc.checks import (
    derivative_order,
    is_whole,
    length,
    not_negative,
    numbers,
    positive,
    set_checked,
)
from kmc.kernels.algebra import Kernel
from kmc.kernels.program import GAUSSIAN, MATERN, POWER, Instruction, evaluate


class RadialKernel(Protocol):
    """A positive-definite radial kernel."""

    def profile(self, s: np.ndarray) -> np.ndarray:
        """Return q(s) at squared distances of any shape."""

    def derivatives(self, s: np.ndarray, order: int = 2) -> tuple[np.ndarray, ...]:
        """Return q, q', ... up to that order (at most 4) at squared distances of any shape."""


class _BuiltIn(Kernel, ABC):
    """A radial kernel that is a single instruction of the machine in :mod:`kmc.kernels.program`."""

    kind = "distance"

    def derivatives(self, s: np.ndarray, order: int = 2) -> tuple[np.ndarray, ...]:
        """Return q, q', ... up to that order (at most 4) at squared distances of any shape."""
        return evaluate(self.postfix(), s, order)

    @abstractmethod
    def postfix(self) -> tuple[Instruction, ...]:
        """Return the kernel as instructions of that machine."""


@dataclass(frozen=True)
class Gaussian(_BuiltIn):
    r"""The Gaussian kernel :math:`k(x, y) = \exp(-|x - y|^2 / (2\,\mathrm{bandwidth}^2))`.

    Parameters
    ----------
    bandwidth : float
        Positive, in the units of x.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Gaussian
    >>> Gaussian(bandwidth=2.0).profile(np.array([0.0, 8.0])).round(4)
    array([1.    , 0.3679])
    """

    bandwidth: float = 1.0

    def __post_init__(self):
        set_checked(self, length, "bandwidth")

    @property
    def rate(self) -> float:
        """The factor of s in the exponent, 1 / (2 bandwidth^2)."""
        return 0.5 / self.bandwidth**2

    def postfix(self) -> tuple[Instruction, ...]:
        """Return one instruction."""
        return ((GAUSSIAN, self.rate, 0.0),)


@dataclass(frozen=True)
class InverseMultiquadric(_BuiltIn):
    r"""The inverse multiquadric kernel.

    .. math:: k(x, y) = (1 + |x - y|^2 / \mathrm{bandwidth}^2)^{-\mathrm{exponent}}.

    The rational quadratic kernel with parameters α and ℓ is ``InverseMultiquadric((2 * α) ** 0.5 *
    ℓ, α)``.

    Parameters
    ----------
    bandwidth : float
        Positive, in the units of x.
    exponent : float
        Positive. Multiples of 1/2 are the fastest.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import InverseMultiquadric
    >>> InverseMultiquadric(bandwidth=2.0).profile(np.array([0.0, 12.0]))
    array([1. , 0.5])
    """

    bandwidth: float = 1.0
    exponent: float = 0.5

    def __post_init__(self):
        set_checked(self, length, "bandwidth")
        set_checked(self, positive, "exponent")

    def postfix(self) -> tuple[Instruction, ...]:
        """Return one instruction."""
        return ((POWER, 1.0 / self.bandwidth**2, self.exponent),)


@dataclass(frozen=True)
class Matern52(_BuiltIn):
    r"""The Matérn-5/2 kernel, with :math:`a = \sqrt5\,|x - y| / \mathrm{bandwidth}`.

    .. math:: k(x, y) = (1 + a + a^2/3)\,e^{-a}.

    Its sections have four derivatives where x = y. There q''' and q'''' diverge in s and are set to
    0.

    Parameters
    ----------
    bandwidth : float
        Positive, in the units of x.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Matern52
    >>> Matern52(bandwidth=2.0).profile(np.array([0.0, 4.0])).round(4)
    array([1.   , 0.524])
    """

    bandwidth: float = 1.0

    differentiability = 4.0

    def __post_init__(self):
        set_checked(self, length, "bandwidth")

    def postfix(self) -> tuple[Instruction, ...]:
        """Return one instruction: the second shape of the family."""
        return ((MATERN, 5.0 / self.bandwidth**2, 1.0),)


@dataclass(frozen=True)
class Matern72(_BuiltIn):
    r"""The Matérn-7/2 kernel, with :math:`a = \sqrt7\,|x - y| / \mathrm{bandwidth}`.

    .. math:: k(x, y) = (1 + a + 2a^2/5 + a^3/15)\,e^{-a}.

    Its sections have six derivatives where x = y. There q'''' diverges in s and is set to 0.

    Parameters
    ----------
    bandwidth : float
        Positive, in the units of x.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Matern72
    >>> Matern72(bandwidth=2.0).profile(np.array([0.0, 4.0])).round(4)
    array([1.    , 0.5449])
    """

    bandwidth: float = 1.0

    differentiability = 6.0

    def __post_init__(self):
        set_checked(self, length, "bandwidth")

    def postfix(self) -> tuple[Instruction, ...]:
        """Return one instruction: the first shape of the family."""
        return ((MATERN, 7.0 / self.bandwidth**2, 0.0),)


@dataclass(frozen=True)
class Exponential(_BuiltIn):
    r"""The exponential (Laplace, Matérn-1/2) kernel.

    .. math:: k(x, y) = \exp(-|x - y| / \mathrm{bandwidth}).

    Its sections have a kink where x = y: there they have no gradient, and by convention all
    derivatives in s are 0.

    Parameters
    ----------
    bandwidth : float
        Positive, in the units of x.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Exponential
    >>> Exponential(bandwidth=2.0).profile(np.array([0.0, 4.0])).round(4)
    array([1.    , 0.3679])
    """

    bandwidth: float = 1.0

    differentiability = 0.0

    def __post_init__(self):
        set_checked(self, length, "bandwidth")

    def postfix(self) -> tuple[Instruction, ...]:
        """Return one instruction: the fourth shape of the Matérn family."""
        return ((MATERN, 1.0 / self.bandwidth**2, 3.0),)


@dataclass(frozen=True)
class Polynomial(Kernel):
    r"""The polynomial kernel of inner products.

    .. math::

        k(x, y) = (\langle x, y \rangle / \mathrm{bandwidth}^2 + \mathrm{offset})^{\mathrm{degree}}.

    Parameters
    ----------
    degree : int
        At least 1.
    offset : float
        Not negative; with 0 only monomials of exactly that degree are in the space.
    bandwidth : float
        Positive, in the units of x.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Polynomial
    >>> Polynomial(degree=3).derivatives(np.array([1.0]))
    (array([8.]), array([12.]), array([12.]))
    """

    degree: int = 2
    offset: float = 1.0
    bandwidth: float = 1.0

    kind = "inner-product"

    def __post_init__(self):
        if not is_whole(self.degree):
            raise TypeError(f"degree={self.degree!r}: expected a whole number of at least 1")
        if self.degree < 1:
            raise ValueError(f"degree={self.degree!r}: expected a whole number of at least 1")
        object.__setattr__(self, "degree", int(self.degree))
        set_checked(self, not_negative, "offset")
        set_checked(self, length, "bandwidth")

    def derivatives(self, t: np.ndarray, order: int = 2) -> tuple[np.ndarray, ...]:
        """Return q, q', ... up to that order (at most 4) at inner products of any shape."""
        rate = 1.0 / self.bandwidth**2
        orders = range(derivative_order(order) + 1)
        base = rate * np.asarray(t, dtype=float) + self.offset
        powers = _powers(base, [max(self.degree - k, 0) for k in orders])
        return tuple(perm(self.degree, k) * rate**k * power for k, power in zip(orders, powers))


@dataclass(frozen=True)
class ExponentialDotProduct(Kernel):
    r"""The exponential kernel of inner products, all polynomials at once.

    .. math:: k(x, y) = \exp(\langle x, y \rangle / \mathrm{bandwidth}^2).

    Parameters
    ----------
    bandwidth : float
        Positive, in the units of x. The kernel overflows where <x, y> exceeds about 700 bandwidth².

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import ExponentialDotProduct
    >>> ExponentialDotProduct(bandwidth=2.0).profile(np.array([0.0, -4.0])).round(4)
    array([1.    , 0.3679])
    """

    bandwidth: float = 1.0

    kind = "inner-product"

    def __post_init__(self):
        set_checked(self, length, "bandwidth")

    def derivatives(self, t: np.ndarray, order: int = 2) -> tuple[np.ndarray, ...]:
        """Return q, q', ... up to that order (at most 4) at inner products of any shape."""
        rate = 1.0 / self.bandwidth**2
        orders = range(derivative_order(order) + 1)
        q = np.exp(rate * np.asarray(t, dtype=float))
        return tuple(rate**k * q for k in orders)


def _powers(base, exponents):
    """Return powers of an array for descending whole exponents, by products with the base."""
    power = _whole_power(base, exponents[-1])
    found = [power]
    for above, below in zip(exponents[-2::-1], exponents[:0:-1]):
        power = power * base if above > below else power
        found.append(power)
    return found[::-1]


def _whole_power(base, exponent):
    """Raise to a whole power by repeated squaring.

    The library's power function takes ten times as long.
    """
    power = np.ones_like(base)
    while exponent:
        if exponent % 2:
            power = power * base
        base = base * base
        exponent //= 2
    return power


KERNELS: dict[str, Callable[..., Kernel]] = {
    "gaussian": Gaussian,
    "inverse-multiquadric": InverseMultiquadric,
    "matern52": Matern52,
    "matern72": Matern72,
    "exponential": Exponential,
    "polynomial": Polynomial,
}

_OWN = frozenset(KERNELS)


def register_kernel(name: str, make: Callable[..., Kernel]) -> None:
    """Register a kernel under a name, which estimators accept as their parameter ``kernel``.

    Parameters
    ----------
    name : str
    make : callable
        ``make(bandwidth=...)`` returns a :class:`Kernel`: its class, or a function.

    Raises
    ------
    TypeError, ValueError
        The name is not a string, or is one of kmc's own; or ``make`` is not callable.

    Examples
    --------
    >>> from kmc.kernels import Gaussian, Matern52, kernel_of, register_kernel
    >>> register_kernel(
    ...     "rough", lambda bandwidth=1.0: Gaussian(bandwidth) + 0.1 * Matern52(bandwidth)
    ... )
    >>> kernel_of("rough", 2.0).left
    Gaussian(bandwidth=2.0)
    """
    if not isinstance(name, str) or not callable(make):
        raise TypeError(
            f"name={name!r}, make={make!r}: expected a string and a callable, make(bandwidth=...)"
        )
    if name in _OWN:
        raise ValueError(f"name={name!r} is a kernel of kmc: choose another name")
    KERNELS[name] = make


def kernel_of(kernel: Any, bandwidth: float) -> Kernel:
    """Return the kernel for a user's arguments.

    Parameters
    ----------
    kernel : str or Kernel
        A name gives the kernel of that name with this bandwidth. The lengths of a kernel object are
        multiplied by the bandwidth.
    bandwidth : float
        Positive.

    Examples
    --------
    >>> from kmc.kernels import Gaussian, Matern52, kernel_of
    >>> kernel_of("matern52", 2.0)
    Matern52(bandwidth=2.0)
    >>> kernel_of(Gaussian(3.0), 2.0)
    Gaussian(bandwidth=6.0)
    """
    bandwidth = length("bandwidth", bandwidth)
    if isinstance(kernel, Kernel):
        return kernel.scaled(bandwidth)
    expected = f"expected {', '.join(map(repr, KERNELS))}, or a kernel of kmc.kernels"
    if not isinstance(kernel, str):
        raise TypeError(f"kernel={kernel!r}: {expected}")
    if kernel not in KERNELS:
        raise ValueError(f"kernel={kernel!r}: {expected}")
    return KERNELS[kernel](bandwidth=bandwidth)


def candidate_bandwidths(
    bandwidth: Any, median: float, named: bool, factors: Sequence[float]
) -> list[float]:
    """Return the arguments for building a kernel, for each candidate.

    A kernel given by name takes a bandwidth in the units of x. A kernel object has its own scale,
    and takes factors of it: "median" keeps it.

    Parameters
    ----------
    bandwidth : {"median", "cv"}, float or sequence of float
    median : float
        Median distance between samples.
    named : bool
        Whether the kernel is given by name.
    factors : sequence of float
        Candidates of "cv", in median distances.
    """
    unit = median if named else 1.0
    if isinstance(bandwidth, str):
        if bandwidth == "median":
            return [unit]
        if bandwidth == "cv":
            return [factor * unit for factor in factors]
        raise ValueError(
            f"bandwidth={bandwidth!r}: expected 'median', 'cv', a positive number or a sequence "
            f"of them"
        )
    return numbers("bandwidth", bandwidth, zero=False)
