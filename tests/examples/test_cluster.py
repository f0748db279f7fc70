"""The parts of the example that need no cluster."""

import importlib.util
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

pytest.importorskip("distributed")

pytestmark = pytest.mark.arviz

SCRIPT = Path(__file__).parents[2] / "examples" / "cluster.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("cluster", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_simulator_solves_its_equation(example):
    frequency, damping = 2.0, 0.3
    rate = np.sqrt(frequency**2 - damping**2 / 4)
    t = example.TIMES
    exact = np.exp(-damping * t / 2) * (np.cos(rate * t) + damping / (2 * rate) * np.sin(rate * t))
    np.testing.assert_allclose(example.simulate(frequency, damping), exact, atol=0.005)


def test_the_posterior_prefers_what_was_simulated(example):
    posterior = cloudpickle.loads(cloudpickle.dumps(example.Posterior(example.simulate(2.0, 0.3))))
    best, blobs = posterior({"frequency": 2.0, "damping": 0.3})
    assert best == pytest.approx(-2.3)
    assert blobs["trajectory"].shape == (20,)
    assert posterior({"frequency": 2.2, "damping": 0.3})[0] < best - 10
    assert posterior({"frequency": 60.0, "damping": 0.3})[0] == -np.inf
