"""How often `slow_modes` alarms, on correct runs and on a frozen latent variable: ``--help``.

Runs of four chains of 1,000 draws. Correct runs have five parameters that are independent (normal,
and Student-t with two degrees of freedom in turn) or autoregressive. In the frozen ones, the sign
of the correlation of two of d autoregressive normal parameters never changes, which no single
parameter shows; for comparison the R-hat of the conditional mean of that sign is printed, on the
same draws, which is the best possible function. An alarm is an R-hat above 1.05 of the worst mode.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.signal import lfilter

from kmc.convergence import ess_and_rhat
from kmc.diagnostics import slow_modes

CHAINS, DRAWS, DIM, LIMIT = 4, 1000, 5, 1.05


def draws(memory: float, seed: int) -> np.ndarray:
    """Stationary chains (chains, draws, d) with this correlation between neighbors."""
    rng = np.random.default_rng(seed)
    if memory == 0 and seed % 2:
        return rng.standard_t(2, (CHAINS, DRAWS, DIM))
    noise = rng.standard_normal((CHAINS, DRAWS, DIM)) * np.sqrt(1 - memory**2)
    noise[:, 0] = rng.standard_normal((CHAINS, DIM))
    return lfilter([1.0], [1.0, -memory], noise, axis=1)


def frozen(correlation: float, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Chains (chains, draws, d) whose first two parameters have correlation ± this, and the sign's
    conditional mean.
    """
    noise = np.random.default_rng(seed).standard_normal((CHAINS, DRAWS, dim))
    noise[:, 1:] *= np.sqrt(1 - 0.7**2)
    x = lfilter([1.0], [1.0, -0.7], noise, axis=1)
    sign = np.array([1.0, -1.0, 1.0, -1.0])[:, None]
    x[..., 1] = sign * correlation * x[..., 0] + np.sqrt(1 - correlation**2) * x[..., 1]
    return x, np.tanh(correlation / (1 - correlation**2) * x[..., 0] * x[..., 1])


def false_alarms(memories: list[float], runs: int) -> None:
    """A line for each correlation of neighbors."""
    print("| correlation of neighbors | runs | alarms | largest R-hat | least ESS |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for memory in memories:
        found = [slow_modes(draws(memory, seed)) for seed in range(runs)]
        rhat = np.array([float(modes["rhat"].max()) for modes in found])
        ess = min(float(modes["ess"].min()) for modes in found)
        alarms = int(np.sum(rhat > LIMIT))
        print(
            f"| {memory:g} | {len(found)} | {alarms} | {rhat.max():.3f} | {ess:.0f} |", flush=True
        )


def frozen_latents(runs: int) -> None:
    """A line for each correlation and number of parameters."""
    print(
        "| correlation | d | runs | alarms | R-hat, median (least) | of the best function | of a "
        "parameter, largest |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for correlation in (0.95, 0.8, 0.5):
        for dim in (2, 4, 10, 20):
            rhat, ideal, plain = np.empty((3, runs))
            for seed in range(runs):
                x, mean = frozen(correlation, dim, seed)
                rhat[seed] = float(slow_modes(x, 1)["rhat"][0])
                ideal[seed], plain[seed] = (
                    ess_and_rhat(mean[..., None])[1][0],
                    ess_and_rhat(x)[1].max(),
                )
            cells = (
                f"{np.median(rhat):.2f} ({rhat.min():.2f}) | "
                f"{np.median(ideal):.2f} | {plain.max():.3f}"
            )
            print(
                f"| ±{correlation:g} | {dim} | {runs} | {np.sum(rhat > LIMIT)} | {cells} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--memory", type=float, nargs="+", default=[0.0, 0.5, 0.8])
    parser.add_argument("--frozen-runs", type=int, default=5)
    options = parser.parse_args()
    false_alarms(options.memory, options.runs)
    print()
    frozen_latents(options.frozen_runs)


if __name__ == "__main__":
    main()
