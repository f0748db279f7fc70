"""A cold on a remote island
=========================

In October 1967 a ship brought a cold to the island of Tristan da Cunha. The counts of those who
were ill and of those who had recovered, day by day, ship with PINTS (``pip install pints``). The
SIR equations

    S' = -infection S I,    I' = infection S I - recovery I,    R' = recovery I

are solved by SciPy, as a black box. How many people could catch the cold is not known: S at the
start is a parameter.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pints.toy
from scipy.integrate import solve_ivp

import kmc

DATA = pints.toy.SIRModel()
# (21,), and (21, 2): I and R
DAYS, COUNTS = DATA.suggested_times().astype(float), DATA.suggested_values()


def ill_and_recovered(infection: float, recovery: float, susceptible: float) -> np.ndarray:
    """Expected counts on each day, (21, 2); NaN where the solver fails."""

    def flow(_, state):
        s, i, _ = state
        return [-infection * s * i, infection * s * i - recovery * i, recovery * i]

    span = DAYS[[0, -1]]
    solution = solve_ivp(flow, span, [susceptible, 1.0, 0.0], "LSODA", DAYS, rtol=1e-6, atol=1e-8)
    return solution.y[1:].T if solution.success else np.full((len(DAYS), 2), np.nan)


def log_likelihood(p: dict) -> np.ndarray:
    """The log-density of each count."""
    z = (COUNTS - ill_and_recovered(p["infection"], p["recovery"], p["susceptible"])) / p["noise"]
    return (-0.5 * z**2 - np.log(p["noise"])).ravel()


def main(evaluations: int = 2000):
    """Sample, and draw the curves of some draws through the counts."""
    priors = {
        "infection": kmc.LogNormal(np.log(0.02), 1.0),
        "recovery": kmc.LogNormal(np.log(0.3), 1.0),
        "susceptible": kmc.Uniform(20, 100),
        "noise": kmc.HalfNormal(5),
    }
    model = kmc.Model(log_likelihood=log_likelihood, parameters=priors)
    idata = kmc.sample(model, draws=None, max_evaluations=evaluations, seed=1, progress=False)
    p = idata.posterior
    print(kmc.summary(idata).to_string(float_format="{:.4g}".format))
    spread = (p["infection"] * p["susceptible"] / p["recovery"]).quantile([0.05, 0.5, 0.95]).values
    print(
        "One ill person infects {1:.1f} others at first (90 % in {0:.1f} to {2:.1f}).".format(
            *spread
        )
    )
    _, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    flat = p.stack(sample=("chain", "draw"))
    for k in np.linspace(0, flat.sizes["sample"] - 1, 40).astype(int):
        one = flat.isel(sample=k)
        curves = ill_and_recovered(
            *(float(one[name]) for name in ("infection", "recovery", "susceptible"))
        )
        for curve, color in zip(curves.T, ("#c8553d", "#4a8fa1"), strict=True):
            ax.plot(DAYS, curve, color=color, alpha=0.2, linewidth=1)
    ax.plot(DAYS, COUNTS[:, 0], "o", color="#c8553d", label="ill")
    ax.plot(DAYS, COUNTS[:, 1], "s", color="#1f6478", label="recovered")
    ax.set(xlabel="day", ylabel="people")
    ax.legend(frameon=False)
    return idata


if __name__ == "__main__":
    main()
    plt.show()
