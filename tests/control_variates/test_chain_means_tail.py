"""The tails of numbers, from their largest values."""

import numpy as np
import pytest

from kmc.control_variates.chain_means import pareto_shape, without_variance


@pytest.mark.parametrize("shape", [0.2, 0.6, 1.0])
def test_shape_of_a_pareto_density(shape):
    rng = np.random.default_rng(1)
    found = np.array([pareto_shape(rng.random(5000) ** -shape) for _ in range(200)])
    assert abs(found[:, 0].mean() - shape) < 0.03
    assert 0.8 < found[:, 1].mean() / found[:, 0].std() < 1.25


def test_it_does_not_depend_on_location_and_scale():
    values = np.random.default_rng(1).standard_t(2, 3000)
    assert pareto_shape(7.0 + 3.0 * values)[0] == pytest.approx(pareto_shape(values)[0], abs=1e-6)


@pytest.mark.parametrize(
    "values", [np.arange(99.0), np.zeros(5000), np.repeat([0.0, 1.0], [4990, 10])]
)
def test_too_few_or_equal_values_say_nothing(values):
    assert pareto_shape(values)[0] == -np.inf
    assert not without_variance(values[:, None])


def test_values_that_overflow_have_no_variance():
    """As squares of numbers beyond 1e154 do."""
    values = np.random.default_rng(1).exponential(size=3000)
    for count in (1, 400, 3000):
        values[:count] = np.inf
        assert without_variance(values[:, None])


def test_which_numbers_have_no_variance():
    rng = np.random.default_rng(2)
    light = rng.standard_normal((20_000, 20)) ** 2, rng.exponential(size=(20_000, 20)) ** 2
    heavy = np.abs(rng.standard_cauchy((20_000, 20))), rng.standard_t(2, (20_000, 20)) ** 2
    assert not np.any(without_variance(np.hstack(light)))
    assert np.mean(without_variance(np.hstack(heavy))) > 0.9
