"""Kernels by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kmc.kernels.algebra import Kernel
from kmc.kernels.checks import length
from kmc.kernels.dot_product import Polynomial
from kmc.kernels.radial import Exponential, Gaussian, InverseMultiquadric, Matern52, Matern72, RationalQuadratic

KERNELS: dict[str, Callable[..., Kernel]] = {
    "gaussian": Gaussian,
    "inverse-multiquadric": InverseMultiquadric,
    "rational-quadratic": RationalQuadratic,
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
    >>> register_kernel("rough", lambda bandwidth=1.0: Gaussian(bandwidth) + 0.1 * Matern52(bandwidth))
    >>> kernel_of("rough", 2.0).left
    Gaussian(bandwidth=2.0)
    """
    if not isinstance(name, str) or not callable(make):
        raise TypeError(f"name={name!r}, make={make!r}: expected a string and a callable, make(bandwidth=...)")
    if name in _OWN:
        raise ValueError(f"name={name!r} is a kernel of kmc: choose another name")
    KERNELS[name] = make


def kernel_of(kernel: Any, bandwidth: float) -> Kernel:
    """The kernel for a user's argument.

    Parameters
    ----------
    kernel : str or Kernel
        A name gives the kernel of that name with this bandwidth. The lengths of a kernel object are multiplied by
        the bandwidth.
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
