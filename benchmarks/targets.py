"""The benchmark's problems: log-densities as black boxes, and what is known about each of them.

What is known is stored in ``references.json``, with Monte-Carlo standard errors, and made by ``references.py``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numba import njit

from kmc.targets import lotka_volterra
from kmc.targets.toys import Banana, Bimodal, Gaussian, Ring

REFERENCES = Path(__file__).with_name("references.json")
TAILS = np.array([0.05, 0.95])
"""The probabilities whose quantiles are compared."""


@dataclass(frozen=True)
class Truth:
    """What a perfect run would find, per coordinate."""

    mean: np.ndarray  # (d,)
    sd: np.ndarray  # (d,)
    kurtosis: np.ndarray  # (d,), 3 for a Gaussian
    quantiles: np.ndarray  # (2, d) at TAILS
    slopes: np.ndarray  # (2, d) derivatives of the quantile function there


@dataclass(frozen=True)
class Problem:
    """A log-density, its truth, and where runs start."""

    name: str
    log_density: Callable[[np.ndarray], float]
    dim: int
    truth: Truth

    def initial(self, rng: np.random.Generator, k: int) -> np.ndarray:
        """k over-dispersed starts (k, d): mean + 2 sd, independent coordinates, where the density is positive."""
        starts = np.empty((0, self.dim))
        while len(starts) < k:
            x = self.truth.mean + 2 * self.truth.sd * rng.standard_normal((k, self.dim))
            starts = np.concatenate([starts, x[[math.isfinite(self.log_density(row)) for row in x]]])
        return starts[:k]


def problem(name: str) -> Problem:
    """The problem of that name (a key of :data:`DENSITIES`) with its stored truth."""
    density, reference = DENSITIES[name](), _references()[name]
    truth = Truth(**{key: np.array(value) for key, value in reference["truth"].items()})
    here, stored = density(truth.mean), reference["log_density_at_mean"]
    if not math.isclose(here, stored, abs_tol=1e-3):
        raise ValueError(
            f"the log-density of {name!r} at its stored mean is {here:.4f}, and was {stored:.4f} when the reference "
            f"was made: run `python benchmarks/references.py {name}`"
        )
    return Problem(name, density, density.dim, truth)


@cache
def _references() -> dict:
    return json.loads(REFERENCES.read_text())


class LogisticRegression:
    """Breast cancer (Wisconsin), benign or not, on its first ten columns: weights ~ N(0, 2.5^2), no intercept."""

    dim = 10
    guess = np.zeros(10)

    def __init__(self):
        from sklearn.datasets import load_breast_cancer

        columns, benign = load_breast_cancer(return_X_y=True)
        columns = columns[:, :10]
        self._signed = (columns - columns.mean(0)) / columns.std(0) * np.where(benign, 1, -1)[:, None]

    def __call__(self, x) -> float:
        return _logistic(np.asarray(x, dtype=float), self._signed)


class FitzHughNagumo:
    r"""A spiking neuron seen with noise: x = (a, b, log c, log sd of V, log sd of R).

    .. math:: \dot V = c (V - V^3/3 + R), \quad \dot R = -(V - a + b R) / c, \quad V(0) = -1, R(0) = 1

    Forty observations over 20 units of time, simulated with a = b = .2, c = 3 and noise .5. Priors: a, b ~ N(0, 1),
    log c ~ N(1, 1), the log sds ~ N(-1, 1).
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
    """The demo's posterior without its constant, and with a solver of fixed step in place of its slow black box.

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

DENSITIES = {
    "banana-2d": lambda: Banana(2, b=0.03),
    "gaussian-10d": lambda: Gaussian(10),
    "ring": Ring,
    "bimodal-2d": lambda: Bimodal(2),
    "logistic": LogisticRegression,
    "fitzhugh-nagumo": FitzHughNagumo,
    "demo": LotkaVolterra,
}
"""What makes each log-density: with ``sample(rng, n)`` where exact draws exist, else with a ``guess`` of the mode."""


@njit(cache=True)
def _logistic(x, signed):
    """log prod_i 1 / (1 + exp(-y_i <x, z_i>)) + log prior; a row of `signed` is y_i z_i."""
    total = 0.0
    for margin in signed @ x:
        total += min(margin, 0.0) - math.log1p(math.exp(-abs(margin)))
    return total - 0.5 * (x @ x) / 2.5**2


@njit(cache=True)
def _measured(path, data, log_sd_0, log_sd_1):
    """Gaussian errors of two series, each with its own sd, log sd ~ N(-1, 1). A path that blew up has density 0."""
    total = -0.5 * ((log_sd_0 + 1) ** 2 + (log_sd_1 + 1) ** 2)
    for k, log_sd in enumerate((log_sd_0, log_sd_1)):
        total -= 0.5 * np.sum((data[:, k] - path[:, k]) ** 2) * math.exp(-2 * log_sd) + len(data) * log_sd
    return total if math.isfinite(total) else -math.inf


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
