"""Kernels from a user's profile functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kmc.checks import check_number, derivative_order, length, set_checked
from kmc.kernels.algebra import Kernel

Profile = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class RadialFunction(Kernel):
    r"""A radial kernel from a user's profile, :math:`k(x, y) = q(|x - y|^2 / \mathrm{bandwidth}^2)`.

    Positive definiteness of k is the user's responsibility: it is not checked.

    Parameters
    ----------
    profiles : sequence of callables
        q, q', q'', ... in order, each from an array of s >= 0 to an array of the same shape; exact, or with a finite
        convention, at s = 0. Gradients of an estimate need two or three of them, Laplacians up to five. Use
        module-level functions, not lambdas, if the kernel is to be pickled.
    bandwidth : float
        Positive, in the units of x.
    differentiability : float
        Number of derivatives in x of k(x, y) that exist where x = y.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import RadialFunction
    >>> def wave(s):
    ...     return 1.0 / (1.0 + s)
    >>> def slope(s):
    ...     return -1.0 / (1.0 + s) ** 2
    >>> kernel = RadialFunction([wave, slope], bandwidth=2.0)
    >>> kernel.derivatives(np.array([4.0]), order=1)
    (array([0.5]), array([-0.0625]))
    """

    profiles: Sequence[Profile]
    bandwidth: float = 1.0
    differentiability: float = np.inf

    kind = "distance"

    def __post_init__(self):
        _check_profiles(self)
        set_checked(self, length, "bandwidth")
        check_number(self, "differentiability", 0, np.inf, ends="[]")

    def derivatives(self, s: np.ndarray, order: int = 2) -> tuple[np.ndarray, ...]:
        """q, q', ... up to that order at squared distances of any shape; ValueError if fewer were given."""
        return _derivatives(self, s, order)


@dataclass(frozen=True)
class DotProductFunction(Kernel):
    r"""A dot-product kernel from a user's profile, :math:`k(x, y) = q(\langle x, y \rangle / \mathrm{bandwidth}^2)`.

    Positive definiteness of k (as of a power series with nonnegative coefficients) is the user's responsibility.

    Parameters
    ----------
    profiles : sequence of callables
        q, q', q'', ... in order, each from an array of real numbers to an array of the same shape.
    bandwidth : float
        Positive, in the units of x.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import DotProductFunction
    >>> DotProductFunction([np.cosh, np.sinh, np.cosh]).profile(np.array([0.0]))
    array([1.])
    """

    profiles: Sequence[Profile]
    bandwidth: float = 1.0

    kind = "inner-product"

    def __post_init__(self):
        _check_profiles(self)
        set_checked(self, length, "bandwidth")

    def derivatives(self, t: np.ndarray, order: int = 2) -> tuple[np.ndarray, ...]:
        """q, q', ... up to that order at inner products of any shape; ValueError if fewer were given."""
        return _derivatives(self, t, order)


def _check_profiles(kernel):
    profiles = kernel.profiles
    expected = "expected a sequence [q, q', ...] of callables"
    if callable(profiles):
        raise TypeError(f"profiles={profiles!r}: {expected}, got only one")
    if not isinstance(profiles, Sequence) or not profiles or not all(callable(q) for q in profiles):
        raise TypeError(f"profiles={profiles!r}: {expected}")
    profiles = tuple(profiles)
    object.__setattr__(kernel, "profiles", profiles)


def _derivatives(kernel, u, order):
    order = derivative_order(order)
    if order >= len(kernel.profiles):
        raise ValueError(
            f"profiles of {type(kernel).__name__}: derivatives up to order {order} are needed, but only those up to "
            f"order {len(kernel.profiles) - 1} were given; add {order + 1 - len(kernel.profiles)} more callables"
        )
    unit = kernel.bandwidth**2
    u = np.asarray(u, dtype=float) / unit
    return tuple(_checked(kernel, k, u) / unit**k for k in range(order + 1))


def _checked(kernel, k, u):
    values = np.asarray(kernel.profiles[k](u), dtype=float)
    name = f"profiles[{k}] of {type(kernel).__name__}"
    if values.shape != u.shape:
        raise ValueError(f"{name} returned shape {values.shape} for arguments of shape {u.shape}: expected the same")
    wrong = ~np.isfinite(values) & np.isfinite(u)
    if wrong.any():
        raise ValueError(f"{name} returned {values[wrong][0]} at {u[wrong][0]:g}: expected a finite number")
    return values
