"""A kernel and its bandwidths, as a user names them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kmc.checks import length, numbers
from kmc.kernels.algebra import Kernel
from kmc.kernels.dot_product import Polynomial
from kmc.kernels.radial import Exponential, Gaussian, InverseMultiquadric, Matern52, Matern72

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
    """Return the kernel for a user's arguments.

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


def candidate_bandwidths(bandwidth: Any, median: float, named: bool, factors: Sequence[float]) -> list[float]:
    """Arguments for building a kernel, for each candidate.

    A kernel given by name takes a bandwidth in the units of x. A kernel object has its own scale, and takes factors
    of it: "median" keeps it.

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
        raise ValueError(f"bandwidth={bandwidth!r}: expected 'median', 'cv', a positive number or a sequence of them")
    return numbers("bandwidth", bandwidth, zero=False)
