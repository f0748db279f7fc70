"""The example runs, at a budget too small for meaningful numbers, and its simulator is correct."""

import importlib
import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("pymc")

pytestmark = pytest.mark.arviz


@pytest.fixture(scope="module")
def example():
    return importlib.import_module("pymc_blackbox")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_it_runs(example, capsys):
    example.main(["--evaluations", "200"])
    printed = capsys.readouterr().out
    assert "pm.NUTS(model): " in printed and "Error" in printed  # NUTS refuses
    rows = [
        line.split() for line in printed.splitlines() if line.startswith(("kmc", "DEMetropolisZ"))
    ]
    assert [row[0] for row in rows] == ["kmc", "DEMetropolisZ"]
    assert all(150 <= int(row[4]) <= 250 for row in rows)  # runs of the simulator


def test_the_simulator_without_saturation(example):
    """Where the affinity is large, clearance is linear and the solution is Bateman's."""
    absorption, rate = 1.1, 0.3
    expected = (
        example.DOSE
        * absorption
        / (absorption - rate)
        * (np.exp(-rate * example.HOURS) - np.exp(-absorption * example.HOURS))
    )
    got = example.concentration(np.array([absorption, rate * 1e8, 1e8]))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
