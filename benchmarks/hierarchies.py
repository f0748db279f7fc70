"""Targets of ``shapes.py`` and ``structured.py`` with independent draws: given a few scales, the
rest is nearly normal.

The scales (logs of standard deviations and of a length) are proposed by a Student-t around the mode
of their marginal density, the rest by the Laplace approximation given the scales, and the draws are
resampled by importance weights. Where the rest is less nearly normal, the weights are uneven, and
each draw then moves by a Metropolis chain of its own.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import approx_fprime, minimize
from scipy.special import gammaln
from scipy.stats import multivariate_t

_CHUNK = 2000
_FREEDOM, _WIDER = 5, 1.2  # of the proposals for scales
_NEWTON = 8  # steps to the mode of the rest


class _Hierarchy:
    """A density of x = (rest, scales); subclasses give ``log_densities``, ``_derivatives`` and
    ``_start``.
    """

    n_rest: int
    n_scales: int
    fewest_effective = 0.3  # of the draws, by their weights

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
        mode = minimize(
            lambda s: -self._laplace(s[None])[2][0], self._start()[1], method="Nelder-Mead"
        ).x
        slope = lambda s: approx_fprime(s, lambda t: -self._laplace(t[None])[2][0], 1e-4)  # noqa: E731
        hessian = np.array(
            [
                (slope(mode + step) - slope(mode - step)) / 0.2
                for step in 0.1 * np.eye(self.n_scales)
            ]
        )
        scales_law = multivariate_t(
            mode, _WIDER**2 * np.linalg.inv(0.5 * (hessian + hessian.T)), df=_FREEDOM
        )
        parts = [self._proposed(rng, scales_law, min(_CHUNK, n - k)) for k in range(0, n, _CHUNK)]
        x, log_weights = (np.concatenate(rows) for rows in zip(*parts, strict=True))
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        effective = 1.0 / np.sum(weights**2)
        if effective < self.fewest_effective * n:
            raise ValueError(
                f"importance sampling of {type(self).__name__} gave {effective:.0f} effective "
                f"draws of {n}"
            )
        return x[rng.choice(n, n, p=weights)]

    def _proposed(self, rng, scales_law, n):
        scales = scales_law.rvs(n, random_state=rng).reshape(n, self.n_scales)
        mean, root, _ = self._laplace(scales)
        unit = rng.standard_normal((n, self.n_rest, 1))
        rest = mean + np.linalg.solve(np.swapaxes(root, 1, 2), unit)[..., 0]
        log_rest = np.sum(np.log(np.diagonal(root, axis1=1, axis2=2)), axis=1) - 0.5 * np.sum(
            unit[..., 0] ** 2, axis=1
        )
        x = np.hstack([rest, scales])
        return x, self.log_densities(x) - log_rest - scales_law.logpdf(scales)

    def _laplace(self, scales):
        """For scales (n, s): mode (n, r), Cholesky root of the precision (n, r, r), and log
        marginal density (n,).
        """
        rest = np.tile(self._start()[0], (len(scales), 1))
        for _ in range(_NEWTON):
            gradient, precision = self._derivatives(rest, scales)
            rest = rest + np.linalg.solve(precision, gradient[..., None])[..., 0]
        root = np.linalg.cholesky(self._derivatives(rest, scales)[1])
        half_log_det = np.sum(np.log(np.diagonal(root, axis1=1, axis2=2)), axis=1)
        return rest, root, self.log_densities(np.hstack([rest, scales])) - half_log_det


class GrowthCurves(_Hierarchy):
    """A line for each of twelve animals, centered, as in the rats of BUGS; d = 29.

    x = (intercepts, slopes, mean intercept, mean slope, and the logs of the sds of intercepts,
    slopes and noise).
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
        return np.concatenate([np.full(n, 24.0), np.full(n, 6.0), [24.0, 6.0]]), np.array(
            [0.3, -0.7, -0.5]
        )

    def log_densities(self, x):
        """Of the rows of x (k, d)."""
        n = self.n_animals
        a, b, means, scales = x[:, :n], x[:, n : 2 * n], x[:, 2 * n : 2 * n + 2], x[:, -3:]
        inverse = np.exp(-scales)
        residuals = (self.weights - a[..., None] - b[..., None] * self.times) * inverse[
            :, 2, None, None
        ]
        square = (
            np.sum(residuals**2, axis=(1, 2))
            + np.sum((means / 100) ** 2, axis=1)
            + np.sum(scales**2, axis=1)
        )
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
        likelihood = np.sum(
            self.counts * log_rate - np.exp(log_rate) - gammaln(self.counts + 1), axis=1
        )
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


class RandomWalk(_Hierarchy):
    """A random walk of thirty steps with unknown scales, seen with noise but for ten steps in its
    middle; d = 32.

    x = (the walk, the logs of the sds of its steps and of the noise).
    """

    n_rest, n_scales = 30, 2
    seen = np.r_[0:10, 20:30]

    def __init__(self):
        rng = np.random.default_rng(6)
        walk = np.cumsum(0.5 * rng.standard_normal(self.n_rest))
        self.data = walk[self.seen] + 0.3 * rng.standard_normal(len(self.seen))

    def _start(self):
        return np.zeros(self.n_rest), np.array([-0.7, -1.2])

    def log_densities(self, x):
        """Of the rows of x (k, d)."""
        walk, step, noise = x[:, :-2], x[:, -2], x[:, -1]
        steps = np.diff(walk, axis=1, prepend=0.0) * np.exp(-step)[:, None]
        residuals = (self.data - walk[:, self.seen]) * np.exp(-noise)[:, None]
        square = (
            np.sum(steps**2, axis=1)
            + np.sum(residuals**2, axis=1)
            + (step + 1) ** 2
            + (noise + 1) ** 2
        )
        return -0.5 * square - self.n_rest * step - len(self.seen) * noise

    def _derivatives(self, rest, scales):
        """Gradient and minus the Hessian in the rest: exact, as the rest is Gaussian."""
        one_step, one_noise = np.exp(-2.0 * scales).T[:, :, None, None]
        differences = np.eye(self.n_rest) - np.eye(self.n_rest, k=-1)
        at = np.zeros(self.n_rest)
        at[self.seen] = 1.0
        precision = one_step * (differences.T @ differences) + one_noise * np.diag(at)
        linear = np.zeros((len(rest), self.n_rest))
        linear[:, self.seen] = one_noise[..., 0] * self.data
        return linear - np.einsum("kij,kj->ki", precision, rest), precision


class _OfOutputs(_Hierarchy):
    """Data around outputs that are a smooth function of the rest, with noise of unknown sd, the
    last of the scales.

    Subclasses have ``data``, ``outputs(rest)`` (k, data) and the prior's part of log-densities and
    of derivatives.
    """

    data: np.ndarray
    fewest_effective = 0.01
    n_moves = 1000

    def sample(self, rng, n):
        """Draws (n, d), after moves of each."""
        x = super().sample(rng, n)
        root = 2.4 / np.sqrt(self.dim) * np.linalg.cholesky(np.cov(x, rowvar=False))
        value = self.log_densities(x)
        for _ in range(self.n_moves):
            proposal = x + rng.standard_normal(x.shape) @ root.T
            proposed = self.log_densities(proposal)
            accepted = np.log(rng.random(n)) < proposed - value
            x[accepted], value[accepted] = proposal[accepted], proposed[accepted]
        return x

    def log_densities(self, x):
        """Of the rows of x (k, d)."""
        rest, scales = x[:, : self.n_rest], x[:, self.n_rest :]
        residuals = (self.data - self.outputs(rest)) * np.exp(-scales[:, -1:])
        return (
            self._log_prior(rest, scales)
            - 0.5 * np.sum(residuals**2, axis=1)
            - self.data.size * scales[:, -1]
        )

    def _derivatives(self, rest, scales):
        """Gradient and minus the Hessian in the rest, without second derivatives of the outputs."""
        step = 1e-5
        outputs = self.outputs(rest)
        sides = [self.outputs(rest + row) - outputs for row in step * np.eye(self.n_rest)]
        slopes = np.stack(sides, axis=-1) / step * np.exp(-scales[:, -1])[:, None, None]
        residuals = (self.data - outputs) * np.exp(-scales[:, -1:])
        gradient, precision = self._prior_derivatives(rest, scales)
        return (
            gradient + np.einsum("kji,kj->ki", slopes, residuals),
            precision + np.einsum("kji,kjl->kil", slopes, slopes),
        )


class Subjects(_OfOutputs):
    """Concentrations of a drug in twelve subjects, each with a clearance and a volume of its own; d
    = 29.

    A dose of 100 leaves a compartment, and noise is lognormal. x = (logs of clearances, logs of
    volumes, their two means, and the logs of the sds of clearances, volumes and noise).
    """

    count, n_scales = 12, 3
    n_rest = 2 * count + 2
    times = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 12.0])
    means, mean_sd = np.array([1.0, 3.0]), 1.0

    def __init__(self):
        rng = np.random.default_rng(8)
        own = np.concatenate(
            [
                1.2 + 0.4 * rng.standard_normal(self.count),
                3.2 + 0.25 * rng.standard_normal(self.count),
            ]
        )
        self.data = self.outputs(own[None])[0] + 0.15 * rng.standard_normal(
            self.count * len(self.times)
        )

    def outputs(self, rest):
        """Logs of the concentrations, one subject after the other."""
        clearance, volume = rest[:, : self.count], rest[:, self.count : 2 * self.count]
        rates = np.exp(clearance - volume)
        return (np.log(100.0) - volume[..., None] - rates[..., None] * self.times).reshape(
            len(rest), -1
        )

    def _start(self):
        return np.repeat([1.0, 3.0, 1.0, 3.0], [self.count, self.count, 1, 1]), np.array(
            [-1.0, -1.0, -1.5]
        )

    def _log_prior(self, rest, scales):
        own = rest[:, : 2 * self.count].reshape(len(rest), 2, self.count)
        means = rest[:, -2:]
        z = (own - means[..., None]) * np.exp(-scales[:, :2])[..., None]
        square = (
            np.sum(z**2, axis=(1, 2))
            + np.sum((means - self.means) ** 2, axis=1)
            + np.sum((scales + 1) ** 2, axis=1)
        )
        return -0.5 * square - self.count * scales[:, :2].sum(axis=1)

    def _prior_derivatives(self, rest, scales):
        n, k = self.count, len(rest)
        ones = np.exp(-2.0 * scales[:, :2])
        precision, linear = np.zeros((k, self.n_rest, self.n_rest)), np.zeros(self.n_rest)
        for j in range(2):
            own, mean = np.arange(j * n, (j + 1) * n), 2 * n + j
            precision[:, own, own] = ones[:, j, None]
            precision[:, own, mean] = precision[:, mean, own] = -ones[:, j, None]
            precision[:, mean, mean] = n * ones[:, j] + 1.0
            linear[mean] = self.means[j]
        return linear - np.einsum("kij,kj->ki", precision, rest), precision


class Diffusion(_OfOutputs):
    """The log of a conductivity from the steady state of a diffusion on [0, 1]: - (exp(f) u')' = 1,
    u = 0 at both ends.

    f is a field with standard normal coefficients. x = (the coefficients, the log of the sd of the
    noise).
    """

    n_scales = 1
    places = np.linspace(0.0, 1.0, 101)
    seen = slice(5, 100, 5)

    def __init__(self, coefficients: int):
        self.n_rest = coefficients
        k = np.arange(1, coefficients + 1)
        middles = 0.5 * (self.places[1:] + self.places[:-1])
        self.functions = 1.5 / k[:, None] * np.cos(np.pi * k[:, None] * middles)
        rng = np.random.default_rng(9)
        clean = self.outputs(rng.standard_normal((1, coefficients)))[0]
        self.data = clean + 0.02 * np.abs(clean).max() * rng.standard_normal(len(clean))

    def outputs(self, rest):
        """The state at nineteen places."""
        resistance = np.exp(-np.clip(rest @ self.functions, -30.0, 30.0))
        middles = 0.5 * (self.places[1:] + self.places[:-1])
        flux = (
            np.sum(resistance * middles, axis=1, keepdims=True)
            / np.sum(resistance, axis=1, keepdims=True)
            - middles
        )
        state = np.cumsum(resistance * flux, axis=1) / len(middles)
        return state[:, np.arange(len(self.places))[self.seen] - 1]

    def _start(self):
        return np.zeros(self.n_rest), np.array([np.log(0.02 * np.abs(self.data).max())])

    def _log_prior(self, rest, scales):
        return -0.5 * np.sum(rest**2, axis=1) - 0.5 * ((scales[:, 0] + 5.0) / 2.0) ** 2

    def _prior_derivatives(self, rest, scales):
        return -rest, np.tile(np.eye(self.n_rest), (len(rest), 1, 1))


STORED = {
    "subjects-29d": Subjects,
    "diffusion-9d": lambda: Diffusion(8),
    "diffusion-17d": lambda: Diffusion(16),
}
"""Those whose draws take minutes: references.json has their truths."""
