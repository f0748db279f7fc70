"""bilby's linear regression has the posterior and the evidence that linear algebra gives."""

import numpy as np
import pytest

bilby = pytest.importorskip("bilby")

import kmc
from kmc.plugins.bilby import Kmc

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.arviz,
]  # budgets are small, and bilby has warnings of its own

TRUTH = {"m": 0.5, "c": 0.2}
TIMES = np.arange(0, 10, 0.1)


def line(time, m, c):
    return time * m + c


def linear_regression():
    """Return the likelihood and the priors of examples/core_examples/linear_regression.py."""
    rng = np.random.default_rng(1)
    sigma = rng.normal(1, 0.01, len(TIMES))
    likelihood = bilby.likelihood.GaussianLikelihood(
        TIMES, line(TIMES, **TRUTH) + rng.normal(0, sigma), line, sigma
    )
    prior = bilby.core.prior
    return likelihood, prior.PriorDict(
        {"m": prior.Uniform(0, 5, "m"), "c": prior.Uniform(-2, 2, "c")}
    )


def by_linear_algebra(likelihood):
    """Return mean (2,), covariance (2, 2) and log-evidence; the priors are constant where the
    likelihood is.
    """
    design = np.column_stack([TIMES, np.ones_like(TIMES)]) / likelihood.sigma[:, None]
    covariance = np.linalg.inv(design.T @ design)
    mean = covariance @ design.T @ (likelihood.y / likelihood.sigma)
    highest = likelihood.log_likelihood(dict(zip(TRUTH, mean, strict=True)))
    volume = 5 * 4
    return (
        mean,
        covariance,
        highest + 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1] - np.log(volume),
    )


def run(likelihood, priors, folder, **options):
    return bilby.run_sampler(
        likelihood,
        priors,
        sampler="kmc",
        outdir=str(folder),
        label="line",
        seed=1,
        progress=False,
        **options,
    )


def test_linear_regression(tmp_path):
    likelihood, priors = linear_regression()
    mean, covariance, log_evidence = by_linear_algebra(likelihood)
    assert "kmc" in bilby.core.sampler.get_implemented_samplers()  # by the entry point
    store = tmp_path / "store"
    result = run(likelihood, priors, tmp_path, max_evaluations=2000, draws=None, store=store)
    assert result.sampler == "kmc" and result.num_likelihood_evaluations <= 2000
    table = kmc.summary(kmc.load(store))
    draws = result.posterior[["m", "c"]].to_numpy()
    assert len(draws) == len(result.samples) > 1000
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4 * table["mcse_mean"])
    assert np.all(np.abs(draws.std(axis=0) - np.sqrt(np.diag(covariance))) < 4 * table["mcse_sd"])
    assert abs(result.log_evidence - log_evidence) < 4 * result.log_evidence_err < 0.5
    point = result.posterior.iloc[7]
    assert point["log_likelihood"] == pytest.approx(
        likelihood.log_likelihood({"m": point["m"], "c": point["c"]})
    )
    saved = bilby.read_in_result(outdir=str(tmp_path), label="line")
    assert saved.meta_data["kmc_warnings"] == kmc.warnings(kmc.load(store))


def test_constraints_and_fixed_parameters(tmp_path):
    likelihood, _ = linear_regression()
    prior = bilby.core.prior

    def with_sum(parameters):
        return parameters | {"sum": parameters["m"] + parameters["c"]}

    priors = prior.PriorDict(
        {"m": prior.Uniform(0, 5), "c": prior.Uniform(-2, 2), "sum": prior.Constraint(0.6, 0.8)},
        conversion_function=with_sum,
    )
    draws = run(
        likelihood, priors, tmp_path / "constraint", kmc_sampler="random-walk", draws=200
    ).posterior
    assert np.all((draws["m"] + draws["c"] > 0.6) & (draws["m"] + draws["c"] < 0.8))
    fixed = {"m": prior.Uniform(0, 5), "c": 0.2}
    result = run(likelihood, fixed, tmp_path / "fixed", max_evaluations=300, draws=None, npool=2)
    assert np.all(result.posterior["c"] == 0.2) and result.search_parameter_keys == ["m"]


def test_a_result_without_evidence(tmp_path):
    likelihood, priors = linear_regression()
    result = run(likelihood, priors, tmp_path, draws=3, warmup=3)
    assert len(result.posterior) == 12 and np.isnan(result.log_evidence)


def test_options_are_those_of_kmc():
    assert Kmc.default_kwargs.keys() - {"kmc_sampler"} <= set(kmc.sample.__code__.co_varnames)
