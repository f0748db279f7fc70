"""A simulator inside a PyMC model
===============================

NUTS cannot sample it: ``python examples/pymc_blackbox.py --help``.

A patient takes a dose of a drug; it passes from the gut into the blood, which an enzyme clears at a
rate that saturates (Michaelis and Menten). The concentration has no closed form: SciPy solves the
equation, in a black-box Op without a gradient. PyMC builds the model around it, with its own
priors, dims and coords, and ``kmc.sample(model)`` draws from it. For comparison, PyMC's
DEMetropolisZ gets the same number of runs of the simulator.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy.integrate import solve_ivp

import kmc

HOURS = np.array([0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0])
DOSE = 10.0  # mg per litre of the volume of distribution
# absorption 1/h, greatest clearance mg/l/h, concentration at half of it mg/l
TRUTH = np.array([1.1, 1.3, 2.5])
NOISE = 0.1  # sd of the log of a measurement
NAMES = ["absorption", "capacity", "affinity"]


def concentration(rates: np.ndarray) -> np.ndarray:
    """Drug in the blood, mg/l, at each of the HOURS."""
    absorption, capacity, affinity = rates

    def flow(_, state):
        gut, blood = state
        absorbed = absorption * gut
        return [-absorbed, absorbed - capacity * blood / (affinity + blood)]

    solution = solve_ivp(flow, (0.0, HOURS[-1]), [DOSE, 0.0], "LSODA", HOURS, rtol=1e-6, atol=1e-9)
    return np.maximum(solution.y[1], 1e-12)


class Simulator(Op):
    """The simulator as a PyTensor Op: from a vector to a vector, as a black box."""

    itypes = (pt.dvector,)
    otypes = (pt.dvector,)
    n_runs = 0

    def perform(self, node: Apply, inputs: list[np.ndarray], outputs: list[list]) -> None:
        """Run it once."""
        Simulator.n_runs += 1
        outputs[0][0] = concentration(inputs[0])


def build(measured: np.ndarray) -> pm.Model:
    """The posterior of the three rates and of the noise."""
    with pm.Model(coords={"rate": NAMES, "hour": HOURS}) as model:
        rates = pm.LogNormal("rates", np.log([1.0, 1.0, 2.0]), 0.7, dims="rate")
        noise = pm.HalfNormal("noise", 0.3)
        pm.LogNormal("measured", pt.log(Simulator()(rates)), noise, observed=measured, dims="hour")
    return model


def report(method: str, posterior, n_runs: int, seconds: float) -> str:
    """The means of the rates, and the effective sample size."""
    from arviz import ess, rhat

    worth = min(float(ess(posterior)[name].min()) for name in ("rates", "noise"))
    disagreement = max(float(rhat(posterior)[name].max()) for name in ("rates", "noise"))
    means = "  ".join(f"{mean:9.2f}" for mean in posterior["rates"].mean(("chain", "draw")).values)
    per_thousand = 1000 * worth / n_runs
    return (
        f"{method:15s} {means}  "
        f"{n_runs:6d} {worth:8.0f} {per_thousand:8.1f} {disagreement:7.3f} {seconds:7.0f}"
    )


def main(arguments: list[str] | None = None) -> None:
    """Sample by both methods and print the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--evaluations", type=int, default=2000, help="runs of the simulator, for each method"
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    options = parser.parse_args(arguments)

    rng = np.random.default_rng(options.seed)
    model = build(concentration(TRUTH) * np.exp(NOISE * rng.standard_normal(len(HOURS))))

    print("pm.NUTS(model):", end=" ")
    try:
        pm.NUTS(model=model)
    except Exception as error:  # its type depends on PyMC's version
        print(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}\n")

    Simulator.n_runs, start = 0, time.perf_counter()
    idata = kmc.sample(model, draws=None, max_evaluations=options.evaluations, seed=options.seed)
    lines = [report("kmc", idata.posterior, Simulator.n_runs, time.perf_counter() - start)]

    Simulator.n_runs, start = 0, time.perf_counter()
    # in each of four chains; each step runs the simulator twice
    steps = options.evaluations // (2 * 4)
    with model:
        theirs = pm.sample(
            draws=steps - steps // 3,
            tune=steps // 3,
            step=pm.DEMetropolisZ(),
            chains=4,
            cores=1,
            random_seed=options.seed,
            progressbar=False,
            compute_convergence_checks=False,
        )
    lines.append(
        report("DEMetropolisZ", theirs.posterior, Simulator.n_runs, time.perf_counter() - start)
    )

    import arviz as az

    print(az.summary(idata.posterior, var_names=["rates", "noise"]).to_string())
    print(f"\nthe truth       {'  '.join(f'{value:9.2f}' for value in TRUTH)}")
    print(f"method          {'  '.join(NAMES)}      runs      ess  ess/1000    rhat seconds")
    print("\n".join(lines))

    import matplotlib.pyplot as plt

    reference = {f"rates[{name}]": value for name, value in zip(NAMES, TRUTH, strict=True)}
    kmc.plot_pairs(idata, ["rates", "noise"], reference=reference)
    plt.show()


if __name__ == "__main__":
    main()
