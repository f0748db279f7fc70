"""The example runs, and its solver and densities are those of the demo."""

import importlib

import numpy as np
import pytest

from kmc.model import lotka_volterra


@pytest.fixture(scope="module")
def example():
    return importlib.import_module("compare_models")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_it_runs(example, capsys):
    example.main(["--evaluations", "1500"])
    printed = capsys.readouterr().out
    assert printed.count("log evidence") == 2 and printed.count("largest count of hares") == 2
    assert "log Bayes factor of the limited model" in printed and "elpd" in printed


def test_without_the_term_it_is_the_demo(example):
    """The densities of the unconstrained parameters, which are the same logarithms in another
    order.
    """
    model = example.model(limited=False, seed=1)
    x = lotka_volterra.initial(np.random.default_rng(3), 5)
    ours = [model.call(row)[0] + model.log_added(row) for row in x]
    np.testing.assert_allclose(ours, [lotka_volterra.log_density(row) for row in x], atol=1e-3)
