"""A potassium channel of the squid's axon
=======================================

Hodgkin and Huxley's model of 1952, as in the examples of PINTS (``pip install pints``): the voltage
across the membrane of an axon is stepped twelve times, and the current through the potassium
channels is recorded. The five parameters of the rates at which gates open and close are inferred
from simulated currents with noise. They have five units, from 0.01 per ms to 80 mV; priors give
each a factor of two in either direction. The posterior is an object of PINTS, and
``kmc.from_pints`` makes its problem the simulator of a model, whose currents the surrogate learns.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pints
import pints.toy

import kmc

SIMULATOR = pints.toy.HodgkinHuxleyIKModel()
TRUTH = np.array(SIMULATOR.suggested_parameters())
NAMES = ["opening_rate", "opening_shift", "opening_slope", "closing_rate", "closing_slope"]
TIMES = SIMULATOR.suggested_times()[::2]  # ms
NOISE = 40.0  # µA/cm²
CURRENT = SIMULATOR.simulate(TRUTH, TIMES) + NOISE * np.random.default_rng(0).standard_normal(
    len(TIMES)
)


def posterior() -> pints.LogPosterior:
    """Normal errors of known size, and independent log-normal priors."""
    problem = pints.SingleOutputProblem(SIMULATOR, TIMES, CURRENT)
    prior = pints.ComposedLogPrior(
        *(pints.LogNormalLogPrior(np.log(value), np.log(2.0)) for value in TRUTH)
    )
    return pints.LogPosterior(pints.GaussianKnownSigmaLogLikelihood(problem, NOISE), prior)


def main(evaluations: int = 600):
    """Sample; draw the currents of all steps on top of each other, measured and by the posterior
    mean.
    """
    model = kmc.from_pints(posterior(), NAMES)
    idata = kmc.sample(model, draws=None, max_evaluations=evaluations, seed=1, progress=False)
    draws = np.stack([idata.posterior[name].values.ravel() for name in NAMES])
    mean = draws.mean(axis=1)
    for name, *numbers in zip(NAMES, TRUTH, mean, draws.std(axis=1), strict=True):
        print("{:14s} truth {:8.4g}, posterior {:8.4g} ± {:.2g}".format(name, *numbers))
    _, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    for t, measured in SIMULATOR.fold(TIMES, CURRENT):
        ax.plot(t, measured, ".", markersize=2, color="#7fb3bf")
    for t, fitted in SIMULATOR.fold(TIMES, SIMULATOR.simulate(mean, TIMES)):
        ax.plot(t, fitted, color="#c8553d", linewidth=1)
    ax.set(xlabel="time since the step (ms)", ylabel="current (µA/cm²)")
    return idata


if __name__ == "__main__":
    main()
    plt.show()
