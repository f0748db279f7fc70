"""A line through points with underestimated errors
================================================

The first tutorial of emcee (after Hogg, Bovy and Lang 2010, arXiv:1008.4686): slope, intercept, and
the fraction by which the reported errors are too small. The function, the data and the priors are
the tutorial's. Both packages get the same number of evaluations. (A density this cheap is emcee's
ground: kmc pays when an evaluation takes longer.)
"""

from __future__ import annotations

import arviz as az
import emcee
import matplotlib.pyplot as plt
import numpy as np

import kmc

rng = np.random.RandomState(123)  # as in the tutorial
x = np.sort(10 * rng.rand(50))
reported = 0.1 + 0.5 * rng.rand(50)
y = -0.9594 * x + 4.294
y += np.abs(0.534 * y) * rng.randn(50)
y += reported * rng.randn(50)


def log_probability(theta: np.ndarray) -> float:
    """Log-posterior of the slope m, the intercept b and log f."""
    m, b, log_f = theta
    if not (-5 < m < 0.5 and 0 < b < 10 and -10 < log_f < 1):
        return -np.inf
    line = m * x + b
    variance = reported**2 + line**2 * np.exp(2 * log_f)
    return -0.5 * float(np.sum((y - line) ** 2 / variance + np.log(variance)))


def main(evaluations: int = 3000):
    """Sample by both packages."""
    initial = np.array([-1.0, 4.5, -0.8]) + 1e-2 * np.random.default_rng(0).standard_normal((30, 3))
    idata = kmc.sample(
        log_probability,
        dim=3,
        initial=initial[:4],
        draws=None,
        max_evaluations=evaluations,
        seed=1,
        progress=False,
    )
    sampler = emcee.EnsembleSampler(30, 3, log_probability)
    sampler.run_mcmc(initial, evaluations // 30)
    theirs = sampler.get_chain(discard=evaluations // 90).swapaxes(0, 1)  # (walkers, steps, 3)
    print("evaluations:", idata.attrs["n_evaluations"], "and", evaluations)
    print("effective samples, kmc:  ", az.ess(idata)["x"].values.round())
    print("effective samples, emcee:", [round(float(az.ess(theirs[..., k]))) for k in range(3)])
    labels = {"x[0]": "slope", "x[1]": "intercept", "x[2]": "log f"}
    kmc.plot_pairs(
        idata, labels=labels, reference={"x[0]": -0.9594, "x[1]": 4.294, "x[2]": np.log(0.534)}
    )
    return idata


if __name__ == "__main__":
    main()
    plt.show()
