"""Models of ``structured.py``: simulators with likelihoods, and hierarchies with declared priors,
with their truths.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from hierarchies import STORED, GrowthCurves, LatentPoisson, RandomWalk, Subjects
from scipy import stats
from shape_targets import EightSchoolsCentered
from targets import _fitzhugh_nagumo, _lotka_volterra, problem, stored_truth

import kmc
from kmc.model import lotka_volterra

DRAWS = 20_000  # exact ones, for the truth of a hierarchy


class Target(NamedTuple):
    """A model, as its outputs are kept or not; the coordinates of a draw; and their true means and
    sds.
    """

    model: Any
    coordinates: Any
    mean: np.ndarray
    sd: np.ndarray
    # draws start points (k, d) with a generator, if they are not from the prior
    initial: Any = None


def positive_normal(mean, sd):
    """A normal prior above 0."""
    return kmc.TruncatedNormal(mean, sd, 0, np.inf)


def populations(p):
    """Predator and prey."""
    rates = np.array([p[name] for name in ("alpha", "beta", "gamma", "delta")])
    if not np.all(np.abs(np.log([*rates, *p["start"]])) < 50):
        return np.full(lotka_volterra.PELTS.shape, np.nan)
    with np.errstate(all="ignore"):
        return np.exp(_lotka_volterra(rates, *np.log(p["start"])))


def populations_in_steps(p, steps=5):
    """Predator and prey, by semi-implicit Euler steps, so many a year."""
    alpha, beta, gamma, delta = (p[name] for name in ("alpha", "beta", "gamma", "delta"))
    x, y, h = *np.log(p["start"]), 1.0 / steps
    path = [(x, y)]
    with np.errstate(all="ignore"):
        for _ in range(len(lotka_volterra.PELTS) - 1):
            for _ in range(steps):
                x += h * (alpha - beta * np.exp(y))
                y += h * (delta * np.exp(x) - gamma)
            path.append((x, y))
        return np.exp(path)


def voltages(p):
    """A neuron."""
    if p["c"] > np.exp(5):
        return np.full(problem("fitzhugh-nagumo").log_density._data.shape, np.nan)
    return _fitzhugh_nagumo(p["a"], p["b"], p["c"])


DAYS = np.linspace(0.0, 10.0, 21)


def infected(beta, gamma, steps=400):
    """Infected people of 500, by the classical Runge-Kutta method; for arrays of rates, a row for
    each.
    """
    s, i = 0.99 + 0.0 * beta, 0.01 + 0.0 * beta
    h, rows = DAYS[-1] / steps, [i]

    def flow(s, i):
        return -beta * s * i, beta * s * i - gamma * i

    for step in range(1, steps + 1):
        k1 = flow(s, i)
        k2 = flow(s + 0.5 * h * k1[0], i + 0.5 * h * k1[1])
        k3 = flow(s + 0.5 * h * k2[0], i + 0.5 * h * k2[1])
        k4 = flow(s + h * k3[0], i + h * k3[1])
        s = s + h / 6.0 * (k1[0] + 2.0 * k2[0] + 2.0 * k3[0] + k4[0])
        i = i + h / 6.0 * (k1[1] + 2.0 * k2[1] + 2.0 * k3[1] + k4[1])
        if step % (steps // (len(DAYS) - 1)) == 0:
            rows.append(i)
    return 500.0 * np.stack(rows, axis=-1)


def epidemic(p):
    """An epidemic."""
    return infected(p["beta"], p["gamma"])


@cache
def epidemic_by_quadrature(data):
    """Mean and standard deviation of the logarithms of both rates."""
    counts = np.array(data)
    beta, gamma = np.meshgrid(
        np.linspace(0.3, 0.9, 400), np.linspace(-0.9, -0.1, 400), indexing="ij"
    )
    rate = infected(np.exp(beta), np.exp(gamma))
    level = np.sum(counts * np.log(rate) - rate, axis=-1) - 0.5 * (beta**2 + gamma**2)
    weight = np.exp(level - level.max())
    weight /= weight.sum()
    mean = np.array([np.sum(weight * x) for x in (beta, gamma)])
    return mean, np.array(
        [np.sqrt(np.sum(weight * (x - m) ** 2)) for x, m in zip((beta, gamma), mean, strict=True)]
    )


def predator_and_prey(learned: str) -> Target:
    """The demo, d = 8."""
    model = kmc.Model(
        simulator=populations,
        likelihood=kmc.likelihoods.LogNormal(lotka_volterra.PELTS, sd="sigma"),
        parameters={
            "alpha": positive_normal(1.0, 0.5),
            "beta": positive_normal(0.05, 0.05),
            "gamma": positive_normal(1.0, 0.5),
            "delta": positive_normal(0.05, 0.05),
            "start": kmc.LogNormal(np.log(10.0), 1.0, shape=2),
            "sigma": kmc.LogNormal(-1.0, 1.0, shape=2),
        },
        save_outputs=learned != "log-density",
    )
    truth = problem("demo").truth

    def coordinates(p):
        return np.log([p["alpha"], p["beta"], p["gamma"], p["delta"], *p["start"], *p["sigma"]])

    return Target(model, coordinates, truth.mean, truth.sd)


def neuron(learned: str) -> Target:
    """FitzHugh-Nagumo, d = 5."""
    target, truth = problem("fitzhugh-nagumo"), problem("fitzhugh-nagumo").truth
    model = kmc.Model(
        simulator=voltages,
        likelihood=kmc.likelihoods.Normal(target.log_density._data, sd="sigma"),
        parameters={
            "a": kmc.Normal(0, 1),
            "b": kmc.Normal(0, 1),
            "c": kmc.LogNormal(1, 1),
            "sigma": kmc.LogNormal(-1, 1, shape=2),
        },
        save_outputs=learned != "log-density",
    )
    return Target(
        model,
        lambda p: np.array([p["a"], p["b"], *np.log([p["c"], *p["sigma"]])]),
        truth.mean,
        truth.sd,
    )


def epidemic_of_counts(learned: str) -> Target:
    """SIR with Poisson counts, d = 2."""
    counts = np.random.default_rng(0).poisson(infected(1.8, 0.6))
    model = kmc.Model(
        simulator=epidemic,
        likelihood=kmc.likelihoods.Poisson(counts),
        parameters={"beta": kmc.LogNormal(0, 1), "gamma": kmc.LogNormal(0, 1)},
        save_outputs=learned != "log-density",
    )
    truth = epidemic_by_quadrature(tuple(counts.tolist()))
    return Target(model, lambda p: np.log([p["beta"], p["gamma"]]), *truth)


def predator_and_prey_from_near(learned: str) -> Target:
    """The same, from start points around published values."""
    return predator_and_prey(learned)._replace(initial=lambda rng: lotka_volterra.initial(rng, 16))


# Hierarchies and fields: parameters as the density of the truth has them, or the density of all of
# them alone


def _of_density(density, parameters, coordinates, truth=None, **parts) -> Callable[[str], Target]:
    """A target with declared priors and these parts of a model, or of the log-density alone.

    Where "priors" are learned, the log-likelihood is regressed beside them, and no outputs.
    """
    if truth is None:
        x = density.sample(np.random.default_rng(3), DRAWS)
        mean, sd = x.mean(axis=0), x.std(axis=0)
    else:
        mean, sd = truth.mean, truth.sd

    def make(learned: str) -> Target:
        if learned == "log-density":
            return Target(
                kmc.Model(density, dim=density.dim), lambda x: x, mean, sd, _away(mean, sd)
            )
        model = kmc.Model(parameters=parameters, save_outputs=learned != "priors", **parts)
        return Target(model, coordinates, mean, sd)

    return make


def _away(mean, sd):
    """Start points (8, d), two standard deviations wide."""
    return lambda rng: mean + 2.0 * sd * rng.standard_normal((8, len(mean)))


def schools(density: EightSchoolsCentered) -> Callable[[bool], Target]:
    """Schools with normal effects, centered."""
    parameters = {
        "mu": kmc.Normal(0, 5),
        "tau": kmc.Prior(stats.halfcauchy(scale=5)),
        "theta": kmc.Normal("mu", "tau", shape=density.count),
    }
    return _of_density(
        density,
        parameters,
        lambda p: np.concatenate([[p["mu"], np.log(p["tau"])], p["theta"]]),
        simulator=lambda p: p["theta"],
        inputs=["theta"],
        likelihood=kmc.likelihoods.Normal(density.effects, sd=density.errors),
    )


def growth_curves() -> Callable[[bool], Target]:
    """Lines of twelve animals."""
    density = GrowthCurves()

    animals = [f"animal_{i}" for i in range(density.n_animals)]

    def lines(p):
        weights = p["a"][:, None] + p["b"][:, None] * density.times
        return dict(zip(animals, weights, strict=True))

    names = ("tau_a", "tau_b", "sigma")
    parameters = {
        "mu_a": kmc.Normal(0, 100),
        "mu_b": kmc.Normal(0, 100),
        **{name: kmc.LogNormal(0, 1) for name in names},
        "a": kmc.Normal("mu_a", "tau_a", shape=density.n_animals),
        "b": kmc.Normal("mu_b", "tau_b", shape=density.n_animals),
    }
    return _of_density(
        density,
        parameters,
        lambda p: np.concatenate(
            [p["a"], p["b"], [p["mu_a"], p["mu_b"]], np.log([p[name] for name in names])]
        ),
        simulator=lines,
        inputs=["a", "b"],
        likelihood={
            name: kmc.likelihoods.Normal(weights, sd="sigma")
            for name, weights in zip(animals, density.weights, strict=True)
        },
        depends={name: [f"a[{i}]", f"b[{i}]"] for i, name in enumerate(animals)},
    )


def latent_counts() -> Callable[[bool], Target]:
    """Counts with a latent Gaussian process: declared, its values are a root of the covariance
    times normal numbers.
    """
    density = LatentPoisson()

    def process(p):
        return (
            np.linalg.cholesky(
                density._kernel(np.clip([[p["log_sd"], p["log_length"]]], -20, 20))[0]
            )
            @ p["z"]
        )

    parameters = {
        "log_sd": kmc.Normal(0, 1),
        "log_length": kmc.Normal(-1.5, 0.7),
        "mean": kmc.Normal(0, 3),
        "z": kmc.Normal(0, 1, shape=density.n_points),
    }
    return _of_density(
        density,
        parameters,
        lambda p: np.concatenate([process(p), [p["mean"], p["log_sd"], p["log_length"]]]),
        simulator=lambda p: np.exp(p["mean"] + process(p)),
        likelihood=kmc.likelihoods.Poisson(density.counts),
    )


def random_walk() -> Callable[[bool], Target]:
    """A random walk with unknown scales and a gap in the observations."""
    density = RandomWalk()
    states = [f"x{i}" for i in range(density.n_rest)]

    seen = [states[i] for i in density.seen]

    parameters = {
        "step": kmc.LogNormal(-1, 1),
        "noise": kmc.LogNormal(-1, 1),
        states[0]: kmc.Normal(0, "step"),
    }
    parameters |= {
        after: kmc.Normal(before, "step") for before, after in itertools.pairwise(states)
    }
    return _of_density(
        density,
        parameters,
        lambda p: np.array([*(p[name] for name in states), np.log(p["step"]), np.log(p["noise"])]),
        simulator=lambda p: np.array([p[name] for name in seen]),
        inputs=seen,
        likelihood=kmc.likelihoods.Normal(density.data, sd="noise"),
    )


def subjects() -> Callable[[bool], Target]:
    """Twelve subjects with parameters of their own, on which their own outputs depend, through a
    simulator of all.
    """
    density = Subjects()
    n = density.count
    names = [f"subject_{i}" for i in range(n)]

    def by_subject(values):
        return dict(zip(names, values.reshape(n, -1), strict=True))

    def concentrations(p):
        return by_subject(density.outputs(np.concatenate([p["clearance"], p["volume"]])[None])[0])

    parameters = {
        "mu_c": kmc.Normal(density.means[0], density.mean_sd),
        "mu_v": kmc.Normal(density.means[1], density.mean_sd),
        **{name: kmc.LogNormal(-1, 1) for name in ("tau_c", "tau_v", "sigma")},
        "clearance": kmc.Normal("mu_c", "tau_c", shape=n),
        "volume": kmc.Normal("mu_v", "tau_v", shape=n),
    }

    def coordinates(p):
        scales = np.log([p["tau_c"], p["tau_v"], p["sigma"]])
        return np.concatenate([p["clearance"], p["volume"], [p["mu_c"], p["mu_v"]], scales])

    return _of_density(
        density,
        parameters,
        coordinates,
        stored_truth("subjects-29d", density),
        simulator=concentrations,
        inputs=["clearance", "volume"],
        likelihood={
            name: kmc.likelihoods.Normal(y, sd="sigma")
            for name, y in by_subject(density.data).items()
        },
        depends={name: [f"clearance[{i}]", f"volume[{i}]"] for i, name in enumerate(names)},
    )


def diffusion(name: str) -> Callable[[bool], Target]:
    """The coefficients of a conductivity from the state."""
    density = STORED[name]()
    return _of_density(
        density,
        {"field": kmc.Normal(0, 1, shape=density.n_rest), "sigma": kmc.LogNormal(-5, 2)},
        lambda p: np.append(p["field"], np.log(p["sigma"])),
        stored_truth(name, density),
        simulator=lambda p: density.outputs(p["field"][None])[0],
        likelihood=kmc.likelihoods.Normal(density.data, sd="sigma"),
    )


APPROXIMATIONS = {"predator-and-prey": populations_in_steps}

TARGETS = {
    "predator-and-prey": predator_and_prey,
    "predator-and-prey-near": predator_and_prey_from_near,
    "neuron": neuron,
    "epidemic": epidemic_of_counts,
    "diffusion-9d": lambda learned: diffusion("diffusion-9d")(learned),
    "diffusion-17d": lambda learned: diffusion("diffusion-17d")(learned),
    "subjects-29d": lambda learned: subjects()(learned),
    "eight-schools": lambda learned: schools(EightSchoolsCentered())(learned),
    "58-schools": lambda learned: schools(EightSchoolsCentered(58))(learned),
    "growth-curves-29d": lambda learned: growth_curves()(learned),
    "latent-counts-13d": lambda learned: latent_counts()(learned),
    "random-walk-32d": lambda learned: random_walk()(learned),
}
"""What makes each target, given what is learned of it."""

HIERARCHIES = (
    "eight-schools",
    "58-schools",
    "growth-curves-29d",
    "latent-counts-13d",
    "random-walk-32d",
)
"""Targets whose simulators are formulas, so that the log-likelihood alone is a fair task, too."""
