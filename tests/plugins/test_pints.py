"""PINTS's logistic growth has the posterior that integration on a grid gives."""

import numpy as np
import pytest

pints = pytest.importorskip("pints")

import pints.toy  # noqa: F811

from kmc.convergence import bulk_ess
from kmc.plugins.pints import KernelHMC

pytestmark = pytest.mark.arviz

TIMES = np.linspace(0, 1000, 1000)
RATE, CAPACITY, SD = 0.015, 500.0, 10.0
LOWER, UPPER = np.array([0.01, 400, SD * 0.1]), np.array([0.02, 600, SD * 100])


@pytest.fixture(scope="module")
def data():
    model = pints.toy.LogisticModel()
    return model, model.simulate([RATE, CAPACITY], TIMES) + np.random.default_rng(1).normal(
        0, SD, len(TIMES)
    )


@pytest.fixture(scope="module")
def posterior(data):
    """The log-posterior of examples/sampling/first-example.ipynb."""
    problem = pints.SingleOutputProblem(data[0], TIMES, data[1])
    return pints.LogPosterior(
        pints.GaussianLogLikelihood(problem), pints.UniformLogPrior(LOWER, UPPER)
    )


def controller(posterior, seed, iterations):
    np.random.seed(seed)  # noqa: NPY002, as in PINTS's examples
    truth = np.array([RATE, CAPACITY, SD])
    starts = [truth * 1.1, truth * 0.9, truth * 1.05, truth * 0.95]
    mcmc = pints.MCMCController(posterior, 4, starts, method=KernelHMC)
    mcmc.set_max_iterations(iterations)
    mcmc.set_log_to_screen(False)
    mcmc.set_log_pdf_storage(True)
    return mcmc


def moments(data):
    """Return means and standard deviations (3,) of the posterior, by a grid around the truth."""
    model, values = data
    rates, capacities = (
        np.linspace(RATE * 0.98, RATE * 1.02, 61),
        np.linspace(CAPACITY - 5, CAPACITY + 5, 61),
    )
    sds = np.linspace(SD * 0.8, SD * 1.2, 201)
    squares = [
        [np.sum((model.simulate([r, k], TIMES) - values) ** 2) for k in capacities] for r in rates
    ]
    log_density = -len(TIMES) * np.log(sds) - np.array(squares)[..., None] / (2 * sds**2)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    axes = np.meshgrid(rates, capacities, sds, indexing="ij")
    mean = np.array([np.sum(weight * axis) for axis in axes])
    return mean, np.sqrt([np.sum(weight * (axis - m) ** 2) for axis, m in zip(axes, mean)])


def test_logistic_growth(data, posterior):
    mcmc = controller(posterior, 1, 500)
    chains = mcmc.run()
    mean, sd = moments(data)
    error = sd / np.sqrt(bulk_ess(chains))
    assert chains.shape == (4, 500, 3) and np.all(bulk_ess(chains) > 400)
    assert np.all(np.abs(chains.mean(axis=(0, 1)) - mean) < 4 * error)
    assert np.all(np.abs(chains.std(axis=(0, 1)) / sd - 1) < 4 * error / sd)
    log_density, log_likelihood, log_prior = mcmc.log_pdfs()[2, 300]
    assert log_density == pytest.approx(posterior(chains[2, 300]))
    assert log_density == pytest.approx(log_likelihood + log_prior)
    assert mcmc.n_evaluations() < 4 * 500 + 3000


def test_the_seed_of_numpy_determines_the_draws_also_in_parallel(posterior):
    first, again, other = (controller(posterior, seed, 5) for seed in (1, 1, 2))
    again.set_parallel(2)
    first, again, other = (mcmc.run() for mcmc in (first, again, other))
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == other)
