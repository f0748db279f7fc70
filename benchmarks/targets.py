"""The benchmark's problems: log-densities as black boxes, and the truth about each of them.

The truth is stored in ``references.json`` and made by ``references.py``: by closed forms and
quadrature if they exist, otherwise by importance sampling, with Monte Carlo standard errors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from kmc.model import lotka_volterra
from kmc.model.toys import Banana, Bimodal, Gaussian, Ring

REFERENCES = Path(__file__).with_name("references.json")
TAILS = np.array([0.05, 0.95])
"""The probabilities whose quantiles are compared."""


@dataclass(frozen=True)
class Truth:
    """The results of a perfect run, per coordinate."""

    mean: np.ndarray  # (d,)
    sd: np.ndarray  # (d,)
    kurtosis: np.ndarray  # (d,), 3 for a Gaussian
    quantiles: np.ndarray  # (2, d) at TAILS
    slopes: np.ndarray  # (2, d) derivatives of the quantile function there


@dataclass(frozen=True)
class Problem:
    """A log-density, its truth, and its start points."""

    name: str
    log_density: Callable[[np.ndarray], float]
    dim: int
    truth: Truth
    noisy: bool = False

    def black_box(self, seed: int) -> Callable[[np.ndarray], float]:
        """The function for a sampler: the log-density, or the log of unbiased estimates of the
        density.
        """
        return (
            Noisy(self.log_density, np.random.default_rng([seed, 1]))
            if self.noisy
            else self.log_density
        )

    def initial(self, rng: np.random.Generator, k: int) -> np.ndarray:
        """k over-dispersed starts (k, d): mean + 2 sd, independent coordinates, where the density
        is positive.
        """
        starts = np.empty((0, self.dim))
        while len(starts) < k:
            x = self.truth.mean + 2 * self.truth.sd * rng.standard_normal((k, self.dim))
            starts = np.concatenate(
                [starts, x[[math.isfinite(self.log_density(row)) for row in x]]]
            )
        return starts[:k]


@dataclass(frozen=True)
class Noisy:
    """A log-density plus normal noise of sd 1, drawn anew at every call: the exponential of the
    noise has mean 1.
    """

    log_density: Callable[[np.ndarray], float]
    rng: np.random.Generator

    def __call__(self, x) -> float:
        return self.log_density(x) + self.rng.standard_normal() - 0.5


def problem(name: str) -> Problem:
    """The problem of that name (one of :data:`TARGETS`) with its stored truth."""
    exact = NOISY.get(name, name)
    density = DENSITIES[exact]()
    return Problem(name, density, density.dim, stored_truth(exact, density), noisy=name in NOISY)


def stored_truth(name: str, density: Any) -> Truth:
    """The truth in references.json, if it was made for this density."""
    reference = _references()[name]
    truth = Truth(**{key: np.array(value) for key, value in reference["truth"].items()})
    here, stored = density(truth.mean), reference["log_density_at_mean"]
    if not math.isclose(here, stored, abs_tol=1e-3):
        raise ValueError(
            f"the log-density of {name!r} at its stored mean is {here:.4f}, and was {stored:.4f} "
            f"when the reference was made: run `python benchmarks/references.py {name}`"
        )
    return truth


@cache
def _references() -> dict:
    return json.loads(REFERENCES.read_text())


@dataclass(frozen=True)
class Funnel:
    r"""Neal's funnel, :math:`x_1 \sim N(0, \mathrm{sd}^2)` and :math:`x_i \sim N(0, e^{x_1})` for i
    > 1.
    """

    sd: float
    dim: int = 5

    def __call__(self, x) -> float:
        log_variance, rest = float(x[0]), x[1:]
        if log_variance < -700:
            return -math.inf
        square = (log_variance / self.sd) ** 2 + math.exp(-log_variance) * float(rest @ rest)
        return -0.5 * (square + (self.dim - 1) * log_variance)

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent exact draws, shape (n, dim)."""
        x = rng.standard_normal((n, self.dim))
        x[:, 0] *= self.sd
        x[:, 1:] *= np.exp(0.5 * x[:, :1])
        return x


@dataclass(frozen=True)
class StudentT:
    """The multivariate Student-t around 0 with unit scale matrix."""

    dim: int = 5
    freedom: float = 3.0

    def __call__(self, x) -> float:
        return -0.5 * (self.freedom + self.dim) * math.log1p(float(x @ x) / self.freedom)

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent exact draws, shape (n, dim)."""
        return rng.standard_normal((n, self.dim)) / np.sqrt(
            rng.chisquare(self.freedom, (n, 1)) / self.freedom
        )


@dataclass(frozen=True)
class LogGamma:
    """Logarithms of independent Gamma variables: long tails to the left, walls to the right."""

    shapes: np.ndarray = field(default_factory=lambda: np.array([0.5, 1.0, 2.0, 4.0, 8.0]))
    dim = 5

    def __call__(self, x) -> float:
        if x.max() > 700:
            return -math.inf
        return float(self.shapes @ x - np.add.reduce(np.exp(x)))

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent exact draws, shape (n, dim)."""
        # a shape below 1 would underflow
        small = np.log(rng.gamma(self.shapes + 1, size=(n, self.dim)))
        return small + np.log(rng.random((n, self.dim))) / self.shapes


@dataclass(frozen=True)
class Cone:
    """The density exp(-|x|) of ``pints.toy.ConeLogPDF``, with its kink at 0."""

    dim: int = 4

    def __call__(self, x) -> float:
        return -math.sqrt(float(x @ x))

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent exact draws, shape (n, dim)."""
        x = rng.standard_normal((n, self.dim))
        return x * (rng.gamma(self.dim, size=n) / np.linalg.norm(x, axis=1))[:, None]


class EightSchools:
    """Rubin's eight schools, non-centered: x = (mu, log tau, eta).

    mu ~ N(0, 5^2), tau ~ half-Cauchy(5), eta ~ N(0, I), and school j reports mu + tau eta_j with a
    known error.
    """

    dim = 10
    effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

    def __call__(self, x) -> float:
        mu, log_tau, eta = float(x[0]), float(x[1]), x[2:]
        if log_tau > 300:
            return -math.inf
        tau = math.exp(log_tau)
        z = (self.effects - mu - tau * eta) / self.errors
        return (
            log_tau
            - math.log1p(tau * tau / 25)
            - 0.5 * (mu * mu / 25 + float(z @ z) + float(eta @ eta))
        )


class LogisticGrowth:
    """Growth to a plateau as in ``pints.toy.LogisticModel``: x = (log r, log k, log sd), each ~
    N(truth, 2^2).

    One hundred observations of a population that begins at 2, with r = .1, k = 50 and noise of sd
    5.
    """

    dim = 3
    guess = np.log([0.1, 50.0, 5.0])

    def __init__(self):
        self._times = np.linspace(0, 100, 100)
        path = _logistic_growth(0.1, 50.0, self._times)
        self._data = path + 5.0 * np.random.default_rng(1838).standard_normal(path.shape)

    def __call__(self, x) -> float:
        x = np.asarray(x, dtype=float)
        if np.abs(x).max() > 50:
            return -math.inf
        path = _logistic_growth(math.exp(x[0]), math.exp(x[1]), self._times)
        z = (x - self.guess) / 2
        return _residual(path, self._data, x[2]) - 0.5 * float(z @ z)


class Oscillator:
    """A damped spring as in ``pints.toy.SimpleHarmonicOscillatorModel``: x = (position, speed, log
    damping, log sd).

    One hundred observations over 50 units of time from position 1 at rest, with damping .15 and
    noise of sd .1. Priors: N(0, 1) for position and speed, N(-1, 2^2) for the logarithms.
    """

    dim = 4
    guess = np.array([1.0, 0.0, math.log(0.15), math.log(0.1)])

    def __init__(self):
        self._times = np.linspace(0, 50, 100)
        path = _oscillation(1.0, 0.0, 0.15, self._times)
        self._data = path + 0.1 * np.random.default_rng(1678).standard_normal(path.shape)

    def __call__(self, x) -> float:
        x = np.asarray(x, dtype=float)
        if np.abs(x[2:]).max() > 50:
            return -math.inf
        path = _oscillation(x[0], x[1], math.exp(x[2]), self._times)
        prior = x[0] ** 2 + x[1] ** 2 + ((x[2] + 1) / 2) ** 2 + ((x[3] + 1) / 2) ** 2
        return _residual(path, self._data, x[3]) - 0.5 * float(prior)


class LogisticRegression:
    """Breast cancer (Wisconsin), benign or not, on its first ten columns: weights ~ N(0, 2.5^2), no
    intercept.
    """

    dim = 10
    guess = np.zeros(10)

    def __init__(self):
        from sklearn.datasets import load_breast_cancer

        columns, benign = load_breast_cancer(return_X_y=True)
        columns = columns[:, :10]
        self._signed = (
            (columns - columns.mean(0)) / columns.std(0) * np.where(benign, 1, -1)[:, None]
        )

    def __call__(self, x) -> float:
        return _logistic(np.asarray(x, dtype=float), self._signed)


class FitzHughNagumo:
    r"""A spiking neuron observed with noise: x = (a, b, log c, log sd of V, log sd of R).

    .. math::

        \dot V = c (V - V^3/3 + R), \quad \dot R = -(V - a + b R) / c, \quad V(0) = -1, R(0) = 1

    Forty observations over 20 units of time, simulated with a = b = .2, c = 3 and noise .5. Priors:
    a, b ~ N(0, 1), log c ~ N(1, 1), the log sds ~ N(-1, 1).
    """

    dim = 5
    guess = np.array([0.2, 0.2, math.log(3), math.log(0.5), math.log(0.5)])

    def __init__(self):
        path = _fitzhugh_nagumo(0.2, 0.2, 3.0)
        self._data = path + 0.5 * np.random.default_rng(1961).standard_normal(path.shape)

    def __call__(self, x) -> float:
        a, b, log_c = float(x[0]), float(x[1]), float(x[2])
        if abs(log_c) > 5:
            return -math.inf
        path = _fitzhugh_nagumo(a, b, math.exp(log_c))
        return _measured(path, self._data, x[3], x[4]) - 0.5 * (a * a + b * b + (log_c - 1) ** 2)


class LotkaVolterra:
    """The demo's posterior without its constant, and with a fixed-step solver instead of its slow
    black box.

    ``references.py`` checks that the two densities agree.
    """

    dim = 8
    guess = np.log([mean for mean, _ in lotka_volterra.PUBLISHED.values()])

    def __init__(self):
        self._data = np.log(lotka_volterra.PELTS)

    def __call__(self, x) -> float:
        if np.abs(x).max() > 50:
            return -math.inf
        rates = np.exp(x[:4])
        path = _lotka_volterra(rates, x[4], x[5])
        prior = _measured(path, self._data, x[6], x[7]) + float(np.add.reduce(x[:4]))
        z_rates = (rates - _RATES) / _RATES_SD
        z_start = x[4:6] - math.log(10)
        return prior - 0.5 * float(z_rates @ z_rates + z_start @ z_start)


_RATES, _RATES_SD = np.array([1.0, 0.05, 1.0, 0.05]), np.array([0.5, 0.05, 0.5, 0.05])

DENSITIES: dict[str, Callable[[], Any]] = {
    "banana-2d": lambda: Banana(2, b=0.03),
    "banana-2d-b.1": lambda: Banana(2, b=0.1),
    "banana-8d": lambda: Banana(8, b=0.03),
    "banana-8d-b.1": lambda: Banana(8, b=0.1),
    "gaussian-10d": lambda: Gaussian(10),
    "gaussian-30d": lambda: Gaussian(30),
    "gaussian-50d": lambda: Gaussian(50),
    "ring": Ring,
    "bimodal-2d": lambda: Bimodal(2),
    "bimodal-5d": lambda: Bimodal(5),
    "logistic": LogisticRegression,
    "fitzhugh-nagumo": FitzHughNagumo,
    "demo": LotkaVolterra,
    "funnel-5d-sd1": lambda: Funnel(1.0),
    "funnel-5d-sd3": lambda: Funnel(3.0),
    "student-t-5d": StudentT,
    "log-gamma-5d": LogGamma,
    "eight-schools": EightSchools,
    "twisted-gaussian-10d": lambda: Banana(10, b=0.1),
    "pints-logistic": LogisticGrowth,
    "pints-oscillator": Oscillator,
    "pints-cone": Cone,
}
"""Constructors of the log-densities: those without a closed form have a ``guess`` of the mode."""

NOISY = {
    f"noisy-{name}": name for name in ("banana-2d", "gaussian-10d", "bimodal-2d", "funnel-5d-sd1")
}
"""Problems with noisy evaluations, and their log-densities without noise."""

TARGETS = (*DENSITIES, *NOISY)


@njit(cache=True)
def _logistic(x, signed):
    """log prod_i 1 / (1 + exp(-y_i <x, z_i>)) + log prior; a row of `signed` is y_i z_i."""
    total = 0.0
    for margin in signed @ x:
        total += min(margin, 0.0) - math.log1p(math.exp(-abs(margin)))
    return total - 0.5 * (x @ x) / 2.5**2


@njit(cache=True)
def _measured(path, data, log_sd_0, log_sd_1):
    """Gaussian errors of two series, each with its own sd, log sd ~ N(-1, 1). A path that diverged
    has density 0.
    """
    total = -0.5 * ((log_sd_0 + 1) ** 2 + (log_sd_1 + 1) ** 2)
    for k, log_sd in enumerate((log_sd_0, log_sd_1)):
        total -= (
            0.5 * np.sum((data[:, k] - path[:, k]) ** 2) * math.exp(-2 * log_sd)
            + len(data) * log_sd
        )
    return total if math.isfinite(total) else -math.inf


@njit(cache=True)
def _residual(path, data, log_sd):
    """Gaussian errors of one series. A path with NaN has density 0."""
    total = -0.5 * np.sum((data - path) ** 2) * math.exp(-2 * log_sd) - len(data) * log_sd
    return total if math.isfinite(total) else -math.inf


@njit(cache=True, error_model="numpy")
def _logistic_growth(r, k, times):
    """k / (1 + (k / 2 - 1) exp(-r t))."""
    return k / (1 + (k / 2 - 1) * np.exp(-r * times))


@njit(cache=True, error_model="numpy")
def _oscillation(position, speed, damping, times):
    """The solution of y'' = -y - damping y', at any damping."""
    rate = 0.5 * damping
    square = 1 - rate * rate
    path = np.empty_like(times)
    for i, t in enumerate(times):
        if square > 0:
            root = math.sqrt(square)
            even, odd = (
                math.cos(root * t) * math.exp(-rate * t),
                math.sin(root * t) / root * math.exp(-rate * t),
            )
        elif square < 0:
            root = math.sqrt(-square)
            slow, fast = math.exp((root - rate) * t), math.exp(-(root + rate) * t)
            even, odd = 0.5 * (slow + fast), 0.5 * (slow - fast) / root
        else:
            even, odd = math.exp(-t), t * math.exp(-t)
        path[i] = position * even + (speed + rate * position) * odd
    return path


@njit(cache=True)
def _fitzhugh_nagumo(a, b, c):
    """(V, R) at times .5, 1, ..., 20."""
    path = np.empty((40, 2))
    v, r = -1.0, 1.0
    for i in range(len(path)):
        for _ in range(10):
            v, r = _runge_kutta(_neuron, (a, b, c), v, r, 0.05)
        path[i] = v, r
    return path


@njit(cache=True)
def _lotka_volterra(rates, p, q):
    """Log populations (p, q) in the years 0, 1, ..., 20."""
    path = np.empty((21, 2))
    path[0] = p, q
    for i in range(1, len(path)):
        for _ in range(25):
            p, q = _runge_kutta(_predation, (rates[0], rates[1], rates[2], rates[3]), p, q, 0.04)
        path[i] = p, q
    return path


@njit(error_model="numpy")
def _neuron(parameters, v, r):
    a, b, c = parameters
    return c * (v - v * v * v / 3 + r), -(v - a + b * r) / c


@njit
def _predation(parameters, p, q):
    """p' = alpha - beta e^q, q' = delta e^p - gamma."""
    alpha, beta, gamma, delta = parameters
    return alpha - beta * math.exp(q), delta * math.exp(p) - gamma


@njit
def _runge_kutta(slope, parameters, x, y, h):
    """One classical fourth-order step of x', y' = slope(parameters, x, y)."""
    x1, y1 = slope(parameters, x, y)
    x2, y2 = slope(parameters, x + h / 2 * x1, y + h / 2 * y1)
    x3, y3 = slope(parameters, x + h / 2 * x2, y + h / 2 * y2)
    x4, y4 = slope(parameters, x + h * x3, y + h * y3)
    return x + h / 6 * (x1 + 2 * x2 + 2 * x3 + x4), y + h / 6 * (y1 + 2 * y2 + 2 * y3 + y4)
