"""Dot-product kernels k(x, y) = q(t), t = <x, y>, through their profile q and its derivatives in t.

They are not invariant under translations: center the data, or choose the origin.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import perm

import numpy as np

from kmc.checks import derivative_order, is_whole, length, not_negative, set_checked
from kmc.kernels.algebra import Kernel


@dataclass(frozen=True)
class Polynomial(Kernel):
    r"""The polynomial kernel of inner products.

    .. math:: k(x, y) = (\langle x, y \rangle / \mathrm{bandwidth}^2 + \mathrm{offset})^{\mathrm{degree}}.

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
        """q, q', ... up to that order (at most 4) at inner products of any shape."""
        rate = 1.0 / self.bandwidth**2
        orders = range(derivative_order(order) + 1)
        base = rate * np.asarray(t, dtype=float) + self.offset
        powers = _powers(base, [max(self.degree - k, 0) for k in orders])
        return tuple(perm(self.degree, k) * rate**k * power for k, power in zip(orders, powers))


@dataclass(frozen=True)
class ExponentialDotProduct(Kernel):
    r"""The kernel :math:`k(x, y) = \exp(\langle x, y \rangle / \mathrm{bandwidth}^2)`, all polynomials at once.

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
        """q, q', ... up to that order (at most 4) at inner products of any shape."""
        rate = 1.0 / self.bandwidth**2
        orders = range(derivative_order(order) + 1)
        q = np.exp(rate * np.asarray(t, dtype=float))
        return tuple(rate**k * q for k in orders)


def _powers(base, exponents):
    """Powers of an array for descending whole exponents, the lower ones by successive products with the base."""
    power = _whole_power(base, exponents[-1])
    found = [power]
    for above, below in zip(exponents[-2::-1], exponents[:0:-1]):
        power = power * base if above > below else power
        found.append(power)
    return found[::-1]


def _whole_power(base, exponent):
    """Raise to a whole power by repeated squaring: the library's power function takes ten times as long."""
    power = np.ones_like(base)
    while exponent:
        if exponent % 2:
            power = power * base
        base = base * base
        exponent //= 2
    return power
