"""Rows survive a file; the slope of a rate."""

import numpy as np
import pytest
from score_convergence import slope
from score_results import Results, markdown, mean_and_spread


def test_rows_come_back_and_are_replaced(tmp_path):
    path = tmp_path / "rows.csv"
    results = Results(path, ("dim", "model"))
    results.add({"dim": 2, "model": "full", "divergence": 1.23456})
    results.add({"dim": 2, "model": "zero", "divergence": 3.0, "note": "x"})
    results.add({"dim": 2, "model": "full", "divergence": 1.5})
    again = Results(path, ("dim", "model"))
    assert again.rows[2, "full"]["divergence"] == 1.5
    assert again.rows[2, "full"]["note"] == "" and len(again.rows) == 2


def test_tables():
    rows = [{"v": 1.0}, {"v": 3.0}, {"v": ""}]
    assert mean_and_spread(rows, "v") == "2 ± 1.4"
    assert markdown(["a", "b"], [["x", 1]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"


def test_slope_of_a_power():
    rows = [{"n": n, "divergence": 5 * n**-0.7} for n in (100, 200, 400)]
    fitted, error = slope(rows)
    assert fitted == pytest.approx(-0.7) and error < 1e-6
    rows[0]["divergence"] *= np.e
    assert slope(rows)[1] > 0.1
