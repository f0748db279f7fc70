"""A bilby problem
===============

Sampled by kmc: ``python examples/bilby_problem.py --help``.

bilby finds kmc by its name: ``bilby.run_sampler(likelihood, priors, sampler="kmc")`` returns a
bilby result, with the evidence. The likelihood here is a sine wave in noise.

Fifty draws through the data:

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

TIMES = np.linspace(0.0, 1.0, 50)
TRUTH = {"amplitude": 1.5, "frequency": 3.0, "phase": 0.8, "offset": 0.0}


def wave(
    x: np.ndarray, amplitude: float, frequency: float, phase: float, offset: float
) -> np.ndarray:
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--evaluations", type=int, default=4000, help="of the likelihood (default: 4000)"
    )
    options = parser.parse_args(arguments)
    likelihood, priors = problem()
    result = bilby.run_sampler(
        likelihood,
        priors,
        sampler="kmc",
        max_evaluations=options.evaluations,
        draws=None,
        seed=1,
        save=False,
    )
    for name in result.search_parameter_keys:
        print(
            f"{name:10s} {result.get_one_dimensional_median_and_error_bar(name).string}   truth "
            f"{TRUTH[name]}"
        )
    print(f"log-evidence {result.log_evidence:.3f} ± {result.log_evidence_err:.3f}")
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
