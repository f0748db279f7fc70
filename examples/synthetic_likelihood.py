"""Chaotic counts, by synthetic likelihood
=======================================

Ricker's map with noise, N' = r N exp(-N + noise e), is observed through Poisson counts with mean
scale × N. Its likelihood is out of reach: tiny changes of the noise lead elsewhere. Wood (2010,
"Statistical inference for noisy nonlinear ecological dynamic systems", Nature 466) compares
summaries of the counts instead: many series are simulated at each parameter, a normal distribution
is fitted to their summaries, and its density at the observed ones is the synthetic likelihood. It
differs at every call, hence ``noisy=True``: kmc keeps each value with its state.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import kmc

TRUTH = {"log_r": 3.8, "noise": 0.3, "scale": 10.0}
STEPS, SKIPPED = 100, 20


def simulate(p: dict, n: int, rng: np.random.Generator) -> np.ndarray:
    """Counts of n series, (n, STEPS)."""
    log_n, counts = np.zeros(n), np.empty((n, STEPS))
    for t in range(-SKIPPED, STEPS):
        log_n = p["log_r"] + log_n - np.exp(log_n) + p["noise"] * rng.standard_normal(n)
        if t >= 0:
            counts[:, t] = rng.poisson(np.minimum(p["scale"] * np.exp(log_n), 1e9))
    return counts


def summaries(counts: np.ndarray) -> np.ndarray:
    """Zeros, level, and the covariances of roots at lags 0 to 4, (n, 7)."""
    root = np.sqrt(counts)
    centered = root - root.mean(axis=1, keepdims=True)
    lags = [np.mean(centered[:, : STEPS - k] * centered[:, k:], axis=1) for k in range(5)]
    return np.column_stack([np.mean(counts == 0, axis=1), np.log1p(counts.mean(axis=1)), *lags])


def main(evaluations: int = 2000, simulations: int = 100):
    """Sample; draw the observed series and the posterior."""
    observed = simulate(TRUTH, 1, np.random.default_rng(3))
    seen, rng = summaries(observed)[0], np.random.default_rng(1)

    def log_synthetic(p):
        made = summaries(simulate(p, simulations, rng))
        covariance = np.cov(made.T) + 1e-9 * np.eye(made.shape[1])
        z = np.linalg.solve(np.linalg.cholesky(covariance), seen - made.mean(axis=0))
        return -0.5 * float(z @ z) - 0.5 * np.linalg.slogdet(covariance)[1]

    priors = {
        "log_r": kmc.Uniform(3, 5),
        "noise": kmc.Uniform(0.05, 0.8),
        "scale": kmc.Uniform(4, 20),
    }
    model = kmc.Model(log_likelihood=log_synthetic, parameters=priors, noisy=True)
    idata = kmc.sample(model, draws=None, max_evaluations=evaluations, seed=1, progress=False)
    print(kmc.summary(idata).to_string(float_format="{:.4g}".format))
    print(f"The noise of the estimates has a sd of about {idata.attrs['noise_sd']:.2f} in the log.")
    kmc.plot_pairs(idata, reference=TRUTH)
    _, ax = plt.subplots(figsize=(6.5, 2.4), layout="constrained")
    ax.step(np.arange(STEPS), observed[0], color="#1f6478", linewidth=1)
    ax.set(xlabel="generation", ylabel="count")
    return idata


if __name__ == "__main__":
    main()
    plt.show()
