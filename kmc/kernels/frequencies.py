r"""Random frequencies of stationary kernels, for Fourier features.

By Bochner's theorem a stationary kernel is k(x, y) = k(0) E cos ω·(x - y) for frequencies ω drawn
from its spectral density over k(0) (Rahimi and Recht, 2007). The built-in radial kernels are scale
mixtures of Gaussian ones, q(s) = E exp(-τ s/2), so that ω ~ N(0, τ I) with a random precision τ:

============ ======================================================================================
Gaussian     τ = 1 / bandwidth²
(1 + c s)^-p τ = 2 c Gamma(p)
Matérn-ν     τ = 2 ν / (bandwidth² χ²_{2ν}), so ω is a multivariate t with 2ν degrees of freedom
============ ======================================================================================
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kmc.checks import is_whole
from kmc.kernels.algebra import Kernel, Product, Scale, Sum
from kmc.kernels.built_in import Exponential, Gaussian, InverseMultiquadric, Matern52, Matern72
from kmc.kernels.metric import Metric, mapped


def frequencies(
    kernel: Kernel, count: int, dim: int, rng: np.random.Generator | int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw frequencies ω_j of a stationary kernel: k(x, y) ≈ mean_j amplitude_j² cos ω_j·(x - y).

    Parameters
    ----------
    kernel : Kernel
        Composed of built-in radial kernels by sums, products, multiples and metrics.
    count : int
        Number of frequencies.
    dim : int
        d, the number of coordinates of x.
    rng : Generator or seed

    Returns
    -------
    omega : ndarray, shape (count, d)
        Independent draws, in radians per unit of x.
    amplitude : ndarray, shape (count,)
        √k(0) for each of them.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Gaussian, frequencies
    >>> rng = np.random.default_rng(0)
    >>> omega, amplitude = frequencies(4.0 * Gaussian(bandwidth=2.0), 10_000, 3, rng)
    >>> bool(abs(omega.std() - 0.5) < 0.01), float(amplitude[0])
    (True, 2.0)
    """
    for name, value in (("count", count), ("dim", dim)):
        if not is_whole(value):
            raise TypeError(f"{name}={value!r}: expected a whole number of at least 1")
        if value < 1:
            raise ValueError(f"{name}={value!r}: expected a whole number of at least 1")
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel={kernel!r}: expected a kernel of kmc.kernels")
    omega, weight = _draw(kernel, int(count), int(dim), np.random.default_rng(rng))
    return omega, np.full(count, np.sqrt(weight))


def _draw(
    kernel: Kernel, count: int, dim: int, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Return frequencies (count, dim), and k(0)."""
    if isinstance(kernel, Scale):
        omega, weight = _draw(kernel.kernel, count, dim, rng)
        return omega, kernel.factor * weight
    if isinstance(kernel, Metric):
        a = kernel.matrix
        if a.shape[-1] != dim:
            raise ValueError(
                f"dim={dim}: the metric's matrix has {a.shape[-1]} columns, expected the same "
                f"number"
            )
        omega, weight = _draw(kernel.kernel, count, a.shape[0], rng)
        return mapped(omega, a.T), weight  # ω·Ar = Aᵀω·r
    if isinstance(kernel, Sum):
        (f, of_f), (g, of_g) = (
            _draw(kernel.left, count, dim, rng),
            _draw(kernel.right, count, dim, rng),
        )
        first = rng.random(count) * (of_f + of_g) < of_f
        return np.where(first[:, None], f, g), of_f + of_g
    if isinstance(kernel, Product):
        (f, of_f), (g, of_g) = (
            _draw(kernel.left, count, dim, rng),
            _draw(kernel.right, count, dim, rng),
        )
        return f + g, of_f * of_g
    if type(kernel) not in _PRECISIONS:
        raise TypeError(
            f"kernel={kernel!r}: its frequencies are not known, only those of sums, products, "
            f"multiples and metrics of {', '.join(known.__name__ for known in _PRECISIONS)}"
        )
    precision = _PRECISIONS[type(kernel)](kernel, count, rng)
    return np.sqrt(precision)[:, None] * rng.standard_normal((count, dim)), 1.0


def _student(dof):
    return lambda kernel, count, rng: dof / (kernel.bandwidth**2 * rng.chisquare(dof, count))


_PRECISIONS: dict[type, Callable[..., np.ndarray]] = {
    Gaussian: lambda kernel, count, rng: np.full(count, kernel.bandwidth**-2),
    InverseMultiquadric: lambda kernel, count, rng: (
        2.0 / kernel.bandwidth**2 * rng.gamma(kernel.exponent, size=count)
    ),
    Matern52: _student(5.0),
    Matern72: _student(7.0),
    Exponential: _student(1.0),
}
