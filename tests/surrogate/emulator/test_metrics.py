"""Metrics of inputs that an emulator compares, and the temperature that tempers the likelihood."""

import numpy as np
import pytest

import kmc
from kmc.run.structure import structured
from kmc.surrogate.emulator.emulated import Emulator
from kmc.surrogate.mass import full_depth, temperature_of, tempered_apart
from kmc.surrogate.process import Seen
from tests.run.test_structure import evaluated

TIMES = np.linspace(0.0, 1.0, 5)


def emulated(outputs, points, draws, searches):
    """A model and an emulator of its outputs, after so many searches, or one afresh.

    It is fitted at points, and inputs are white where draws are.
    """
    model = kmc.Model(
        simulator=lambda p: outputs(p["x"]),
        likelihood=kmc.likelihoods.Normal(np.zeros(5), sd=0.1),
        parameters={"x": kmc.Normal(0, 1, shape=points.shape[1])},
    )
    values, found = evaluated(model, points)
    seen = Seen(points, values, draws, np.full(points.shape, np.nan), outputs=found)
    emulator, rng = Emulator(structured(model).structure), np.random.default_rng(3)
    process = emulator.first(seen, rng)
    for _ in range(searches):
        process = emulator.again(seen, process, process.regression.hyperparameters, rng)
    if searches == 0:
        process = emulator.beside(seen, process, rng)
    return model, process


def fitted(*arguments, searches=3):
    """How an emulator maps inputs to those of its kernels."""
    coordinates = emulated(*arguments, searches)[1].regression.coordinates
    return coordinates.whitening @ coordinates.metric


def test_a_regression_is_fine_along_the_input_that_bends_outputs():
    points = 0.3 * np.random.default_rng(1).standard_normal((60, 3))
    into = fitted(lambda x: np.sin(9.0 * x[0] + TIMES) + 0.1 * (x[1] + x[2]), points, points)
    along = np.linalg.norm(into, axis=1)
    assert along[0] > 2.0 * along[1:].max()


def test_a_regression_has_the_metric_of_inputs_that_matter_each_alone():
    rng = np.random.default_rng(2)
    root = np.linalg.cholesky(0.05 * np.eye(3) + 0.95)
    points = 0.5 * rng.standard_normal((90, 3))
    draws = 0.5 * rng.standard_normal((90, 3)) @ root.T  # highly correlated
    into = fitted(lambda x: np.sin(3.0 * x).sum() * (1.0 + TIMES), points, draws, searches=0)
    gram = into @ into.T
    np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0.0, atol=1e-9 * gram.max())
    white = np.linalg.inv(root)
    into = fitted(lambda x: np.sin(3.0 * white @ x).sum() * (1.0 + TIMES), draws, draws, searches=0)
    gram = into @ into.T
    assert np.abs(gram - np.diag(np.diag(gram))).max() > 0.1 * gram.max()


@pytest.mark.slow
def test_of_thousands_of_simulations_the_highest_are_exact():
    rng = np.random.default_rng(5)
    points = rng.standard_normal((2100, 2))
    model, process = emulated(lambda x: 0.1 * np.sin(9.0 * x[0] * x[1] + TIMES), points, points, 0)
    values, _ = evaluated(model, points)
    high = values > values.max() - full_depth(2)
    assert high.sum() > 1000
    errors = np.abs(process.log_density(points[high]) - values[high])
    assert np.quantile(errors, 0.9) < 0.01


def test_without_a_prior_the_temperature_is_that_of_the_whole():
    rng = np.random.default_rng(4)
    depths = -1e3 * rng.random(40)
    depths -= depths.max()
    temperature, heights, highest = tempered_apart(depths, np.zeros(40), 20, 3)
    right = temperature_of(depths, 20, 3)
    assert right <= temperature < 1.1 * right
    np.testing.assert_allclose(heights, depths / temperature)
    assert highest == 0.0


def test_a_likelihood_that_the_prior_pays_for_needs_no_temperature():
    """One point has a far higher likelihood, but no more density."""
    prior, likelihood = np.zeros(20), np.zeros(20)
    prior[0], likelihood[0] = -400.0, 400.0
    temperature, heights, _ = tempered_apart(prior + likelihood, prior, 10, 3)
    assert temperature == 1.0
    assert np.all(heights > -full_depth(3))
