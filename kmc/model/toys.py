"""Small targets with known answers: a normalized log-density and exact independent draws of each.

They are for tests, benchmarks and examples. Every target has ``dim``, is called with a point of
shape (d,) and returns a float, and draws with ``sample(rng, n)``, shape (n, d).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular, toeplitz
from scipy.special import ndtr

LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class Gaussian:
    """A centered Gaussian with autoregressive correlations and coordinates on different scales.

    The correlation of coordinates i and j is ``correlation ** |i - j|``; their standard deviations
    run geometrically from ``1 / spread`` to ``spread``. ``Gaussian(d, correlation=0, spread=1)`` is
    the standard normal.

    Examples
    --------
    >>> import numpy as np
    >>> target = Gaussian(2, correlation=0.5, spread=1)
    >>> round(target(np.array([1.0, 1.0])), 4)
    -2.3607
    >>> target.sample(np.random.default_rng(0), 3).shape
    (3, 2)
    """

    dim: int = 10
    correlation: float = 0.9
    spread: float = 10.0

    def __call__(self, x) -> float:
        z = self._whitener @ x
        return self._log_peak - 0.5 * float(z @ z)

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return independent exact draws, shape (n, dim)."""
        return rng.standard_normal((n, self.dim)) @ self._root.T

    @cached_property
    def covariance(self) -> np.ndarray:
        """The covariance matrix, shape (dim, dim)."""
        scales = np.geomspace(1 / self.spread, self.spread, self.dim)
        return toeplitz(float(self.correlation) ** np.arange(self.dim)) * np.outer(scales, scales)

    @cached_property
    def _root(self) -> np.ndarray:
        return np.linalg.cholesky(self.covariance)

    @cached_property
    def _whitener(self) -> np.ndarray:
        return solve_triangular(self._root, np.eye(self.dim), lower=True)

    @cached_property
    def _log_peak(self) -> float:
        return float(-0.5 * self.dim * LOG_2PI - np.log(np.diag(self._root)).sum())


@dataclass(frozen=True)
class Banana:
    r"""A Gaussian with a bent second axis.

    .. math:: x_1 \sim N(0, 100), \quad x_2 + b x_1^2 - 100 b \sim N(0, 1), \quad
        x_3, \dots, x_d \sim N(0, 1)

    References
    ----------
    Haario, Saksman and Tamminen (1999), Adaptive proposal distribution for random walk Metropolis
    algorithm, Computational Statistics 14, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> round(Banana(b=0.03)(np.array([10.0, 0.0])), 4)
    -4.6405
    """

    dim: int = 2
    b: float = 0.03

    def __call__(self, x) -> float:
        x1 = float(x[0])
        x2 = float(x[1]) + self.b * (x1 * x1 - 100)
        square = 0.01 * x1 * x1 + x2 * x2
        if self.dim > 2:
            rest = x[2:]
            square += float(rest @ rest)
        return -0.5 * (square + self.dim * LOG_2PI) - math.log(10)

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return independent exact draws, shape (n, dim)."""
        x = rng.standard_normal((n, self.dim))
        x[:, 0] *= 10
        x[:, 1] -= self.b * (x[:, 0] ** 2 - 100)
        return x


@dataclass(frozen=True)
class Bimodal:
    """Two unit Gaussians, ``separation`` apart along the diagonal (1, ..., 1).

    ``weight`` is that of the upper one. At the default separation of 6 standard deviations the
    saddle lies 4.5 nats below the modes.

    Examples
    --------
    >>> import numpy as np
    >>> round(Bimodal(2)(np.zeros(2)), 4)
    -6.3379
    """

    dim: int = 2
    separation: float = 6.0
    weight: float = 0.5

    def __call__(self, x) -> float:
        # |x -+ m|^2 = |x|^2 -+ 2 <m, x> + |m|^2 with m = (shift, ..., shift)
        along = self._shift * float(np.add.reduce(x))
        mixture = np.logaddexp(math.log(self.weight) + along, math.log1p(-self.weight) - along)
        return float(mixture) - 0.5 * (
            float(x @ x) + 0.25 * self.separation**2 + self.dim * LOG_2PI
        )

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return independent exact draws, shape (n, dim)."""
        upper = rng.random((n, 1)) < self.weight
        return rng.standard_normal((n, self.dim)) + np.where(upper, self._shift, -self._shift)

    @cached_property
    def _shift(self) -> float:
        return 0.5 * self.separation / math.sqrt(self.dim)


@dataclass(frozen=True)
class Ring:
    r"""A ring in the plane, :math:`p(x) \propto \exp(-(|x| - R)^2 / 2 w^2)`.

    It is the flower target of Sejdinovic et al. (2014), Kernel adaptive Metropolis-Hastings,
    without its petals.

    Examples
    --------
    >>> import numpy as np
    >>> round(Ring()(np.array([0.0, 3.0])), 4)
    -2.6515
    """

    radius: float = 3.0
    width: float = 0.3
    dim = 2

    def __call__(self, x) -> float:
        z = (math.hypot(x[0], x[1]) - self.radius) / self.width
        return self._log_peak - 0.5 * z * z

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return independent exact draws, shape (n, dim)."""
        # The radius has density ~ r N(r; R, w^2), and r / R <= exp(r / R - 1): N(R + w^2 / R, w^2)
        # is an envelope.
        r = np.empty(0)
        while len(r) < n:
            proposal = rng.normal(self.radius + self.width**2 / self.radius, self.width, n)
            keep = rng.random(n) < proposal / self.radius * np.exp(1 - proposal / self.radius)
            r = np.append(r, proposal[keep])
        angle = rng.uniform(0, 2 * np.pi, n)
        return r[:n, None] * np.column_stack([np.cos(angle), np.sin(angle)])

    @cached_property
    def _log_peak(self) -> float:
        # int_0^inf r exp(-(r - R)^2 / 2 w^2) dr = w^2 exp(-R^2 / 2 w^2) + R w sqrt(2 pi) Phi(R / w)
        ratio = self.radius / self.width
        mass = self.width**2 * (
            math.exp(-0.5 * ratio**2) + ratio * math.sqrt(2 * math.pi) * ndtr(ratio)
        )
        return -LOG_2PI - math.log(mass)
