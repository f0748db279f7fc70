"""A bilby problem
===============

Sampled by kmc: ``python examples/bilby_problem.py --help``.

``from_bilby`` makes a model from a likelihood and its priors, whose supports become those of the parameters;
``to_bilby`` makes a bilby result from the draws, for bilby's plots and tables. The likelihood here is a sine wave in
noise.

Fifty draws of a run of 2,000 evaluations, which took 14 seconds, through the data:

.. image:: /pictures/bilby_problem.png
   :alt: Noisy data along a sine wave of three periods, and a narrow bundle of waves through them
"""

# sphinx_gallery_thumbnail_path = 'pictures/bilby_problem.png'

from __future__ import annotations

import argparse
from typing import Any

import bilby
import matplotlib.pyplot as plt
import numpy as np

import kmc

STARTS = 32  # draws from the prior for the chains to choose from


def from_bilby(likelihood: Any, priors: Any, seed: int = 0) -> kmc.Model:
    """The posterior of a bilby likelihood; constraints and fixed parameters included."""
    priors = bilby.core.prior.PriorDict(priors)
    free = priors.non_fixed_keys
    fixed = {name: priors[name].peak for name in priors.fixed_keys}

    def log_density(parameters: dict[str, float]) -> float:
        log_prior = float(priors.ln_prob(parameters, normalized=False))
        if log_prior == -np.inf:
            return log_prior
        return log_prior + float(likelihood.log_likelihood(parameters | fixed))

    bilby.core.utils.random.seed(seed)
    initial = priors.sample_subset(free, size=STARTS)
    supports = {name: support(priors[name]) for name in free}
    return kmc.Model(log_density, parameters=supports, initial=initial)


def support(prior: Any) -> Any:
    """The support of a prior."""
    low, high = float(prior.minimum), float(prior.maximum)
    if np.isfinite(low) and np.isfinite(high):
        return kmc.Interval(low, high)
    if np.isfinite(low):
        return kmc.LowerBound(low)
    return kmc.UpperBound(high) if np.isfinite(high) else kmc.Real()


def to_bilby(idata: Any, priors: Any, label: str = "kmc") -> Any:
    """A bilby result with the draws of all chains."""
    import pandas

    priors = bilby.core.prior.PriorDict(priors)
    draws = {name: idata.posterior[name].values.ravel() for name in priors.non_fixed_keys}
    draws |= {name: priors[name].peak for name in priors.fixed_keys}
    return bilby.core.result.Result(
        label=label,
        sampler="kmc",
        search_parameter_keys=priors.non_fixed_keys,
        fixed_parameter_keys=priors.fixed_keys,
        priors=priors,
        posterior=pandas.DataFrame(draws),
        num_likelihood_evaluations=idata.attrs["n_evaluations"],
    )


TIMES = np.linspace(0.0, 1.0, 50)
TRUTH = {"amplitude": 1.5, "frequency": 3.0, "phase": 0.8, "offset": 0.0}


def wave(x: np.ndarray, amplitude: float, frequency: float, phase: float, offset: float) -> np.ndarray:
    """The signal."""
    return amplitude * np.sin(2 * np.pi * frequency * x + phase) + offset


def problem() -> tuple[Any, Any]:
    """A likelihood and priors."""
    signal = wave(TIMES, **TRUTH) + 0.5 * np.random.default_rng(1).standard_normal(len(TIMES))
    likelihood = bilby.core.likelihood.GaussianLikelihood(TIMES, signal, wave, sigma=0.5)
    prior = bilby.core.prior
    priors = {
        "amplitude": prior.HalfNormal(3.0),
        "frequency": prior.Uniform(2.5, 3.5),
        "phase": prior.Gaussian(0.8, 1.0),
        "offset": prior.DeltaFunction(0.0),
    }
    return likelihood, prior.PriorDict(priors)


def main(arguments: list[str] | None = None) -> Any:
    """Sample the sine wave and print bilby's summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=4000, help="of the likelihood (default: 4000)")
    options = parser.parse_args(arguments)
    likelihood, priors = problem()
    idata = kmc.sample(from_bilby(likelihood, priors), draws=None, max_evaluations=options.evaluations, seed=1)
    result = to_bilby(idata, priors)
    for name in result.search_parameter_keys:
        print(f"{name:10s} {result.get_one_dimensional_median_and_error_bar(name).string}   truth {TRUTH[name]}")
    _, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    chosen = np.linspace(0, len(result.posterior) - 1, 50).astype(int)
    for row in result.posterior[list(TRUTH)].iloc[chosen].to_dict("records"):
        ax.plot(TIMES, wave(TIMES, **row), color="#4a8fa1", alpha=0.2, linewidth=1)
    ax.plot(TIMES, likelihood.y, ".", color="#22262b")
    ax.set(xlabel="time", ylabel="signal")
    return result


if __name__ == "__main__":
    main()
    plt.show()
