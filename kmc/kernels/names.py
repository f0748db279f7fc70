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


def kernel_of(kernel: Any, bandwidth: float) -> Kernel:
    """The kernel that a user means.

    Parameters
    ----------
    kernel : str or Kernel
        A name gives the kernel of that name with this bandwidth. An object is used as it is, its lengths multiplied by
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
