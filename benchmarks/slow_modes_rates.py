"""How often `slow_modes` alarms where nothing is wrong: ``python benchmarks/slow_modes_rates.py --help``.

Runs of four chains of 1,000 draws of five parameters: independent (normal, and Student-t with two degrees of freedom in
turn) and autoregressive ones. An alarm is an R-hat above 1.05 of the worst mode.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.signal import lfilter

from kmc.diagnostics import slow_modes

CHAINS, DRAWS, DIM, LIMIT = 4, 1000, 5, 1.05


def draws(memory: float, seed: int) -> np.ndarray:
    """Stationary chains (chains, draws, d) with that correlation between neighbours."""
    rng = np.random.default_rng(seed)
    if memory == 0 and seed % 2:
        return rng.standard_t(2, (CHAINS, DRAWS, DIM))
    noise = rng.standard_normal((CHAINS, DRAWS, DIM)) * np.sqrt(1 - memory**2)
    noise[:, 0] = rng.standard_normal((CHAINS, DIM))
    return lfilter([1.0], [1.0, -memory], noise, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--memory", type=float, nargs="+", default=[0.0, 0.5, 0.8])
    options = parser.parse_args()
    print("| correlation of neighbours | runs | alarms | largest R-hat | least ESS |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for memory in options.memory:
        found = [slow_modes(draws(memory, seed)) for seed in range(options.runs)]
        rhat = np.array([float(modes["rhat"].max()) for modes in found])
        ess = min(float(modes["ess"].min()) for modes in found)
        alarms = int(np.sum(rhat > LIMIT))
        print(f"| {memory:g} | {len(found)} | {alarms} | {rhat.max():.3f} | {ess:.0f} |", flush=True)


if __name__ == "__main__":
    main()
