"""Control variates of a surrogate have mean zero under it."""

from functools import partial

import numpy as np
import pytest

from kmc.control_variates.chain_means import ChainMeans, SteinControls
from kmc.surrogate.coordinates.tails import HeavyTails
from kmc.surrogate.coordinates.transport import IDENTITY
from kmc.surrogate.coordinates.walls import WallState
from kmc.surrogate.coordinates.whitening import whiten_states
from kmc.surrogate.density import Component
from kmc.surrogate.jit_state import gradients, values
from tests.control_variates.synthetic import gaussian_state

WALL = WallState(
    np.eye(2), np.zeros(2), np.array([1.0]), np.array([[2.0, 0.0]]), np.empty((0, 2, 2))
)


def state(coefficients, **fields):
    """A Gaussian with sd 1 and some bumps, in two dimensions."""
    centers = np.array([(0.5, 0.5), (-1.0, 1.0), (1.5, -1.0)])[: len(coefficients)]
    return gaussian_state(
        [0.0, 0.0], **{"centers": centers, "coefficients": coefficients, "rate": 2.0} | fields
    )


@pytest.mark.parametrize("ceiling", [np.inf, 0.5], ids=["smooth", "bounded from above"])
def test_each_has_mean_zero(ceiling):
    """By quadrature, not by draws."""
    surrogate = state([0.8, -0.5, 1.0], ceiling=ceiling, reach=2.0, fall=0.5)
    z = np.random.default_rng(0).standard_normal((2000, 2))
    controls = SteinControls(partial(gradients, surrogate), z, np.random.default_rng(1))
    line = np.linspace(-9, 9, 201)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    density = np.exp(values(surrogate, grid))
    found = controls(grid)
    mean = density @ found / density.sum()
    size = np.sqrt(density @ found**2 / density.sum())
    assert np.all(size > 1e-3)
    assert np.max(np.abs(mean) / size) < (1e-3 if np.isfinite(ceiling) else 1e-9)


def test_means_and_squares_of_a_gaussian_are_nearly_exact():
    surrogate, rng = state([0.0]), np.random.default_rng(2)
    z = rng.standard_normal((32, 250, 2))
    means = ChainMeans()
    means.extend(z, SteinControls(partial(gradients, surrogate), z.reshape(-1, 2), rng)(z))
    by_chain = means.by_chain(lambda x: np.concatenate([x, x**2], axis=-1))
    np.testing.assert_allclose(by_chain, np.tile([0, 0, 1, 1], (32, 1)), atol=0.01)
    assert np.all(by_chain.std(axis=0) < 0.05 * z.mean(axis=1).std())


def test_a_surrogate_with_a_wall_or_heavy_tails_has_none():
    z, rng = np.random.default_rng(3).standard_normal((400, 2)), np.random.default_rng(4)
    smooth, whitening = state([0.0]), whiten_states(z)
    tails = HeavyTails(np.zeros(2), np.eye(2), np.eye(2), np.array([3.0]), True)
    assert SteinControls.of(Component(IDENTITY, whitening, smooth), z, rng) is not None
    assert SteinControls.of(Component(tails, whitening, smooth), z, rng) is None
    assert SteinControls.of(Component(IDENTITY, whitening, state([0.0], wall=WALL)), z, rng) is None


@pytest.mark.parametrize(("most", "expected"), [(None, 5 + 300), (105, 105), (5, 5), (2, 5)])
def test_there_are_no_more_of_them_than_wanted(most, expected):
    z, rng = np.random.default_rng(3).standard_normal((400, 2)), np.random.default_rng(4)
    slopes = partial(gradients, state([0.0]))
    assert SteinControls(slopes, z, rng, most=most).size == expected
