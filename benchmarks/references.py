"""Make references.json, the truth of every benchmark problem: ``python benchmarks/references.py
[problem ...]``.

Problems whose marginals have a closed form use it, by quadrature over at most one variable
(``marginals``), and "pints-logistic" quadrature over all three, as sampling is less precise than
what is compared with it. The others use importance sampling, which shares nothing with the Markov
chains under test: a mixture of Student-t is fitted to the flattened posterior in a few rounds, and
then draws independently of the earlier rounds. Its effective size and Pareto k-hat are stored;
k-hat above .5 is an error. Standard errors come from forty batches. Hierarchies draw for
themselves.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

import arviz as az
import numpy as np
from hierarchies import STORED
from scipy import interpolate, optimize, stats
from scipy.special import betainc, logsumexp, ndtr
from sklearn.mixture import GaussianMixture
from targets import (
    DENSITIES,
    REFERENCES,
    TAILS,
    Cone,
    EightSchools,
    Funnel,
    LogGamma,
    LogisticGrowth,
    StudentT,
)

from kmc.model import lotka_volterra
from kmc.model.toys import Banana, Bimodal, Gaussian, Ring

DRAWS, PILOT, BATCHES = 1_000_000, 50_000, 40
KNOWN = {**DENSITIES, **STORED}


def reference(name: str) -> dict:
    """The entry of references.json for one problem."""
    density = KNOWN[name]()
    known = None if name in STORED else marginals(density)
    if known is not None:
        truth = closed_form(known)
        method = "quadrature" if isinstance(density, LogisticGrowth) else "closed form"
        return {"method": method} | _entry(density, truth)
    if name in STORED:
        x = density.sample(np.random.default_rng(1), 10_000)
        weights, quality = np.ones(len(x)), {"method": "importance sampling and Metropolis chains"}
    else:
        x, weights, quality = _importance_sample(density, np.random.default_rng(1))
    whole = _summary(x, weights)
    parts = [
        _summary(*part)
        for part in zip(np.array_split(x, BATCHES), np.array_split(weights, BATCHES), strict=True)
    ]
    error = {
        key: np.std([part[key] for part in parts], axis=0, ddof=1) / np.sqrt(BATCHES)
        for key in whole
    }
    errors = {key: _rounded(value, 2).tolist() for key, value in error.items()}
    return quality | {"draws": len(x)} | _entry(density, whole) | {"standard_error": errors}


def _entry(density, truth) -> dict:
    return {
        "log_density_at_mean": round(density(_rounded(truth["mean"])), 6),
        "truth": {key: _rounded(value).tolist() for key, value in truth.items()},
    }


# Closed forms


@dataclass(frozen=True)
class Marginal:
    """One coordinate's distribution."""

    mean: float
    sd: float
    kurtosis: float
    cdf: Callable[[float], float]


def closed_form(known: list[Marginal]) -> dict[str, np.ndarray]:
    """The fields of targets.Truth."""
    below, center, above = (
        np.array([[_quantile(m, p) for m in known] for p in TAILS + step]) for step in _STEPS
    )
    moments = {
        name: np.array([getattr(m, name) for m in known]) for name in ("mean", "sd", "kurtosis")
    }
    return moments | {"quantiles": center, "slopes": (above - below) / 0.02}


@singledispatch
def marginals(density) -> list[Marginal] | None:
    """The distribution of each coordinate; None if not known."""
    return None


@marginals.register
def _(density: Gaussian):
    return [_mixture([1.0], [0.0], [sd]) for sd in np.sqrt(np.diag(density.covariance))]


@marginals.register
def _(density: Banana):
    x, weights = _normal_grid(10.0)
    bent = _mixture(weights, -density.b * (x * x - 100), np.ones_like(x))
    return [_mixture([1.0], [0.0], [10.0]), bent] + [_mixture([1.0], [0.0], [1.0])] * (
        density.dim - 2
    )


@marginals.register
def _(density: Bimodal):
    shift = 0.5 * density.separation / math.sqrt(density.dim)
    return [
        _mixture([density.weight, 1 - density.weight], [shift, -shift], [1.0, 1.0])
    ] * density.dim


@marginals.register
def _(density: Ring):
    r = np.linspace(0, density.radius + 12 * density.width, 100_001)[1:]
    return [_spherical(r, r * np.exp(-0.5 * ((r - density.radius) / density.width) ** 2), 2)] * 2


@marginals.register
def _(density: Cone):
    r = np.linspace(0, 120, 100_001)[1:]
    return [_spherical(r, r ** (density.dim - 1) * np.exp(-r), density.dim)] * density.dim


@marginals.register
def _(density: Funnel):
    v, weights = _normal_grid(density.sd)
    return [_mixture([1.0], [0.0], [density.sd])] + [_mixture(weights, 0 * v, np.exp(v / 2))] * (
        density.dim - 1
    )


@marginals.register
def _(density: StudentT):
    return [_of_scipy(stats.t(density.freedom))] * density.dim


@marginals.register
def _(density: LogGamma):
    return [_of_scipy(stats.loggamma(shape)) for shape in density.shapes]


@marginals.register
def _(density: EightSchools):
    # Given tau, the rest is Gaussian: y_j ~ N(mu, v_j) with v_j = errors_j^2 + tau^2, and mu ~ N(0,
    # 25).
    log_tau = np.linspace(-40, 16, 20_001)
    tau = np.exp(log_tau)[:, None]
    v = density.errors**2 + tau**2
    precision = 1 / 25 + (1 / v).sum(1)
    center = (density.effects / v).sum(1) / precision
    fit = (density.effects**2 / v).sum(1) - precision * center**2
    log_weights = (
        log_tau - np.log1p(tau[:, 0] ** 2 / 25) - 0.5 * (fit + np.log(precision) + np.log(v).sum(1))
    )
    weights = np.exp(log_weights - log_weights.max())
    means = tau * (density.effects - center[:, None]) / v
    sds = np.sqrt(density.errors**2 / v + (tau / v) ** 2 / precision[:, None])
    eta = [_mixture(weights, m, sd) for m, sd in zip(means.T, sds.T, strict=True)]
    return [_mixture(weights, center, precision**-0.5), _tabulated(log_tau, weights), *eta]


@marginals.register
def _(density: LogisticGrowth):
    mode = optimize.minimize(lambda x: -density(x), density.guess, method="BFGS")
    sds = np.sqrt(np.diag(mode.hess_inv))
    return by_quadrature(
        density, [at + sd * np.linspace(-10, 10, 81) for at, sd in zip(mode.x, sds, strict=True)]
    )


def by_quadrature(density, lines: list[np.ndarray]) -> list[Marginal]:
    """Of a smooth density, on regular grids that end where it is zero."""
    grid = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
    logs = np.array([density(row) for row in grid.reshape(-1, len(lines))]).reshape(grid.shape[:-1])
    found = []
    for i, line in enumerate(lines):
        others = tuple(k for k in range(len(lines)) if k != i)
        fine = np.linspace(line[0], line[-1], 40_001)
        log_marginal = interpolate.CubicSpline(line, logsumexp(logs, axis=others))(fine)
        found.append(_tabulated(fine, np.exp(log_marginal - log_marginal.max())))
    return found


def _normal_grid(sd):
    """Points of a grid that is wide enough for fourth moments of exp, and their probabilities under
    N(0, sd^2).
    """
    x = sd * np.linspace(-25, 25, 20_001)
    return x, np.exp(-0.5 * (x / sd) ** 2)


def _mixture(weights, means, sds) -> Marginal:
    """A mixture of normals."""
    weights, means, sds = (np.asarray(value, dtype=float) for value in (weights, means, sds))
    weights = weights / weights.sum()
    mean = weights @ means
    from_mean, variances = (means - mean) ** 2, sds**2
    variance = weights @ (from_mean + variances)
    fourth = weights @ (from_mean**2 + 6 * from_mean * variances + 3 * variances**2)
    return Marginal(
        mean, math.sqrt(variance), fourth / variance**2, lambda x: weights @ ndtr((x - means) / sds)
    )


def _spherical(r, weights, dim) -> Marginal:
    """A coordinate of a spherical distribution with these radii: the square of its cosine is
    Beta(1/2, (d - 1)/2).
    """
    weights = weights / weights.sum()
    variance, fourth = weights @ r**2 / dim, 3 * (weights @ r**4) / (dim * (dim + 2))

    def cdf(x):
        inside = betainc(0.5, 0.5 * (dim - 1), np.minimum((x / r) ** 2, 1))
        return 0.5 + 0.5 * math.copysign(weights @ inside, x)

    return Marginal(0.0, math.sqrt(variance), fourth / variance**2, cdf)


def _tabulated(x, weights) -> Marginal:
    """A density on a fine regular grid."""
    weights = weights / weights.sum()
    mean = weights @ x
    variance, fourth = weights @ (x - mean) ** 2, weights @ (x - mean) ** 4
    share = np.cumsum(weights) - 0.5 * weights
    return Marginal(
        mean, math.sqrt(variance), fourth / variance**2, lambda at: np.interp(at, x, share)
    )


def _of_scipy(distribution) -> Marginal:
    mean, variance, excess = (float(value) for value in distribution.stats("mvk"))
    return Marginal(mean, math.sqrt(variance), excess + 3, distribution.cdf)


def _quantile(marginal, p):
    low, high = marginal.mean - 30 * marginal.sd, marginal.mean + 30 * marginal.sd
    return optimize.brentq(lambda x: marginal.cdf(x) - p, low, high, xtol=1e-10 * marginal.sd)


_STEPS = (-0.01, 0.0, 0.01)


# Importance sampling


def check_demo() -> None:
    """Stop unless the demo's fast density and the one that users see differ by a constant."""
    fast, rng = DENSITIES["demo"](), np.random.default_rng(0)
    x = fast.guess + 0.2 * rng.standard_normal((100, fast.dim))
    difference = [fast(row) - lotka_volterra.log_density(row) for row in x]
    if np.ptp(difference) > 2e-3:
        sys.exit(
            f"the demo's two log-densities differ by {min(difference)} to {max(difference)}: not "
            f"by a constant"
        )


def _importance_sample(density, rng):
    """Draws (n, d), weights (n,) and their quality."""
    mode = optimize.minimize(lambda x: -max(density(x), -1e10), density.guess, method="BFGS")
    mixture = [1.0], [mode.x], [mode.hess_inv]
    for components in (1, 1, 1, 1, 20, 20, 20):
        x, weights, *_ = _weighted_draws(density, mixture, rng, PILOT, power=0.7)
        resampled = x[rng.choice(len(x), len(x), p=weights / weights.sum())]
        fit = GaussianMixture(components, random_state=0).fit(resampled)
        mixture = fit.weights_, fit.means_, fit.covariances_
    x, weights, k_hat, log_evidence = _weighted_draws(density, mixture, rng, DRAWS)
    if k_hat > 0.5:
        sys.exit(
            f"k-hat is {k_hat:.2f}: the proposal does not cover the posterior, and the weights "
            f"cannot be trusted"
        )
    size = round(weights.sum() ** 2 / (weights**2).sum())
    quality = {
        "method": "importance sampling",
        "effective_draws": size,
        "pareto_k": round(k_hat, 2),
    }
    error = (len(weights) / size - 1) / len(weights)
    return (
        x,
        weights,
        quality
        | {"log_evidence": round(log_evidence, 5), "log_evidence_error": round(error**0.5, 5)},
    )


def _weighted_draws(density, mixture, rng, n, power=1.0):
    """Draws (n, d) from a mixture of Student-t (weights, locations, shapes), their weights for
    p^power, and k-hat.

    The last is the log of the mean weight.
    """
    shares, *parameters = mixture
    parts = [
        stats.multivariate_t(location, shape, df=5)
        for location, shape in zip(*parameters, strict=True)
    ]
    counts = rng.multinomial(n, shares)
    drawn = [
        np.reshape(t.rvs(k, random_state=rng), (k, t.dim))
        for t, k in zip(parts, counts, strict=True)
    ]
    x = np.concatenate(drawn)
    x = rng.permutation(x)
    log_proposal = logsumexp(
        [np.log(a) + t.logpdf(x) for a, t in zip(shares, parts, strict=True)], axis=0
    )
    log_weights = power * np.array([density(row) for row in x]) - log_proposal
    log_mean = float(logsumexp(log_weights) - np.log(n))
    return x, np.exp(log_weights - log_weights.max()), float(az.psislw(log_weights)[1]), log_mean


def _summary(x, weights) -> dict[str, np.ndarray]:
    """The fields of targets.Truth."""
    mean = np.average(x, axis=0, weights=weights)
    square = (x - mean) ** 2
    variance = np.average(square, axis=0, weights=weights)
    grid = np.concatenate([TAILS, TAILS - 0.01, TAILS + 0.01])
    center, below, above = _quantiles(x, weights, grid).reshape(3, 2, -1)
    return {
        "mean": mean,
        "sd": np.sqrt(variance),
        "kurtosis": np.average(square**2, axis=0, weights=weights) / variance**2,
        "quantiles": center,
        "slopes": (above - below) / 0.02,
    }


def _quantiles(x, weights, p):
    """Weighted quantiles (len(p), d)."""
    columns = []
    for column in x.T:
        order = np.argsort(column)
        share = np.cumsum(weights[order])
        columns.append(np.interp(p, (share - 0.5 * weights[order]) / share[-1], column[order]))
    return np.array(columns).T


def _rounded(value, digits=6):
    """Rounded to this many significant digits: the file stays small, and rounding is far below the
    standard errors.
    """
    return np.vectorize(lambda number: float(f"{number:.{digits}g}"))(value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument(
        "problems", nargs="*", metavar="problem", help=f"of {', '.join(KNOWN)}; default: all"
    )
    chosen = parser.parse_args().problems or list(KNOWN)
    if unknown := set(chosen) - set(KNOWN):
        parser.error(
            f"unknown problem {', '.join(sorted(unknown))}: choose from {', '.join(KNOWN)}"
        )
    if "demo" in chosen:
        check_demo()
    entries = json.loads(REFERENCES.read_text()) if REFERENCES.exists() else {}
    for name in chosen:
        entries[name] = reference(name)
        print(
            name,
            {
                key: value
                for key, value in entries[name].items()
                if key not in ("truth", "standard_error")
            },
        )
    lines = [f'"{name}": {json.dumps(entries[name])}' for name in KNOWN if name in entries]
    REFERENCES.write_text("{\n" + ",\n".join(lines) + "\n}\n")
