"""Make references.json, the truth of every benchmark problem: ``python benchmarks/references.py [problem ...]``.

Problems with an exact sampler get a million of its draws. The others get importance sampling, which shares nothing
with the Markov chains under test: a mixture of Student-t is fitted to the flattened posterior in a few rounds, then
draws once more, independently of the earlier rounds. Its effective size and Pareto k-hat are stored; k-hat above .5 is
refused. Standard errors come from forty batches.
"""

from __future__ import annotations

import argparse
import json
import sys

import arviz as az
import numpy as np
from scipy import optimize, stats
from scipy.special import logsumexp
from sklearn.mixture import GaussianMixture
from targets import DENSITIES, REFERENCES, TAILS

from kmc.targets import lotka_volterra

DRAWS, PILOT, BATCHES = 1_000_000, 50_000, 40


def reference(name: str) -> dict:
    """The entry of references.json for one problem."""
    density, rng = DENSITIES[name](), np.random.default_rng(1)
    if hasattr(density, "sample"):
        x, weights, quality = density.sample(rng, DRAWS), np.ones(DRAWS), {"method": "exact draws"}
    else:
        x, weights, quality = _importance_sample(density, rng)
    whole = _summary(x, weights)
    parts = [_summary(*part) for part in zip(np.array_split(x, BATCHES), np.array_split(weights, BATCHES), strict=True)]
    error = {key: np.std([part[key] for part in parts], axis=0, ddof=1) / np.sqrt(BATCHES) for key in whole}
    return quality | {
        "draws": DRAWS,
        "log_density_at_mean": round(density(_rounded(whole["mean"])), 6),
        "truth": {key: _rounded(value).tolist() for key, value in whole.items()},
        "standard_error": {key: _rounded(value, 2).tolist() for key, value in error.items()},
    }


def check_demo() -> None:
    """Stop unless the demo's fast density and the one that users see differ by a constant."""
    fast, rng = DENSITIES["demo"](), np.random.default_rng(0)
    x = fast.guess + 0.2 * rng.standard_normal((100, fast.dim))
    difference = [fast(row) - lotka_volterra.log_density(row) for row in x]
    if np.ptp(difference) > 2e-3:
        sys.exit(f"the demo's two log-densities differ by {min(difference)} to {max(difference)}: not by a constant")


def _importance_sample(density, rng):
    """Draws (n, d), weights (n,) and how good they are."""
    mode = optimize.minimize(lambda x: -max(density(x), -1e10), density.guess, method="BFGS")
    mixture = [1.0], [mode.x], [mode.hess_inv]
    for components in (1, 1, 1, 1, 20, 20, 20):
        x, weights, _ = _weighted_draws(density, mixture, rng, PILOT, power=0.7)
        resampled = x[rng.choice(len(x), len(x), p=weights / weights.sum())]
        fit = GaussianMixture(components, random_state=0).fit(resampled)
        mixture = fit.weights_, fit.means_, fit.covariances_
    x, weights, k_hat = _weighted_draws(density, mixture, rng, DRAWS)
    if k_hat > 0.5:
        sys.exit(f"k-hat is {k_hat:.2f}: the proposal does not cover the posterior, and the weights cannot be trusted")
    size = round(weights.sum() ** 2 / (weights**2).sum())
    return x, weights, {"method": "importance sampling", "effective_draws": size, "pareto_k": round(k_hat, 2)}


def _weighted_draws(density, mixture, rng, n, power=1.0):
    """Draws (n, d) from a mixture of Student-t (shares, locations, shapes), their weights for p^power, and k-hat."""
    shares, *parameters = mixture
    parts = [stats.multivariate_t(location, shape, df=5) for location, shape in zip(*parameters, strict=True)]
    counts = rng.multinomial(n, shares)
    x = np.concatenate([np.reshape(t.rvs(k, random_state=rng), (k, -1)) for t, k in zip(parts, counts, strict=True)])
    x = rng.permutation(x)
    log_proposal = logsumexp([np.log(a) + t.logpdf(x) for a, t in zip(shares, parts, strict=True)], axis=0)
    log_weights = power * np.array([density(row) for row in x]) - log_proposal
    return x, np.exp(log_weights - log_weights.max()), float(az.psislw(log_weights)[1])


def _summary(x, weights) -> dict[str, np.ndarray]:
    """The fields of targets.Truth."""
    mean = np.average(x, axis=0, weights=weights)
    square = (x - mean) ** 2
    variance = np.average(square, axis=0, weights=weights)
    grid = np.concatenate([TAILS, TAILS - 0.01, TAILS + 0.01])
    centre, below, above = _quantiles(x, weights, grid).reshape(3, 2, -1)
    return {
        "mean": mean,
        "sd": np.sqrt(variance),
        "kurtosis": np.average(square**2, axis=0, weights=weights) / variance**2,
        "quantiles": centre,
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
    """To that many significant digits: the file stays small, and the rounding far below the standard errors."""
    return np.vectorize(lambda number: float(f"{number:.{digits}g}"))(value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("problems", nargs="*", metavar="problem", help=f"of {', '.join(DENSITIES)}; default: all")
    chosen = parser.parse_args().problems or list(DENSITIES)
    if unknown := set(chosen) - set(DENSITIES):
        parser.error(f"unknown problem {', '.join(sorted(unknown))}: choose from {', '.join(DENSITIES)}")
    if "demo" in chosen:
        check_demo()
    entries = json.loads(REFERENCES.read_text()) if REFERENCES.exists() else {}
    for name in chosen:
        entries[name] = reference(name)
        print(name, {key: value for key, value in entries[name].items() if key not in ("truth", "standard_error")})
    lines = [f'"{name}": {json.dumps(entries[name])}' for name in DENSITIES if name in entries]
    REFERENCES.write_text("{\n" + ",\n".join(lines) + "\n}\n")
