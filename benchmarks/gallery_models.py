"""Models from PINTS, emcee and bilby, as a :class:`kmc.Model`; ``gallery.py`` samples them.

Equations are solved by a fixed number of Runge-Kutta steps, for many parameters at once. Data are simulated with a
seed, except the influenza in a boarding school (British Medical Journal, 4 March 1978).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import gammaln

import kmc

Arrays = dict[str, np.ndarray]

GROWTH = {"rate": (0.01, 0.02), "capacity": (400.0, 600.0), "noise": (1.0, 100.0)}
GROWTH_TIMES = np.linspace(0.0, 1000.0, 100)
PUPILS, IN_BED = 763, np.array([3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4])
HOLD, STEPS, POTASSIUM = -75.0, np.array([-69.0, -64, -56, -49, -43, -37, -24, -12, 1, 13, 25, 34]), -88.0  # mV
CHANNEL_TIMES = np.arange(0.5, 10.0, 0.5)  # ms
CHANNEL = np.array([0.01, 10.0, 10.0, 0.125, 80.0])
DAYS = np.array([0.3, 1.1, 2.0, 2.7, 3.9, 4.4, 5.8, 6.1, 7.5, 8.2, 9.6, 10.3, 11.7, 12.4, 13.1, 14.8, 15.5, 16.9, 18.2])


def logistic_growth() -> kmc.Model:
    """PINTS: growth up to a capacity."""
    rng = np.random.default_rng(11)
    data = grown(0.015, 500.0) + 10.0 * rng.standard_normal(len(GROWTH_TIMES))

    def log_density(p: Arrays) -> np.ndarray:
        model = grown(p["rate"][:, None], p["capacity"][:, None])
        return normal(data, model, p["noise"][:, None])

    return kmc.Model(log_density, parameters={n: kmc.Interval(*b) for n, b in GROWTH.items()}, vectorized=True)


def grown(rate, capacity):
    """The population, 2 at the start."""
    return capacity / (1.0 + (capacity / 2.0 - 1.0) * np.exp(-rate * GROWTH_TIMES))


def sir() -> kmc.Model:
    """PINTS and Stan: an epidemic of susceptible, infected and recovered, counted with more than Poisson noise."""

    def flow(state, p):
        susceptible, infected = state
        caught = p["contact"] * susceptible * infected / PUPILS
        return np.array([-caught, caught - p["recovery"] * infected])

    def log_density(p: Arrays) -> np.ndarray:
        k = len(p["contact"])
        start = np.array([np.full(k, PUPILS - 1.0), np.ones(k)])
        infected = np.maximum(solved(flow, start, p, len(IN_BED), 1.0, 20)[:, 1].T, 1e-9)
        size = 1.0 / p["excess"][:, None]
        likelihood = gammaln(IN_BED + size) - gammaln(size) + size * np.log(size) + IN_BED * np.log(infected)
        likelihood -= (IN_BED + size) * np.log(size + infected)
        prior = -0.5 * ((p["contact"] - 2.0) / 1.0) ** 2 - 0.5 * ((p["recovery"] - 0.4) / 0.5) ** 2 - 5.0 * p["excess"]
        return likelihood.sum(axis=1) + prior

    names = ("contact", "recovery", "excess")
    parameters = dict.fromkeys(names, kmc.Positive())
    return kmc.Model(log_density, parameters=parameters, vectorized=True, nonfinite="reject")


def fitzhugh_nagumo() -> kmc.Model:
    """PINTS: an excitable membrane."""
    rng = np.random.default_rng(12)

    def flow(state, p):
        voltage, recovery = state
        change = p["c"] * (voltage - voltage**3 / 3.0 + recovery)
        return np.array([change, -(voltage - p["a"] + p["b"] * recovery) / p["c"]])

    def voltages(p: Arrays) -> np.ndarray:
        k = len(p["a"])
        return solved(flow, np.array([np.full(k, -1.0), np.full(k, 1.0)]), p, 60, 20.0 / 60.0, 8)[:, 0].T

    truth = {"a": np.array([0.2]), "b": np.array([0.2]), "c": np.array([3.0])}
    data = voltages(truth)[0] + 0.3 * rng.standard_normal(60)

    def log_density(p: Arrays) -> np.ndarray:
        prior = -0.5 * p["a"] ** 2 - 0.5 * p["b"] ** 2 - 0.5 * ((p["c"] - 3.0) / 1.0) ** 2 - p["noise"]
        with np.errstate(all="ignore"):
            return normal(data, voltages(p), p["noise"][:, None]) + prior

    names = ("a", "b", "c", "noise")
    parameters = dict.fromkeys(names, kmc.Positive())
    return kmc.Model(log_density, parameters=parameters, vectorized=True, nonfinite="reject")


def hodgkin_huxley() -> kmc.Model:
    """PINTS: the potassium current of the squid's axon under voltage steps; its rates are known up to factors."""
    rng = np.random.default_rng(13)
    data = current(np.ones((1, 5)))[0] + 2.0 * rng.standard_normal((len(STEPS), len(CHANNEL_TIMES)))

    def log_density(p: Arrays) -> np.ndarray:
        misfit = (data - current(p["factor"])) / 2.0
        return -0.5 * np.sum(misfit**2, axis=(1, 2))

    return kmc.Model(log_density, parameters={"factor": kmc.Interval(0.2, 3.0, shape=5)}, vectorized=True)


def current(factors: np.ndarray) -> np.ndarray:
    """The current (k, steps, times) for factors (k, 5) of the published constants; the gate's equation is linear."""
    p = (factors * CHANNEL).T[:, :, None]

    def rates(voltage):
        x = (p[1] - (voltage + 75.0)) / p[2]
        opening = p[0] * p[2] * np.where(np.abs(x) < 1e-7, 1.0, x / np.expm1(np.where(np.abs(x) < 1e-7, 1.0, x)))
        return opening, p[3] * np.exp(-(voltage + 75.0) / p[4])

    opening, closing = rates(np.array([HOLD]))
    held = opening / (opening + closing)
    opening, closing = rates(STEPS)
    final = opening / (opening + closing)
    decay = np.exp(-(opening + closing)[:, :, None] * CHANNEL_TIMES)
    gate = final[:, :, None] + (held - final)[:, :, None] * decay
    return 36.0 * gate**4 * (STEPS - POTASSIUM)[:, None]


def line() -> kmc.Model:
    """The tutorial of emcee: a line through points whose errors are underestimated by an unknown fraction."""
    rng = np.random.default_rng(14)
    x = np.sort(10.0 * rng.random(50))
    error = 0.1 + 0.5 * rng.random(50)
    y = -0.9594 * x + 4.294
    y += np.abs(0.534 * y) * rng.standard_normal(50) + error * rng.standard_normal(50)

    def log_density(p: dict[str, float]) -> float:
        model = p["m"] * x + p["b"]
        variance = error**2 + model**2 * np.exp(2.0 * p["log_f"])
        return float(-0.5 * np.sum((y - model) ** 2 / variance + np.log(variance)))

    bounds = {"m": (-5.0, 0.5), "b": (0.0, 10.0), "log_f": (-10.0, 1.0)}
    return kmc.Model(log_density, parameters={name: kmc.Interval(*bound) for name, bound in bounds.items()})


def orbit(phase=None) -> kmc.Model:
    """Radial velocities of a star with a planet on a circular orbit, whose phase is near zero."""
    rng = np.random.default_rng(15)
    velocity = 55.0 * np.sin(2 * np.pi * DAYS / 4.2 - 0.05) + 10.0 + 12.0 * rng.standard_normal(len(DAYS))

    def log_density(p: Arrays) -> np.ndarray:
        height, period, phase, shift = (p[name][:, None] for name in ("height", "period", "phase", "shift"))
        model = height * np.sin(2 * np.pi * DAYS / period + phase) + shift
        return normal(velocity, model, 12.0)

    supports = {
        "height": kmc.Interval(0.0, 200.0),
        "period": kmc.Interval(4.0, 4.5),
        "phase": kmc.Angle() if phase is None else phase,
        "shift": kmc.Interval(-100.0, 100.0),
    }
    return kmc.Model(log_density, parameters=supports, vectorized=True)


def normal(data, mean, sd) -> np.ndarray:
    """The log-density of independent normal data along the last axis, up to a constant."""
    return np.sum(-0.5 * ((data - mean) / sd) ** 2 - np.log(sd), axis=-1)


def solved(flow: Callable, state: np.ndarray, p: Arrays, n: int, interval: float, substeps: int) -> np.ndarray:
    """States (n, variables, k) after each of n intervals, by the classical Runge-Kutta method."""
    states, h = [], interval / substeps
    with np.errstate(all="ignore"):  # values that overflow have no density
        for _ in range(n):
            for _ in range(substeps):
                k1 = flow(state, p)
                k2 = flow(state + 0.5 * h * k1, p)
                k3 = flow(state + 0.5 * h * k2, p)
                k4 = flow(state + h * k3, p)
                state = state + h / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)
            states.append(state)
    return np.array(states)
