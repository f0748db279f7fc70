"""The tables of the benchmarks of expectations and evidence."""

import numpy as np
from evidence import coverage
from evidence import table as evidence_table
from expectations import COLUMNS, totals
from expectations import table as expectations_table


def cells(table, row):
    header, _, *lines = table.splitlines()
    names = [name.strip() for name in header.strip("|").split("|")]
    return dict(
        zip(names, (value.strip() for value in lines[row].strip("|").split("|")), strict=True)
    )


def test_expectations():
    row = dict.fromkeys(COLUMNS, "1") | {"target": "ring", "budget": "3000", "plain_square": "0.01"}
    row |= {
        "square_mean": "0.0001",
        "ess_mean": "6000",
        "z_mean": "0.5 -3.0",
        "z_sd": "1.5 0",
        "z_quantiles": "0 0",
    }
    found = cells(expectations_table([row, row | {"ess_mean": "9000", "square_mean": "0.0003"}]), 0)
    assert (
        found["runs"] == "2" and found["gain"] == "50" and found["ESS per 1,000: means"] == "2,500"
    )
    assert found["in 1.96 errors: means"] == "0.50" and found["in 1.96 errors: all"] == "0.83"
    assert found["all in 1 error"] == "0.67"
    other = row | {
        "target": "funnel",
        "corrected": "0",
        "ess_mean": "3000",
        "said": "refused tails",
    }
    said = totals([row, row | {"ess_mean": "9000", "said": "nearby"}, other])
    assert (
        "3,000 evaluations: 3 runs of 2 targets, 1 or more of each; surrogate refused in 1" in said
    )
    assert (
        "near the draws alone in 1" in said
        and "per 1,000 1,750," in said
        and "83.3% within 1.96" in said
    )


def test_coverage_of_the_evidence():
    rows = [
        {
            "target": "ring",
            "method": "kmc",
            "budget": "5000",
            "error": error,
            "se": ".01",
            "said": said,
        }
        for error, said in ((".01", "0"), ("-.015", "0"), (".03", "0"), ("3.7", "1"))
    ]
    found = coverage([*rows, {"target": "ring", "method": "bridge", "budget": "5000"}]).splitlines()
    assert found[2] == "| all | 4 | 3 | 0.500 | 0.250 |"
    assert found[3] == f"| without a warning | 3 | 3 | 0.667 | {np.sqrt(2 / 27):.3f} |"


def test_evidence():
    def row(method, budget, error, se):
        return {"target": "ring", "method": method, "budget": budget, "evaluations": budget,
                "error": error, "se": se, "seconds": "1", "said": "0"}  # fmt: skip

    table = evidence_table([row("kmc", "5000", ".01", ".02"), row("dynesty", "10000", "-.2", ".1")])
    assert cells(table, 0)["for .1"] == "5,000" and cells(table, 0)["times kmc's"] == ""
    assert cells(table, 1)["for .1"] == "40,000" and cells(table, 1)["times kmc's"] == "200"
    assert cells(table, 1)["within 1.96 stated"] == "0.00"
