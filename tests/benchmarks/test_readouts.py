"""The tables of the benchmarks of expectations and evidence."""

import warnings

import numpy as np
import pytest
from evidence import LOG_EVIDENCE, METHODS, Likelihood, coverage, error_of_truth, exact
from evidence import table as evidence_table
from expectations import COLUMNS, totals
from expectations import table as expectations_table
from targets import problem

import kmc


def cells(table, row):
    header, _, *lines = table.splitlines()
    names = [name.strip() for name in header.strip("|").split("|")]
    return dict(zip(names, (value.strip() for value in lines[row].strip("|").split("|")), strict=True))


def test_expectations():
    row = dict.fromkeys(COLUMNS, "1") | {"target": "ring", "budget": "3000", "plain_square": "0.01"}
    row |= {"square_mean": "0.0001", "ess_mean": "6000", "z_mean": "0.5 -3.0", "z_sd": "1.5 0", "z_quantiles": "0 0"}
    found = cells(expectations_table([row, row | {"ess_mean": "9000", "square_mean": "0.0003"}]), 0)
    assert found["runs"] == "2" and found["gain"] == "50" and found["ESS per 1,000: means"] == "2,500"
    assert found["in 1.96 errors: means"] == "0.50" and found["in 1.96 errors: all"] == "0.83"
    assert found["all in 1 error"] == "0.67"
    other = row | {"target": "funnel", "corrected": "0", "ess_mean": "3000", "said": "refused tails"}
    said = totals([row, row | {"ess_mean": "9000", "said": "nearby"}, other])
    assert "3,000 evaluations: 3 runs of 2 targets, 1 or more of each; surrogate refused in 1" in said
    assert "near the draws alone in 1" in said and "per 1,000 1,750," in said and "83.3% within 1.96" in said


def test_coverage_of_the_evidence():
    rows = [
        {"target": "ring", "method": "kmc", "budget": "5000", "error": error, "se": ".01", "said": said}
        for error, said in ((".01", "0"), ("-.015", "0"), (".03", "0"), ("3.7", "1"))
    ]
    found = coverage([*rows, {"target": "ring", "method": "bridge", "budget": "5000"}]).splitlines()
    assert found[2] == "| all | 4 | 3 | 0.500 | 0.250 |"
    assert found[3] == f"| without a warning | 3 | 3 | 0.667 | {np.sqrt(2 / 27):.3f} |"


def test_evidence():
    def row(method, budget, error, se):
        return {"target": "ring", "method": method, "budget": budget, "evaluations": budget, "error": error, "se": se,
                "seconds": "1", "said": "0"}  # fmt: skip

    table = evidence_table([row("kmc", "5000", ".01", ".02"), row("dynesty", "10000", "-.2", ".1")])
    assert cells(table, 0)["for .1"] == "5,000" and cells(table, 0)["times kmc's"] == ""
    assert cells(table, 1)["for .1"] == "40,000" and cells(table, 1)["times kmc's"] == "200"
    assert cells(table, 1)["within 1.96 stated"] == "0.00"


def test_the_likelihood_and_the_prior_make_the_target():
    target = problem("banana-2d")
    likelihood = Likelihood(target)
    x = likelihood.from_cube(np.array([0.3, 0.8]))
    log_prior = sum(float(one.logpdf(value)) for one, value in zip(likelihood.prior, x, strict=True))
    assert likelihood(x) + log_prior == pytest.approx(target.log_density(x))
    assert [float(one.cdf(value)) for one, value in zip(likelihood.prior, x, strict=True)] == pytest.approx([0.3, 0.8])


@pytest.mark.parametrize("name", ["ring", "logistic", "demo"])
def test_log_z_is_known(name):
    assert np.isfinite(exact(name)) and (name in LOG_EVIDENCE or exact(name) != 0)
    assert (error_of_truth(name) == 0.0) == (name in LOG_EVIDENCE) and error_of_truth(name) < 0.01


def test_bridge_sampling():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kmc.KmcWarning)
        log_z, se, used, _ = METHODS["bridge"](problem("banana-2d"), 2000, 1)
    assert used <= 2000 and abs(log_z) < 5 * se < 1.0
