"""The base class of kernels, their algebra, and kernels from a user's profile functions.

Sums, products and positive multiples of kernels are kernels.

Two kernels of the same argument (both of |x - y|², or both of <x, y>) combine into a kernel of that
argument, with derivatives by Leibniz's rule. Mixed ones are functions of two points only: see
:func:`kmc.kernels.kernel_derivative`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any, TypeVar

import numpy as np

from kmc.checks import check_number, derivative_order, is_number, length, positive, set_checked
from kmc.kernels.program import PRODUCT, SCALE, SUM, Instruction, evaluate

Self = TypeVar("Self", bound="Kernel")


class Kernel:
    """A positive-definite kernel k(x, y).

    Kernels can be added, and multiplied by each other and by positive numbers.

    Attributes
    ----------
    kind : {"distance", "inner-product", None}
        The argument of the profile: s = |x - y|², t = <x, y>, or neither.
    differentiability : float
        Number of derivatives in x of k(x, y) that exist where x = y.
    """

    kind: str | None = None
    differentiability: float = np.inf

    __array_ufunc__ = None  # so that a NumPy number times a kernel calls __rmul__

    def derivatives(self, u: np.ndarray, order: int = 2) -> tuple[np.ndarray, ...]:
        """Return the profile and its derivatives up to ``order`` <= 4 at arguments of any shape."""
        raise TypeError(
            f"{self!r} is neither a function of |x - y|² alone nor of <x, y> alone: "
            "use kmc.kernels.kernel_derivative(kernel, name, x, y)"
        )

    def profile(self, u: np.ndarray) -> np.ndarray:
        """Return the profile at arguments of any shape."""
        return self.derivatives(u, 0)[0]

    def scaled(self: Self, factor: float) -> Self:
        """Return the same kernel with lengths multiplied by a positive factor."""
        own: Any = self
        return replace(own, bandwidth=own.bandwidth * length("factor", factor))

    def postfix(self) -> tuple[Instruction, ...] | None:
        """Return the instructions for :func:`kmc.kernels.program`, or None if there are none."""
        return None

    def __add__(self, other: Any) -> Kernel:
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> Kernel:
        if isinstance(other, Kernel):
            return Product(self, other)
        return Scale(self, other) if is_number(other) else NotImplemented

    __rmul__ = __mul__


@dataclass(frozen=True)
class Sum(Kernel):
    """k(x, y) = left(x, y) + right(x, y); ``left + right`` makes one.

    Examples
    --------
    >>> from kmc.kernels import Gaussian, Polynomial
    >>> Gaussian(2.0) + Polynomial(degree=1)
    Sum(left=Gaussian(bandwidth=2.0), right=Polynomial(degree=1, offset=1.0, bandwidth=1.0))
    """

    left: Kernel
    right: Kernel

    def __post_init__(self):
        _check_kernels(self, "left", "right")

    @property
    def kind(self) -> str | None:  # type: ignore[override]
        """The common kind of both parts, or None."""
        return _common_kind(self)

    @property
    def differentiability(self) -> float:  # type: ignore[override]
        """The smaller differentiability of the two parts."""
        return min(self.left.differentiability, self.right.differentiability)

    def derivatives(self, u: np.ndarray, order: int = 2) -> tuple[np.ndarray, ...]:
        """Return the sums of the parts' derivatives."""
        if self.kind is None:
            return super().derivatives(u, order)
        postfix = self.postfix()
        if postfix is not None:
            return evaluate(postfix, u, order)
        f, g = self.left.derivatives(u, order), self.right.derivatives(u, order)
        return tuple(a + b for a, b in zip(f, g))

    def scaled(self, factor: float) -> Sum:
        """Return the sum of the scaled parts."""
        return Sum(self.left.scaled(factor), self.right.scaled(factor))

    def postfix(self) -> tuple[Instruction, ...] | None:
        """Return the instructions: left, right, add."""
        return _joined(self, SUM)


@dataclass(frozen=True)
class Product(Kernel):
    """k(x, y) = left(x, y) right(x, y); ``left * right`` makes one.

    Examples
    --------
    >>> from kmc.kernels import Gaussian, Matern52
    >>> Gaussian(2.0) * Matern52()
    Product(left=Gaussian(bandwidth=2.0), right=Matern52(bandwidth=1.0))
    """

    left: Kernel
    right: Kernel

    def __post_init__(self):
        _check_kernels(self, "left", "right")

    @property
    def kind(self) -> str | None:  # type: ignore[override]
        """The common kind of both parts, or None."""
        return _common_kind(self)

    @property
    def differentiability(self) -> float:  # type: ignore[override]
        """The smaller differentiability of the two parts."""
        return min(self.left.differentiability, self.right.differentiability)

    def derivatives(self, u: np.ndarray, order: int = 2) -> tuple[np.ndarray, ...]:
        """Return (fg)^(k) = Σ_j C(k, j) f^(j) g^(k-j)."""
        if self.kind is None:
            return super().derivatives(u, order)
        postfix = self.postfix()
        if postfix is not None:
            return evaluate(postfix, u, order)
        f, g = self.left.derivatives(u, order), self.right.derivatives(u, order)
        orders = range(derivative_order(order) + 1)
        return tuple(sum(comb(k, j) * f[j] * g[k - j] for j in range(k + 1)) for k in orders)

    def scaled(self, factor: float) -> Product:
        """Return the product of the scaled parts."""
        return Product(self.left.scaled(factor), self.right.scaled(factor))

    def postfix(self) -> tuple[Instruction, ...] | None:
        """Return the instructions: left, right, multiply."""
        return _joined(self, PRODUCT)


@dataclass(frozen=True)
class Scale(Kernel):
    """k(x, y) = factor kernel(x, y) with a positive factor; ``factor * kernel`` makes one.

    Examples
    --------
    >>> from kmc.kernels import Gaussian
    >>> 2 * Gaussian()
    Scale(kernel=Gaussian(bandwidth=1.0), factor=2.0)
    """

    kernel: Kernel
    factor: float

    def __post_init__(self):
        _check_kernels(self, "kernel")
        set_checked(self, positive, "factor")

    @property
    def kind(self) -> str | None:  # type: ignore[override]
        """The kind of the kernel."""
        return self.kernel.kind

    @property
    def differentiability(self) -> float:  # type: ignore[override]
        """The differentiability of the kernel."""
        return self.kernel.differentiability

    def derivatives(self, u: np.ndarray, order: int = 2) -> tuple[np.ndarray, ...]:
        """Return the kernel's derivatives times the factor."""
        if self.kind is None:
            return super().derivatives(u, order)
        postfix = self.postfix()
        if postfix is not None:
            return evaluate(postfix, u, order)
        return tuple(self.factor * f for f in self.kernel.derivatives(u, order))

    def scaled(self, factor: float) -> Scale:
        """Return the multiple of the scaled kernel."""
        return Scale(self.kernel.scaled(factor), self.factor)

    def postfix(self) -> tuple[Instruction, ...] | None:
        """Return the instructions: kernel, multiply by the factor."""
        inner = self.kernel.postfix()
        return None if inner is None else (*inner, (SCALE, self.factor, 0.0))


def _check_kernels(kernel: Kernel, *names: str) -> None:
    for name in names:
        if not isinstance(part := getattr(kernel, name), Kernel):
            raise TypeError(f"{name}={part!r}: expected a kernel of kmc.kernels")


def _common_kind(kernel: Sum | Product) -> str | None:
    return kernel.left.kind if kernel.left.kind == kernel.right.kind else None


def _joined(kernel: Sum | Product, code: int) -> tuple[Instruction, ...] | None:
    left, right = kernel.left.postfix(), kernel.right.postfix()
    return None if left is None or right is None else (*left, *right, (code, 0.0, 0.0))


Profile = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class RadialFunction(Kernel):
    r"""A radial kernel of a user's profile, :math:`k(x, y) = q(|x - y|^2 / \mathrm{bandwidth}^2)`.

    Positive definiteness of k is the user's responsibility: it is not checked.

    Parameters
    ----------
    profiles : sequence of callables
        q, q', q'', ... in order, each from an array of s >= 0 to an array of the same shape; exact,
        or with a finite convention, at s = 0. Gradients of an estimate need two or three of them,
        Laplacians up to five. Use module-level functions, not lambdas, if the kernel is to be
        pickled.
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
        """Return q, q', ... up to that order at squared distances of any shape.

        Raise a ValueError if fewer were given.
        """
        return _derivatives(self, s, order)


@dataclass(frozen=True)
class DotProductFunction(Kernel):
    r"""A dot-product kernel of a user's profile.

    .. math:: k(x, y) = q(\langle x, y \rangle / \mathrm{bandwidth}^2).

    Positive definiteness of k (as of a power series with nonnegative coefficients) is the user's
    responsibility.

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
        """Return q, q', ... up to that order at inner products of any shape.

        Raise a ValueError if fewer were given.
        """
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
            f"profiles of {type(kernel).__name__}: derivatives up to order {order} are needed, but "
            f"only those up to order {len(kernel.profiles) - 1} were given; add "
            f"{order + 1 - len(kernel.profiles)} more callables"
        )
    unit = kernel.bandwidth**2
    u = np.asarray(u, dtype=float) / unit
    return tuple(_checked(kernel, k, u) / unit**k for k in range(order + 1))


def _checked(kernel, k, u):
    values = np.asarray(kernel.profiles[k](u), dtype=float)
    name = f"profiles[{k}] of {type(kernel).__name__}"
    if values.shape != u.shape:
        raise ValueError(
            f"{name} returned shape {values.shape} for arguments of shape {u.shape}: expected the "
            f"same"
        )
    wrong = ~np.isfinite(values) & np.isfinite(u)
    if wrong.any():
        raise ValueError(
            f"{name} returned {values[wrong][0]} at {u[wrong][0]:g}: expected a finite number"
        )
    return values
