"""The example runs, at a budget too small for meaningful numbers, and reads weights correctly."""

import importlib

import numpy as np
import pytest

from tests.grids import slow_except


@pytest.fixture(scope="module")
def example():
    return importlib.import_module("gp_classification")


@pytest.fixture
def glass(tmp_path):
    rng = np.random.default_rng(6)
    path = tmp_path / "glass.data"
    table = [
        np.arange(40),
        rng.standard_normal((40, 9)) @ rng.standard_normal((9, 9)),
        rng.integers(1, 8, 40),
    ]
    np.savetxt(path, np.column_stack(table), delimiter=",")
    return path


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
@pytest.mark.parametrize("data", slow_except(["bundled", "glass"], {"glass"}))
def test_it_runs(example, data, glass, capsys):
    if data == "bundled":
        pytest.importorskip("sklearn")
    example.main(
        [
            "--evaluations",
            "200",
            "--draws",
            "10",
            *(["--data", str(glass)] if data == "glass" else []),
        ]
    )
    printed = capsys.readouterr().out
    names = example.GLASS if data == "glass" else example.CELLS
    # in the summary and in the table of weights
    assert all(printed.count(name) >= 2 for name in names)
    assert "ess_bulk" in printed


def test_weights_are_read_rightly(example):
    """Weights e² and e^-4 for certain, and one of .1 or 3 with equal odds: the kernel two sds apart
    is e^(-2w²).
    """
    draws = np.column_stack(
        [np.full(100, 2.0), np.full(100, -4.0), np.repeat(np.log([0.1, 3.0]), 50)]
    )
    first, second, third = example.relevance(draws, ("a", "b", "c"))
    assert first.startswith("a") and "7.39" in first and first.endswith("0%  matters")
    assert second.startswith("c") and "may matter" in second and "49%" in second
    assert third.startswith("b") and third.endswith("100%  need not matter")
