"""A chain that looks converged, but is not
========================================

It does so in every parameter: ``python examples/slow_modes.py``.

The target is a mixture of two normal distributions in the plane with correlations .95 and -.95, and
the Gibbs sampler hardly ever changes the component: each chain keeps the sign of its correlation.
Both components have the same margins. So x and y look well mixed, but functions of both, such as
P(x > 1, y > 1), are wrong by as much as the chains differ.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import arviz as az
import numpy as np

import kmc.diagnostics
from kmc.plots import plot_slow_modes

CORRELATION = 0.95


def gibbs(
    chains: int, draws: int, change: float, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draws of x and y, (chains, draws) each; ``change`` is the probability of a new component at a
    draw.
    """
    x, y = np.empty((2, chains, draws))
    spread = np.sqrt(1 - CORRELATION**2)
    now, component = rng.standard_normal(chains), np.where(np.arange(chains) % 2, -1.0, 1.0)
    for t in range(draws):
        moving = rng.random(chains) < change
        component[moving] = rng.choice([-1.0, 1.0], moving.sum())
        for _ in range(8):  # sweeps: a single one hardly moves in so narrow a normal distribution
            other = component * CORRELATION * now + spread * rng.standard_normal(chains)
            now = component * CORRELATION * other + spread * rng.standard_normal(chains)
        x[:, t], y[:, t] = now, other
    return {"x": x, "y": y}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=2000, help="draws of each of four chains")
    parser.add_argument("--change", type=float, default=1e-4, help="probability of a new component")
    parser.add_argument("--output", type=Path, default=Path("slow_modes.png"))
    options = parser.parse_args()
    draws = gibbs(4, options.draws, options.change, np.random.default_rng(0))

    print("Each parameter:")
    for name, values in draws.items():
        print(f"  {name}: ESS {az.ess(values):6.0f}   R-hat {az.rhat(values):.3f}")
    modes = kmc.diagnostics.slow_modes(draws)
    print(f"Slow modes: {modes.attrs['verdict']}")
    for k in range(modes.sizes["mode"]):
        one = modes.isel(mode=k)
        goes_with = ", ".join(
            f"{name} {value:+.2f}"
            for name, value in zip(one["parameter"].values, one["correlation"].values)
        )
        print(
            f"  mode {k}: ESS {float(one['ess']):6.0f}   R-hat {float(one['rhat']):.3f}   "
            f"correlations {goes_with}"
        )

    product = (draws["x"] * draws["y"]).ravel()
    value = modes["value"].isel(mode=0).values.ravel()
    print(
        f"Correlation of mode 0 with the product xy: {abs(np.corrcoef(value, product)[0, 1]):.2f}"
    )
    event = ((draws["x"] > 1) & (draws["y"] > 1)).mean(axis=1)
    print("P(x > 1, y > 1) by chain:", " ".join(f"{p:.3f}" for p in event))
    axes = plot_slow_modes(modes, 2)
    axes[0, 0].figure.savefig(options.output, dpi=150)
    print(f"Picture: {options.output}")


if __name__ == "__main__":
    main()
