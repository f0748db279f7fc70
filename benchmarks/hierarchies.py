"""Hierarchical targets of ``shapes.py`` with independent draws: given a few scales, the rest is nearly Gaussian.

The scales (logs of standard deviations and of a length) are proposed by a Student-t around the mode of their marginal
density, the rest by the Laplace approximation given the scales, and the draws are resampled by importance weights.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import approx_fprime, minimize
from scipy.special import gammaln
from scipy.stats import multivariate_t

_CHUNK = 2000
_FREEDOM, _WIDER = 5, 1.2  # of the proposals for scales
_NEWTON = 8  # steps to the mode of the rest
_FEWEST_EFFECTIVE = 0.3  # of the draws, by their weights


class _Hierarchy:
    """A density of x = (rest, scales); subclasses give ``log_densities``, ``_derivatives`` and ``_start``."""

    n_rest: int
    n_scales: int

    @property
    def dim(self) -> int:
        """The number of parameters."""
        return self.n_rest + self.n_scales

    def __call__(self, x) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(self.log_densities(np.asarray(x, dtype=float)[None])[0])
        return value if np.isfinite(value) else -np.inf

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws (n, d), independent but for a few that occur twice."""
        mode = minimize(lambda s: -self._laplace(s[None])[2][0], self._start()[1], method="Nelder-Mead").x
        slope = lambda s: approx_fprime(s, lambda t: -self._laplace(t[None])[2][0], 1e-4)  # noqa: E731
        hessian = np.array([(slope(mode + step) - slope(mode - step)) / 0.2 for step in 0.1 * np.eye(self.n_scales)])
        scales_law = multivariate_t(mode, _WIDER**2 * np.linalg.inv(0.5 * (hessian + hessian.T)), df=_FREEDOM)
        parts = [self._proposed(rng, scales_law, min(_CHUNK, n - k)) for k in range(0, n, _CHUNK)]
        x, log_weights = (np.concatenate(rows) for rows in zip(*parts, strict=True))
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        effective = 1.0 / np.sum(weights**2)
        if effective < _FEWEST_EFFECTIVE * n:
            raise ValueError(
                f"importance sampling of {type(self).__name__} gave {effective:.0f} effective draws of {n}"
            )
        return x[rng.choice(n, n, p=weights)]

    def _proposed(self, rng, scales_law, n):
        scales = scales_law.rvs(n, random_state=rng).reshape(n, self.n_scales)
        mean, root, _ = self._laplace(scales)
        unit = rng.standard_normal((n, self.n_rest, 1))
        rest = mean + np.linalg.solve(np.swapaxes(root, 1, 2), unit)[..., 0]
        log_rest = np.sum(np.log(np.diagonal(root, axis1=1, axis2=2)), axis=1) - 0.5 * np.sum(unit[..., 0] ** 2, axis=1)
        x = np.hstack([rest, scales])
        return x, self.log_densities(x) - log_rest - scales_law.logpdf(scales)

    def _laplace(self, scales):
        """For scales (n, s): mode (n, r), Cholesky root of the precision (n, r, r), and log marginal density (n,)."""
        rest = np.tile(self._start()[0], (len(scales), 1))
        for _ in range(_NEWTON):
            gradient, precision = self._derivatives(rest, scales)
            rest = rest + np.linalg.solve(precision, gradient[..., None])[..., 0]
        root = np.linalg.cholesky(self._derivatives(rest, scales)[1])
        half_log_det = np.sum(np.log(np.diagonal(root, axis1=1, axis2=2)), axis=1)
        return rest, root, self.log_densities(np.hstack([rest, scales])) - half_log_det


class GrowthCurves(_Hierarchy):
    """A line for each of twelve animals, centered, as in the rats of BUGS; d = 29.

    x = (intercepts, slopes, mean intercept, mean slope, and the logs of the sds of intercepts, slopes and noise).
    """

    n_animals, n_scales = 12, 3
    n_rest = 2 * n_animals + 2
    times = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])

    def __init__(self):
        rng, n = np.random.default_rng(3), self.n_animals
        intercepts, slopes = 24.0 + 1.4 * rng.standard_normal(n), 6.2 + 0.5 * rng.standard_normal(n)
        noise = 0.6 * rng.standard_normal((n, len(self.times)))
        self.weights = intercepts[:, None] + slopes[:, None] * self.times + noise

    def _start(self):
        n = self.n_animals
        return np.concatenate([np.full(n, 24.0), np.full(n, 6.0), [24.0, 6.0]]), np.array([0.3, -0.7, -0.5])

    def log_densities(self, x):
        """Of the rows of x (k, d)."""
        n = self.n_animals
        a, b, means, scales = x[:, :n], x[:, n : 2 * n], x[:, 2 * n : 2 * n + 2], x[:, -3:]
        inverse = np.exp(-scales)
        residuals = (self.weights - a[..., None] - b[..., None] * self.times) * inverse[:, 2, None, None]
        square = np.sum(residuals**2, axis=(1, 2)) + np.sum((means / 100) ** 2, axis=1) + np.sum(scales**2, axis=1)
        square += np.sum(((a - means[:, :1]) * inverse[:, :1]) ** 2, axis=1)
        square += np.sum(((b - means[:, 1:]) * inverse[:, 1:2]) ** 2, axis=1)
        return -0.5 * square - scales @ [n, n, self.weights.size]

    def _derivatives(self, rest, scales):
        """Gradient and minus the Hessian in the rest: exact, as the rest is Gaussian."""
        n, k = self.n_animals, len(rest)
        one_a, one_b, one_y = np.exp(-2.0 * scales).T[:, :, None]
        precision = np.zeros((k, self.n_rest, self.n_rest))
        i = np.arange(n)
        precision[:, i, i] = one_a + len(self.times) * one_y
        precision[:, n + i, n + i] = one_b + np.sum(self.times**2) * one_y
        for at, mean, one in ((i, 2 * n, one_a), (n + i, 2 * n + 1, one_b)):
            precision[:, at, mean] = precision[:, mean, at] = -one
            precision[:, mean, mean] = n * one[:, 0] + 1e-4
        linear = np.zeros((k, self.n_rest))
        linear[:, :n] = one_y * self.weights.sum(1)
        linear[:, n : 2 * n] = one_y * (self.weights @ self.times)
        return linear - np.einsum("kij,kj->ki", precision, rest), precision


class LatentPoisson(_Hierarchy):
    """Counts with the log of their rate a Gaussian process of unknown scale and length; d = 13.

    x = (the process at ten points, its mean, the logs of its sd and of its length scale).
    """

    n_points, n_scales = 10, 2
    n_rest = n_points + 1

    def __init__(self):
        self.places = np.linspace(0.0, 1.0, self.n_points)
        rate = np.exp(1.2 + 1.1 * np.sin(5.0 * self.places))
        self.counts = np.random.default_rng(4).poisson(rate)

    def _start(self):
        return np.append(np.zeros(self.n_points), np.log(self.counts.mean())), np.array([0.0, -1.5])

    def _kernel(self, scales):
        gaps = self.places[:, None] - self.places
        sd, length = np.exp(scales).T[:, :, None, None]
        return sd**2 * (np.exp(-0.5 * (gaps / length) ** 2) + 1e-4 * np.eye(self.n_points))

    def log_densities(self, x):
        """Of the rows of x (k, d)."""
        f, mean, scales = x[:, : self.n_points], x[:, self.n_points], x[:, -2:]
        root = np.linalg.cholesky(self._kernel(np.clip(scales, -20.0, 20.0)))
        white = np.linalg.solve(root, f[..., None])[..., 0]
        log_det = np.sum(np.log(np.diagonal(root, axis1=1, axis2=2)), axis=1)
        log_rate = f + mean[:, None]
        likelihood = np.sum(self.counts * log_rate - np.exp(log_rate) - gammaln(self.counts + 1), axis=1)
        prior = (mean / 3) ** 2 + scales[:, 0] ** 2 + ((scales[:, 1] + 1.5) / 0.7) ** 2
        value = likelihood - log_det - 0.5 * (np.sum(white**2, axis=1) + prior)
        return np.where(np.all(np.abs(scales) < 20.0, axis=1), value, -np.inf)

    def _derivatives(self, rest, scales):
        n = self.n_points
        inverse = np.linalg.inv(self._kernel(scales))
        rate = np.exp(rest[:, :n] + rest[:, n:])
        gradient = np.zeros_like(rest)
        gradient[:, :n] = self.counts - rate - np.einsum("kij,kj->ki", inverse, rest[:, :n])
        gradient[:, n] = np.sum(self.counts - rate, axis=1) - rest[:, n] / 9
        precision = np.zeros((len(rest), n + 1, n + 1))
        precision[:, :n, :n] = inverse
        i = np.arange(n)
        precision[:, i, i] += rate
        precision[:, i, n] = precision[:, n, i] = rate
        precision[:, n, n] = rate.sum(1) + 1 / 9
        return gradient, precision
